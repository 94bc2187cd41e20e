// API keys: made, listed, rotated, revoked. A change is in the key store's log when it is answered, and in
// the ledger too unless the ledger fails in between, which carries it over as soon as it can.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/keys/key_request.h"
#include "gateway/log.h"

namespace gateway::admin {
namespace {

namespace auth = plugins::auth;
using nlohmann::ordered_json;

// Nothing is changed that could not be recorded.
std::optional<Answer> RefuseUnrecorded(const Operations& operations, const Call& call) {
  if (operations.shared->ledger->Healthy()) return std::nullopt;
  return Refuse(api::Code::kLedgerUnavailable, "the ledger takes no records, and a change must be recorded",
                call.request_id);
}

void Record(const Operations& operations) {
  if (const absl::Status carried = operations.key_events->CarryOver(); !carried.ok()) {
    log::Warn("key change is not in the ledger yet; it will be carried over",
              {{"why", conf::Std(carried.message())}});
  }
}

Answer ShowNew(const Operations& operations, const Call& call, const auth::NewKey& key) {
  ordered_json out = ShowKey(**operations.shared->keys->Table()->Find(key.id), call.now);
  out["secret"] = key.secret;
  return Json(out, 201);
}

}  // namespace

Answer ListKeys(const Operations& operations, const Call& call) {
  std::string tenant = call.Query("tenant");
  if (const TenantRuntime* found = call.runtime->FindTenant(tenant)) tenant = found->path;
  const std::string state = call.Query("state");
  std::vector<ordered_json> all;
  for (const auth::KeyRecordPtr& key : operations.shared->keys->List()) {
    if (!tenant.empty() && key->tenant != tenant && !key->tenant.starts_with(tenant + "/")) continue;
    if (!state.empty() && Name(StateOf(*key, call.now)) != state) continue;
    all.push_back(ShowKey(*key, call.now));
  }
  return ListPage(all, "id", call);
}

Answer ShowOneKey(const Operations& operations, const Call& call) {
  const std::shared_ptr<const auth::KeyTable> table = operations.shared->keys->Table();
  const auth::KeyRecordPtr* key = table->Find(call.item);
  if (key == nullptr) {
    return Refuse(api::Code::kNotFound, fmt::format("no API key has the id \"{}\"", call.item),
                  call.request_id);
  }
  return Json(ShowKey(**key, call.now));
}

Answer CreateKey(const Operations& operations, const Call& call) {
  KeyRequest request;
  request.tenant = call.Text("tenant");
  request.role = call.Text("role");
  request.name = call.Text("name");
  request.models = call.Texts("models");
  request.endpoints = call.Texts("endpoints");
  request.expires = call.Text("expires");
  request.priority = call.Text("priority");
  if (const auto limits = call.body.find("limits"); limits != call.body.end())
    request.limits = limits->dump();
  request.created_by = call.actor;
  if (!request.role.empty() && call.role < auth::Role::kAdmin) {
    return Refuse(api::Code::kPermissionDenied, "making an admin key takes the role admin", call.request_id);
  }
  auth::KeySpec spec;
  const std::vector<FieldProblem> problems = CheckKeyRequest(request, call.runtime->config(), call.now, spec);
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) return *std::move(refused);
  const absl::StatusOr<auth::NewKey> key = operations.shared->keys->Create(spec, call.now);
  if (!key.ok()) return Refuse(key.status(), call.request_id);
  Record(operations);
  return ShowNew(operations, call, *key);
}

Answer RotateKey(const Operations& operations, const Call& call) {
  auth::Rotation rotation{.changer = {call.actor, call.role}};
  std::vector<FieldProblem> problems;
  if (const std::string overlap = call.Text("overlap"); !overlap.empty()) {
    if (const auto parsed = conf::ParseDuration(overlap)) {
      rotation.overlap = *parsed;
    } else {
      problems.push_back({"overlap", fmt::format("\"{}\" is not a duration such as 24h", overlap)});
    }
  }
  if (const std::string expires = call.Text("expires"); !expires.empty()) {
    rotation.expires = ParseExpiry(expires, call.now);
    if (!rotation.expires) {
      problems.push_back(
          {"expires",
           fmt::format("\"{}\" is neither a duration such as 30d nor a time such as 2027-01-31T00:00:00Z",
                       expires)});
    }
  }
  if (!problems.empty()) return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) return *std::move(refused);
  const absl::StatusOr<auth::NewKey> key = operations.shared->keys->Rotate(call.item, rotation, call.now);
  if (!key.ok()) return Refuse(key.status(), call.request_id);
  Record(operations);
  return ShowNew(operations, call, *key);
}

Answer RevokeKey(const Operations& operations, const Call& call) {
  // A key that leaked must stop working even while nothing can be recorded; the store's log has it until
  // then.
  const absl::Status revoked =
      operations.shared->keys->Revoke(call.item, {call.actor, call.role}, call.Text("reason"), call.now);
  if (!revoked.ok()) return Refuse(revoked, call.request_id);
  Record(operations);
  return Json(ShowKey(**operations.shared->keys->Table()->Find(call.item), call.now));
}

}  // namespace gateway::admin
