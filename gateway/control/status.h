// The state of the control loop for metrics, readiness and the admin API: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "conf/time.h"
#include "gateway/control/cluster_metrics.h"
#include "gateway/control/cordon.h"
#include "gateway/control/device_state.h"
#include "gateway/control/learned_starts.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

enum class ReplicaState : uint8_t {
  kWaiting,    // for devices, or for the next try after failures
  kLaunching,  // has devices; the launcher starts it
  kWarming,    // its processes run; it does not answer yet
  kReady,
  kDraining,  // takes no new requests
  kStopping,
  kAsleep,  // its devices are free for others
  kWaking,
};
inline constexpr size_t kReplicaStates = 8;
std::string_view Name(ReplicaState state);

struct MemberPlace {
  std::string run;
  std::string node;
  std::string kind;  // of its devices; empty: none
  std::vector<uint8_t> devices;
  std::string_view state;  // as MemberStateOf says
  std::string why;         // how it ended, or why it does not start
};

struct ReplicaStatus {
  std::string run;  // id of the replica, and of its leader's run
  std::string model;
  std::string version{};  // empty: it has no name
  ReplicaState state = ReplicaState::kWaiting;
  std::vector<MemberPlace> members;  // the leader first; none while it waits for devices
  std::string address;               // HOST:PORT; empty: unknown
  conf::TimePoint since{};           // when the state began
  conf::TimePoint wanted{};
  bool adopted = false;
  uint32_t in_flight = 0;
  std::string why;
  WeightsArrival arrival{};  // while its weights are on their way; else no members
  StartPhases phases{};      // of its cold start, once it is ready; zeros: not known
  std::string replaces{};    // the replica whose place it takes; empty: none
  conf::TimePoint moved{};   // when it began to move, or to take another's place; zero: never
  std::string gain{};        // of that move
};

// A fetch of weights that no replica waits for.
struct PrefetchStatus {
  std::string run;
  std::string model;
  std::string node;
  conf::TimePoint since{};
  std::string why;
};

// The load of one class of a model's requests (ClassCells).
struct ClassStatus {
  std::string name;          // of the band
  uint64_t came = 0;         // requests, since the start; ...
  uint64_t refused = 0;      // because the queue was full
  uint64_t in_time = 0;      // first tokens within slo.ttft
  uint64_t late = 0;         // after it
  uint64_t hopeless = 0;     // the prompt alone takes an idle replica longer
  uint64_t at_replicas = 0;  // requests, now; ...
  uint64_t waiting = 0;
  uint64_t waiting_tokens = 0;  // of their prompts
  conf::Duration oldest{};      // age of the oldest waiting request
};

struct ModelStatus {
  std::string model;
  std::string policy;  // the file
  std::string_view law;
  uint32_t min = 0;
  uint32_t max = 0;
  double demand = 0;  // replicas
  uint32_t wanted = 0;
  std::string why;       // the reason for `wanted`
  std::string capacity;  // how the capacity was estimated
  double in_flight = 0;  // requests
  double held = 0;
  double headroom = 0;               // of the law `demand`, for late first tokens: a part of demand
  conf::Duration lead_time{};        // that the next replica would take; zero: no start was measured
  std::vector<ClassStatus> classes;  // the most urgent first
  uint32_t replicas[kReplicaStates] = {};
  uint32_t failures = 0;                        // of starts, in a row
  std::optional<conf::TimePoint> next_start{};  // not earlier, because of the failures
  std::string trouble;                          // why there are fewer replicas than wanted; empty: no problem
};

// A power limit that was lowered.
struct PowerCapStatus {
  std::string node;
  uint8_t device = 0;
  double watts = 0;
  double usual_watts = 0;
};

// Moves of running work, since the start.
struct MoveCounts {
  uint64_t jobs = 0;      // that began to move
  uint64_t replicas = 0;  // likewise
  uint64_t done = 0;      // replicas whose successor serves in their place
  uint64_t failed = 0;    // replicas that stayed, since their successor did not come to serve
};

// A node that gets no new work.
struct NodeStatus {
  std::string node;
  conf::TimePoint since{};
  std::string why;
  bool ours = false;  // suspected by us alone, not by the cluster's manager
};

// The last starts of a model's replicas on a kind, or the last times that they woke.
struct ColdStart {
  std::string model;
  std::string kind;
  size_t starts = 0;
  conf::Duration p50{};
  conf::Duration p90{};
};

struct Status {
  bool begun = false;          // what ran before is known
  std::string launcher;        // empty: nothing is scaled here
  std::string trouble;         // with the launcher; empty: none
  std::string run_warning;     // why runs can do what the gateway can; empty: they cannot
  std::string device_warning;  // why another gateway could give out the same devices; empty: none could
  std::vector<ReplicaStatus> replicas;
  std::vector<ModelStatus> models;
  std::vector<ColdStart> cold_starts;
  std::vector<ColdStart> wakes;
  std::vector<LearnedStarts::Row> start_phases;
  uint64_t weights_transferred = 0;      // bytes, for replicas, since the start
  uint64_t weights_from_neighbours = 0;  // of these
  std::vector<PrefetchStatus> prefetches;
  uint64_t prefetched = 0;         // fetches that ended well, since the start
  uint64_t failed_prefetches = 0;  // likewise, that did not
  std::vector<NodeStatus> nodes;
  std::vector<plugins::launchers::DeviceFault> faults;
  std::vector<Cordon> cordons;
  ClusterStatus cluster;
  MoveCounts moves{};
  std::vector<PowerCapStatus> power_caps;
  std::string power_cap_trouble;  // why limits cannot be set; empty: they can, or none are to be
  uint64_t suspicions = 0;        // of nodes, since the start
  uint64_t launches = 0;          // likewise
  uint64_t failures = 0;
  std::shared_ptr<const TelemetryStatus> telemetry;  // null: nothing is measured
  // Energy since the start, in millijoules; idle devices have neither tenant nor model.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> energy;
  // Device time since the start, in microseconds, by tenant, model (empty: jobs) and kind.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> devices;
};

}  // namespace gateway::control
