// Tenants made at run time and the members of tenants: made, changed, removed. What the configuration file has is
// changed there alone.
#include <fmt/format.h>

#include <algorithm>

#include "conf/reader.h"
#include "conf/shown.h"
#include "conf/text.h"
#include "gateway/admin/answers/grants.h"
#include "gateway/admin/answers/inventory.h"
#include "gateway/admin/changes.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/admin/scope.h"
#include "gateway/admin/tenant_row.h"
#include "gateway/control/jobs/jobs.h"
#include "gateway/people/key_limits.h"
#include "gateway/people/overlay.h"
#include "gateway/people/shown_key.h"

namespace gateway::admin {
namespace {

namespace auth = plugins::auth;
namespace limits = router::limits;
using Problems = std::vector<FieldProblem>;

Answer NoProjects(const Call& call) {
  return Refuse(api::Code::kConflict, "this gateway keeps no tenants beside its configuration",
                call.request_id);
}

// The tenants without grants, which end.
std::vector<config::Tenant> BaseTenants(const Operations& operations, const Call& call) {
  return WithProjects(call.runtime->configured().tenants, operations.projects->List());
}

// Nothing where the caller may change the tenant that the path names, which was made at run time: whoever may
// change those below its parent.
std::optional<Answer> RefuseTenant(const Operations& operations, const Call& call) {
  if (operations.projects == nullptr) return NoProjects(call);
  const TenantRuntime* const known = call.runtime->FindTenant(call.item);
  const std::string path = known == nullptr ? call.item : known->path;
  if (!call.May(Permission::kSeeTenants, path)) return RefuseUnknown("tenant", call);
  if (known != nullptr && !known->config->at_run_time) {
    return Refuse(api::Code::kConfiguredInFile,
                  fmt::format("{} is defined in the configuration file: change it there, and reload", path),
                  call.request_id);
  }
  const Project* const project = operations.projects->Find(path);
  if (project == nullptr) return RefuseUnknown("tenant", call);
  if (call.May(Permission::kChangeTenants, project->parent())) return std::nullopt;
  return Refuse(
      api::Code::kPermissionDenied,
      fmt::format("changing {} takes the role lead over {}, operator or admin", path, project->parent()),
      call.request_id);
}

// The models, limits and weight of a body, into a project below that parent.
class ProjectReader {
 public:
  ProjectReader(const Operations& operations, const Call& call, std::string parent)
      : call_(call), tenants_(BaseTenants(operations, call)), parent_(std::move(parent)) {}

  // Only the members that the body has; an empty list of models stands for the parent's, an empty object for no
  // limits.
  Problems Read(Project& project) {
    if (call_.body.contains("models")) Models(project);
    if (call_.body.contains("limits")) Limits(project);
    if (call_.body.contains("weight")) Weight(project);
    return std::move(problems_);
  }

 private:
  void Models(Project& project) {
    const std::vector<std::string> models = call_.Texts("models");
    project.models.reset();
    if (models.empty()) return;
    const TenantRuntime* const parent = call_.runtime->FindTenant(parent_);
    for (const std::string& glob : models) {
      bool matches = false;
      for (size_t i = 0; parent != nullptr && i < parent->models.size(); ++i) {
        matches = matches || (parent->models[i] &&
                              config::GlobMatches(glob, call_.runtime->routes().models()[i].spec.name));
      }
      if (!matches)
        problems_.push_back({"models", fmt::format("\"{}\" is not a model of {}", glob, parent_)});
    }
    project.models = models;
  }

