// Grants and requests: who asks, who decides, what is given and until when.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "gateway/people/same_person.h"
#include "scheduler/planner.h"
#include "scheduler/state/cluster_state.h"

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

// Devices are taken from everyone, so they are given by those who have a role over everything.
bool MayGrant(const Call& call, const Allowance& allowance) {
  return !allowance.devices || call.caller.authority.MayEverywhere(Permission::kGrant);
}

Answer RefuseDevices(const Call& call) {
  return Refuse(api::Code::kPermissionDenied,
                "devices are taken from everyone; giving them takes the role operator or admin",
                call.request_id);
}

// Whether the caller may ask for something for the tenant, and it is not over.
bool MayRenew(const Call& call, const gateway::TenantGrant& grant) {
  return !grant.ended && grant.until > call.now && call.May(Permission::kAsk, grant.tenant);
}

bool MayComment(const Operations& operations, const Call& call, const gateway::GrantRequest& request);

std::optional<answers::GrantedDevices> Show(const std::optional<DeviceAllowance>& devices) {
  if (!devices) return std::nullopt;
  return answers::GrantedDevices{.kind = devices->kind, .count = devices->count};
}

// Whether the requester makes the call: in person, with a key of theirs, or with a token of their provider.
bool IsOwn(const Operations& operations, const Call& call, std::string_view asked_by) {
  const Config& config = call.runtime->config();
  if (IsSamePerson(config, call.caller.actor, asked_by)) return true;
  const auto keys = operations.shared->keys->Table();
  const auto belongs = [&](std::string_view key_id, std::string_view person) {
    const plugins::auth::KeyRecordPtr* const key = keys->Find(key_id);
    return key != nullptr &&
           (IsSamePerson(config, (*key)->created_by, person) || IsSamePerson(config, (*key)->owner, person));
  };
  return belongs(call.caller.actor, asked_by) || belongs(asked_by, call.caller.actor);
}

std::string_view GrantState(const gateway::TenantGrant& grant, conf::TimePoint now) {
  if (grant.ended || grant.until <= now) return answers::kGrantEnded;
  return grant.from > now ? answers::kGrantPlanned : answers::kGrantInForce;
}

answers::Grant Show(const gateway::TenantGrant& grant, const Call& call) {
  answers::Grant out{.id = grant.id,
                     .tenant = grant.tenant,
                     .state = GrantState(grant, call.now),
                     .models = grant.gives.models,
                     .weight = grant.gives.weight,
                     .devices = Show(grant.gives.devices),
                     .job_queue = grant.gives.devices ? std::optional(grant.id) : std::nullopt,
                     .in_words = InWords(grant.gives),
                     .from = {grant.from},
                     .until = {grant.until},
                     .reason = grant.reason,
                     .asked_by = grant.asked_by,
                     .approved_by = grant.approved_by,
                     .request = answers::TextOrNull(grant.request),
                     .ended = answers::TimeOrNull(grant.ended),
                     .ended_by = grant.ended_by,
                     .may_end = !grant.ended && MayGrant(call, grant.tenant),
                     .may_renew = MayRenew(call, grant)};
  if (!grant.gives.limits.empty()) out.limits = conf::RawJson{grant.gives.limits};
  return out;
}

answers::GrantRequest Show(const gateway::GrantRequest& request, const Operations& operations,
                           const Call& call) {
  const bool pending = request.state == RequestState::kPending;
  const bool own = IsOwn(operations, call, request.asked_by);
  answers::GrantRequest out{
      .id = request.id,
      .tenant = request.tenant,
      .state = conf::WordOf<RequestState>(WordsOf(RequestState{}), request.state),
      .models = request.wants.models,
      .weight = request.wants.weight,
      .devices = Show(request.wants.devices),
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
      .renews = answers::TextOrNull(request.renews),
      .comments = {},
      .may_decide = pending && !own && MayGrant(call, request.tenant) && MayGrant(call, request.wants),
      .may_withdraw = pending && request.asked_by == call.caller.actor,
      .may_comment = MayComment(operations, call, request)};
  for (const gateway::RequestComment& comment : request.comments)
    out.comments.push_back({.by = comment.by, .at = {comment.at}, .text = comment.text});
  if (!request.wants.limits.empty()) out.limits = conf::RawJson{request.wants.limits};
  return out;
}

