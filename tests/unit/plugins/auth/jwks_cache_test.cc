#include "plugins/auth/jwks_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugins/auth/jwks_file.h"
#include "tests/unit/plugins/auth/signer.h"
#include "tests/unit/plugins/auth/temp_dir.h"

namespace plugins::auth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

std::string SetOf(const char* kid) {
  return nlohmann::json{{"keys", {Signer::For("ES256").PublicJwk(kid)}}}.dump();
}

JwksPolicy Policy() {
  JwksPolicy p;
  p.refresh = 600s;
  p.first_backoff = 1s;
  p.max_backoff = 60s;
  p.unknown_kid_interval = 30s;
  p.max_staleness = 3600s;
  p.fetch_timeout = 10s;
  return p;
}

TEST(JwksCache, FetchesAtOnceAndThenAtEachInterval) {
  JwksCache cache(Policy());
  EXPECT_TRUE(cache.Next(kNow).fetch);
  EXPECT_FALSE(cache.Next(kNow).fetch) << "one fetch at a time";
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow + 1s).ok());
  EXPECT_EQ(cache.Next(kNow + 1s).ask_at, kNow + 601s);
  EXPECT_FALSE(cache.Next(kNow + 601s - 1ns).fetch);
  EXPECT_TRUE(cache.Next(kNow + 601s).fetch);
}

TEST(JwksCache, TheGenerationMovesOnlyWithTheKeys) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow).ok());
  const PublishedKeys first = cache.Published();
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow + 100s).ok());
  EXPECT_EQ(cache.Published().generation, first.generation);
  EXPECT_EQ(cache.Published().keys, first.keys);
  EXPECT_EQ(cache.Published().usable_until, kNow + 3700s);
  cache.Unchanged(kNow + 200s);
  EXPECT_EQ(cache.Published().generation, first.generation);
  EXPECT_EQ(cache.Published().usable_until, kNow + 3800s);
  ASSERT_TRUE(cache.Loaded(SetOf("b"), kNow + 300s).ok());
  EXPECT_NE(cache.Published().generation, first.generation);
  EXPECT_EQ(cache.Published().keys->keys()[0].kid, "b");
  EXPECT_EQ(first.keys->keys()[0].kid, "a") << "what a shard holds does not change under it";
}

TEST(JwksCache, FailuresBackOffAndKeepTheLastGoodKeys) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow).ok());
  const PublishedKeys good = cache.Published();
  conf::TimePoint now = kNow + 600s;
  for (const auto wait : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    ASSERT_TRUE(cache.Next(now).fetch);
    cache.Failed("connection refused", now);
    EXPECT_EQ(cache.Next(now).ask_at, now + wait);
    EXPECT_EQ(cache.Published().keys, good.keys);
    EXPECT_EQ(cache.Published().usable_until, good.usable_until) << "a failure does not prolong belief";
    now += wait;
  }
  EXPECT_EQ(cache.failures_in_row(), 8u);
  EXPECT_EQ(cache.last_error(), "connection refused");
  ASSERT_TRUE(cache.Loaded(SetOf("a"), now).ok());
  EXPECT_EQ(cache.failures_in_row(), 0u);
  EXPECT_EQ(cache.failures(), 8u) << "of all time";
  EXPECT_EQ(cache.last_error(), "");
  cache.Failed("again", now);
  EXPECT_EQ(cache.Next(now).ask_at, now + 1s) << "the back-off starts anew";
}

TEST(JwksCache, ItsAgeIsCountedFromTheLastGoodFetch) {
  JwksCache cache(Policy());
  EXPECT_EQ(cache.last_good(), std::nullopt);
  cache.Failed("down", kNow);
  EXPECT_EQ(cache.last_good(), std::nullopt);
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow + 1s).ok());
  cache.Failed("down", kNow + 2s);
  EXPECT_FALSE(cache.Loaded("<html>", kNow + 3s).ok());
  EXPECT_EQ(cache.last_good(), kNow + 1s);
  cache.Unchanged(kNow + 4s);
  EXPECT_EQ(cache.last_good(), kNow + 4s);
}

TEST(JwksCache, AnotherPolicyKeepsTheKeysAndTheTimeOfTheLastFetch) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow).ok());
  JwksPolicy often = Policy();
  often.refresh = 20s;
  cache.SetPolicy(often);
  EXPECT_NE(cache.Published().keys, nullptr);
  EXPECT_EQ(cache.Next(kNow + 1s).ask_at, kNow + 20s);
  cache.SetPolicy(Policy());
  EXPECT_EQ(cache.Next(kNow + 1s).ask_at, kNow + 20s) << "a fetch that is due is not put off";
}

