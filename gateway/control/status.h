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
#include "gateway/control/replica.h"

namespace gateway::control {

struct ReplicaStatus {
  std::string run;
  std::string model;
  State state = State::kWaiting;
  std::string node;
  std::string kind;  // of its devices; empty: it has none
  std::vector<uint8_t> devices;
  std::string address;      // HOST:PORT; empty: not known yet
  conf::TimePoint since{};  // of the state
  conf::TimePoint wanted{};
  bool adopted = false;
  uint32_t in_flight = 0;
  std::string why;
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
  uint32_t replicas[kStates] = {};
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
  uint64_t suspicions = 0;  // of nodes, since the start
  uint64_t launches = 0;    // likewise
  uint64_t failures = 0;
  // Since then, too: time of devices in microseconds, by tenant, model (empty: jobs) and kind.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> devices;
};

}  // namespace gateway::control
