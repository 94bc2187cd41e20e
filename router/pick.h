// Which replica gets a request, and why.
//
// Pure except for the shared state that it is given: the same table, loads, time and random source give the same
// choice. The choice is charged before it is returned, so each shard chooses on a load that includes the choices of the
// others. Callable from every shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "conf/time.h"
#include "router/candidates.h"
#include "router/load/replica_load.h"
#include "router/routes/route_table.h"
#include "scheduler/rng.h"

namespace router {

// Why no replica was picked.
enum class NoneBecause : uint8_t {
  kPicked,      // one was
  kNoReplicas,  // the model has none, or all are drained
  kAllTried,    // each usable one was tried for this request
  kAllDown,     // health probes fail
  kAllBroken,   // breakers are open
  kAllResting,  // they asked for a pause (429, 503)
  kNoAdapter,   // the gateway has loaded the adapter at none
};
std::string_view ReasonText(NoneBecause because);

struct Decision {
  std::optional<ReplicaId> replica;
  Charge charge;
  std::string_view reason;      // the policy's, or ReasonText; static
  double score = 0;             // the policy's own figure for the choice, in the policy's unit
  CostTerms terms;              // of the score, where it is in seconds
  int64_t cached = 0;           // tokens of the prompt that the replica is assumed to hold
  bool remote_prefill = false;  // another replica is to compute the prompt
  uint32_t considered = 0;      // replicas examined
  bool failed_open = false;     // all replicas were down, so their health was ignored
  bool by_prefill = false;      // a prefill replica serves the whole request, because no other can
  NoneBecause none = NoneBecause::kPicked;
  std::optional<conf::TimePoint> retry_at;  // when a broken or resting replica may be used again
};

// Chooses by the model's policy among its replicas except those already `tried`, and charges the choice.
//
// A session stays on its replica while that is usable. Requests of a canary go to stable replicas when none
// of the canary's is usable, never the other way round. Policies other than cost, which has a term for the
// zone, use replicas of other zones only when none of the gateway's own zone is usable or all of them are
// saturated.
Decision Pick(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

}  // namespace router
