#include "gateway/people/permissions.h"

#include <fmt/format.h>

#include <algorithm>

namespace gateway {
namespace {

using enum Permission;
using plugins::auth::Right;
using plugins::auth::Role;

const std::vector<Role> kEveryone = {Role::kNone,   Role::kMember,   Role::kLead,
                                     Role::kViewer, Role::kOperator, Role::kAdmin};
const std::vector<Role> kPeople = {Role::kMember, Role::kLead, Role::kViewer, Role::kOperator, Role::kAdmin};
const std::vector<Role> kOverseers = {Role::kLead, Role::kViewer, Role::kOperator, Role::kAdmin};
const std::vector<Role> kViewers = {Role::kViewer, Role::kOperator, Role::kAdmin};
const std::vector<Role> kManagers = {Role::kLead, Role::kOperator, Role::kAdmin};
const std::vector<Role> kUsers = {Role::kMember, Role::kLead, Role::kOperator, Role::kAdmin};
const std::vector<Role> kOperators = {Role::kOperator, Role::kAdmin};
const std::vector<Role> kAdmins = {Role::kAdmin};

const std::vector<PermissionRow>& Table() {
  static const std::vector<PermissionRow> rows = {
      {kSeeSelf, "see_self", "See your own account, and end your own session", kEveryone, {}},
      {kSeeModels, "see_models", "See models, what they cost, and how fast they answer", kPeople, {}},
      {kSeeTenants, "see_tenants", "See tenants and what they may use", kPeople, {}},
      {kSeeLimits, "see_limits", "See limits, budgets, and what is left of them", kPeople, {}},
      {kSeeUsage, "see_usage", "See usage and cost", kPeople, {}},
      {kUsePlayground, "use_playground", "Ask models in the playground, at a tenant's cost", kUsers, {}},
      {kSeeStatements, "see_statements", "See the monthly statements of tenants", kOverseers, {}},
      {kSeeOwnKeys, "see_own_keys", "See one's own keys", kPeople, {}},
      {kChangeOwnKeys,
       "change_own_keys",
       "Make, rotate and revoke one's own keys",
       {Role::kMember, Role::kLead, Role::kOperator, Role::kAdmin},
       {}},
      {kSeeKeys, "see_keys", "See keys of others, never their secrets", kOverseers, {}},
      {kChangeKeys, "change_keys", "Make, rotate and revoke keys of others", kManagers, {}},
      {kChangeAdminKeys, "change_admin_keys", "Make, rotate and revoke admin keys", kAdmins, {}},
      {kSeeJobs, "see_jobs", "See jobs, and why they wait", kPeople, {}},
      {kSubmitJobs, "submit_jobs", "Submit jobs", {Role::kLead, Role::kAdmin}, Right::kSubmitJobs},
      {kChangeJobs, "change_jobs", "Cancel, suspend and resume jobs", kManagers, {}},
      {kReadOutput, "read_output", "Read the output of jobs and their files", kManagers, {}},
      {kSimulate, "simulate", "Ask what-if questions of the scheduler", kManagers, {}},
      {kSeeCluster, "see_cluster", "See nodes, devices, queues and what holds them", kOverseers, {}},
      {kSeeReplicas,
       "see_replicas",
       "See gateways, endpoints and replicas, and why they started",
       kViewers,
       {}},
      {kMaintain,
       "maintain",
       "Cordon nodes and devices, drain nodes, pause and hold models, promote and abort rollouts",
       kOperators,
       {}},
      {kReadAudit, "read_audit", "Read the records of the ledger", kOperators, {}},
      {kReadContent, "read_content", "Read stored prompts and answers", kAdmins, {}},
      {kEraseContent, "erase_content", "Destroy the keys of stored prompts and answers", kAdmins, {}},
      {kSeeConfig, "see_config", "See the applied configuration", kOperators, {}},
      {kChangeConfig, "change_config", "Reload the configuration file", kOperators, {}},
      {kSeeMetrics, "see_metrics", "Scrape metrics, where they are protected", kViewers, {}},
      {kSeePeople, "see_people", "See who has signed in, and the sessions", kAdmins, {}},
      {kEndSessions, "end_sessions", "End sessions of others", kAdmins, {}},
      {kMakeSignInLinks, "make_sign_in_links", "Make links by which one signs in", kAdmins, {}},
      {kSeeMembers, "see_members", "See the members of tenants", kOverseers, {}},
      {kChangeTenants,
       "change_tenants",
       "Make, change and remove tenants and members at run time",
       kManagers,
       {}},
      {kAsk,
       "ask",
       "Ask for models, limits, budgets, shares of queues and devices, and comment on requests",
       kPeople,
       {}},
      {kGrant,
       "grant",
       "Decide requests; give, change and end grants of tenants below one's own",
       kManagers,
       {}},
      {kChangeAdapters, "change_adapters", "Load and unload LoRA adapters at run time", kOperators, {}},
  };
  return rows;
}

bool Gives(Role role, Permission permission) {
  const std::vector<Role>& roles = RowOf(permission).roles;
  return std::ranges::find(roles, role) != roles.end();
}

bool IsOverEverything(Role role) {
  return role != Role::kNone && !IsOfTenant(role);
}

}  // namespace

std::span<const PermissionRow> PermissionTable() {
  return Table();
}

const PermissionRow& RowOf(Permission permission) {
  return Table()[static_cast<size_t>(permission)];
}

std::string_view Name(Permission permission) {
  return RowOf(permission).name;
}

std::string WhoMay(Permission permission) {
  const PermissionRow& row = RowOf(permission);
  std::string names;
  for (size_t i = 0; i < row.roles.size(); ++i) {
    if (row.roles[i] == Role::kNone) return "any key or session";
    names += i == 0 ? "" : i + 1 == row.roles.size() ? " or " : ", ";
    names += RoleName(row.roles[i]);
  }
  return fmt::format("the role {}{}", names,
                     row.right ? fmt::format(", or the right {}", RightName(*row.right)) : "");
}

Authority::Authority(std::vector<RoleOver> roles, std::vector<Right> rights)
    : roles_(std::move(roles)), rights_(std::move(rights)) {}

bool Authority::May(Permission permission) const {
  return MayEverywhere(permission) || std::ranges::any_of(roles_, [&](const RoleOver& over) {
           return !IsOverEverything(over.role) && Gives(over.role, permission);
         });
}

bool Authority::MayFor(Permission permission, std::string_view tenant) const {
  const std::optional<Right>& right = RowOf(permission).right;
  if (right && std::ranges::find(rights_, *right) != rights_.end()) return true;
  return std::ranges::any_of(roles_, [&](const RoleOver& over) {
    if (!Gives(over.role, permission)) return false;
    return IsOverEverything(over.role) ||
           (!tenant.empty() && !over.tenant.empty() && IsWithin(tenant, over.tenant));
  });
}

std::vector<std::string> Authority::TenantsOf(Permission permission) const {
  std::vector<std::string> tenants;
  if (MayEverywhere(permission)) return tenants;
  for (const RoleOver& over : roles_) {
    if (Gives(over.role, permission)) tenants.push_back(over.tenant);
  }
  std::ranges::sort(tenants);
  // A tenant below another of them says nothing new.
  std::vector<std::string> highest;
  for (std::string& tenant : tenants) {
    const bool below =
        std::ranges::any_of(highest, [&](const std::string& above) { return IsWithin(tenant, above); });
    if (!below) highest.push_back(std::move(tenant));
  }
  return highest;
}

std::vector<Permission> Authority::all() const {
  std::vector<Permission> out;
  for (const PermissionRow& row : Table()) {
    if (May(row.permission)) out.push_back(row.permission);
  }
  return out;
}

std::string Authority::InWords() const {
  std::string out;
  for (const RoleOver& over : roles_) {
    if (over.role == Role::kNone) continue;
    out += out.empty() ? "" : " and ";
    out += fmt::format("the role {}", RoleName(over.role));
    if (IsOfTenant(over.role)) out += fmt::format(" over {}", over.tenant);
  }
  return out.empty() ? "no role" : out;
}

bool IsWithin(std::string_view tenant, std::string_view above) {
  if (above.empty()) return true;
  return tenant.starts_with(above) && (tenant.size() == above.size() || tenant[above.size()] == '/');
}

}  // namespace gateway
