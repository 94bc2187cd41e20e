// RunUsers: the users as which processes of replicas and jobs run on this machine.
//
// Known when the gateway starts, and not changed by a reload: the launch broker is told once. A tenant's jobs
// become its own user, else that of its nearest ancestor that has one, else one of the users that are handed
// out to tenants (`scaling.runs.users`), else the one of all runs. A user that was handed out is the tenant's
// alone while a run of the tenant lives.
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

// What a run that lives has become.
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
  // For a job of that tenant that starts now. Empty: the gateway's own user. Errors as of MayRun;
  // Unavailable: every user is another tenant's for now.
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
