// Launcher: where what the planner decided runs: as processes of this machine, or through a cluster manager.
//
// A run is one member of a replica or of a job: one command on one node with the devices that it was given.
// It goes by an id that the caller chooses and journals before it asks, so that every call can be made again:
// a launcher that has a run of that id starts no other, also after the gateway was killed and started anew.
// What is really there is what List() says; the caller compares it with what there should be.
//
// Owner: the control loop; all calls on its thread, one at a time for each run. A launcher does not decide
// whether a replica is ready: it says where it listens.
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

// What a run has been given of one node.
struct Grant {
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

struct RunSpec {
  std::string id{};     // lower-case letters, digits, '.' and '-', at most 63; never used again
  std::string owner{};  // the model or job, for people
  std::string tenant{};
  Grant grant{};
  std::vector<std::string> command{};  // "{port}", "{node}" and "{id}" stand for what they name
  std::vector<std::pair<std::string, std::string>> env{};
  std::string directory{};                // where it runs; empty: the launcher's own
  bool serves = false;                    // needs a port
  std::optional<conf::Duration> limit{};  // a cluster manager may end it then; the gateway has its own clock
};

enum class RunState : uint8_t {
  kStarting,  // asked for; has no process yet
  kRunning,
  kStopping,  // was told to end
  kEnded,
};

struct RunStatus {
  std::string id{};
  std::string owner{};
  RunState state = RunState::kStarting;
  std::string host{};  // where it listens, if it serves
  uint16_t port = 0;
  conf::TimePoint since{};         // of this state
  std::optional<int> exit_code{};  // when it has ended by itself
  std::optional<int> signal{};     // or by a signal
  std::string why{};               // a sentence, where something is wrong: why it ended, or does not start
  std::string log{};               // the file that has its output, if there is one
};

// Of a cluster that others use too: how its nodes are, what they have, and how many devices others hold.
struct SharedNode {
  std::string name{};
  scheduler::Health health = scheduler::Health::kHealthy;
  std::string kind{};  // of its devices; empty: it has none
  uint32_t devices = 0;
  uint32_t taken = 0;
  std::string why{};  // it is not healthy; empty where nothing is said of that
  friend bool operator==(const SharedNode&, const SharedNode&) = default;
};
struct SharedCluster {
  uint64_t version = 0;  // another with each change
  std::vector<SharedNode> nodes{};
  std::vector<std::string> left_out{};  // what of it cannot be used, and why
};

// Devices that nothing new should be given.
struct DeviceFault {
  std::string node{};
  uint8_t device = 0;  // its place there
  std::string why{};
  bool lost = false;  // what runs on it cannot go on
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

  // It has been asked for when this returns; it may run later, or end with a reason. OK for a run that is
  // there. Errors: what can never be started as it stands (InvalidArgument), or not now (Unavailable, to be
  // asked again).
  virtual gateway::net::Task<absl::Status> Start(RunSpec spec) = 0;

  // SIGTERM, and SIGKILL after `grace`, to the run and all that it started. OK for a run that has ended or is
  // not known.
  virtual gateway::net::Task<absl::Status> Stop(std::string id, conf::Duration grace) = 0;

  // A signal to its first process, to save its work. NotFound when it does not run.
  virtual gateway::net::Task<absl::Status> Signal(std::string id, int signal) = 0;

  // All runs of this gateway that are there, and those that ended and were not forgotten.
  virtual gateway::net::Task<absl::StatusOr<std::vector<RunStatus>>> List() = 0;

  // What has ended and was seen to: its files may go. OK for a run that is not known; refused while it runs.
  virtual gateway::net::Task<absl::Status> Forget(std::string id) = 0;

  // As last seen; null where there are no others.
  virtual const SharedCluster* shared() const { return nullptr; }

  // As last seen; null where devices are not watched.
  virtual const DeviceFaults* faults() const { return nullptr; }

  // Whether what starts runs on a node takes a connection now. Unavailable: it does not, with the reason.
  // Unimplemented: there is nothing that could be asked.
  virtual gateway::net::Task<absl::Status> AskNode(std::string) {
    co_return absl::UnimplementedError("its nodes cannot be asked");
  }

  // Called on the control loop when List() would say something new, where the launcher hears of it by itself.
  std::function<void(const std::string& id)> on_change = [](const std::string&) {};

  // Ends what it does in the background, before it is destroyed. Runs go on.
  virtual gateway::net::Task<void> Close() = 0;
};

}  // namespace plugins::launchers
