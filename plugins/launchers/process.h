// ProcessLauncher: runs as processes of this machine, each leading a session of its own.
//
// A run goes on when the gateway ends, however it ends, and is found again by its record (run_folder.h): its
// pid counts only with the time at which that process began and the boot of the machine. Nothing runs before
// its record is on disk (run_start.h), so a kill at any moment neither doubles nor loses a run.
//
// A run has ended when none of its processes is left. When the first ends by itself, the others are told to
// end too. CPU and memory of a grant are not enforced, a grant's devices by what engines keep to
// (visible_devices.h).
//
// Owner: the control loop; its thread, which never waits for the disk but in Open().
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
#include "plugins/launchers/run_members.h"
#include "plugins/launchers/run_start.h"

namespace plugins::launchers {

class ProcessLauncher final : public Launcher {
 public:
  struct Options {
    std::string state_dir{};                  // its own
    std::vector<devices::LocalNode> nodes{};  // of the cluster, that this machine is
    std::string host = "127.0.0.1";           // where runs are reached
    uint16_t first_port = 20'000;             // below the ports that the system gives out by itself
    uint16_t last_port = 29'999;
    uint64_t log_bytes = uint64_t{64} << 20;  // of a run's log, and as much again of what was before it
    conf::Duration log_look = std::chrono::seconds(1);
    // Those of the nodes' devices that have a fault, by devices::KeyOf(); may block. Absent: nobody looks.
    std::function<std::map<std::string, devices::Fault>()> find_faults{};
    conf::Duration fault_look = std::chrono::seconds(15);
    conf::Duration leftover_grace = std::chrono::seconds(5);  // for what a first process left behind
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
  gateway::net::Task<void> Close() override;
  const DeviceFaults* faults() const override { return options_.find_faults ? &faults_ : nullptr; }

 private:
  struct Run;

  ProcessLauncher(gateway::net::Loop& loop, Options options, RunStore store);

  absl::Status Adopt();
  void AdoptOne(const std::string& id);
  Run& Insert(const std::string& id);
  Run* Find(const std::string& id);
  RunStatus StatusOf(const Run& run) const;
  RunMark MarkOf(const Run& run) const;

  uint16_t TakePort();  // 0: none is free
  void Watch(Run& run);
  void LeaderEnded(Run& run);
  void BeginEnding(Run& run, conf::Duration grace);
  void Spawn(gateway::net::Task<void> task);
  gateway::net::Task<void> Counted(gateway::net::Task<void> task);
  gateway::net::Task<void> End(Run& run);
  gateway::net::Task<void> Conclude(Run& run);
  gateway::net::Task<void> Save(Run& run, RunState state, conf::TimePoint since);
  gateway::net::Task<void> LookAtLogs();
  gateway::net::Task<void> LookAtDevices();
  gateway::net::Task<void> LookAtUnreadable(Run& run);
  void LookAtUnwatched(Run& run);

  gateway::net::Loop& loop_;
  const Options options_;
  const RunStore store_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
  uint16_t next_port_;
  gateway::net::Sleep look_{loop_.watchdog};
  gateway::net::Sleep device_look_{loop_.watchdog};
  DeviceFaults faults_;
  size_t background_ = 0;  // tasks
  gateway::net::Event idle_;
  bool closing_ = false;
};

}  // namespace plugins::launchers
