#include "plugins/auth/jwt_authenticator.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace plugins::auth {

absl::StatusOr<JwtAuthenticator::Issuers> JwtAuthenticator::MakeIssuers(std::vector<IssuerConfig> configs) {
  Issuers issuers;
  for (size_t i = 0; i < configs.size(); ++i) {
    absl::StatusOr<JwtVerifier> verifier = JwtVerifier::Make(std::move(configs[i]));
    if (!verifier.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("issuers/{}/{}", i, std::string(verifier.status().message())));
    }
    for (size_t earlier = 0; earlier < i; ++earlier) {
      const IssuerConfig& other = issuers[earlier].config();
      const bool name = other.name == verifier->config().name;
      if (!name && other.issuer != verifier->config().issuer) continue;
      return absl::InvalidArgumentError(fmt::format("issuers/{}/{}: \"{}\" is that of issuers/{} already", i,
                                                    name ? "name" : "issuer",
                                                    name ? other.name : other.issuer, earlier));
    }
    issuers.push_back(*std::move(verifier));
  }
  return issuers;
}

JwtAuthenticator::JwtAuthenticator(std::shared_ptr<const Issuers> issuers, size_t cache_bytes)
    : issuers_(std::move(issuers)), keys_(issuers_->size()), cache_(cache_bytes) {}

void JwtAuthenticator::SetKeys(size_t issuer, PublishedKeys keys) {
  keys_.at(issuer) = std::move(keys);
}

bool JwtAuthenticator::Holds(const TokenCache::Entry& entry, conf::TimePoint now) const {
  const PublishedKeys& keys = keys_[entry.issuer];
  return entry.generation == keys.generation && now < keys.usable_until && now < entry.identity->valid_until;
}

JwtAuthenticator::Outcome JwtAuthenticator::Check(std::string_view token, conf::TimePoint now) {
  if (token.size() > kMaxTokenBytes) {
    ParsedJwt unused;
    return {ParseJwt(token, &unused)};  // says so, before anything is hashed
  }
  const Digest digest = Sha256(token);
  if (const TokenCache::Entry* entry = cache_.Find(digest); entry != nullptr) {
    if (Holds(*entry, now)) return {{JwtRefusal::kNone, {}, entry->identity}, entry->issuer};
    cache_.Erase(digest);
  }
  ParsedJwt parsed;
  if (JwtResult r = ParseJwt(token, &parsed); !r.ok()) return {std::move(r)};
  for (size_t i = 0; i < issuers_->size(); ++i) {
    const JwtVerifier& verifier = (*issuers_)[i];
    if (verifier.config().issuer != parsed.Issuer()) continue;
    const PublishedKeys& keys = keys_[i];
    if (keys.keys == nullptr || now >= keys.usable_until) {
      return {{JwtRefusal::kNoKeys,
               fmt::format("the keys of issuer {} are {}: its tokens cannot be verified at present",
                           verifier.config().name, keys.keys == nullptr ? "not loaded yet" : "too old"),
               nullptr},
              i};
    }
    Outcome outcome{verifier.Verify(parsed, *keys.keys, now), i};
    if (outcome.result.ok()) cache_.Insert(digest, {outcome.result.identity, i, keys.generation});
    return outcome;
  }
  return {{JwtRefusal::kIssuer, "claim \"iss\" names no issuer that is configured", nullptr}};
}

}  // namespace plugins::auth
