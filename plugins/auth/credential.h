// The caller's secret, taken from request headers: Authorization: Bearer, x-api-key or api-key.
//
// SDKs of different houses send different headers, some send two. The same secret twice is fine; two
// different ones are refused: a proxy in front may have checked one of them, and we would act on the other.
#pragma once

#include <string_view>

namespace plugins::auth {

inline constexpr size_t kMaxCredentialBytes = 16 * 1024;

enum class CredentialKind { kApiKey, kJwt, kUnrecognised };

struct Credential {
  enum class State { kMissing, kFound, kMalformed, kConflict };
  State state = State::kMissing;
  std::string_view value;    // kFound: points into the header
  std::string_view message;  // kMissing, kMalformed, kConflict: a constant that never holds the secret
};

// Feed every header of a request in any order, then ask. Values must outlive the Credential. No allocation.
class CredentialReader {
 public:
  // Names other than the three are ignored.
  void Header(std::string_view name, std::string_view value);
  const Credential& Result() const { return result_; }

 private:
  void Found(std::string_view value);
  void Malformed(std::string_view message);

  Credential result_{Credential::State::kMissing,
                     {},
                     "no API key: send it as 'Authorization: Bearer <key>', 'x-api-key' or 'api-key'"};
};

// The kind, by the shape alone: our prefix, or three parts joined by dots.
CredentialKind Classify(std::string_view credential);

}  // namespace plugins::auth
