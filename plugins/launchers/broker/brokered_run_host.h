// BrokeredRunHost: runs by way of the launch broker (broker.h).
//
// When the broker is gone nothing can be started, found or ended by it: starts are refused with the reason,
// and each run's wrapper still obeys signals.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/net/process_channel.h"
#include "plugins/launchers/broker/messages.h"
#include "plugins/launchers/run_host.h"

namespace plugins::launchers {

class BrokeredRunHost final : public RunHost {
 public:
  static absl::StatusOr<std::unique_ptr<RunHost>> Make(std::unique_ptr<gateway::net::ProcessChannel> channel,
                                                       const ask::Seal& seal);

  std::string trouble() const override;
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
  class Held;

  explicit BrokeredRunHost(std::unique_ptr<gateway::net::ProcessChannel> channel)
      : channel_(std::move(channel)) {}

  struct Answer {
    nlohmann::json body;
    std::vector<gateway::net::Fd> fds{};
  };
  // Unavailable: the broker is gone.
  absl::StatusOr<Answer> Ask(const nlohmann::json& question, const std::vector<int>& fds = {});

  std::mutex mutex_;
  std::atomic<bool> gone_ = false;  // a question was not answered: the broker has ended
  const std::unique_ptr<gateway::net::ProcessChannel> channel_;
  std::string cgroups_;
  std::vector<RunUser> users_;
};

}  // namespace plugins::launchers
