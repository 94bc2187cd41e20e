// ProcessLauncher: runs as processes of this machine, each below a wrapper of its own (wrapper/main.cc).
//
// A run continues when the gateway ends, however it ends, and is found again by its record (run_folder.h),
// or, when that is gone, by its wrapper. A pid counts only with the time at which the process began and the
// boot of the machine. Nothing runs before its record is on disk (run_start.h), so a kill at any moment
// neither doubles nor loses a run. How and when it ended is the wrapper's word, on disk before the wrapper
// goes.
//
// A run has ended when none of its processes is left. When the first ends by itself, the wrapper ends the
// others. Were the wrapper killed, the first process dies with it and this launcher ends the rest. CPU of a
// grant is not enforced, its memory where the run has a cgroup that can; its devices are enforced by the
// engines themselves (visible_devices.h).
//
// Owner: the control loop; its thread, which waits for the disk in Open() alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/net/process_handle.h"
#include "plugins/devices/faults.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/run_folder.h"
#include "plugins/launchers/run_host.h"
#include "plugins/launchers/run_members.h"
#include "plugins/launchers/run_result.h"
#include "plugins/launchers/run_start.h"

namespace plugins::launchers {

class ProcessLauncher final : public Launcher {
 public:
  // The host of the runs with that token; `wrapper` is the parent of each of them.
  using MakeHost = std::function<absl::StatusOr<std::unique_ptr<RunHost>>(const std::string& token,
                                                                          const std::string& wrapper)>;
  struct Options {
    std::string state_dir{};                  // its own
    std::vector<devices::LocalNode> nodes{};  // the cluster's nodes that this machine is
    bool mps = false;                         // NVIDIA's MPS keeps runs to their shares of devices
    std::string host = "127.0.0.1";           // where runs are reached
    uint16_t first_port = 20'000;             // below the ports that the system gives out by itself
    uint16_t last_port = 29'999;
    MakeHost make_host{};                     // empty: runs have the rights of this process
    std::string wrapper{};                    // the program tidegate-run; empty: beside this program
    bool cgroups = true;                      // where they may be made
    RunLimits limits{};                       // of each run; its memory is its grant's
    std::string logs_dir{};                   // of the runs' logs; empty: each in its run's folder
    uint64_t log_bytes = uint64_t{64} << 20;  // limit of a run's log, and of the older part that is kept
    uint64_t logs_bytes = 0;                  // limit of all logs together (run_logs.h); 0: none
    uint64_t log_floor = 0;  // where less of the disk is free, output is lost instead of kept
    conf::Duration check_interval = std::chrono::seconds(1);  // of runs' logs and records
    // The nodes' devices that have a fault, by devices::KeyOf(); may block. Absent: nothing is watched.
    std::function<std::map<std::string, devices::Fault>()> find_faults{};
    conf::Duration fault_interval = std::chrono::seconds(15);
    conf::Duration leftover_grace = std::chrono::seconds(5);    // for processes that outlive the first
    conf::Duration wrapper_patience = std::chrono::seconds(2);  // a wrapper that is later than that is ended
  };

  // Finds the runs of an earlier gateway again. Blocks; before the loop serves. Errors name the file.
  static absl::StatusOr<std::unique_ptr<ProcessLauncher>> Open(gateway::net::Loop& loop, Options options);
  ~ProcessLauncher() override;  // after Close(), or when the loop has ended

  std::string_view name() const override { return "process"; }
  gateway::net::Task<absl::Status> Start(RunSpec spec) override;
  gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration grace) override;
  gateway::net::Task<absl::Status> Signal(std::string id, int signal) override;
  gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() override;
  gateway::net::Task<absl::Status> Forget(std::string id) override;
  gateway::net::Task<absl::Status> CheckPort(std::string id) override;
  gateway::net::Task<void> Close() override;
  std::string AddressOf(const std::string& id, const std::string& node) const override;
  std::string trouble() const override { return host_->trouble(); }
  const DeviceFaults* faults() const override { return options_.find_faults ? &faults_ : nullptr; }

 private:
  struct Run;
  using Found = std::map<std::string, std::optional<FoundWrapper>>;

  ProcessLauncher(gateway::net::Loop& loop, Options options, RunStore store, std::unique_ptr<RunHost> host);

  absl::Status Adopt();
  void AdoptOne(const std::string& id, std::optional<FoundWrapper> wrapper, bool has_processes);
  void AdoptOrphan(const std::string& id, std::optional<FoundWrapper> wrapper);
  void AdoptEndedOrphan(const std::string& id, const RunResult& result);
  void AdoptEnded(Run& run);
  void TakeLeader(Run& run, gateway::net::ProcessHandle leader);
  Run& Insert(const std::string& id);
  Run* Find(const std::string& id);
  RunStatus StatusOf(const Run& run) const;
  RunMark MarkOf(const Run& run) const;
  // Sends its first process a signal. False: it has ended, or is not ours to signal that.
  static bool SendSignal(const Run& run, int signal);

  uint16_t TakePort();  // 0: none is free
  void Watch(Run& run);
  void LeaderEnded(Run& run);
  void FirstEnded(Run& run);
  void BeginEnding(Run& run, conf::Duration grace);
  void Spawn(gateway::net::Task<void> task);
  gateway::net::Task<void> Counted(gateway::net::Task<void> task);
  gateway::net::Task<void> End(Run& run);
  gateway::net::Task<void> AskWrapper(Run& run);
  gateway::net::Task<void> EndMembers(Run& run);
  gateway::net::Task<size_t> SignalMembers(Run& run, int signal);
  gateway::net::Task<void> Conclude(Run& run, RunResult result);
  gateway::net::Task<void> Save(Run& run, RunState state, conf::TimePoint since);
  gateway::net::Task<void> CheckRuns();
  gateway::net::Task<void> CheckLogs();
  gateway::net::Task<void> CheckLeaderless(Run& run);
  gateway::net::Task<void> CheckDevices();

  gateway::net::Loop& loop_;
  const Options options_;
  const RunStore store_;
  const std::unique_ptr<RunHost> host_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
  uint16_t next_port_;
  gateway::net::Sleep check_{loop_.watchdog};
  gateway::net::Sleep device_check_{loop_.watchdog};
  DeviceFaults faults_;
  size_t background_ = 0;  // tasks
  gateway::net::Event idle_;
  bool closing_ = false;
};

}  // namespace plugins::launchers
