#include "gateway/control/launching/run_users.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "conf/text.h"
#include "plugins/launchers/run_user.h"

namespace gateway::control {
absl::StatusOr<RunUsers> RunUsers::Of(const Config& config, bool may_change, bool stays_root) {
  absl::StatusOr<RunUsers> users = Known(config, may_change);
  if (!users.ok() || !stays_root || !config.scaling) return users;
  std::string& trouble = users->trouble_;
  trouble.append(trouble.empty() ? "" : "; ")
      .append("the gateway stays root: name the user that it becomes as server.user");
  return users;
}

absl::StatusOr<RunUsers> RunUsers::Known(const Config& config, bool may_change) {
  RunUsers users;
  if (!config.scaling || config.scaling->launcher != config::LauncherKind::kProcess) return users;
  const config::Runs& runs = config.scaling->runs;
  users.same_user_ = runs.same_user;
  const bool named = !runs.user.empty();
  if (!named && runs.same_user) {
    users.trouble_ =
        "replicas and jobs run as the gateway's own user, as scaling.runs.same_user says: a job can do "
        "everything that the gateway can";
    return users;
  }
  const std::string name = named ? runs.user : config::kDefaultRunUser;
  const absl::StatusOr<plugins::launchers::RunUser> user = plugins::launchers::FindRunUser(name);
  if (named && !user.ok())
    return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("scaling.runs.user: {}", conf::Std(user.status().message()))));
  const std::string_view how = "jobs of tenants are refused unless scaling.runs.same_user is true";
  if (!may_change) {
    users.trouble_ = fmt::format(
        "replicas run as the gateway's own user, since it may not change users (it needs root, or "
        "CAP_SETUID, "
        "CAP_SETGID, CAP_KILL and CAP_SYS_PTRACE); {}",
        how);
    return users;
  }
  if (!user.ok()) {
    users.trouble_ = fmt::format(
        "replicas run as the gateway's own user, since this machine has no user {}: make it with useradd "
        "--system {}, or name another as scaling.runs.user; {}",
        name, name, how);
    return users;
  }
  users.all_ = name;
  std::map<uid_t, std::string> known{{user->uid, fmt::format("the user of all runs, {}", name)}};
  // Each user has one purpose: two names with one number would join what must stay separate.
  const auto add = [&](const std::string& who, const std::string& where, bool alone) -> absl::Status {
    const absl::StatusOr<plugins::launchers::RunUser> own = plugins::launchers::FindRunUser(who);
    if (!own.ok())
      return absl::FailedPreconditionError(
          conf::Abseil(fmt::format("{}: {}", where, conf::Std(own.status().message()))));
    const auto [other, added] = known.try_emplace(own->uid, fmt::format("the user of {}", where));
    if (added || !alone) return absl::OkStatus();
    return absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "{}: {} is the same user as {}; name users with no other purpose", where, who, other->second)));
  };
  for (const std::string& who : config::RunUserNames(runs.users)) {
    if (absl::Status added = add(who, "scaling.runs.users", true); !added.ok()) return added;
    users.handed_out_.push_back(who);
  }
  for (const config::Tenant& tenant : config.tenants) {
    if (tenant.run_as.empty()) continue;
    const bool alone = !users.handed_out_.empty();
    if (absl::Status added = add(tenant.run_as, fmt::format("run_as of tenant {}", tenant.name), alone);
        !added.ok())
      return added;
    users.by_tenant_[PathOf(config.tenants, tenant)] = tenant.run_as;
  }
  const bool shares =
      users.handed_out_.empty() && std::ranges::any_of(config.tenants, [&](const config::Tenant& tenant) {
        return users.OwnOf(PathOf(config.tenants, tenant)) == nullptr;
      });
  if (shares) {
    users.trouble_ = fmt::format(
        "jobs of tenants without run_as run as {}, like replicas and other tenants' jobs, and can signal and "
        "read them; name users for them in scaling.runs.users",
        name);
  }
  return users;
}

const std::string* RunUsers::OwnOf(std::string_view tenant_path) const {
  for (std::string_view path = tenant_path; !path.empty();) {
    if (const auto own = by_tenant_.find(path); own != by_tenant_.end()) return &own->second;
    const size_t slash = path.rfind('/');
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return nullptr;
}

absl::Status RunUsers::MayRun(std::string_view tenant_path) const {
  if (!all_.empty() || same_user_ || tenant_path.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(conf::Abseil(trouble_));
}

absl::StatusOr<std::string> RunUsers::OfJob(std::string_view tenant_path,
                                            std::span<const UserInUse> in_use) const {
  if (absl::Status may = MayRun(tenant_path); !may.ok()) return may;
  if (all_.empty()) return std::string();
  if (const std::string* const own = OwnOf(tenant_path)) return *own;
  if (tenant_path.empty() || handed_out_.empty()) return all_;
  std::set<std::string_view> taken;
  for (const UserInUse& use : in_use) {
    const bool from_here = std::ranges::find(handed_out_, use.user) != handed_out_.end();
    if (from_here && use.tenant == tenant_path) return std::string(use.user);
    taken.insert(use.user);
  }
  // A tenant gets the user that it had before, if it is free: what it left in /tmp is its own then.
  const size_t first = std::hash<std::string_view>()(tenant_path) % handed_out_.size();
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    const std::string& user = handed_out_[(first + i) % handed_out_.size()];
    if (!taken.contains(user)) return user;
  }
  return absl::UnavailableError(conf::Abseil(
      fmt::format("each of the {} users for jobs (scaling.runs.users) is in use by another tenant's",
                  handed_out_.size())));
}

std::vector<std::string> RunUsers::names() const {
  std::set<std::string> names(handed_out_.begin(), handed_out_.end());
  if (!all_.empty()) names.insert(all_);
  for (const auto& [tenant, user] : by_tenant_) names.insert(user);
  return {names.begin(), names.end()};
}

}  // namespace gateway::control
