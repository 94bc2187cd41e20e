// Grants and requests: who asks, who decides, what is given and until when.
#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/admin/answers/grants.h"
#include "gateway/admin/changes.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/people/approval.h"
#include "gateway/people/key_limits.h"
#include "gateway/people/key_request.h"
#include "gateway/people/overlay.h"

namespace gateway::admin {
namespace {

namespace limits = router::limits;
using Problems = std::vector<FieldProblem>;

constexpr conf::Duration kLongest = std::chrono::days(366);
constexpr size_t kMaxReason = 2000;

Answer NoGrants(const Call& call) {
  return Refuse(api::Code::kConflict, "this gateway keeps no grants", call.request_id);
}

// Who sees the limits of the root sees those of all tenants on the way to it.
std::string_view RootOf(std::string_view tenant) {
  return tenant.substr(0, tenant.find('/'));
}

// What a tenant has is decided by those over the tenants above it, never by its own lead.
bool MayGrant(const Call& call, std::string_view tenant) {
  return call.May(Permission::kGrant, limits::ParentPath(tenant));
}

// Whether the one who asked stands behind the call, also with a key of theirs.
bool IsOwn(const Operations& operations, const Call& call, std::string_view asked_by) {
  if (call.caller.actor == asked_by) return true;
  const auto keys = operations.shared->keys->Table();
  const auto belongs = [&](std::string_view key_id, std::string_view person) {
    const plugins::auth::KeyRecordPtr* const key = keys->Find(key_id);
    return key != nullptr && ((*key)->created_by == person || (*key)->owner == person);
  };
  return belongs(call.caller.actor, asked_by) || belongs(asked_by, call.caller.actor);
}

std::string_view StateOf(const gateway::TenantGrant& grant, conf::TimePoint now) {
  if (grant.ended || grant.until <= now) return "ended";
  return grant.from > now ? "planned" : "in_force";
}

answers::Grant Show(const gateway::TenantGrant& grant, const Call& call) {
  answers::Grant out{.id = grant.id,
                     .tenant = grant.tenant,
                     .state = StateOf(grant, call.now),
                     .models = grant.gives.models,
                     .weight = grant.gives.weight,
                     .in_words = InWords(grant.gives),
                     .from = {grant.from},
                     .until = {grant.until},
                     .reason = grant.reason,
                     .asked_by = grant.asked_by,
                     .approved_by = grant.approved_by,
                     .request = answers::TextOrNull(grant.request),
                     .ended = answers::TimeOrNull(grant.ended),
                     .ended_by = grant.ended_by,
                     .may_end = !grant.ended && MayGrant(call, grant.tenant)};
  if (!grant.gives.limits.empty()) out.limits = conf::RawJson{grant.gives.limits};
  return out;
}

answers::GrantRequest Show(const gateway::GrantRequest& request, const Operations& operations,
                           const Call& call) {
  const bool pending = request.state == RequestState::kPending;
  const bool own = IsOwn(operations, call, request.asked_by);
  answers::GrantRequest out{.id = request.id,
                            .tenant = request.tenant,
                            .state = conf::WordOf<RequestState>(WordsOf(RequestState{}), request.state),
                            .models = request.wants.models,
                            .weight = request.wants.weight,
                            .in_words = InWords(request.wants),
                            .from = answers::TimeOrNull(request.from),
                            .until = {request.until},
                            .reason = request.reason,
                            .asked_by = request.asked_by,
                            .asked = {request.asked},
                            .expires = {request.expires},
                            .decided_by = request.decided_by,
                            .decided = answers::TimeOrNull(request.decided),
                            .answer = request.answer,
                            .grant = answers::TextOrNull(request.grant),
                            .may_decide = pending && !own && MayGrant(call, request.tenant),
                            .may_withdraw = pending && request.asked_by == call.caller.actor};
  if (!request.wants.limits.empty()) out.limits = conf::RawJson{request.wants.limits};
  return out;
}

// What a body asks for or gives to a tenant, and when; every problem at once.
class AllowanceReader {
 public:
  AllowanceReader(const Operations& operations, const Call& call, const TenantRuntime& tenant)
      : call_(call),
        tenant_(tenant),
        tenants_(WithProjects(call.runtime->configured().tenants, operations.projects == nullptr
                                                                      ? std::vector<Project>()
                                                                      : operations.projects->List())) {}