  void Limits(Project& project) {
    const nlohmann::json& given = call_.body.at("limits");
    project.limits.clear();
    if (given.empty()) return;
    const auto own = ParseKeyLimits(given.dump());
    if (!own.ok()) {
      problems_.push_back({"limits", std::string(conf::Std(own.status().message()))});
      return;
    }
    for (const limits::LimitSpec& limit : *own) {
      const std::optional<int64_t> most = MostOf(tenants_, parent_, limit);
      if (!most || limit.capacity <= *most) continue;
      const std::string_view root = std::string_view(parent_).substr(0, parent_.find('/'));
      const std::string amount = limit.dimension == limits::Dimension::kBudget
                                     ? conf::FormatMicroUsd(*most) + " USD"
                                     : std::to_string(*most);
      problems_.push_back(
          {"limits",
           fmt::format("{} is more than {} has{}", limits::LimitName(limit.dimension, limit.period), parent_,
                       call_.May(Permission::kSeeLimits, root) ? ": at most " + amount : "")});
    }
    project.limits = given.dump();
  }

  void Weight(Project& project) {
    const auto weight = call_.body.at("weight").get<uint64_t>();
    const config::Tenant* const parent = TenantAt(tenants_, parent_);
    const uint32_t most = parent == nullptr ? 1 : parent->weight;
    if (weight < 1 || weight > most) {
      problems_.push_back({"weight", fmt::format("must be from 1 to {}, the weight of {}", most, parent_)});
    } else {
      project.weight = static_cast<uint32_t>(weight);
    }
  }

  const Call& call_;
  const std::vector<config::Tenant> tenants_;
  const std::string parent_;
  Problems problems_;
};

// Of the tenant as it is in force after the change.
Answer ShowTenant(const Operations& operations, const Call& call, const Project& project, int status) {
  const std::shared_ptr<const Runtime> runtime = operations.runtime();
  const TenantRuntime* const tenant = runtime->FindTenant(project.path);
  return Json(tenant == nullptr ? RowOf(call, project) : RowOf(call, *runtime, *tenant, &project), status);
}

std::vector<auth::KeyRecordPtr> WorkingKeys(const Operations& operations, const Call& call,
                                            std::string_view tenant) {
  std::vector<auth::KeyRecordPtr> keys;
  for (const auth::KeyRecordPtr& key : operations.shared->keys->List()) {
    if (!key->tenant.empty() && IsWithin(key->tenant, tenant) && StateOf(*key, call.now) == KeyState::kActive)
      keys.push_back(key);
  }
  return keys;
}

bool HasOpenJobs(const Operations& operations, std::string_view tenant) {
  const control::Jobs* const jobs = operations.jobs();
  if (jobs == nullptr) return false;
  return std::ranges::any_of(jobs->all(), [&](const control::Workload* job) {
    return !job->over() && !job->file().job.tenant.empty() && IsWithin(job->file().job.tenant, tenant);
  });
}

net::Task<Answer> SetDisabled(const Operations& operations, const Call& call, bool disabled) {
  if (std::optional<Answer> refused = RefuseTenant(operations, call)) co_return *std::move(refused);
  const absl::StatusOr<Project> changed = co_await operations.projects->Change(
      call.item, [disabled](Project& project) { project.disabled = disabled; }, call.caller.actor);
  if (!changed.ok()) co_return RefuseChange(changed.status(), call);
  co_return ShowTenant(operations, call, *changed, 200);
}

answers::TenantMember ShowMember(const gateway::Member& member) {
  return {.id = member.tenant + "|" + member.who,
          .tenant = member.tenant,
          .who = member.who,
          .role = RoleName(member.role),
          .added_by = member.added_by,
          .added = {member.added}};
}

// The tenant whose members the body is about, and who; or the refusal.
std::variant<gateway::Member, Answer> ReadMember(const Operations& operations, const Call& call) {
  if (operations.projects == nullptr) return NoProjects(call);
  const TenantRuntime* const tenant = call.runtime->FindTenant(call.Text("tenant"));
  if (tenant == nullptr || !call.May(Permission::kChangeTenants, tenant->path)) {
    return Refuse(
        api::Code::kPermissionDenied,
        fmt::format("you have no role by which you change members of the tenant \"{}\"", call.Text("tenant")),
        call.request_id);
  }
  absl::StatusOr<std::string> who = MemberName(call.Text("who"));
  if (!who.ok()) {
    return Refuse(api::Code::kInvalidValue, Problems{{"who", std::string(conf::Std(who.status().message()))}},
                  call.request_id);
  }
  return gateway::Member{.tenant = tenant->path, .who = *std::move(who)};
}

}  // namespace

net::Task<Answer> CreateTenant(const Operations& operations, const Call& call) {
  if (operations.projects == nullptr) co_return NoProjects(call);
  const TenantRuntime* const parent = call.runtime->FindTenant(call.Text("parent"));
  if (parent == nullptr || !call.May(Permission::kChangeTenants, parent->path)) {
    co_return Refuse(
        api::Code::kPermissionDenied,
        fmt::format("you have no role by which you make tenants below \"{}\"", call.Text("parent")),
        call.request_id);
  }
  if (!parent->self_service) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("no tenants can be made below {}: neither it nor a tenant above it has "
                                 "self_service: true in the configuration",
                                 parent->path),
                     call.request_id);
  }
  Project project{
      .path = parent->path + "/" + call.Text("name"), .made_by = call.caller.actor, .made = call.now};
  Problems problems;
  if (!auth::IsTenantSegment(call.Text("name"))) {
    problems.push_back({"name",
                        "must be at most 64 letters, digits, '.', '_' and '-', the first a letter or "
                        "digit"});
  } else if (!auth::IsTenantPath(project.path) || project.path.size() > config::kMaxTenantPath) {
    problems.push_back({"name", fmt::format("{} is too long, or more than eight levels deep", project.path)});
  } else if (call.runtime->FindTenant(project.path) != nullptr) {
    co_return Refuse(api::Code::kConflict, fmt::format("the tenant {} exists already", project.path),
                     call.request_id);
  }
  for (FieldProblem& problem : ProjectReader(operations, call, parent->path).Read(project))
    problems.push_back(std::move(problem));
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  if (absl::Status made = co_await operations.projects->Create(project); !made.ok())
    co_return RefuseChange(made, call);
  co_return ShowTenant(operations, call, project, 201);
}

