#include "gateway/config/auth.h"

#include <algorithm>
#include <utility>

#include "conf/reader.h"

namespace gateway::config {
namespace {

using conf::NotEmpty;

constexpr conf::Word<JwtAlgorithm> kAlgorithms[] = {
    {"RS256", JwtAlgorithm::kRs256}, {"RS384", JwtAlgorithm::kRs384}, {"RS512", JwtAlgorithm::kRs512},
    {"PS256", JwtAlgorithm::kPs256}, {"PS384", JwtAlgorithm::kPs384}, {"PS512", JwtAlgorithm::kPs512},
    {"ES256", JwtAlgorithm::kEs256}, {"ES384", JwtAlgorithm::kEs384}, {"ES512", JwtAlgorithm::kEs512},
    {"EdDSA", JwtAlgorithm::kEdDsa}};

constexpr std::string_view kFilePrefix = "file:";
constexpr size_t kMinAdminKeyBytes = 32;

struct LongEnough {
  std::string operator()(const conf::Secret& secret) const {
    return secret.Reveal().size() >= kMinAdminKeyBytes
               ? ""
               : "leads to a key that is too short, expected at least 32 characters";
  }
};

}  // namespace

void Read(const conf::Value& value, JwtAlgorithm& out) {
  if (value.kind() == conf::Kind::kScalar && value.text().starts_with("HS")) {
    value.Error("\"" + value.text() +
                "\" is symmetric: a public key could be used to sign tokens; use RS256, ES256 or EdDSA");
  } else if (value.kind() == conf::Kind::kScalar && value.text() == "none") {
    value.Error("\"none\" would accept unsigned tokens; use RS256, ES256 or EdDSA");
  } else {
    conf::Read(value, conf::Choice(out, "algorithm", kAlgorithms));
  }
}

void Write(conf::Writer& writer, const JwtAlgorithm& in) {
  conf::Write(writer, std::string(Name(in)));
}

void Read(const conf::Value& value, AllowedAddresses& out) {
  const std::optional<net::AddressRange> range =
      value.kind() == conf::Kind::kScalar ? net::AddressRange::Parse(value.text()) : std::nullopt;
  if (range) {
    out.range = *range;
  } else {
    value.ErrorExpected("an address or a range without bits behind its prefix, such as 10.0.0.0/8");
  }
}

void Write(conf::Writer& writer, const AllowedAddresses& in) {
  conf::Write(writer, in.range.text());
}

static void Read(const conf::Value& value, Jwks& out) {
  if (value.kind() == conf::Kind::kScalar && value.text().starts_with(kFilePrefix)) {
    out.file = value.text().substr(kFilePrefix.size());
    if (out.file.empty())
      value.Error("file: must be followed by a path, such as file:/etc/tidegate/jwks.json");
    return;
  }
  if (value.kind() != conf::Kind::kScalar || value.text().find("://") == std::string::npos) {
    value.ErrorExpected("https://HOST/PATH or file:PATH");
    return;
  }
  Read(value, out.url);
  if (!out.url.empty() && !out.url.tls() && !IsLoopbackHost(out.url.host)) {
    value.Error("must be an https URL; over http, an attacker on the network could replace the keys");
  }
}

static void Write(conf::Writer& writer, const Jwks& in) {
  conf::Write(writer, in.file.empty() ? ToString(in.url) : std::string(kFilePrefix) + in.file);
}

static void Bind(conf::Object& o, JwtTenant& tenant) {
  o.Optional("claim", tenant.claim, NotEmpty());
  o.Optional("values", tenant.values, NotEmpty());
}

static void Bind(conf::Object& o, JwtRole& role) {
  o.Required("claim", role.claim, NotEmpty());
  o.Required("values", role.values, NotEmpty());
}

static void Bind(conf::Object& o, Jwt& jwt) {
  o.Required("issuer", jwt.issuer, NotEmpty());
  o.Required("audience", conf::OneOrMany(jwt.audience), NotEmpty());
  o.Required("jwks", jwt.jwks);
  o.Required("algorithms", conf::OneOrMany(jwt.algorithms), NotEmpty());
  o.Optional("tenant", jwt.tenant);
  o.Optional("role", jwt.role);
  o.Optional("models_claim", jwt.models_claim, NotEmpty());
  o.Optional("leeway", jwt.leeway, conf::Range{conf::Duration(0), conf::Duration(std::chrono::minutes(5))});
  o.Optional("refresh", jwt.refresh, conf::AtLeast{kLeastRefresh});
  o.Optional("tls", jwt.tls);
  if (jwt.tls != ClientTls() && !jwt.jwks.file.empty())
    o.Error("has no effect on a key set that is read from a file", "tls");
  RefuseIdleTls(o, jwt.jwks.url, jwt.tls);
}

std::string_view Name(JwtAlgorithm algorithm) {
  return conf::WordOf(kAlgorithms, algorithm);
}

void Bind(conf::Object& o, Auth& auth) {
  o.Optional("keys", auth.keys);
  o.Optional("jwt", auth.jwt);
  o.Optional("failed_per_minute", auth.failed_per_minute, conf::Range{0U, 1'000'000U});
  o.Optional("anonymous_tenant", auth.anonymous_tenant, ValidName());
}

void Bind(conf::Object& o, Admin& admin) {
  o.Optional("bootstrap_key", admin.bootstrap_key, LongEnough());
  o.Optional("protect_metrics", admin.protect_metrics);
  o.Optional("insecure", admin.insecure);
  o.Optional("allow", conf::OneOrMany(admin.allow), NotEmpty());
}

}  // namespace gateway::config
