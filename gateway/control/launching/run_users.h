// RunUsers: the users of the machine as which processes of replicas and jobs run.
//
// Known when the gateway starts, and not changed by a reload: the launch broker is told once. The jobs of a tenant
// run as its own user, else as the user of its nearest ancestor that has one, else as one of the users that are lent
// to tenants (`scaling.runs.users`), else as the user of all runs. No other tenant gets a lent user while a run of
// the tenant lives.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.h"

namespace gateway::control {

// The user of a run that lives.
struct UserInUse {
  std::string_view tenant{};  // its path; empty: none, or not known
  std::string_view user{};
};

class RunUsers {
 public:
  // For launchers of other machines: no process changes its user.
  RunUsers() = default;
  // `may_change`: there is a launch broker. `stays_root`: the gateway itself is root while it serves.
  static absl::StatusOr<RunUsers> Of(const Config& config, bool may_change, bool stays_root);

  // Empty: the gateway's own user.
  const std::string& replicas() const { return all_; }
  // Whether jobs of the tenant with that path (empty: an operator's own job) may be started here.
  // FailedPrecondition: they may not, and why.
  absl::Status MayRun(std::string_view tenant_path) const;
  // For a job of that tenant that starts now. Empty: the gateway's own user. Errors: those of MayRun, and
  // Unavailable while other tenants have every user.
  absl::StatusOr<std::string> OfJob(std::string_view tenant_path, std::span<const UserInUse> in_use) const;
  // Why runs can do what the gateway, or other runs, can; empty: they cannot.
  const std::string& trouble() const { return trouble_; }
  // All of them.
  std::vector<std::string> names() const;

 private:
  static absl::StatusOr<RunUsers> Known(const Config& config, bool may_change);
  const std::string* OwnOf(std::string_view tenant_path) const;

  std::string all_;
  std::vector<std::string> handed_out_;
  std::map<std::string, std::string, std::less<>> by_tenant_;  // by path
  bool same_user_ = true;
  std::string trouble_;
};

}  // namespace gateway::control
