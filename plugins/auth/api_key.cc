#include "plugins/auth/api_key.h"

#include <absl/strings/ascii.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace plugins::auth {
namespace {

constexpr std::string_view kBase62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool IsBase62(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); });
}

void FillRandom(uint8_t* out, int size) {
  if (RAND_bytes(out, size) != 1) std::abort();
}

// Long division of the big-endian number by 62, one digit a round, always the full width.
std::string Base62OfRandomBits() {
  std::array<uint8_t, 32> number;
  FillRandom(number.data(), static_cast<int>(number.size()));
  std::string out(kKeySecretLength, '0');
  for (size_t digit = out.size(); digit-- > 0;) {
    uint32_t remainder = 0;
    for (uint8_t& byte : number) {
      const uint32_t value = remainder * 256 + byte;
      byte = static_cast<uint8_t>(value / 62);
      remainder = value % 62;
    }
    out[digit] = kBase62[remainder];
  }
  OPENSSL_cleanse(number.data(), number.size());
  return out;
}

std::string RandomId() {
  constexpr uint8_t kUnbiasedBelow = 248;  // 4 * 62: a byte above would favour the first characters
  std::string out;
  while (out.size() < kKeyIdLength) {
    uint8_t byte = 0;
    FillRandom(&byte, 1);
    if (byte < kUnbiasedBelow) out.push_back(kBase62[byte % 62]);
  }
  return out;
}

}  // namespace

NewKey GenerateApiKey() {
  NewKey key;
  key.id = RandomId();
  key.secret.reserve(kApiKeyLength);
  key.secret.append(kApiKeyPrefix).append(key.id).append("-").append(Base62OfRandomBits());
  return key;
}

bool IsKeyId(std::string_view text) {
  return text.size() == kKeyIdLength && IsBase62(text);
}

std::string_view KeyIdOf(std::string_view key) {
  constexpr size_t kDash = kApiKeyPrefix.size() + kKeyIdLength;
  if (key.size() != kApiKeyLength || !key.starts_with(kApiKeyPrefix) || key[kDash] != '-') return {};
  const std::string_view id = key.substr(kApiKeyPrefix.size(), kKeyIdLength);
  return IsBase62(id) && IsBase62(key.substr(kDash + 1)) ? id : std::string_view();
}

}  // namespace plugins::auth
