// What was seen when a replica was chosen, for people: kept for the few requests that are sampled, so that
// each choice can be looked at, and made again, later.
//
// Plain values of the caller's; Pick fills one PickTrace each time that it is asked with a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "router/adapters.h"
#include "router/cost_terms.h"
#include "router/engine_signals.h"
#include "router/route_table.h"

namespace router {

// A candidate as the cost policy saw it.
struct Seen {
  ReplicaId replica{};
  Signals signals;
  int64_t cached = 0;  // tokens of the prompt
  bool local = true;   // in the gateway's zone
  AdapterStanding adapter = {};
  bool vetoed = false;
  CostTerms terms;
};

struct PickTrace {
  ModelId model{};
  PolicyKind policy{};
  conf::TimePoint at;
  int64_t tokens = 0;  // these three as PickFacts has them
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  Part part = Part::kWhole;     // what the replica was looked for to do
  double handover_seconds = 0;  // as PickFacts has it
  TrackId track = kStable;      // whose replicas were looked at
  bool own_zone = false;        // only those of the gateway's zone were

  // Of the cost policy: what it saw, in the order in which it looked.
  std::vector<Seen> seen;
  double mean_requests = 0;
  bool everybody = false;  // the candidates being saturated, all replicas were looked at
  uint64_t draw = 0;       // seeds the source that ties were broken by

  // What came of it.
  std::optional<ReplicaId> replica;
  std::string_view reason;  // static
  double score = 0;
  int64_t cached = 0;
  uint32_t considered = 0;
  bool failed_open = false;
};

struct PickLog {
  static constexpr size_t kMax = 16;  // what a request that waits and tries again may leave
  std::vector<PickTrace> picks;
};

}  // namespace router
