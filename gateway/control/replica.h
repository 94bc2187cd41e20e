// Replica: one replica that Tidegate runs, from when it is wanted until nothing is left of it.
//
//   waiting -> launching -> warming -> ready <-> draining -> stopping -> (gone)
//
// A replica may go from any state to stopping, and one that is waiting is gone at once. What a state asks for
// is done by the loop, step by step; the flags say how far that has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/config/model.h"
#include "plugins/launchers/launcher.h"
#include "router/replica_load.h"

namespace gateway::control {

enum class State : uint8_t {
  kWaiting,    // for a place, or for the next try after failures
  kLaunching,  // has devices; the launcher is asked
  kWarming,    // its process runs; it does not answer yet
  kReady,
  kDraining,  // takes no new requests
  kStopping,
};
inline constexpr size_t kStates = 6;
std::string_view Name(State state);

struct Replica {
  uint32_t id = 0;  // within this process; never used again
  std::string run;  // the launcher's, also over restarts
  std::string model;
  State state = State::kWaiting;
  conf::TimePoint since{};   // of the state
  conf::TimePoint wanted{};  // when it came to be
  std::string why;           // it is in this state
  std::string unplaced;      // kWaiting: why there is no place
  plugins::launchers::Grant grant;

  bool submitted = false;  // to the planner
  bool adopted = false;    // from a process before this one
  bool recorded = false;   // what the state asks for is in the ledger
  bool asked = false;      // the launcher has been asked for it, whatever it said
  bool started = false;    // it has taken it
  bool ended = false;      // nothing runs of it any more
  bool busy = false;       // a step is under way
  bool set_aside =
      false;  // its node is not trusted: another is to be there in its stead, and it is not ended
  conf::TimePoint next_step{};
  conf::TimePoint launched{};
  conf::TimePoint unpublished{};  // kDraining: since when no shard is given it

  std::shared_ptr<const config::Endpoint> endpoint;  // from kWarming on
  std::shared_ptr<router::ReplicaState> load;        // likewise
  std::string last_probe;                            // why it is not ready
  std::optional<conf::TimePoint> missing;            // since when the launcher knows nothing of it

  uint32_t in_flight() const;
};

}  // namespace gateway::control
