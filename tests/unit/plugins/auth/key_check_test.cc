// The request path's check: what it compares with, and what it costs.

#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <atomic>

#include "plugins/auth/api_key.h"
#include "plugins/auth/key_table.h"

namespace {
std::atomic<int> g_comparisons{0};
std::atomic<size_t> g_compared_bytes{0};
}  // namespace

// Stands before libcrypto's own for this binary's calls: same result, and it counts.
extern "C" int CRYPTO_memcmp(const void* a, const void* b, size_t size) {
  g_comparisons.fetch_add(1);
  g_compared_bytes.fetch_add(size);
  unsigned char difference = 0;
  for (size_t i = 0; i < size; ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<const unsigned char*>(a)[i] ^ static_cast<const unsigned char*>(b)[i]));
  }
  return difference;
}

namespace plugins::auth {
namespace {

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

KeyTable TableWith(const NewKey& key, Digest hash) {
  auto record = std::make_shared<KeyRecord>();
  record->id = key.id;
  record->hash = hash;
  return KeyTable(1, {{key.id, record}});
}

TEST(KeyCheck, ComparesTheWholeHashInConstantTimeWhateverDiffers) {
  const NewKey key = GenerateApiKey();
  const Digest right = Sha256(key.secret);
  for (size_t byte = 0; byte <= right.size(); ++byte) {
    Digest stored = right;
    if (byte < right.size()) stored[byte] ^= 1;
    const KeyTable table = TableWith(key, stored);
    g_comparisons = 0;
    g_compared_bytes = 0;
    const Verdict verdict = Check(table, key.secret, kNow);
    EXPECT_EQ(verdict.ok(), byte == right.size()) << byte;
    EXPECT_EQ(g_comparisons.load(), 1);
    EXPECT_EQ(g_compared_bytes.load(), right.size());
  }
}

TEST(KeyCheck, AnUnknownIdCostsTheSameComparison) {
  g_comparisons = 0;
  EXPECT_EQ(Check(KeyTable(), GenerateApiKey().secret, kNow).kind, Verdict::Kind::kUnknown);
  EXPECT_EQ(g_comparisons.load(), 1);
}

TEST(KeyCheck, AWrongSecretLearnsNothingOfTheKeysState) {
  const NewKey key = GenerateApiKey();
  auto record = std::make_shared<KeyRecord>();
  record->id = key.id;
  record->hash = Sha256(key.secret);
  record->revoked_at = kNow;
  const KeyTable table(1, {{key.id, record}});
  EXPECT_EQ(Check(table, key.secret, kNow).kind, Verdict::Kind::kRevoked);
  std::string wrong = key.secret;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  const Verdict verdict = Check(table, wrong, kNow);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kUnknown);
  EXPECT_EQ(verdict.record, nullptr);
}

TEST(KeyCheck, WhatHasNoKeysShapeIsUnknownWithoutAnId) {
  for (const char* text : {"", "sk-1234", "tg-", "tg-0123456789-short"}) {
    const Verdict verdict = Check(KeyTable(), text, kNow);
    EXPECT_EQ(verdict.kind, Verdict::Kind::kUnknown);
    EXPECT_TRUE(verdict.id.empty());
    EXPECT_FALSE(verdict.Message().empty());
  }
}

}  // namespace
}  // namespace plugins::auth
