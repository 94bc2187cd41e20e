// A replica, as people and metrics see it: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/control/workloads/start_phases.h"

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
  WeightsArrival arrival{};  // while its weights are fetched; else without members
  StartPhases phases{};      // of its cold start, once it is ready; zeros: not known
  std::string replaces{};    // the replica whose place it takes; empty: none
  conf::TimePoint moved{};   // when it began to move, or to take another's place; zero: never
  std::string gain{};        // of that move
};

}  // namespace gateway::control
