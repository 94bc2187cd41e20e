// API keys: made, listed, rotated, revoked. A change is in the store and in force when it is answered, and in
// the ledger too unless the ledger fails in between, which has it as soon as it can.
#include <fmt/format.h>

#include "conf/text.h"
#include "gateway/admin/changes.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/log.h"
#include "gateway/people/key_request.h"
#include "gateway/people/shown_key.h"

namespace gateway::admin {
namespace {

namespace auth = plugins::auth;

net::Task<void> Record(const Operations& operations) {
  if (const absl::Status carried = co_await operations.key_events->CarryOver(); !carried.ok()) {
    log::Warn("the ledger does not have a change of a key yet; it is tried again",
              {{"why", conf::Std(carried.message())}});
  }
}

bool IsOwn(const Call& call, const auth::KeyRecord& key) {
  return !key.owner.empty() && key.owner == call.caller.actor;
}

bool MaySee(const Call& call, const auth::KeyRecord& key) {
  return IsOwn(call, key) || call.May(Permission::kSeeKeys, key.tenant);
}

Answer NoSuchKey(const Call& call) {
  return Refuse(api::Code::kNotFound, fmt::format("no API key has the id \"{}\"", call.item),
                call.request_id);
}

enum class KeyChange : uint8_t { kRotate, kRevoke };

// Nothing where the caller may change that key, or may change any, so that the store says whether it is
// there.
std::optional<Answer> RefuseKeyChange(const Operations& operations, const Call& call, KeyChange change) {
  if (call.caller.authority.MayEverywhere(Permission::kChangeKeys)) return std::nullopt;
  const std::shared_ptr<const auth::KeyTable> table = operations.shared->keys->Table();
  const auth::KeyRecordPtr* const key = table->Find(call.item);
  if (key == nullptr || !MaySee(call, **key)) return NoSuchKey(call);
  if (call.May(Permission::kChangeKeys, (*key)->tenant)) return std::nullopt;
  // A person without a role in the tenant may still revoke a key of their own, but gets no new secret.
  if (IsOwn(call, **key)) {
    if (change == KeyChange::kRevoke || call.May(Permission::kChangeOwnKeys, (*key)->tenant))
      return std::nullopt;
    return Refuse(
        api::Code::kPermissionDenied,
        fmt::format("you have no role any more by which you make keys of the tenant of {}", call.item),
        call.request_id);
  }
  return Refuse(
      api::Code::kPermissionDenied,
      fmt::format("{} is not your own key; changing it takes {}", call.item, WhoMay(Permission::kChangeKeys)),
      call.request_id);
}

auth::Changer ChangerOf(const Call& call) {
  return {call.caller.actor, call.caller.authority.MayEverywhere(Permission::kChangeAdminKeys)};
}

Answer ShowNew(const Call& call, const Keys::Made& made) {
  return Json(ShownNewKey{ShowKey(*made.record, call.now), made.secret}, 201);
}

}  // namespace

Answer ListKeys(const Operations& operations, const Call& call) {
  const std::string tenant = PathOfTenant(call, call.Query("tenant"));
  const std::string state = call.Query("state");
  std::vector<ShownKey> all;
  for (const auth::KeyRecordPtr& key : operations.shared->keys->List()) {
    if (!IsWithin(key->tenant, tenant) || !MaySee(call, *key)) continue;
    if (!state.empty() && Name(StateOf(*key, call.now)) != state) continue;
    all.push_back(ShowKey(*key, call.now));
  }
  return ListPage(std::move(all), &ShownKey::id, call);
}

Answer ShowOneKey(const Operations& operations, const Call& call) {
  const std::shared_ptr<const auth::KeyTable> table = operations.shared->keys->Table();
  const auth::KeyRecordPtr* key = table->Find(call.item);
  if (key == nullptr || !MaySee(call, **key)) return NoSuchKey(call);
  return Json(ShowKey(**key, call.now));
}

net::Task<Answer> CreateKey(const Operations& operations, const Call& call) {
  KeyRequest request;
  request.tenant = call.Text("tenant");
  request.role = call.Text("role");
  request.rights = call.Texts("rights");
  request.name = call.Text("name");
  request.models = call.Texts("models");
  request.endpoints = call.Texts("endpoints");
  request.expires = call.Text("expires");
  request.priority = call.Text("priority");
  if (const auto limits = call.body.find("limits"); limits != call.body.end())
    request.limits = limits->dump();
  request.created_by = call.caller.actor;
  if (!request.role.empty() && !call.caller.authority.MayEverywhere(Permission::kChangeAdminKeys)) {
    co_return Refuse(api::Code::kPermissionDenied, "only the role admin may make an admin key",
                     call.request_id);
  }
  const std::string owner = call.Text("owner");
  if (!owner.empty() && owner != "me") {
    co_return Refuse(
        api::Code::kInvalidValue,
        std::vector<FieldProblem>{{"owner", fmt::format("\"{}\" must be me, or not be given", owner)}},
        call.request_id);
  }
  if (request.role.empty()) {
    const std::string tenant = PathOfTenant(call, request.tenant);
    request.visible_models = VisibleModels(call).Names();
    const bool others = call.May(Permission::kChangeKeys, tenant);
    if (!others && !call.May(Permission::kChangeOwnKeys, tenant)) {
      co_return Refuse(api::Code::kPermissionDenied,
                       fmt::format("you may not make keys of the tenant \"{}\"", request.tenant),
                       call.request_id);
    }
    if (!others || !owner.empty()) request.owner = call.caller.actor;
  }
  auth::KeySpec spec;
  const std::vector<FieldProblem> problems = CheckKeyRequest(request, call.runtime->config(), call.now, spec);
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<Keys::Made> made = co_await operations.shared->keys->Create(spec, call.now);
  if (!made.ok()) co_return RefuseChange(made.status(), call);
  co_await Record(operations);
  co_return ShowNew(call, *made);
}

net::Task<Answer> RotateKey(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseKeyChange(operations, call, KeyChange::kRotate))
    co_return *std::move(refused);
  auth::Rotation rotation{.changer = ChangerOf(call)};
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
           fmt::format("\"{}\" must be a duration such as 30d or a time such as 2027-01-31T00:00:00Z",
                       expires)});
    }
  }
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<Keys::Made> made =
      co_await operations.shared->keys->Rotate(call.item, rotation, call.now);
  if (!made.ok()) co_return RefuseChange(made.status(), call);
  co_await Record(operations);
  co_return ShowNew(call, *made);
}

// A key that leaked must stop working even while nothing can be recorded; the store has the event until then.
net::Task<Answer> RevokeKey(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseKeyChange(operations, call, KeyChange::kRevoke))
    co_return *std::move(refused);
  const auth::Changer changer = ChangerOf(call);
  const absl::StatusOr<Keys::Revoked> revoked =
      co_await operations.shared->keys->Revoke(call.item, changer, call.Text("reason"), call.now);
  if (!revoked.ok()) co_return RefuseChange(revoked.status(), call);
  co_await Record(operations);
  co_return Json(ShowKey(*revoked->record, call.now));
}

}  // namespace gateway::admin
