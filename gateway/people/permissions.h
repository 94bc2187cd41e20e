// The one table of who may do what. The admin API, the console and the command line ask it; nothing else
// decides.
//
// A permission is one kind of act. Each role gives some of them: viewer, operator and admin over everything;
// member and lead over a tenant and those below it. An application's caller (Role::kNone) may see itself.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"
#include "plugins/auth/permissions.h"

namespace gateway {

enum class Permission : uint8_t {
  kSeeSelf,
  kSeeModels,
  kSeeTenants,
  kSeeLimits,
  kSeeUsage,
  kUsePlayground,
  kSeeStatements,
  kSeeOwnKeys,
  kChangeOwnKeys,
  kSeeKeys,
  kChangeKeys,
  kChangeAdminKeys,
  kSeeJobs,
  kSubmitJobs,
  kChangeJobs,
  kReadOutput,
  kSimulate,
  kSeeCluster,
  kSeeReplicas,
  kMaintain,
  kReadAudit,
  kReadContent,
  kEraseContent,
  kSeeConfig,
  kChangeConfig,
  kSeeMetrics,
  kSeePeople,
  kEndSessions,
  kMakeSignInLinks,
  kSeeMembers,
  kChangeTenants,
  kAsk,
  kGrant,
  kChangeAdapters,
};
inline constexpr size_t kPermissions = 34;

struct PermissionRow {
  Permission permission;
  std::string_view name;   // "see_usage"
  std::string_view about;  // for people: what it allows
  std::vector<plugins::auth::Role> roles;
  std::optional<plugins::auth::Right> right;  // that gives it beside the roles
};

// By permission.
std::span<const PermissionRow> PermissionTable();
const PermissionRow& RowOf(Permission permission);
std::string_view Name(Permission permission);

// "the role operator or admin", "the role lead, operator or admin, or the right submit_jobs".
std::string WhoMay(Permission permission);

// A role that somebody has.
struct RoleOver {
  plugins::auth::Role role = plugins::auth::Role::kNone;
  std::string tenant;  // of member, lead and kNone: the path; else empty

  bool operator==(const RoleOver&) const = default;
};

// All that one principal may do.
class Authority {
 public:
  Authority() = default;
  explicit Authority(std::vector<RoleOver> roles, std::vector<plugins::auth::Right> rights = {});

  // Somewhere: over everything or over some tenant.
  bool May(Permission permission) const;
  // For what belongs to that tenant; empty: for what belongs to no tenant, which takes a role over
  // everything.
  bool MayFor(Permission permission, std::string_view tenant) const;
  // Over everything.
  bool MayEverywhere(Permission permission) const { return MayFor(permission, {}); }

  // The tenants over which the permission is given, each with those below it; empty where it is given over
  // everything, or not at all.
  std::vector<std::string> TenantsOf(Permission permission) const;
  // By permission.
  std::vector<Permission> all() const;
  // "the role operator"; "the role lead over acme and the role member over demo"; "no role".
  std::string InWords() const;

  const std::vector<RoleOver>& roles() const { return roles_; }
  const std::vector<plugins::auth::Right>& rights() const { return rights_; }

 private:
  std::vector<RoleOver> roles_;
  std::vector<plugins::auth::Right> rights_;
};

// Whether `tenant` is `above` or stands below it; every tenant is within an empty `above`.
bool IsWithin(std::string_view tenant, std::string_view above);

}  // namespace gateway