TEST(JwksCache, ADocumentWithoutUsableKeysCountsAsFailed) {
  for (const char* text : {"", "<html>", "{}", R"({"keys":[]})", R"({"keys":[{"kty":"oct","k":"AA"}]})"}) {
    JwksCache cache(Policy());
    ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow).ok());
    EXPECT_FALSE(cache.Loaded(text, kNow + 600s).ok()) << text;
    EXPECT_EQ(cache.Published().keys->keys()[0].kid, "a");
    EXPECT_EQ(cache.Published().generation, 1u);
    EXPECT_EQ(cache.failures_in_row(), 1u);
    EXPECT_FALSE(cache.last_error().empty());
  }
}

TEST(JwksCache, UnchangedBeforeAnyKeysIsAFailure) {
  JwksCache cache(Policy());
  cache.Unchanged(kNow);
  EXPECT_EQ(cache.Published().keys, nullptr);
  EXPECT_EQ(cache.failures_in_row(), 1u);
}

TEST(JwksCache, AnUnknownKidFetchesSoonButNotOften) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Next(kNow).fetch);
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow + 1s).ok());
  for (int i = 0; i < 100; ++i) cache.UnknownKid(kNow + 5s);
  EXPECT_EQ(cache.Next(kNow + 5s).ask_at, kNow + 30s);
  EXPECT_FALSE(cache.Next(kNow + 30s - 1ns).fetch);
  EXPECT_TRUE(cache.Next(kNow + 30s).fetch);
  cache.UnknownKid(kNow + 31s);
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow + 31s).ok());
  EXPECT_EQ(cache.Next(kNow + 31s).ask_at, kNow + 631s);
  cache.UnknownKid(kNow + 200s);
  EXPECT_TRUE(cache.Next(kNow + 200s).fetch) << "long after the last fetch it is at once";
}

TEST(JwksCache, AnUnknownKidDoesNotBreakTheBackOff) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Loaded(SetOf("a"), kNow).ok());
  ASSERT_TRUE(cache.Next(kNow + 600s).fetch);
  for (int i = 0; i < 6; ++i) cache.Failed("down", kNow + 600s);
  const conf::TimePoint retry = cache.Next(kNow + 600s).ask_at;
  cache.UnknownKid(kNow + 601s);
  EXPECT_EQ(cache.Next(kNow + 601s).ask_at, retry);
}

TEST(JwksCache, AFetchThatNobodyReportsCountsAsFailed) {
  JwksCache cache(Policy());
  ASSERT_TRUE(cache.Next(kNow).fetch);
  EXPECT_FALSE(cache.Next(kNow + 10s - 1ns).fetch);
  EXPECT_FALSE(cache.Next(kNow + 10s).fetch);
  EXPECT_EQ(cache.failures_in_row(), 1u);
  EXPECT_TRUE(cache.Next(kNow + 11s).fetch);
}

TEST(JwksFile, IsReadAgainWhenItChangesAndKeptWhenItIsSpoiled) {
  const TempDir dir;
  const std::string path = dir / "jwks.json";
  JwksFile file(path, Policy());
  EXPECT_FALSE(file.Poll(kNow));
  EXPECT_THAT(file.cache().last_error(), HasSubstr("jwks.json"));

  WriteWhole(path, SetOf("a"));
  EXPECT_TRUE(file.Poll(kNow + 1s));
  EXPECT_FALSE(file.Poll(kNow + 2s));
  EXPECT_EQ(file.cache().Published().usable_until, kNow + 3602s) << "a file that stands still does not age";

  WriteWhole(path, SetOf("longer"));
  EXPECT_TRUE(file.Poll(kNow + 3s));
  EXPECT_EQ(file.cache().Published().keys->keys()[0].kid, "longer");

  WriteWhole(path, "{");
  EXPECT_FALSE(file.Poll(kNow + 4s));
  EXPECT_FALSE(file.cache().last_error().empty());
  EXPECT_EQ(file.cache().Published().keys->keys()[0].kid, "longer");
  EXPECT_FALSE(file.Poll(kNow + 5s));
  EXPECT_FALSE(file.cache().last_error().empty()) << "still spoiled, and still said";
  EXPECT_EQ(file.cache().Published().usable_until, kNow + 3603s);

  std::filesystem::remove(path);
  EXPECT_FALSE(file.Poll(kNow + 6s));
  WriteWhole(path, SetOf("c"));
  EXPECT_TRUE(file.Poll(kNow + 7s));
  EXPECT_EQ(file.cache().last_error(), "");
}

TEST(JwksFile, ReadsNoMoreThanAKeySetMayHave) {
  const TempDir dir;
  WriteWhole(dir / "jwks.json", SetOf("a") + std::string(4 * kMaxJwksBytes, ' '));
  JwksFile file(dir / "jwks.json", Policy());
  EXPECT_FALSE(file.Poll(kNow));
  EXPECT_EQ(file.cache().Published().keys, nullptr);
}

TEST(JwksFile, AFolderIsNoKeySet) {
  const TempDir dir;
  JwksFile file(dir / ".", Policy());
  EXPECT_FALSE(file.Poll(kNow));
  EXPECT_FALSE(file.cache().last_error().empty());
}

}  // namespace
}  // namespace plugins::auth