  Allowance What() {
    Allowance what;
    what.models = call_.Texts("models");
    for (const std::string& model : what.models) Model(model);
    if (const auto given = call_.body.find("limits"); given != call_.body.end() && !given->empty()) {
      what.limits = given->dump();
      Limits(what.limits);
    }
    if (const auto given = call_.body.find("weight"); given != call_.body.end())
      what.weight = Weight(given->get<uint64_t>());
    return what;
  }

  std::optional<conf::TimePoint> From() {
    const std::string text = call_.Text("from");
    if (text.empty()) return std::nullopt;
    const std::optional<conf::TimePoint> from = ParseExpiry(text, call_.now);
    if (!from || *from < call_.now || *from > call_.now + kLongest) {
      Add("from", fmt::format("\"{}\" must be a moment within the next 366 days: a duration such as 2h, or a "
                              "time such as 2027-01-31T00:00:00Z",
                              text));
      return std::nullopt;
    }
    return from;
  }

  conf::TimePoint Until(std::optional<conf::TimePoint> from) {
    const std::string text = call_.Text("until");
    const std::optional<conf::TimePoint> until = ParseExpiry(text, call_.now);
    if (!until || *until <= from.value_or(call_.now) || *until > call_.now + kLongest) {
      Add("until", fmt::format("\"{}\" must be a moment after the beginning and within the next 366 days: a "
                               "duration such as 30d, or a time such as 2027-01-31T00:00:00Z",
                               text));
      return call_.now;
    }
    return *until;
  }

  std::string Reason(const char* member) {
    std::string reason = call_.Text(member);
    if (reason.size() > kMaxReason) Add(member, fmt::format("must have at most {} bytes", kMaxReason));
    return reason;
  }

  void Add(std::string_view field, std::string message) {
    problems_.push_back({std::string(field), std::move(message)});
  }
  const Problems& problems() const { return problems_; }

 private:
  // The same words for a model that does not exist and for one that the tenants above may not use.
  void Model(const std::string& name) {
    const std::string_view above = limits::ParentPath(tenant_.path);
    const TenantRuntime* const parent = above.empty() ? nullptr : call_.runtime->FindTenant(above);
    const auto& models = call_.runtime->routes().models();
    for (size_t i = 0; i < models.size(); ++i) {
      if (models[i].spec.name != name || (parent != nullptr && !parent->models[i])) continue;
      if (tenant_.models[i]) Add("models", fmt::format("{} may use \"{}\" already", tenant_.path, name));
      return;
    }
    Add("models", fmt::format("\"{}\" is no model that {} could be given", name, tenant_.path));
  }

  void Limits(const std::string& text) {
    const auto amounts = ParseKeyLimits(text);
    if (!amounts.ok()) return Add("limits", std::string(conf::Std(amounts.status().message())));
    const config::Tenant* const base = TenantAt(tenants_, tenant_.path);
    const std::string above(limits::ParentPath(tenant_.path));
    for (const limits::LimitSpec& limit : *amounts) {
      const std::string_view name = limits::LimitName(limit.dimension, limit.period);
      const auto shown = [&](int64_t amount) {
        return limit.dimension == limits::Dimension::kBudget ? conf::FormatMicroUsd(amount) + " USD"
                                                             : std::to_string(amount);
      };
      const std::optional<int64_t> has = base == nullptr ? std::nullopt : LimitOf(*base, limit);
      const std::optional<int64_t> most = MostOf(tenants_, above, limit);
      if (!has) {
        Add("limits", fmt::format("{} has no {} that could be raised", tenant_.path, name));
      } else if (limit.capacity <= *has) {
        Add("limits",
            fmt::format("{} must be more than the {} that {} has", name, shown(*has), tenant_.path));
      } else if (most && limit.capacity > *most) {
        const bool seen = call_.May(Permission::kSeeLimits, RootOf(tenant_.path));
        Add("limits", fmt::format("{} is more than the tenants above {} have{}", name, tenant_.path,
                                  seen ? ": at most " + shown(*most) : ""));
      }
    }
  }