net::Task<Answer> ChangeTenant(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseTenant(operations, call)) co_return *std::move(refused);
  Project wanted = *operations.projects->Find(call.item);
  const Problems problems = ProjectReader(operations, call, std::string(wanted.parent())).Read(wanted);
  if (!problems.empty()) co_return Refuse(api::Code::kInvalidValue, problems, call.request_id);
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  const auto edit = [&](Project& project) {
    if (call.body.contains("models")) project.models = wanted.models;
    if (call.body.contains("limits")) project.limits = wanted.limits;
    if (call.body.contains("weight")) project.weight = wanted.weight;
  };
  const absl::StatusOr<Project> changed =
      co_await operations.projects->Change(call.item, edit, call.caller.actor);
  if (!changed.ok()) co_return RefuseChange(changed.status(), call);
  co_return ShowTenant(operations, call, *changed, 200);
}

net::Task<Answer> DisableTenant(const Operations& operations, const Call& call) {
  return SetDisabled(operations, call, true);
}

net::Task<Answer> EnableTenant(const Operations& operations, const Call& call) {
  return SetDisabled(operations, call, false);
}

net::Task<Answer> RemoveTenant(const Operations& operations, const Call& call) {
  if (std::optional<Answer> refused = RefuseTenant(operations, call)) co_return *std::move(refused);
  const std::string keys_are = call.Text("keys");
  if (!keys_are.empty() && keys_are != "revoke") {
    co_return Refuse(api::Code::kInvalidValue,
                     Problems{{"keys", fmt::format("\"{}\" must be revoke, or not be given", keys_are)}},
                     call.request_id);
  }
  if (HasOpenJobs(operations, call.item)) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("jobs of {} have not ended; cancel them first", call.item), call.request_id);
  }
  const std::vector<auth::KeyRecordPtr> keys = WorkingKeys(operations, call, call.item);
  if (!keys.empty() && keys_are.empty()) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("{} of {} still work; revoke them, or give keys: revoke",
                                 conf::Counted(keys.size(), "key"), call.item),
                     call.request_id);
  }
  const auto below = operations.projects->List();
  const auto stands_below = [&](const Project& project) { return project.parent() == call.item; };
  if (const auto child = std::ranges::find_if(below, stands_below); child != below.end()) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("{} is below {}; remove it first", child->path, call.item), call.request_id);
  }
  for (const auth::KeyRecordPtr& key : keys) {
    const absl::StatusOr<Keys::Revoked> revoked = co_await operations.shared->keys->Revoke(
        key->id, {call.caller.actor}, "its tenant was removed", call.now);
    if (!revoked.ok() && !absl::IsFailedPrecondition(revoked.status()))
      co_return RefuseChange(revoked.status(), call);
  }
  std::vector<store::Write> also;
  if (operations.grants != nullptr)
    also = operations.grants->EndAllOf(call.item, call.caller.actor, call.now);
  const absl::Status removed =
      co_await operations.projects->Remove(call.item, call.caller.actor, std::move(also));
  if (!removed.ok()) co_return RefuseChange(removed, call);
  co_return Json(answers::RemovedTenant{.path = call.item, .revoked_keys = keys.size()});
}

