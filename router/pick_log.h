// What a policy saw when it chose a replica, for people: recorded for sampled requests, so that each choice can be
// explained, and repeated, later.
//
// Plain values owned by the caller. Pick appends one PickTrace per call that has a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/load/adapter_slots.h"
#include "router/load/engine_signals.h"
#include "router/routes/route_table.h"

namespace router {

// The terms of a score of the `cost` policy, in seconds; policies/cost.h has the formula. All zero for
// policies whose score is no time.
struct CostTerms {
  double wait = 0;            // until the engine has computed what stands before this prompt
  double compute = 0;         // computing this prompt's uncached part
  double decode = 0;          // generating the expected answer
  double others = 0;          // delay that the computation causes to other requests
  double pressure = 0;        // use of the KV cache
  double silence = 0;         // silence beyond what is usual
  double distance = 0;        // the replica is in another zone
  double adapter = 0;         // until the request's LoRA adapter is loaded
  double remote_prefill = 0;  // another replica computes the prompt and transfers it
  double Sum() const {
    return wait + compute + decode + others + pressure + silence + distance + adapter + remote_prefill;
  }

  friend bool operator==(const CostTerms&, const CostTerms&) = default;
};

// A candidate as the `cost` policy saw it.
struct ScoredCandidate {
  ReplicaId replica{};
  ReplicaSignals signals;
  int64_t cached = 0;  // tokens of the prompt
  bool local = true;   // in the gateway's zone
  AdapterAvailability adapter = {};
  bool vetoed = false;
  CostTerms terms;
};

struct PickTrace {
  ModelId model{};
  PolicyKind policy{};
  conf::TimePoint at;
  int64_t tokens = 0;  // these three as in PickFacts
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  Part part = Part::kWhole;           // the part of the request that the replica serves
  double remote_prefill_seconds = 0;  // as in PickFacts
  TrackId track = kStable;            // the track whose replicas were considered
  bool own_zone = false;              // only replicas of the gateway's zone were

  // The candidates of the `cost` policy, in the order of their evaluation.
  std::vector<ScoredCandidate> scored;
  double mean_requests = 0;
  bool everybody = false;  // all candidates were saturated, so every replica was evaluated
  uint64_t draw = 0;       // seed of the random source that breaks ties

  // The decision.
  std::optional<ReplicaId> replica;
  std::string_view reason;  // static
  double score = 0;
  int64_t cached = 0;
  uint32_t considered = 0;
  bool failed_open = false;
};

struct PickLog {
  static constexpr size_t kMax = 16;  // traces of a request that waits and tries again
  std::vector<PickTrace> picks;
};

}  // namespace router