// What a body asks for or gives to a tenant, and when; every problem at once.
class AllowanceReader {
 public:
  // `held`: what the tenant has by the grant that is changed.
  AllowanceReader(const Operations& operations, const Call& call, const TenantRuntime& tenant,
                  const Allowance& held = {})
      : operations_(operations),
        call_(call),
        tenant_(tenant),
        held_(held),
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
    if (const auto given = call_.body.find("devices"); given != call_.body.end() && !given->empty())
      what.devices = Devices(*given);
    return what;
  }

  // Whether the cluster has the devices beside those that were given to others for that time.
  void CheckRoom(const std::optional<DeviceAllowance>& devices, conf::TimePoint from, conf::TimePoint until,
                 std::string_view but = {}) {
    const scheduler::Planner* const planner = operations_.planner();
    if (!devices || planner == nullptr) return;
    uint64_t given = 0;
    for (const gateway::TenantGrant& other : operations_.grants->List()) {
      const std::optional<DeviceAllowance>& theirs = other.gives.devices;
      if (!theirs || theirs->kind != devices->kind || other.ended || other.id == but) continue;
      if (other.from < until && from < other.until) given += theirs->count;
    }
    const uint64_t all = scheduler::DevicesOf(planner->state().cluster(), devices->kind);
    if (devices->count + given <= all) return;
    const bool seen = call_.caller.authority.MayEverywhere(Permission::kSeeLimits);
    Add("devices", fmt::format("fewer devices {} are left at that time{}", devices->kind,
                               seen ? fmt::format(": {} of {} are given by other grants", given, all) : ""));
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
      if (std::ranges::find(held_.models, name) != held_.models.end()) return;
      if (tenant_.models[i]) Add("models", fmt::format("{} may use \"{}\" already", tenant_.path, name));
      return;
    }
    Add("models", fmt::format("\"{}\" is not a model that {} can be given", name, tenant_.path));
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
    const config::Tenant* const base = TenantAt(tenants_, tenant_.path);
    const uint32_t has = base == nullptr ? tenant_.config->weight : base->weight;
    if (weight > has && weight <= config::kMaxShare) return static_cast<uint32_t>(weight);
    Add("weight", fmt::format("must be more than the {} that {} has, and at most {}", has, tenant_.path,
                              config::kMaxShare));
    return std::nullopt;
  }

  std::optional<DeviceAllowance> Devices(const nlohmann::json& given) {
    const auto kind = given.find("kind");
    const auto count = given.find("count");
    if (given.size() != 2 || kind == given.end() || !kind->is_string() || count == given.end() ||
        !count->is_number_unsigned()) {
      Add("devices", "must have kind, a text, and count, a whole number, and nothing else");
      return std::nullopt;
    }
    const scheduler::Planner* const planner = operations_.planner();
    if (planner == nullptr) {
      Add("devices", "this gateway plans no devices: scaling.nodes is not configured");
      return std::nullopt;
    }
    DeviceAllowance devices{.kind = kind->get<std::string>(), .count = 0};
    const uint64_t all = scheduler::DevicesOf(planner->state().cluster(), devices.kind);
    const uint64_t asked = count->get<uint64_t>();
    if (all == 0) {
      std::vector<std::string> kinds;
      for (const scheduler::DeviceKind& one : planner->state().cluster().kinds) kinds.push_back(one.name);
      Add("devices",
          fmt::format("\"{}\" is not a kind of device here: {}", devices.kind, fmt::join(kinds, ", ")));
    } else if (asked == 0 || asked > all) {
      Add("devices", fmt::format("count must be from 1 to {}, the number of devices {}", all, devices.kind));
    } else {
      devices.count = static_cast<uint32_t>(asked);
      return devices;
    }
    return std::nullopt;
  }

  const Operations& operations_;
  const Call& call_;
  const TenantRuntime& tenant_;
  const Allowance held_;
  const std::vector<config::Tenant> tenants_;
  Problems problems_;
};

