// The text of an API key: tg-<id>-<secret>, where <id> is public and <secret> is 256 random bits.
//
// The id (10 base62 characters) is what lists, logs and errors show. The whole text is what the client sends
// and what is hashed; it exists in full only in the answer to the command that created it.
#pragma once

#include <string>
#include <string_view>

#include "plugins/auth/digest.h"

namespace plugins::auth {

inline constexpr std::string_view kApiKeyPrefix = "tg-";
inline constexpr size_t kKeyIdLength = 10;
inline constexpr size_t kKeySecretLength = 43;  // 62^43 > 2^256
inline constexpr size_t kApiKeyLength = kApiKeyPrefix.size() + kKeyIdLength + 1 + kKeySecretLength;

struct NewKey {
  std::string id;
  std::string secret;  // the whole key: the only copy there will ever be
};

// From libcrypto's random generator; aborts when that has no entropy to give.
NewKey GenerateApiKey();

bool IsKeyId(std::string_view text);

// The id part when the text has the shape of a key (length, prefix, alphabet), else empty.
std::string_view KeyIdOf(std::string_view key);

}  // namespace plugins::auth
