#include "gateway/admin/access.h"

#include <algorithm>

#include "plugins/auth/credential.h"
#include "plugins/auth/digest.h"

namespace gateway::admin {

namespace auth = plugins::auth;

bool Caller::Has(auth::Right right) const {
  return role == auth::Role::kAdmin || std::ranges::find(rights, right) != rights.end();
}

std::variant<Caller, api::ApiError> Identify(const net::http::Head& head, const Config& config,
                                             const auth::KeyTable& keys, conf::TimePoint now) {
  auth::CredentialReader reader;
  for (const net::http::Field& field : head.fields) reader.Header(field.name, field.value);
  const auth::Credential& credential = reader.Result();
  if (credential.state == auth::Credential::State::kMissing) {
    return api::Make(api::Code::kMissingApiKey,
                     "no admin key: send it as 'Authorization: Bearer <key>' or 'x-api-key'; "
                     "'tidegate keys create --admin ROLE' makes one");
  }
  if (credential.state != auth::Credential::State::kFound) {
    return api::Make(api::Code::kInvalidApiKey, std::string(credential.message));
  }
  const conf::Secret& bootstrap = config.admin.bootstrap_key;
  if (!bootstrap.empty() &&
      auth::EqualInConstantTime(auth::Sha256(credential.value), auth::Sha256(bootstrap.Reveal()))) {
    return Caller{"bootstrap", auth::Role::kAdmin};
  }
  const auth::Verdict verdict = Check(keys, credential.value, now);
  switch (verdict.kind) {
    case auth::Verdict::Kind::kOk:
      break;
    case auth::Verdict::Kind::kExpired:
    case auth::Verdict::Kind::kReplaced:
      return api::Make(api::Code::kKeyExpired, verdict.Message());
    case auth::Verdict::Kind::kRevoked:
      return api::Make(api::Code::kKeyRevoked, verdict.Message());
    case auth::Verdict::Kind::kUnknown:
      return api::Make(api::Code::kInvalidApiKey, verdict.Message());
  }
  if (verdict.record->role == auth::Role::kNone) {
    return api::Make(api::Code::kPermissionDenied,
                     "this is an application's key; the admin API takes keys made with --admin");
  }
  return Caller{verdict.record->id, verdict.record->role, verdict.record->rights};
}

}  // namespace gateway::admin
