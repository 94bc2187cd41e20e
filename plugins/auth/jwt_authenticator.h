// A shard's check of bearer tokens: picks the issuer, verifies once, remembers until the token ends.
//
// Owner and thread: one shard, no locks. The list of issuers is part of the configuration: a new
// configuration makes a new authenticator. Keys arrive by SetKeys whenever the control thread publishes new
// ones (also when only `usable_until` moved); with a new generation every token of that issuer is verified
// anew, so that a withdrawn key ends the tokens it signed.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "plugins/auth/jwks_cache.h"
#include "plugins/auth/jwt.h"
#include "plugins/auth/token_cache.h"

namespace plugins::auth {

class JwtAuthenticator {
 public:
  using Issuers = std::vector<JwtVerifier>;

  // Verifiers for all configured issuers. No two may share a name (key ids would) or an `iss` (which of them
  // verifies a token would depend on their order).
  static absl::StatusOr<Issuers> MakeIssuers(std::vector<IssuerConfig> configs);

  JwtAuthenticator(std::shared_ptr<const Issuers> issuers, size_t cache_bytes);

  void SetKeys(size_t issuer, PublishedKeys keys);

  // `issuer` is set if the token names a known one. On kUnknownKey, report the key to that issuer's JwksCache.
  struct Outcome {
    JwtResult result;
    size_t issuer = kNoIssuer;
  };
  static constexpr size_t kNoIssuer = static_cast<size_t>(-1);

  // A token seen before costs a hash and a look-up, and does not allocate.
  Outcome Check(std::string_view token, conf::TimePoint now);

  const TokenCache& cache() const { return cache_; }

 private:
  bool Holds(const TokenCache::Entry& entry, conf::TimePoint now) const;

  std::shared_ptr<const Issuers> issuers_;
  std::vector<PublishedKeys> keys_;  // one for each issuer
  TokenCache cache_;
};

}  // namespace plugins::auth
