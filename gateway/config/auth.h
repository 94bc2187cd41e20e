// Section `auth`: the credentials of callers. Section `admin`: the credential of the first operator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/types.h"
#include "gateway/net/address_range.h"
#include "plugins/auth/permissions.h"

namespace gateway::config {

// Only asymmetric algorithms: `none` and HMAC are refused, since a public key must never be used as a shared
// secret.
enum class JwtAlgorithm : uint8_t {
  kRs256,
  kRs384,
  kRs512,
  kPs256,
  kPs384,
  kPs512,
  kEs256,
  kEs384,
  kEs512,
  kEdDsa,
};
void Read(const conf::Value& value, JwtAlgorithm& out);
void Write(conf::Writer& writer, const JwtAlgorithm& in);
std::string_view Name(JwtAlgorithm algorithm);  // as in a JWT's `alg`

// The shortest interval between two fetches of a key set, whatever tokens arrive.
inline constexpr conf::Duration kLeastRefresh = std::chrono::seconds(10);

// The source of the key set: exactly one of the two.
struct Jwks {
  Url url;
  std::string file;

  friend bool operator==(const Jwks&, const Jwks&) = default;
};

// Maps a claim to a tenant: through `values` if they are given, otherwise the claim's value is the tenant's
// name. A token without a tenant is refused.
struct JwtTenant {
  std::string claim = "tenant";
  std::map<std::string, std::string> values;
};

// Maps a claim to a role of the admin API. A role over a tenant is one over the token's.
struct JwtRole {
  std::string claim;  // empty: tokens have no role
  std::map<std::string, plugins::auth::Role> values;
};

struct Jwt {
  std::string issuer;
  std::vector<std::string> audience;  // the token must name one of them
  Jwks jwks;
  std::vector<JwtAlgorithm> algorithms;
  JwtTenant tenant;
  JwtRole role;
  std::string models_claim;  // names or globs that narrow the tenant's models; empty: not read
  conf::Duration leeway = std::chrono::seconds(30);   // of exp, nbf and iat
  conf::Duration refresh = std::chrono::minutes(10);  // of the key set
  ClientTls tls;                                      // towards jwks.url
};

struct Auth {
  bool keys = true;
  std::vector<Jwt> jwt;
  // Calls of one address without a valid key or token; more get 429. 0: no limit.
  uint32_t failed_per_minute = 60;
  std::string anonymous_tenant;  // empty: a call without credentials is refused. Loopback listeners only.
};

struct AllowedAddresses {
  net::AddressRange range;
};

struct Admin {
  conf::Secret bootstrap_key;    // empty: admin keys are made by `tidegate keys create --admin` only
  bool protect_metrics = false;  // /metrics takes an admin key too; /livez and /readyz never do
  bool insecure = false;         // plain HTTP off loopback: keys and sessions can be read on the network
  // Addresses that may connect to the admin listener; empty: all.
  std::vector<AllowedAddresses> allow;
};

void Read(const conf::Value& value, AllowedAddresses& out);
void Write(conf::Writer& writer, const AllowedAddresses& in);
void Bind(conf::Object& object, Auth& out);
void Bind(conf::Object& object, Admin& out);

}  // namespace gateway::config
