// A JSON Web Key Set (RFC 7517): an issuer's public keys, ready to verify with.
//
// Immutable once parsed; shared between shards. A key that cannot be used is left out with the reason, so
// that one odd key does not lock out an issuer; a document that is no key set at all is an error.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/auth/jws.h"

namespace plugins::auth {

inline constexpr size_t kMaxJwksBytes = 256 * 1024;
inline constexpr size_t kMaxJwksKeys = 256;

struct Jwk {
  std::string kid;        // may be empty
  std::string algorithm;  // the one algorithm it is for; empty: any that fits the type
  KeyType type = KeyType::kRsa;
  Curve curve = Curve::kNone;
  PublicKey key;

  bool Fits(const JwsAlgorithm& wanted) const {
    return type == wanted.type && curve == wanted.curve && (algorithm.empty() || algorithm == wanted.name);
  }
};

class JwkSet {
 public:
  static absl::StatusOr<JwkSet> Parse(std::string_view text);

  struct Found {
    enum class State { kFound, kUnknownKid, kWrongKind, kAmbiguous };
    State state = State::kUnknownKid;
    const Jwk* key = nullptr;
  };
  // The key that `kid` names, if it fits the algorithm. Without a kid: the only key that fits.
  Found Find(std::string_view kid, const JwsAlgorithm& algorithm) const;

  const std::vector<Jwk>& keys() const { return keys_; }
  const std::vector<std::string>& skipped() const { return skipped_; }  // "key 2 is ..."

 private:
  std::vector<Jwk> keys_;
  std::vector<std::string> skipped_;
};

}  // namespace plugins::auth
