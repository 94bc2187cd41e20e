// Two replicas for one request: one that computes the prompt, and one that is handed it and answers.
//
// Pure but for the shared cells it is given, as Pick is. Both are charged when they are chosen; the one that
// answers is expected to be heard of once the prompt is there.
#pragma once

#include <span>

#include "router/pick.h"

namespace router {

struct Pair {
  Decision answer;
  Decision prefill;  // without a replica: nothing is handed over
};

// Chooses by the model's policy. The prompt is computed apart where it is long enough, the replica that
// answers holds too little of it, and a prefill replica can be used; else whoever answers does all of it.
// Where it computes is weighed against where it is held: the time that the prefill replica is expected to
// take is part of the cost of every answering replica that would need it.
Pair PickPair(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, std::span<const ReplicaId> prefills_tried,
              conf::TimePoint now, scheduler::Rng& rng);

// A replica for the prompt alone.
Decision PickPrefill(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
                     std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

// A replica that is handed a prompt that has been computed already.
Decision PickDecode(const RouteTable& table, ModelId model, const LoadView& load, PickFacts facts,
                    std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

}  // namespace router
