// cost: the replica on which the request costs least, in seconds: its own wait and work, and the delay that
// it causes to others. One continuous formula, no modes:
//
//   backlog / P                                      wait, until what stands before it is computed
// + u / P                                            compute its own uncached prompt tokens, u
// + decode * output * pace * (requests + 1)          decode the expected answer beside those that are there
// + u / P * (running * r + pool * mean requests)     computing it holds up the r that decode there, and what
// is
//                                                    computed again though another holds it is lost to all
// + pressure * k / (1 - k)                           the KV cache fills up, k being its use, up to 95 %
// + silence beyond what is usual                     an engine that hangs looks dearer every second
// + other_zone                                       where it does not stand in the gateway's zone
// + the time until its LoRA adapter is loaded        for requests that are for one; see AdapterSeconds
// + wait and compute of the best prefill replica     where that computes the prompt, u being 0 then
//
// P and pace are rates that this process has measured, so hardware of any mix is compared in the same unit.
// A replica is vetoed, which is to say taken only when all others are, with a quarter of max_running, and at
// least 8, waiting. A full KV cache is no veto: near saturation every cache is, and whoever is just below the
// mark would get everything, whatever its prefixes.
//
// Candidates are up to kMaxHolders holders of the prompt's beginning, kDraws at random, those that were
// least loaded when last looked at and those that lately had the adapter; in small pools everybody. So the
// time does not grow with the pool, unless every one of these is unusable or vetoed: then all are looked at.
// Of replicas within 2 ms and 2 % of the least the one with the fewest requests is taken, of equals one at
// random. Whose rates are not measured yet is taken to be as fast as the fastest candidate whose are.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "router/pick.h"

namespace router {

// The law itself: plain numbers in, seconds out.
CostTerms CostOf(const Signals& signals, double uncached, double output, double mean_requests,
                 const CostWeights& weights);
bool Vetoed(const Signals& signals);
// Nothing where the adapter is loaded. Where a slot is free, the time that loading takes, in which the engine
// does nothing else, so that it holds up others as computing a prompt does; twice that where another adapter
// has to go, which will be loaded again; and where all are in use, the time of an answer besides, since one
// must end first.
double AdapterSeconds(const AdapterStanding& standing, const Signals& signals, double output,
                      double mean_requests, const CostWeights& weights);

// The cheapest of those that were offered; of those that are nearly as good the one with the fewest requests,
// of such any, as `ties` draws: rates are measured with noise, and the exact least would be the same replica
// whenever nobody is busy. Those that are vetoed are kept apart: they are the last resort.
class CostChoice {
 public:
  // `handover`: seconds that a prompt takes that comes from elsewhere; who caches all of it gets it so.
  CostChoice(int64_t prompt_tokens, int64_t output_tokens, double mean_requests, const CostWeights& weights,
             scheduler::Rng& ties, double handover = 0)
      : prompt_(prompt_tokens),
        output_(output_tokens),
        mean_(mean_requests),
        weights_(weights),
        ties_(ties),
        handover_(handover) {}

  // What it costs, with `cached` of the prompt on it, and whether it is vetoed.
  struct Offered {
    CostTerms terms;
    bool vetoed;
  };
  Offered Offer(uint32_t place, const Signals& signals, int64_t cached, bool local,
                const AdapterStanding& adapter);

  enum class From : uint8_t { kCandidates, kEverybody };
  // None when all are vetoed, and there may be others that are not.
  std::optional<Choice> Take(From from, uint32_t considered) const;

 private:
  struct Least {
    std::optional<Choice> choice;
    double least = std::numeric_limits<double>::infinity();
    double requests = 0;  // of the choice
    uint64_t ties = 0;
  };

  const int64_t prompt_;
  const int64_t output_;
  const double mean_;
  const CostWeights& weights_;
  scheduler::Rng& ties_;
  const double handover_;
  std::array<Least, 2> least_;  // vetoed or not
};

// The choice that PickCost made of what it saw: by the same law, with the same draw. Its place is one in
// `trace.seen`. None where the policy was another, or nobody was seen.
std::optional<Choice> ChooseAgain(const PickTrace& trace, const CostWeights& weights);

// Where requests that wait would go, in their order: each where it costs least if all before it stood where
// they would go. Looks at the candidates that PickCost looks at; no trace is kept.
class CostPlan {
 public:
  // `full`: places that take nobody before an answer there has ended. How soon that is counts as wait; where
  // nothing is measured that says it, nobody waits for them.
  CostPlan(std::function<bool(uint32_t place)> full, const ModelCell& cell, scheduler::Rng& rng)
      : full_(std::move(full)), cell_(cell), rng_(rng) {}

  // Of the next one; none where nobody can be used. `candidates` are always of the same replicas.
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
