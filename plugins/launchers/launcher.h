// Launcher: where planned runs become processes: on this machine, or through a cluster manager.
//
// A run is one member of a workload (a replica, a job): one command on one node with the devices that it was
// given. The caller chooses its id and stores it before it asks, so every call can be repeated: a launcher
// that has a run of that id starts no other, also after the gateway was killed and started again. List() returns
// the runs that exist; the caller compares them with the runs that it wants.
//
// A workload of several members is several runs that share a Gang. Each is started, listed and stopped by
// itself; when one ends, the caller decides about the others.
//
// Owner: the control loop; all calls on its thread, one at a time for each run. A launcher does not decide
// whether a replica is ready: it says where the replica listens.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/task.h"
#include "scheduler/model.h"

namespace plugins::launchers {

// The devices that a run has on one node.
struct DeviceGrant {
  std::string node{};              // as the cluster names it
  std::string kind{};              // of its devices; empty: it has none
  std::vector<uint8_t> devices{};  // their places on the node
  uint16_t milli = 1000;           // of each of them
  std::string partition{};         // the profile of a device that is cut ("1g.10gb"); empty: none
  uint8_t partition_start = 0;     // its first memory slot
  int32_t device_mib = 0;          // of each device that it has a share of
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};

// The place of a run among the members of its workload. By default it is the only one.
struct Gang {
  uint32_t rank = 0;  // 0 leads, and serves if the workload does
  uint32_t size = 1;
  std::string leader{};      // the address of rank 0, by AddressOf(); empty: the members do not meet
  uint16_t leader_port = 0;  // where rank 0 expects the others; 0: the members do not meet
};

// A step before the command of a run: weights come into the store of the node and are held there while the run
// lives (plugins/weights).
struct WeightsStep {
  std::string order{};   // plugins/weights/order.h as text; may hold secrets, which the command does not get
  std::string store{};   // of the node: an absolute path
  std::string folder{};  // that will hold the weights
  std::string digest{};  // of the weights
  std::vector<std::string> also{};  // digests of what the order brings besides, which is held likewise
  std::string cache{};              // the folder of the engine's compile cache; empty: none
  std::string cache_key{};
  std::string program{};  // tidegate, on the node; empty: the launcher's own
  std::string image{};    // of a container for the step; launchers without containers ignore it
  std::string claim{};    // a volume that is the store, by its claim; empty: the folder of the node; likewise
};

// The words of `command` and the values of `env` may name "{host}", "{port}", "{node}", "{id}", "{rank}",
// "{size}", "{leader}", "{leader_port}", "{weights}" and "{compile_cache}".
struct RunSpec {
  std::string id{};     // lower-case letters, digits, '.' and '-', at most 63; never used again
  std::string owner{};  // the model or job, for people
  std::string tenant{};
  DeviceGrant grant{};
  std::vector<std::string> command{};  // empty: the step for weights alone
  std::optional<WeightsStep> weights{};
  std::vector<std::pair<std::string, std::string>> env{};
  std::string directory{};                // where it runs; empty: the launcher's own
  std::string user{};                     // of the machine; empty: the launcher's own
  std::string image{};                    // of a container; launchers without containers ignore it
  std::string pod{};                      // JSON: a piece of Kubernetes' PodSpec; likewise; may be empty
  bool serves = false;                    // needs a port
  std::optional<conf::Duration> limit{};  // a cluster manager may end it then; the gateway has its own clock
  Gang gang{};
  uint64_t epoch = 0;  // of the leader that starts it; 0: there is one gateway
};

enum class RunState : uint8_t {
  kStarting,  // asked for; has no process yet
  kRunning,
  kStopping,  // is being ended; of one that serves also: its first process has ended, and the others do
  kEnded,
};

// Before what a run printed at last, where a reason has it.
inline constexpr std::string_view kLastLines = "; its last lines: ";

// Whose word the times and the exit of a run are.
enum class Witness : uint8_t {
  kNobody,    // nothing is known yet
  kWrapper,   // the run's own wrapper, exact, whether or not a gateway was there
  kManager,   // the cluster manager, to the second
  kLauncher,  // the launcher's own look: `ended` may be late by the time between looks
};

struct RunStatus {
  std::string id{};
  std::string owner{};
  std::string user{};  // of the machine; empty: the launcher's own, or not known
  RunState state = RunState::kStarting;
  std::string host{};  // where it listens, if it serves
  uint16_t port = 0;
  conf::TimePoint since{};         // of this state
  std::optional<int> exit_code{};  // when its first process ended by itself
  std::optional<int> signal{};     // or by a signal
  std::string why{};               // a sentence, where something is wrong: why it ended, or does not start
  std::string log{};               // the file that has its output, if there is one

