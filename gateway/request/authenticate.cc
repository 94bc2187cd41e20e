// authenticate: finds the principal of the request by its credential.
#include <fmt/format.h>

#include "gateway/net/clock.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"
#include "plugins/auth/credential.h"

namespace gateway::stages {
namespace {

namespace auth = plugins::auth;

constexpr std::string_view kTokenPrefix = "jwt:";  // begins the id of a caller with a JSON web token

// The answer has no `www-authenticate`: no SDK reads it. Every credential is checked, also from an address with
// many failed attempts: bad calls never delay a good one.
StageResult Refuse(Exchange& x, api::Code code, std::string message) {
  x.shard.metrics.cells.auth_failures.Add();
  x.outcome.failed_attempt = true;
  const uint32_t per_minute = x.runtime->config().auth.failed_per_minute;
  const std::optional<conf::Duration> wait = x.shard.shared.failed_attempts.Count(
      x.identity.client_address, api::Info(code).name, per_minute, x.at.started);
  if (!wait) return x.Fail(code, std::move(message));
  api::ApiError error = api::Make(
      api::Code::kTooManyFailedAttempts,
      fmt::format("more than {} calls a minute from this address had no valid key or token; the last one: {}",
                  per_minute, message));
  error.retry_after = *wait;
  return x.Fail(std::move(error));
}

StageResult ByKey(Exchange& x, std::string_view secret) {
  const PrincipalIndex& index = x.shard.principals();
  const auth::Verdict check = auth::Check(*index.keys, secret, x.at.started);
  switch (check.kind) {
    case auth::Verdict::Kind::kOk:
      break;
    case auth::Verdict::Kind::kUnknown:
      return Refuse(x, api::Code::kInvalidApiKey, check.Message());
    case auth::Verdict::Kind::kExpired:
      return Refuse(x, api::Code::kKeyExpired, check.Message());
    case auth::Verdict::Kind::kRevoked:
    case auth::Verdict::Kind::kReplaced:
      return Refuse(x, api::Code::kKeyRevoked, check.Message());
  }
  const PrincipalRef* principal = index.ForKey(check.id);
  if (!principal) {
    return Refuse(x, api::Code::kPermissionDenied,
                  check.record->role == auth::Role::kNone
                      ? "the tenant of this key is disabled, or not configured on this gateway"
                      : "this is an administrator's key; it works on the admin listener only");
  }
  x.identity.principal = *principal;
  x.key_watch.Begin(x.shard.running_calls, x.identity.principal->key);
  return StageResult::kContinue;
}

StageResult ByToken(Exchange& x, std::string_view token) {
  auth::JwtAuthenticator* authenticator = x.shard.jwt();
  if (!authenticator)
    return Refuse(x, api::Code::kInvalidApiKey,
                  "this gateway accepts no JSON web tokens; send one of its API keys");
  const auth::JwtAuthenticator::Outcome outcome = authenticator->Check(token, x.at.started);
  if (!outcome.result.ok()) {
    if (outcome.result.refusal == auth::JwtRefusal::kUnknownKey) x.shard.OnUnknownKeyId(outcome.issuer);
    if (outcome.result.refusal == auth::JwtRefusal::kNoKeys)
      return x.Fail(api::Code::kIssuerUnavailable, outcome.result.message);
    const bool expired = outcome.result.refusal == auth::JwtRefusal::kExpired;
    return Refuse(x, expired ? api::Code::kKeyExpired : api::Code::kInvalidApiKey, outcome.result.message);
  }
  x.identity.principal = x.shard.PrincipalFor(outcome.result.identity);
  if (!x.identity.principal) {
    return Refuse(x, api::Code::kPermissionDenied,
                  "the tenant of this token is not configured on this gateway");
  }
  return StageResult::kContinue;
}

// The admin API has authenticated the caller, and has checked that they may use the tenant.
StageResult ByAdminApi(Exchange& x) {
  const OnBehalf& caller = *x.identity.on_behalf;
  const PrincipalRef* tenant = x.shard.principals().ForTenant(caller.tenant);
  if (!tenant) {
    return x.Fail(api::Code::kPermissionDenied,
                  fmt::format("the tenant {} is not configured on this gateway", caller.tenant));
  }
  auto principal = std::make_shared<Principal>(**tenant);
  principal->key = caller.actor;
  x.identity.principal = std::move(principal);
  return StageResult::kContinue;
}

// A batch runs as long as its key is valid. A refusal is not counted as a failed attempt of an address.
StageResult ByBatch(Exchange& x) {
  const OnBehalf& owner = *x.identity.on_behalf;
  const PrincipalIndex& index = x.shard.principals();
  const auth::KeyRecordPtr* const key = index.keys->Find(owner.actor);
  if (key == nullptr) {
    const bool by_tenant = owner.actor.empty() || owner.actor.starts_with(kTokenPrefix);
    const PrincipalRef* const tenant = index.ForTenant(owner.tenant);
    if (tenant == nullptr || !by_tenant)
      return x.Fail(api::Code::kKeyRevoked, "the key or the tenant of this batch no longer exists");
    auto principal = std::make_shared<Principal>(**tenant);
    principal->key = owner.actor;
    x.identity.principal = std::move(principal);
    return StageResult::kContinue;
  }
  if ((*key)->revoked_at) return x.Fail(api::Code::kKeyRevoked, "the key of this batch was revoked");
  if (const auto ends = (*key)->EndsAt(); ends && x.at.started >= *ends)
    return x.Fail(api::Code::kKeyExpired, "the key of this batch has expired");
  const PrincipalRef* const principal = index.ForKey(owner.actor);
  if (principal == nullptr)
    return x.Fail(api::Code::kPermissionDenied, "the tenant of this batch is not configured on this gateway");
  x.identity.principal = *principal;
  x.key_watch.Begin(x.shard.running_calls, x.identity.principal->key);
  return StageResult::kContinue;
}

StageResult ByCredential(Exchange& x) {
  auth::CredentialReader reader;
  for (const net::http::Field& field : x.client.head().fields) {
    // Of the fields with an id, only this one carries a credential.
    if (field.id == net::http::FieldId::authorization || field.id == net::http::FieldId::unknown)
      reader.Header(field.name, field.value);
  }
  const auth::Credential& credential = reader.Result();
  switch (credential.state) {
    case auth::Credential::State::kFound:
      return auth::Classify(credential.value) == auth::CredentialKind::kJwt ? ByToken(x, credential.value)
                                                                            : ByKey(x, credential.value);
    case auth::Credential::State::kMissing: {
      const std::string& anonymous = x.runtime->config().auth.anonymous_tenant;
      if (anonymous.empty()) return Refuse(x, api::Code::kMissingApiKey, std::string(credential.message));
      x.identity.principal = *x.shard.principals().ForTenant(anonymous);
      return StageResult::kContinue;
    }
    case auth::Credential::State::kMalformed:
    case auth::Credential::State::kConflict:
      break;
  }
  return Refuse(x, api::Code::kInvalidApiKey, std::string(credential.message));
}

}  // namespace

StageResult Authenticate(Exchange& x) {
  const StageResult result = x.identity.on_behalf == nullptr ? ByCredential(x)
                             : x.identity.is_of_batch()      ? ByBatch(x)
                                                             : ByAdminApi(x);
  if (result != StageResult::kContinue) return result;
  if (const auto family = config::FamilyOf(x.identity.spec->api);
      family && !x.identity.principal->apis.Has(*family)) {
    x.shard.metrics.cells.permission_failures.Add();
    return x.Fail(api::Code::kPermissionDenied,
                  fmt::format("{} may not use {}",
                              x.identity.on_behalf == nullptr
                                  ? "this key"
                                  : fmt::format("the tenant {}", x.identity.principal->tenant),
                              x.identity.spec->path));
  }
  return StageResult::kContinue;
}

}  // namespace gateway::stages