  std::optional<uint32_t> Weight(uint64_t weight) {
    if (weight > tenant_.config->weight && weight <= config::kMaxShare) return static_cast<uint32_t>(weight);
    Add("weight", fmt::format("must be more than the {} that {} has, and at most {}", tenant_.config->weight,
                              tenant_.path, config::kMaxShare));
    return std::nullopt;
  }

  const Call& call_;
  const TenantRuntime& tenant_;
  const std::vector<config::Tenant> tenants_;
  Problems problems_;
};

// Whether the second gives nothing that the first does not.
bool IsLess(const Allowance& asked, const Allowance& given) {
  if (given.weight && (!asked.weight || *given.weight > *asked.weight)) return false;
  for (const std::string& model : given.models) {
    if (std::ranges::find(asked.models, model) == asked.models.end()) return false;
  }
  if (given.limits.empty()) return true;
  const auto wanted = ParseKeyLimits(asked.limits.empty() ? "{}" : asked.limits);
  const auto amounts = ParseKeyLimits(given.limits);
  if (!wanted.ok() || !amounts.ok()) return false;
  return std::ranges::all_of(*amounts, [&](const limits::LimitSpec& limit) {
    return std::ranges::any_of(*wanted, [&](const limits::LimitSpec& asked_limit) {
      return asked_limit.SameLimit(limit) && limit.capacity <= asked_limit.capacity;
    });
  });
}

// The tenant that a body names, as far as the caller has the permission for it.
const TenantRuntime* TenantOfBody(const Call& call, Permission permission) {
  const TenantRuntime* const tenant = call.runtime->FindTenant(call.Text("tenant"));
  return tenant != nullptr && call.May(permission, tenant->path) ? tenant : nullptr;
}

bool MaySeeRequest(const Operations& operations, const Call& call, const gateway::GrantRequest& request) {
  return IsOwn(operations, call, request.asked_by) || call.May(Permission::kGrant, request.tenant) ||
         call.caller.authority.MayEverywhere(Permission::kSeeLimits);
}

// The request that the path names, where the caller may see it.
const gateway::GrantRequest* RequestOf(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) return nullptr;
  const gateway::GrantRequest* const request = operations.grants->FindRequest(call.item);
  return request != nullptr && MaySeeRequest(operations, call, *request) ? request : nullptr;
}

std::optional<Answer> RefuseDecision(const Operations& operations, const Call& call,
                                     const gateway::GrantRequest& request) {
  if (IsOwn(operations, call, request.asked_by)) {
    return Refuse(api::Code::kPermissionDenied, "nobody decides a request of their own; withdraw it instead",
                  call.request_id);
  }
  if (MayGrant(call, request.tenant)) return std::nullopt;
  return Refuse(api::Code::kPermissionDenied,
                fmt::format("deciding for {} takes the role lead over a tenant above it, operator or admin",
                            request.tenant),
                call.request_id);
}

}  // namespace

Answer ListGrants(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) return NoGrants(call);
  const std::string within = PathOfTenant(call, call.Query("tenant"));
  const std::string state = call.Query("state");
  std::vector<answers::Grant> all;
  for (const gateway::TenantGrant& grant : operations.grants->List()) {
    if (!IsWithin(grant.tenant, within) || !call.May(Permission::kSeeLimits, grant.tenant)) continue;
    if (!state.empty() && StateOf(grant, call.now) != state) continue;
    all.push_back(Show(grant, call));
  }
  return ListPage(std::move(all), &answers::Grant::id, call);
}

