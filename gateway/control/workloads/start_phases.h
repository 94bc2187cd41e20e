// StartPhases: where the time of a cold start went, one after the other, from the decision to the first token.
//
//   placed ─▶ fetched ─▶ process ─▶ loaded ─▶ compiled ─▶ first token
//
// The engine does not report when it loads and compiles, but how long (plugins/engines/start_times.h). The rest of the
// time until it is ready belongs to the phase `process`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "conf/time.h"

namespace gateway::control {

enum class StartPhase : uint8_t {
  kPlaced,      // from the decision until it had devices
  kFetched,     // until its weights were in the stores of its nodes; 0: they were, or it has none
  kProcess,     // its process starts, and all that has no phase of its own
  kLoaded,      // weights onto the devices
  kCompiled,    // kernels and graphs
  kFirstToken,  // of the question that the gateway asks before its callers; 0: it asks none
};
inline constexpr size_t kStartPhases = 6;
inline constexpr std::array<std::string_view, kStartPhases> kStartPhaseNames = {
    "placed", "fetched", "process", "loaded", "compiled", "first_token"};

struct StartPhases {
  std::array<conf::Duration, kStartPhases> took{};
  uint64_t transferred = 0;  // bytes of weights, of all members
  uint64_t neighbours = 0;   // of these, from the stores of other nodes

  conf::Duration& operator[](StartPhase phase) { return took[static_cast<size_t>(phase)]; }
  conf::Duration operator[](StartPhase phase) const { return took[static_cast<size_t>(phase)]; }
  // From the launch on, without the fetch: the duration of a start where the weights are present.
  conf::Duration start() const {
    conf::Duration sum{};
    for (size_t i = static_cast<size_t>(StartPhase::kProcess); i < kStartPhases; ++i) sum += took[i];
    return sum;
  }
};

// The phases of a start from `launched` to `ready`, whose weights were there at `fetched`. `loaded` and
// `compiled` are the engine's own words; together they are never more than there was time for.
inline StartPhases PhasesOf(conf::Duration placed, conf::TimePoint launched, conf::TimePoint fetched,
                            conf::TimePoint ready, conf::Duration loaded, conf::Duration compiled,
                            conf::Duration first_token) {
  StartPhases out;
  fetched = std::clamp(fetched, launched, std::max(launched, ready));
  const conf::Duration rest = std::max(conf::Duration::zero(), ready - fetched - first_token);
  loaded = std::clamp(loaded, conf::Duration::zero(), rest);
  compiled = std::clamp(compiled, conf::Duration::zero(), rest - loaded);
  out[StartPhase::kPlaced] = placed;
  out[StartPhase::kFetched] = fetched - launched;
  out[StartPhase::kProcess] = rest - loaded - compiled;
  out[StartPhase::kLoaded] = loaded;
  out[StartPhase::kCompiled] = compiled;
  out[StartPhase::kFirstToken] = first_token;
  return out;
}

// The progress of the fetch of a replica's weights to its nodes, as its members report it.
struct WeightsArrival {
  uint32_t members = 0;
  uint32_t arrived = 0;      // members whose weights are there
  uint64_t bytes = 0;        // of all members
  uint64_t of = 0;           // 0: not known yet
  uint64_t transferred = 0;  // of the members whose weights are there
  uint64_t neighbours = 0;   // of these, from the stores of other nodes
  conf::TimePoint at{};      // when the last of these were there
  bool complete() const { return members > 0 && arrived == members; }
};

}  // namespace gateway::control
