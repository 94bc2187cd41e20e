// Prefill transfer: two replicas serve one request. One computes the prompt and transfers its KV cache, the
// other receives it and answers.
//
// Pure except for the shared state that it is given, like Pick. Both replicas are charged when they are chosen; tokens
// of the answering one are expected once the prompt has arrived there.
#pragma once

#include <span>

#include "router/pick.h"

namespace router {

struct ReplicaPair {
  Decision answer;
  Decision prefill;  // without a replica: the answering replica computes the prompt
};

// Chooses by the model's policy. Another replica computes the prompt where the prompt is long enough, the
// answering replica holds too little of it, and a prefill replica is usable; otherwise one replica serves all
// of the request. The expected time of the prefill replica is part of the cost of every answering replica
// that would need it, so that computing and transferring is weighed against holding.
ReplicaPair PickReplicaPair(const RouteTable& table, ModelId model, const LoadView& load,
                            const PickFacts& facts, std::span<const ReplicaId> tried,
                            std::span<const ReplicaId> prefills_tried, conf::TimePoint now,
                            scheduler::Rng& rng);

// A replica that computes the prompt only.
Decision PickPrefill(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
                     std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

// A replica that receives a prompt which is already computed.
Decision PickDecode(const RouteTable& table, ModelId model, const LoadView& load, PickFacts facts,
                    std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng);

}  // namespace router
