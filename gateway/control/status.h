// How the control loop stands, for metrics, readiness and the admin API: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "conf/time.h"
#include "gateway/control/cordon.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

enum class ReplicaState : uint8_t {
  kWaiting,    // for a place, or for the next try after failures
  kLaunching,  // has devices; the launcher is asked
  kWarming,    // its processes run; it does not answer yet
  kReady,
  kDraining,  // takes no new requests
  kStopping,
};
inline constexpr size_t kReplicaStates = 6;
std::string_view Name(ReplicaState state);

struct MemberPlace {
  std::string run;
  std::string node;
  std::string kind;  // of its devices; empty: it has none
  std::vector<uint8_t> devices;
  std::string_view state;  // as MemberStateOf says
  std::string why;         // how it ended, or why it does not start
};

struct ReplicaStatus {
  std::string run;  // its id, which is its leader's run
  std::string model;
  ReplicaState state = ReplicaState::kWaiting;
  std::vector<MemberPlace> members;  // the leader first; none while it waits for devices
  std::string address;               // HOST:PORT; empty: not known yet
  conf::TimePoint since{};           // of the state
  conf::TimePoint wanted{};
  bool adopted = false;
  uint32_t in_flight = 0;
  std::string why;
};

// What one class of those who ask for a model asks for (ClassCells).
struct ClassStatus {
  std::string name;          // of the band
  uint64_t came = 0;         // requests, since the start; ...
  uint64_t refused = 0;      // for want of room
  uint64_t in_time = 0;      // first tokens within slo.ttft
  uint64_t late = 0;         // after it
  uint64_t hopeless = 0;     // of prompts that take an idle replica longer
  uint64_t at_replicas = 0;  // requests, now; ...
  uint64_t waiting = 0;
  uint64_t waiting_tokens = 0;  // of their prompts
  conf::Duration oldest{};      // that waits
};

struct ModelStatus {
  std::string model;
  std::string policy;  // the file
  std::string_view law;
  uint32_t min = 0;
  uint32_t max = 0;
  double demand = 0;  // replicas
  uint32_t wanted = 0;
  std::string why;       // so many
  std::string capacity;  // by what it is reckoned
  double in_flight = 0;  // requests
  double held = 0;
  double headroom = 0;               // of the law demand, for first tokens that were late: a part of demand
  std::vector<ClassStatus> classes;  // the most urgent first
  uint32_t replicas[kReplicaStates] = {};
  uint32_t failures = 0;                        // of starts, in a row
  std::optional<conf::TimePoint> next_start{};  // not before that, because of them
  std::string trouble;  // why there are fewer than are wanted; empty: they come, or are there
};

// Of one that takes nothing new.
struct NodeStatus {
  std::string node;
  conf::TimePoint since{};
  std::string why;
  bool ours = false;  // we do not trust it, and the cluster's manager says nothing against it
};

struct ColdStart {
  std::string model;
  std::string kind;
  size_t starts = 0;
  conf::Duration p50{};
  conf::Duration p90{};
};

struct Status {
  bool begun = false;    // what ran before is known
  std::string launcher;  // empty: nothing is scaled here
  std::string trouble;   // with the launcher; empty: none
  std::vector<ReplicaStatus> replicas;
  std::vector<ModelStatus> models;
  std::vector<ColdStart> cold_starts;
  std::vector<NodeStatus> nodes;
  std::vector<plugins::launchers::DeviceFault> faults;
  std::vector<Cordon> cordons;
  uint64_t suspicions = 0;  // of nodes, since the start
  uint64_t launches = 0;    // likewise
  uint64_t failures = 0;
  // Since then, too: time of devices in microseconds, by tenant, model (empty: jobs) and kind.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> devices;
};

}  // namespace gateway::control