// Whether the second gives nothing that the first does not.
bool IsLess(const Allowance& asked, const Allowance& given) {
  if (given.weight && (!asked.weight || *given.weight > *asked.weight)) return false;
  if (const auto& devices = given.devices;
      devices &&
      (!asked.devices || devices->kind != asked.devices->kind || devices->count > asked.devices->count))
    return false;
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

bool MayComment(const Operations& operations, const Call& call, const gateway::GrantRequest& request) {
  return IsOwn(operations, call, request.asked_by) || call.May(Permission::kGrant, request.tenant);
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
    return Refuse(api::Code::kPermissionDenied, "you cannot decide your own request; withdraw it instead",
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
    if (!state.empty() && GrantState(grant, call.now) != state) continue;
    all.push_back(Show(grant, call));
  }
  return ListPage(std::move(all), &answers::Grant::id, call);
}

net::Task<Answer> GiveGrant(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) co_return NoGrants(call);
  const TenantRuntime* const tenant = TenantOfBody(call, Permission::kGrant);
  if (tenant == nullptr || !MayGrant(call, tenant->path)) {
    co_return Refuse(api::Code::kPermissionDenied,
                     fmt::format("a grant to the tenant \"{}\" takes the role lead over a tenant above it, "
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
    reader.Add("models", "give models, limits, weight or devices: there is nothing to grant");
  if (!MayGrant(call, grant.gives)) co_return RefuseDevices(call);
  reader.CheckRoom(grant.gives.devices, grant.from, grant.until);
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

// Its end, and what it gives, as far as the body says.
net::Task<Answer> ChangeGrant(const Operations& operations, const Call& call) {
  if (operations.grants == nullptr) co_return NoGrants(call);
  const gateway::TenantGrant* const found = operations.grants->Find(call.item);
  if (found == nullptr || !call.May(Permission::kSeeLimits, found->tenant))
    co_return RefuseUnknown("grant", call);
  const gateway::TenantGrant grant = *found;
  // Who asked for it does not make it larger.
  if (!MayGrant(call, grant.tenant) || (!grant.asked_by.empty() && IsOwn(operations, call, grant.asked_by))) {
    co_return Refuse(
        api::Code::kPermissionDenied,
        fmt::format(
            "changing a grant of {} takes the role lead over a tenant above it, operator or admin, and is "
            "not for the one who asked for it; ask for a renewal",
            grant.tenant),
        call.request_id);
  }
  const TenantRuntime* const tenant = call.runtime->FindTenant(grant.tenant);
  if (tenant == nullptr) co_return Refuse(api::Code::kConflict, "its tenant is not there", call.request_id);
  AllowanceReader reader(operations, call, *tenant, grant.gives);
  const Allowance what = reader.What();
  const std::string reason = reader.Reason("reason");
  Allowance gives = grant.gives;
  if (!what.models.empty()) gives.models = what.models;
  if (!what.limits.empty()) gives.limits = what.limits;
  if (what.weight) gives.weight = what.weight;
  if (what.devices) gives.devices = what.devices;
  const conf::TimePoint until = call.Text("until").empty() ? grant.until : reader.Until(grant.from);
  if (what.empty() && call.Text("until").empty() && reader.problems().empty())
    reader.Add("until", "give until, models, limits, weight or devices: there is nothing to change");
  if (until <= call.now && reader.problems().empty())
    reader.Add("until", "must be in the future; to stop the grant now, end it");
  if (!MayGrant(call, gives)) co_return RefuseDevices(call);
  reader.CheckRoom(gives.devices, grant.from, until, grant.id);
  if (!reader.problems().empty())
    co_return Refuse(api::Code::kInvalidValue, reader.problems(), call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const auto edit = [&](gateway::TenantGrant& changed) {
    changed.gives = gives;
    changed.until = until;
    if (!reason.empty()) changed.reason = reason;
  };
  const absl::StatusOr<gateway::TenantGrant> changed =
      co_await operations.grants->Change(call.item, edit, call.caller.actor);
  if (!changed.ok()) co_return RefuseChange(changed.status(), call);
  co_return Json(Show(*changed, call));
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
  if (const std::string renews = call.Text("renews"); !renews.empty()) {
    const gateway::TenantGrant* const grant = operations.grants->Find(renews);
    if (grant == nullptr || grant->tenant != tenant->path || !MayRenew(call, *grant)) {
      reader.Add("renews", fmt::format("\"{}\" is not a grant of {} that is planned or in force", renews,
                                       tenant->path));
    } else if (!request.wants.empty() || request.from) {
      reader.Add("renews", "a renewal asks for the same for longer: leave out what it gives, and from");
    } else if (reader.problems().empty() && request.until <= grant->until) {
      reader.Add("until", "must be later than the end of the grant");
    } else {
      request.renews = renews;
      request.wants = grant->gives;
    }
  }
  if (request.renews.empty())
    reader.CheckRoom(request.wants.devices, request.from.value_or(call.now), request.until);
  request.reason = reader.Reason("reason");
  request.asked_by = call.caller.actor;
  request.asked = call.now;
  request.expires = std::min(call.now + call.runtime->config().people.requests.expire, request.until);
  if (request.wants.empty() && reader.problems().empty())
    reader.Add("models", "give models, limits, weight or devices: there is nothing to ask for");
  if (request.reason.empty())
    reader.Add("reason", "is missing: the person who decides needs to know what for");
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
  if (!request.renews.empty() && !grant.gives.empty())
    reader.Add("until", "a renewal gives the same for longer: give only until");
  if (grant.gives.empty() && reader.problems().empty()) grant.gives = request.wants;
  if (!MayGrant(call, grant.gives)) co_return RefuseDevices(call);
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
  reader.CheckRoom(grant.gives.devices, grant.from, grant.until, request.renews);
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

net::Task<Answer> CommentOnRequest(const Operations& operations, const Call& call) {
  const gateway::GrantRequest* const request = RequestOf(operations, call);
  if (request == nullptr) co_return RefuseUnknown("request", call);
  if (!MayComment(operations, call, *request)) {
    co_return Refuse(api::Code::kPermissionDenied,
                     "only the person who asked and those who decide may comment", call.request_id);
  }
  const std::string text = call.Text("text");
  if (text.empty() || text.size() > kMaxReason) {
    co_return Refuse(api::Code::kInvalidValue,
                     Problems{{"text", fmt::format("must have from 1 to {} bytes", kMaxReason)}},
                     call.request_id);
  }
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<gateway::GrantRequest> commented =
      co_await operations.grants->Comment(call.item, {.by = call.caller.actor, .at = call.now, .text = text});
  if (!commented.ok()) co_return RefuseChange(commented.status(), call);
  co_return Json(Show(*commented, operations, call), 201);
}

net::Task<Answer> DeclineRequest(const Operations& operations, const Call& call) {
  const gateway::GrantRequest* const request = RequestOf(operations, call);
  if (request == nullptr) co_return RefuseUnknown("request", call);
  if (std::optional<Answer> refused = RefuseDecision(operations, call, *request))
    co_return *std::move(refused);
  const std::string answer = call.Text("answer");
  if (answer.empty() || answer.size() > kMaxReason) {
    co_return Refuse(api::Code::kInvalidValue,
                     Problems{{"answer", fmt::format("say why, in at most {} bytes, for the person who asked",
                                                     kMaxReason)}},
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
    co_return Refuse(api::Code::kPermissionDenied, "only the person who asked can withdraw a request",
                     call.request_id);
  }
  const absl::StatusOr<gateway::GrantRequest> withdrawn =
      co_await operations.grants->Close(call.item, RequestState::kWithdrawn, call.caller.actor, {}, call.now);
  if (!withdrawn.ok()) co_return RefuseChange(withdrawn.status(), call);
  co_return Json(Show(*withdrawn, operations, call));
}

}  // namespace gateway::admin
