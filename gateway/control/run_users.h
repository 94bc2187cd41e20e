// RunUsers: whom the processes of replicas and jobs become on this machine.
//
// Known when the gateway starts, and not changed by a reload: the launch broker is told once. A tenant's jobs
// become its own user, else that of its nearest ancestor that has one, else the one of all runs.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.h"

namespace gateway::control {

class RunUsers {
 public:
  // Where the launcher is no matter of this machine: nobody becomes anybody.
  RunUsers() = default;
  // `may_change`: there is a launch broker.
  static absl::StatusOr<RunUsers> Of(const Config& config, bool may_change);

  // Empty: the gateway's own user.
  const std::string& replicas() const { return all_; }
  // By the tenant's path; empty: an operator's own job. FailedPrecondition: such a job may not be started
  // here, and why.
  absl::StatusOr<std::string> OfJob(std::string_view tenant_path) const;
  // Why runs can do what the gateway can; empty: they cannot.
  const std::string& trouble() const { return trouble_; }
  // All of them.
  std::vector<std::string> names() const;

 private:
  std::string all_;
  std::map<std::string, std::string, std::less<>> by_tenant_;  // by name
  bool same_user_ = true;
  std::string trouble_;
};

}  // namespace gateway::control
