// cost: the replica on which the request costs least, in seconds: its own wait and work, and the delay that
// it causes to other requests. One continuous formula without modes:
//
//   backlog / P + output * pace * too many         wait: until what stands before it is computed, and, where the
//                                                  batch is full, until as many requests have ended as are too many
// + u / P                                          compute: its own u uncached prompt tokens
// + decode * output * pace * (requests + 1)        generate the expected answer beside the requests there
// + u / P * (running * r + pool * mean requests)   the prefill delays the r requests that decode there, and
//                                                  computing what another replica holds costs the whole pool; lines
//                                                  of batches, for which nobody waits, count in neither
// + pressure * k / (1 - k)                         the KV cache fills up; k is its use, up to 95 %
// + silence beyond what is usual                   an engine that hangs gets dearer every second
// + other_zone                                     the replica is not in the gateway's zone
// + time until its LoRA adapter is loaded          for requests for an adapter; see AdapterSeconds
// + wait and compute of the best prefill replica   where another replica computes the prompt; u is 0 then
//
// P (prefill rate) and pace are measured by this process, so mixed hardware is compared in one unit. A
// replica is vetoed, that is used only when all others are vetoed too, when a quarter of its max_running and
// at least 8 requests wait there. A full KV cache is no veto: near saturation every cache is full, and the
// replica just below the mark would get everything, whatever prefixes it holds.
//
// The candidates are up to kMaxHolders holders of the prompt's beginning, kDraws random replicas, those that
// were least loaded in recent picks, and those that had the adapter lately; in small pools all replicas. So
// the time does not grow with the pool, unless every candidate is unusable or vetoed: then all are evaluated.
// Among replicas within 2 ms and 2 % of the lowest cost it chooses the one with the fewest requests, ties at
// random. A replica without measured rates counts as fast as the fastest measured candidate.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "router/candidates.h"

namespace router {

// The formula: plain numbers in, seconds out. `uncached` and `output` in tokens.
CostTerms CostOf(const ReplicaSignals& signals, double uncached, double output, double mean_requests,
                 const CostWeights& weights);
bool Vetoed(const ReplicaSignals& signals);
// Seconds until the request's adapter can be used, with the delay that loading causes to others:
//   loaded             0
//   a slot is free     the load; the engine does nothing else meanwhile, so it delays others like a prefill
//   one is evicted     twice that, because the evicted adapter will be loaded again
//   all slots in use   the same, and the time of one answer, which must end first
double AdapterSeconds(const AdapterAvailability& availability, const ReplicaSignals& signals, double output,
                      double mean_requests, const CostWeights& weights);

// Finds the cheapest of the offered replicas. Of those that are nearly as cheap it prefers the one with the
// fewest requests, ties at random: rates are measured with noise, and the exact minimum would be the same
// replica whenever the pool is idle. Vetoed replicas are kept apart, as the last resort.
class CostChoice {
 public:
  // `remote_prefill`: seconds until a prompt that another replica computes has arrived. It applies to
  // replicas with `cached` equal to the whole prompt.
  CostChoice(int64_t prompt_tokens, int64_t output_tokens, double mean_requests, const CostWeights& weights,
             scheduler::Rng& ties, double remote_prefill = 0)
      : prompt_(prompt_tokens),
        output_(output_tokens),
        mean_(mean_requests),
        weights_(weights),
        ties_(ties),
        remote_prefill_(remote_prefill) {}

  // The cost of the request there, with `cached` tokens of the prompt, and whether the replica is vetoed.
  struct Offered {
    CostTerms terms;
    bool vetoed;
  };
  Offered Offer(uint32_t place, const ReplicaSignals& signals, int64_t cached, bool local,
                const AdapterAvailability& adapter);

  enum class From : uint8_t { kCandidates, kAllReplicas };
  // Absent when all offered replicas are vetoed, while others that were not offered may not be.
  std::optional<Choice> Take(From from, uint32_t considered) const;

 private:
  struct Least {
    std::optional<Choice> choice;
    double least = std::numeric_limits<double>::infinity();
    double requests = 0;  // at the choice's replica
    uint64_t ties = 0;
  };

  const int64_t prompt_;
  const int64_t output_;
  const double mean_;
  const CostWeights& weights_;
  scheduler::Rng& ties_;
  const double remote_prefill_;
  std::array<Least, 2> least_;  // not vetoed, vetoed
};

// Repeats the choice that PickCost recorded in `trace`: the same formula on the same signals, with the same
// draw for ties. The choice's place is an index into `trace.scored`. Nothing for another policy, or when no
// candidate was recorded.
std::optional<Choice> ChooseAgain(const PickTrace& trace, const CostWeights& weights);

// Plans where waiting requests would go, in their order: each to the replica where it costs least if all
// requests before it were where the plan put them. Looks at the same candidates as PickCost; records no
// trace.
class CostPlan {
 public:
  // `full`: whether a place takes no request before an answer there ends. The time until then counts as wait;
  // a full place without measured rates is left out.
  CostPlan(std::function<bool(uint32_t place)> full, const ModelCell& cell, scheduler::Rng& rng)
      : full_(std::move(full)), cell_(cell), rng_(rng) {}

  // The choice of the next request; nothing when no replica can be used. `candidates` must always be of the
  // same replicas.
  std::optional<Choice> Next(const Candidates& candidates, const PickFacts& facts);

 private:
  struct Planned {
    uint32_t place;
    int64_t tokens;  // uncached
    uint32_t requests;
  };

  const std::function<bool(uint32_t)> full_;
  const ModelCell& cell_;
  scheduler::Rng& rng_;
  std::vector<Planned> planned_;
};

std::optional<Choice> PickCost(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                               scheduler::Rng& rng);

}  // namespace router
