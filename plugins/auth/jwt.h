// JSON Web Tokens of one issuer, verified (RFC 7515, 7519, 8725).
//
// A verifier is immutable and may be used from every shard; key set and time are arguments. The header of a
// token counts only within the configuration: the algorithm must be on the issuer's list and fit the key;
// `jwk`, `jku` and `x5u` are ignored; `crit` is refused. Cost: one
// signature verification. JwtAuthenticator keeps that off the request path.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "plugins/auth/claims.h"
#include "plugins/auth/jwks.h"
#include "plugins/auth/jws.h"

namespace plugins::auth {

inline constexpr size_t kMaxTokenBytes = 16 * 1024;
inline constexpr size_t kMaxSubjectBytes = 1024;

struct IssuerConfig {
  std::string name;                     // short, in key ids and messages: a-z, 0-9 and '-', at most 32
  std::string issuer;                   // `iss`, to the letter
  std::vector<std::string> audiences;   // one of which `aud` must hold
  std::vector<std::string> algorithms;  // of kJwsAlgorithms
  std::vector<std::string> types;       // of which `typ` must be one ("JWT", "at+jwt"); empty: not checked
  conf::Duration leeway = std::chrono::seconds(60);  // for clocks that differ; at most 5 minutes
  ClaimMapping claims;
  // Whether a token must belong to a tenant or have a role, by `claims`; ID tokens need not.
  bool maps_claims = true;
};

struct JwtIdentity {
  std::string key_id;  // "jwt:<issuer name>:<subject>"
  std::string issuer;  // its configured name
  std::string tenant;
  Permissions permissions;
  Role role = Role::kNone;
  conf::TimePoint valid_until;  // first moment at which the token no longer works, leeway included
};

enum class JwtRefusal {
  kNone,
  kTooLarge,
  kMalformed,
  kRepeatedMember,
  kAlgorithm,
  kCritical,
  kType,
  kIssuer,
  kUnknownKey,
  kKeyMismatch,
  kSignature,
  kExpired,
  kNotYetValid,
  kIssuedLater,
  kAudience,
  kClaim,
  kNoTenant,
  kNoKeys,
};

// A short stable name, for metrics and error codes: "expired", "unknown_key".
std::string_view RefusalName(JwtRefusal refusal);

struct JwtResult {
  JwtRefusal refusal = JwtRefusal::kNone;
  std::string message;                          // for people; never contains the token or its claims
  std::shared_ptr<const JwtIdentity> identity;  // exactly when nothing was refused

  bool ok() const { return refusal == JwtRefusal::kNone; }
};

// A token taken apart. Nothing in it is true before a verifier says so.
struct ParsedJwt {
  nlohmann::json header;
  nlohmann::json claims;
  std::string_view signed_text;  // into the token
  std::string signature;

  // The claim `iss`, or empty.
  std::string_view Issuer() const;
};

// Fills `out`, or says in the result why the text is no token.
JwtResult ParseJwt(std::string_view token, ParsedJwt* out);

class JwtVerifier {
 public:
  // InvalidArgument names the field, its value and what would be right.
  static absl::StatusOr<JwtVerifier> Make(IssuerConfig config);

  JwtResult Verify(std::string_view token, const JwkSet& keys, conf::TimePoint now) const;
  JwtResult Verify(const ParsedJwt& token, const JwkSet& keys, conf::TimePoint now) const;

  const IssuerConfig& config() const { return config_; }

 private:
  explicit JwtVerifier(IssuerConfig config) : config_(std::move(config)) {}

  JwtResult CheckHeader(const nlohmann::json& header, const JwsAlgorithm** algorithm) const;
  JwtResult CheckSignature(const ParsedJwt& token, const JwsAlgorithm& algorithm, const JwkSet& keys) const;
  JwtResult CheckTimes(const nlohmann::json& claims, conf::TimePoint now, conf::TimePoint* valid_until) const;
  JwtResult CheckParties(const nlohmann::json& claims) const;

  IssuerConfig config_;
};

}  // namespace plugins::auth