net::Task<Answer> GiveGrant(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) co_return NoGrants(call);
  const TenantRuntime* const tenant = TenantOfBody(call, Permission::kGrant);
  if (tenant == nullptr || !MayGrant(call, tenant->path)) {
    co_return Refuse(api::Code::kPermissionDenied,
                     fmt::format("giving to the tenant \"{}\" takes the role lead over a tenant above it, "
                                 "operator or admin",
                                 call.Text("tenant")),
                     call.request_id);
  }
  AllowanceReader reader(operations, call, *tenant);
  gateway::TenantGrant grant{.id = {}, .tenant = tenant->path, .gives = reader.What()};
  const std::optional<conf::TimePoint> from = reader.From();
  grant.from = from.value_or(call.now);
  grant.until = reader.Until(from);
  grant.reason = reader.Reason("reason");
  grant.approved_by = call.caller.actor;
  if (grant.gives.empty() && reader.problems().empty())
    reader.Add("models", "give models, limits or weight: there is nothing to grant");
  if (!reader.problems().empty())
    co_return Refuse(api::Code::kInvalidValue, reader.problems(), call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<gateway::TenantGrant> given = co_await operations.grants->Give(std::move(grant));
  if (!given.ok()) co_return RefuseChange(given.status(), call);
  co_return Json(Show(*given, call), 201);
}

net::Task<Answer> EndGrant(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) co_return NoGrants(call);
  const gateway::TenantGrant* const grant = operations.grants->Find(call.item);
  if (grant == nullptr || !call.May(Permission::kSeeLimits, grant->tenant))
    co_return RefuseUnknown("grant", call);
  if (!MayGrant(call, grant->tenant)) {
    co_return Refuse(
        api::Code::kPermissionDenied,
        fmt::format("ending a grant of {} takes the role lead over a tenant above it, operator or "
                    "admin",
                    grant->tenant),
        call.request_id);
  }
  const absl::StatusOr<gateway::TenantGrant> ended =
      co_await operations.grants->End(call.item, call.caller.actor, call.now);
  if (!ended.ok()) co_return RefuseChange(ended.status(), call);
  co_return Json(Show(*ended, call));
}

Answer ListRequests(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) return NoGrants(call);
  const std::string within = PathOfTenant(call, call.Query("tenant"));
  const std::string state = call.Query("state");
  std::vector<answers::GrantRequest> all;
  for (const gateway::GrantRequest& request : operations.grants->Requests()) {
    if (!IsWithin(request.tenant, within) || !MaySeeRequest(operations, call, request)) continue;
    if (!state.empty() && conf::WordOf<RequestState>(WordsOf(RequestState{}), request.state) != state)
      continue;
    all.push_back(Show(request, operations, call));
  }
  return ListPage(std::move(all), &answers::GrantRequest::id, call);
}

net::Task<Answer> AskForGrant(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) co_return NoGrants(call);
  const TenantRuntime* const tenant = TenantOfBody(call, Permission::kAsk);
  if (tenant == nullptr) {
    co_return Refuse(api::Code::kPermissionDenied,
                     fmt::format("you have no role over the tenant \"{}\"", call.Text("tenant")),
                     call.request_id);
  }
  AllowanceReader reader(operations, call, *tenant);
  gateway::GrantRequest request{.id = {}, .tenant = tenant->path, .wants = reader.What()};
  request.from = reader.From();
  request.until = reader.Until(request.from);
  request.reason = reader.Reason("reason");
  request.asked_by = call.caller.actor;
  request.asked = call.now;
  request.expires = std::min(call.now + call.runtime->config().people.requests.expire, request.until);
  if (request.wants.empty() && reader.problems().empty())
    reader.Add("models", "give models, limits or weight: there is nothing to ask for");
  if (request.reason.empty()) reader.Add("reason", "is missing: whoever decides needs to know what for");
  if (!reader.problems().empty())
    co_return Refuse(api::Code::kInvalidValue, reader.problems(), call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  std::optional<gateway::TenantGrant> grant;
  if (const config::ApprovalRule* const rule = RuleFor(call.runtime->config(), request, call.now)) {
    grant = gateway::TenantGrant{.id = {},
                                 .tenant = request.tenant,
                                 .gives = request.wants,
                                 .from = request.from.value_or(call.now),
                                 .until = request.until,
                                 .reason = request.reason,
                                 .asked_by = request.asked_by,
                                 .approved_by = "rule:" + rule->name};
  }
  const absl::StatusOr<gateway::GrantRequest> asked =
      co_await operations.grants->Ask(std::move(request), grant ? &*grant : nullptr);
  if (!asked.ok()) co_return RefuseChange(asked.status(), call);
  co_return Json(Show(*asked, operations, call), 201);
}

