// RunHost: what the process launcher asks of the machine: start a wrapper, find the processes of runs, signal
// and end them. LocalRunHost does it with the rights of this process; BrokeredRunHost has a broker do it that
// may change users (broker/broker.h).
//
// All calls block for milliseconds: off the loop. Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/process_handle.h"
#include "gateway/net/resource_owner.h"
#include "plugins/launchers/run_members.h"
#include "plugins/launchers/run_user.h"

namespace plugins::launchers {

// One wrapper with its run, as wrapper/protocol.h has it.
struct RunOrder {
  std::string id{};
  std::string user{};               // empty: the gateway's user
  std::string program{};            // the run's, found already
  std::vector<std::string> argv{};  // of it, with its own name
  std::vector<std::string> env{};   // "NAME=value": all of it
  std::string directory{};          // empty: the launcher's
  std::string cgroup{};             // by MakeCgroup
  std::string record{};             // as the wrapper carries it
  std::string result{};             // absolute paths
  std::string log{};
  uint64_t log_bytes = 0;
  uint64_t log_floor = 0;
  conf::Duration grace{};
  RunLimits limits{};
};

class HeldRun {
 public:
  // A process that was not released ends without having run anything.
  virtual ~HeldRun() = default;
  virtual pid_t pid() const = 0;
  virtual uint64_t start_ticks() const = 0;
  // When the run's own program runs. Errors as of HeldChild::Release().
  virtual absl::StatusOr<gateway::net::ProcessHandle> Release() = 0;
};

class RunHost {
 public:
  virtual ~RunHost() = default;

  // Empty: none may be made.
  virtual const std::string& cgroups() const = 0;
  // The user with that name; InvalidArgument where runs may not have it.
  virtual absl::StatusOr<RunUser> UserOf(const std::string& name) const = 0;

  // `log` is open for appending; `until_run` as of ChildSpec. Unavailable: not now.
  virtual absl::StatusOr<std::unique_ptr<HeldRun>> Hold(const RunOrder& order, int log, int until_run) = 0;

  virtual std::map<std::string, std::optional<FoundWrapper>> FindRuns() = 0;
  // The processes of a run that have not ended; sends them `signal`, 0: nothing.
  virtual size_t Signal(const RunMark& mark, int signal) = 0;
  // Whether the run's processes, or others, accept connections to that address.
  virtual gateway::net::PortUse CheckPort(const RunMark& mark, const std::string& host, uint16_t port) = 0;
  // The environment with which a process of a run began; empty for any other process.
  virtual std::vector<std::pair<std::string, std::string>> EnvironmentOf(pid_t pid) = 0;

  // The folder of a run's cgroup; empty: it could not be made.
  virtual std::string MakeCgroup(const std::string& id, const RunLimits& limits) = 0;
  virtual void KillCgroup(const std::string& cgroup) = 0;
  virtual void RemoveCgroup(const std::string& cgroup) = 0;

  // Why nothing can be started until the gateway is started again; empty: it can be.
  virtual std::string trouble() const { return {}; }
};

}  // namespace plugins::launchers
