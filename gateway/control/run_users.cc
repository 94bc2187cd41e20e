#include "gateway/control/run_users.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <set>

#include "conf/text.h"
#include "plugins/launchers/run_user.h"

namespace gateway::control {

absl::StatusOr<RunUsers> RunUsers::Of(const Config& config, bool may_change) {
  RunUsers users;
  if (!config.scaling || config.scaling->launcher != config::LauncherKind::kProcess) return users;
  const config::Runs& runs = config.scaling->runs;
  users.same_user_ = runs.same_user;
  const bool named = !runs.user.empty();
  if (!named && runs.same_user) {
    users.trouble_ =
        "replicas and jobs run as the gateway's own user, as scaling.runs.same_user says: a job can do all "
        "that "
        "the gateway can";
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
        "replicas run as the gateway's own user, for it may not change users (it needs root, or CAP_SETUID, "
        "CAP_SETGID, CAP_KILL and CAP_SYS_PTRACE); {}",
        how);
    return users;
  }
  if (!user.ok()) {
    users.trouble_ = fmt::format(
        "replicas run as the gateway's own user, for this machine has no user {}: make it with useradd "
        "--system {}, or name another as scaling.runs.user; {}",
        name, name, how);
    return users;
  }
  users.all_ = name;
  for (const config::Tenant& tenant : config.tenants) {
    if (tenant.run_as.empty()) continue;
    const absl::StatusOr<plugins::launchers::RunUser> own = plugins::launchers::FindRunUser(tenant.run_as);
    if (!own.ok())
      return absl::FailedPreconditionError(conf::Abseil(
          fmt::format("run_as of tenant {}: {}", tenant.name, conf::Std(own.status().message()))));
    users.by_tenant_[tenant.name] = tenant.run_as;
  }
  return users;
}

absl::StatusOr<std::string> RunUsers::OfJob(std::string_view tenant_path) const {
  if (all_.empty()) {
    if (!same_user_ && !tenant_path.empty()) return absl::FailedPreconditionError(conf::Abseil(trouble_));
    return std::string();
  }
  std::string user = all_;
  for (const auto name : absl::StrSplit(conf::Abseil(tenant_path), '/')) {
    if (const auto own = by_tenant_.find(conf::Std(name)); own != by_tenant_.end()) user = own->second;
  }
  return user;
}

std::vector<std::string> RunUsers::names() const {
  std::set<std::string> names;
  if (!all_.empty()) names.insert(all_);
  for (const auto& [tenant, user] : by_tenant_) names.insert(user);
  return {names.begin(), names.end()};
}

}  // namespace gateway::control