// With what the body has in place of what was asked for: less, or sooner over.
net::Task<Answer> ApproveRequest(const Operations& operations, const Call& call) {
  const gateway::GrantRequest* const found = RequestOf(operations, call);
  if (found == nullptr) co_return RefuseUnknown("request", call);
  const gateway::GrantRequest request = *found;
  if (std::optional<Answer> refused = RefuseDecision(operations, call, request))
    co_return *std::move(refused);
  const TenantRuntime* const tenant = call.runtime->FindTenant(request.tenant);
  if (tenant == nullptr) co_return Refuse(api::Code::kConflict, "its tenant is not there", call.request_id);
  AllowanceReader reader(operations, call, *tenant);
  gateway::TenantGrant grant{.id = {}, .tenant = request.tenant, .gives = reader.What()};
  if (grant.gives.empty() && reader.problems().empty()) grant.gives = request.wants;
  grant.from = std::max(request.from.value_or(call.now), call.now);
  grant.until = call.Text("until").empty() ? request.until : reader.Until(grant.from);
  grant.reason = request.reason;
  grant.asked_by = request.asked_by;
  grant.approved_by = call.caller.actor;
  const std::string answer = reader.Reason("answer");
  if (reader.problems().empty() && !IsLess(request.wants, grant.gives))
    reader.Add("limits", "an approval gives what was asked for, or less; for more, give a grant");
  if (reader.problems().empty() && grant.until > request.until)
    reader.Add("until", "an approval lasts as long as was asked for, or shorter");
  if (!reader.problems().empty())
    co_return Refuse(api::Code::kInvalidValue, reader.problems(), call.request_id);
  if (grant.until <= grant.from)
    co_return Refuse(api::Code::kConflict, "the time that was asked for is over", call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<gateway::GrantRequest> approved =
      co_await operations.grants->Approve(call.item, std::move(grant), answer, call.now);
  if (!approved.ok()) co_return RefuseChange(approved.status(), call);
  co_return Json(Show(*approved, operations, call));
}

net::Task<Answer> DeclineRequest(const Operations& operations, const Call& call) {
  const gateway::GrantRequest* const request = RequestOf(operations, call);
  if (request == nullptr) co_return RefuseUnknown("request", call);
  if (std::optional<Answer> refused = RefuseDecision(operations, call, *request))
    co_return *std::move(refused);
  const std::string answer = call.Text("answer");
  if (answer.empty() || answer.size() > kMaxReason) {
    co_return Refuse(
        api::Code::kInvalidValue,
        Problems{{"answer", fmt::format("say why, in at most {} bytes, for the one who asked", kMaxReason)}},
        call.request_id);
  }
  const absl::StatusOr<gateway::GrantRequest> declined = co_await operations.grants->Close(
      call.item, RequestState::kDeclined, call.caller.actor, answer, call.now);
  if (!declined.ok()) co_return RefuseChange(declined.status(), call);
  co_return Json(Show(*declined, operations, call));
}

net::Task<Answer> WithdrawRequest(const Operations& operations, const Call& call) {
  const gateway::GrantRequest* const request = RequestOf(operations, call);
  if (request == nullptr) co_return RefuseUnknown("request", call);
  if (request->asked_by != call.caller.actor) {
    co_return Refuse(api::Code::kPermissionDenied, "only the one who asked withdraws a request",
                     call.request_id);
  }
  const absl::StatusOr<gateway::GrantRequest> withdrawn =
      co_await operations.grants->Close(call.item, RequestState::kWithdrawn, call.caller.actor, {}, call.now);
  if (!withdrawn.ok()) co_return RefuseChange(withdrawn.status(), call);
  co_return Json(Show(*withdrawn, operations, call));
}

}  // namespace gateway::admin
