// LocalRunHost: runs with the rights of this process.
#pragma once

#include <string>
#include <vector>

#include "plugins/launchers/run_host.h"

namespace plugins::launchers {

class LocalRunHost final : public RunHost {
 public:
  struct Options {
    std::string token{};           // marks the processes of the runs
    std::string wrapper{};         // the program tidegate-run
    bool cgroups = true;           // where they may be made
    std::vector<RunUser> users{};  // the users that runs may have
    uid_t owner = 0;               // the user of their wrappers then: the gateway's
    gid_t owner_group = 0;
  };
  explicit LocalRunHost(Options options);

  const std::string& cgroups() const override { return cgroups_; }
  absl::StatusOr<RunUser> UserOf(const std::string& name) const override;
  absl::StatusOr<std::unique_ptr<HeldRun>> Hold(const RunOrder& order, int log, int until_run) override;
  std::map<std::string, std::optional<FoundWrapper>> FindRuns() override;
  size_t Signal(const RunMark& mark, int signal) override;
  gateway::net::PortUse CheckPort(const RunMark& mark, const std::string& host, uint16_t port) override;
  std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid) override;
  std::string MakeCgroup(const std::string& id, const RunLimits& limits) override;
  void KillCgroup(const std::string& cgroup) override;
  void RemoveCgroup(const std::string& cgroup) override;

 private:
  bool MaySignal(pid_t pid) const;

  const Options options_;
  const std::string cgroups_;  // empty: none may be made
};

}  // namespace plugins::launchers