  // From `started` to `ended` the run held its devices. `started` is absent while it has no process, and
  // where it cannot be known; `ended` is set in kEnded alone, when no process of the run is left.
  std::optional<conf::TimePoint> started{};
  std::optional<conf::TimePoint> ended{};
  // When a run that has not ended was last seen. It may have ended since, and its end not be known yet.
  // Absent where the launcher does not say.
  std::optional<conf::TimePoint> alive{};
  Witness witness = Witness::kNobody;
  DeviceGrant grant{};  // `node` empty: not known
  // The launcher found its processes but no record of it. It runs, and may hold devices: the caller stops it,
  // or keeps it where it knows what the run is for, before it gives those devices to another.
  bool orphan = false;
};

// CPU and memory of a node: what it has for all, and what others hold.
struct SharedHost {
  scheduler::HostAmounts has{};
  scheduler::HostAmounts taken{};
  friend bool operator==(const SharedHost&, const SharedHost&) = default;
};

// Which runs are to move off a node.
enum class Leaving : uint8_t {
  kNobody,
  kReplicas,  // jobs may run to their end, which replicas do not have
  kAll,
};

// A node of a cluster that others use too: its health, its devices, and how many of them others hold.
struct SharedNode {
  std::string name{};
  scheduler::Health health = scheduler::Health::kHealthy;
  std::string kind{};  // of its devices; empty: it has none
  uint32_t devices = 0;
  uint32_t taken = 0;
  std::string why{};  // why it is not healthy; may be empty
  Leaving leaving = Leaving::kNobody;
  std::optional<SharedHost> host{};  // absent: not told
  friend bool operator==(const SharedNode&, const SharedNode&) = default;
};
struct SharedCluster {
  uint64_t version = 0;  // another with each change
  std::vector<SharedNode> nodes{};
  std::vector<std::string> left_out{};  // nodes and devices that cannot be used, and why
};

// The nodes of a cluster manager, where the planner's cluster is what the launcher finds.
struct FoundCluster {
  uint64_t version = 0;  // another with each change; 0: not known yet
  scheduler::Cluster cluster{};
};

// A device that no new run should be given.
struct DeviceFault {
  std::string node{};
  uint8_t device = 0;  // its place on the node
  std::string why{};
  bool lost = false;  // a run on it cannot continue
  friend bool operator==(const DeviceFault&, const DeviceFault&) = default;
};
struct DeviceFaults {
  uint64_t version = 0;  // another with each change
  std::vector<DeviceFault> faults{};
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  virtual std::string_view name() const = 0;

  // OK: the run is requested; it may start later, or end with a reason. Also OK for a run that exists already, whatever
  // its state. Errors: InvalidArgument, it can never be started in this form; FailedPrecondition, an object with that id
  // is in the way; Unavailable, not now: try again.
  virtual gateway::net::Task<absl::Status> Start(RunSpec spec) = 0;

  // SIGTERM, and SIGKILL after `grace`, to the run and all that it started. A second call may shorten the
  // grace. Goes on when the gateway ends. OK for a run that has ended or is not known.
  virtual gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration grace) = 0;

  // Sends a signal to the run's first process, to make it save its work. NotFound when it does not run.
  virtual gateway::net::Task<absl::Status> Signal(std::string id, int signal) = 0;

  // All runs of this gateway, orphans included, and those that ended and were not forgotten.
  virtual gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() = 0;

  // Drops a run that has ended, with its files. OK for a run that is not known; refused while it runs.
  virtual gateway::net::Task<absl::Status> Forget(std::string id) = 0;

  // Where other members of a gang reach the run of that id on that node, before it has started.
  virtual std::string AddressOf(const std::string& /*id*/, const std::string& node) const { return node; }

  // Where services of a node are reached: as the cluster manager says, else by its name.
  virtual std::string NodeAddress(const std::string& node) const { return node; }

  // Whether the run itself listens on its port, not a process that took it first. FailedPrecondition: another process
  // does, which the error names; Unavailable: no process listens there now; Unimplemented: it cannot be known.
  virtual gateway::net::Task<absl::Status> CheckPort(std::string) {
    co_return absl::UnimplementedError("cannot determine which process listens on this port");
  }

  // The shared cluster as last seen; null where the cluster is this gateway's alone.
  virtual const SharedCluster* shared() const { return nullptr; }

  // The faults as last seen; null where devices are not watched.
  virtual const DeviceFaults* faults() const { return nullptr; }

  // Whether the node's agent takes a connection now. Unavailable: it does not, with the reason.
  // Unimplemented: nothing can be asked.
  virtual gateway::net::Task<absl::Status> AskNode(std::string) {
    co_return absl::UnimplementedError("its nodes cannot be probed");
  }

  // The output of a run, as far as it is kept. Unimplemented: it is in the file that RunStatus names, or nowhere.
  // NotFound: there is none, or it is no longer kept.
  virtual gateway::net::Task<absl::StatusOr<std::string>> ReadLog(std::string /*id*/) {
    co_return absl::UnimplementedError("this launcher has no logs of its own");
  }

  // Called on the control loop when List() has news of a run, if the launcher hears of it by itself.
  std::function<void(const std::string& id)> on_change = [](const std::string&) {};

  // Ends its background tasks; call it before the destructor. Runs continue.
  virtual gateway::net::Task<void> Close() = 0;

  // The nodes that the launcher has found, as last seen; null for a launcher whose nodes the configuration lists. They
  // have at least the devices that known runs hold.
  virtual const FoundCluster* found() const { return nullptr; }

  // Why no run at all can be started now; empty: runs can be. Runs that were started continue.
  virtual std::string trouble() const { return {}; }
};

}  // namespace plugins::launchers
