// authenticate: who is asking, and what may they use.
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "plugins/auth/credential.h"

namespace gateway::stages {
namespace {

namespace auth = plugins::auth;

// The dialect of `www-authenticate` is left to the SDKs: none of them reads it.
Verdict Refuse(Exchange& x, api::Code code, std::string message) {
  x.shard.metrics.cells.auth_failures.Add();
  return x.Fail(code, std::move(message));
}

Verdict ByKey(Exchange& x, std::string_view secret) {
  const PrincipalIndex& index = x.shard.principals();
  const auth::Verdict verdict = auth::Check(*index.keys, secret, x.at.started);
  switch (verdict.kind) {
    case auth::Verdict::Kind::kOk:
      break;
    case auth::Verdict::Kind::kUnknown:
      return Refuse(x, api::Code::kInvalidApiKey, verdict.Message());
    case auth::Verdict::Kind::kExpired:
      return Refuse(x, api::Code::kKeyExpired, verdict.Message());
    case auth::Verdict::Kind::kRevoked:
    case auth::Verdict::Kind::kReplaced:
      return Refuse(x, api::Code::kKeyRevoked, verdict.Message());
  }
  const PrincipalRef* principal = index.ForKey(verdict.id);
  if (!principal) {
    return Refuse(x, api::Code::kPermissionDenied,
                  verdict.record->role == auth::Role::kNone
                      ? "the tenant of this key is not configured on this gateway"
                      : "this is an administrator's key; it works on the admin listener only");
  }
  x.principal = *principal;
  return Verdict::kGoOn;
}

Verdict ByToken(Exchange& x, std::string_view token) {
  auth::JwtAuthenticator* authenticator = x.shard.jwt();
  if (!authenticator)
    return Refuse(x, api::Code::kInvalidApiKey, "this gateway takes no bearer tokens, only its keys");
  const auth::JwtAuthenticator::Outcome outcome = authenticator->Check(token, x.at.started);
  if (!outcome.result.ok()) {
    if (outcome.result.refusal == auth::JwtRefusal::kUnknownKey) x.shard.OnUnknownKeyId(outcome.issuer);
    if (outcome.result.refusal == auth::JwtRefusal::kNoKeys)
      return x.Fail(api::Code::kIssuerUnavailable, outcome.result.message);
    const bool expired = outcome.result.refusal == auth::JwtRefusal::kExpired;
    return Refuse(x, expired ? api::Code::kKeyExpired : api::Code::kInvalidApiKey, outcome.result.message);
  }
  x.principal = x.shard.PrincipalFor(outcome.result.identity);
  if (!x.principal) {
    return Refuse(x, api::Code::kPermissionDenied,
                  "the tenant of this token is not configured on this gateway");
  }
  return Verdict::kGoOn;
}

}  // namespace

Verdict Authenticate(Exchange& x) {
  auth::CredentialReader reader;
  for (const net::http::Field& field : x.client.head().fields) reader.Header(field.name, field.value);
  const auth::Credential& credential = reader.Result();
  Verdict verdict = Verdict::kGoOn;
  switch (credential.state) {
    case auth::Credential::State::kFound:
      verdict = auth::Classify(credential.value) == auth::CredentialKind::kJwt ? ByToken(x, credential.value)
                                                                               : ByKey(x, credential.value);
      break;
    case auth::Credential::State::kMissing: {
      const std::string& anonymous = x.runtime->config().auth.anonymous_tenant;
      if (anonymous.empty()) return Refuse(x, api::Code::kMissingApiKey, std::string(credential.message));
      x.principal = *x.shard.principals().ForTenant(anonymous);
      break;
    }
    case auth::Credential::State::kMalformed:
    case auth::Credential::State::kConflict:
      return Refuse(x, api::Code::kInvalidApiKey, std::string(credential.message));
  }
  if (verdict != Verdict::kGoOn) return verdict;
  if (const auto family = config::FamilyOf(x.spec->api); family && !x.principal->apis.Has(*family)) {
    x.shard.metrics.cells.permission_failures.Add();
    return x.Fail(api::Code::kPermissionDenied, "this key may not use " + std::string(x.spec->path));
  }
  return Verdict::kGoOn;
}

}  // namespace gateway::stages