Answer ListMembers(const Operations& operations, const Call& call) {
  const std::string within = PathOfTenant(call, call.Query("tenant"));
  std::vector<answers::TenantMember> all;
  if (operations.projects == nullptr) return NoProjects(call);
  for (const gateway::Member& member : operations.projects->Members()) {
    if (IsWithin(member.tenant, within) && call.May(Permission::kSeeMembers, member.tenant))
      all.push_back(ShowMember(member));
  }
  std::ranges::sort(all, {}, &answers::TenantMember::id);
  return ListPage(std::move(all), &answers::TenantMember::id, call);
}

net::Task<Answer> SetMember(const Operations& operations, const Call& call) {
  std::variant<gateway::Member, Answer> read = ReadMember(operations, call);
  if (Answer* const refused = std::get_if<Answer>(&read)) co_return std::move(*refused);
  auto member = std::get<gateway::Member>(std::move(read));
  const std::optional<auth::Role> role = auth::RoleFromName(call.Text("role"));
  if (!role || !IsOfTenant(*role)) {
    co_return Refuse(api::Code::kInvalidValue,
                     Problems{{"role", fmt::format("\"{}\" must be member or lead", call.Text("role"))}},
                     call.request_id);
  }
  if (!call.runtime->FindTenant(member.tenant)->self_service) {
    co_return Refuse(api::Code::kConflict,
                     fmt::format("members of {} are defined in the configuration: neither it nor a tenant "
                                 "above it has self_service: true",
                                 member.tenant),
                     call.request_id);
  }
  member.role = *role;
  member.added_by = call.caller.actor;
  member.added = call.now;
  if (std::optional<Answer> refused = RefuseUnrecorded(operations, call)) co_return *std::move(refused);
  if (absl::Status set = co_await operations.projects->SetMember(member); !set.ok())
    co_return RefuseChange(set, call);
  co_return Json(ShowMember(member), 201);
}

net::Task<Answer> RemoveMember(const Operations& operations, const Call& call) {
  std::variant<gateway::Member, Answer> read = ReadMember(operations, call);
  if (Answer* const refused = std::get_if<Answer>(&read)) co_return std::move(*refused);
  const auto& member = std::get<gateway::Member>(read);
  const absl::StatusOr<gateway::Member> removed =
      co_await operations.projects->RemoveMember(member.tenant, member.who, call.caller.actor);
  if (!removed.ok()) co_return RefuseChange(removed.status(), call);
  co_return Json(ShowMember(*removed));
}

}  // namespace gateway::admin
