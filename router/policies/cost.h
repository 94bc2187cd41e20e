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
//
// P and pace are rates that this process has measured, so hardware of any mix is compared in the same unit.
// A replica is vetoed, which is to say taken only when all others are, with a quarter of max_running, and at
// least 8, waiting. A full KV cache is no veto: near saturation every cache is, and whoever is just below the
// mark would get everything, whatever its prefixes.
//
// Candidates are up to kMaxHolders holders of the prompt's beginning, kDraws at random and those that were
// least loaded when last looked at; in small pools everybody. So the time does not grow with the pool, unless
// every one of these is unusable or vetoed: then all are looked at. Of replicas within 2 ms and 2 % of the
// least the one with the fewest requests is taken, of equals one at random. Whose rates are not measured yet
// is taken to be as fast as the fastest candidate whose are.
#pragma once

#include <vector>

#include "router/pick.h"

namespace router {

// The law itself: plain numbers in, seconds out.
CostTerms CostOf(const Signals& signals, double uncached, double output, double mean_requests,
                 const CostWeights& weights);
bool Vetoed(const Signals& signals);

std::optional<Choice> PickCost(const Candidates& candidates, const PickFacts& facts, ModelCell& cell,
                               scheduler::Rng& rng);

// A candidate as the law saw it.
struct CostRow {
  uint32_t place = 0;
  Signals signals;
  int64_t cached = 0;
  CostTerms terms;
  bool vetoed = false;
};

// The candidates that PickCost would choose among, dearest last. Draws from `rng` what PickCost would, and
// changes nothing. For people: it allocates.
std::vector<CostRow> ExplainCost(const Candidates& candidates, const PickFacts& facts, const ModelCell& cell,
                                 scheduler::Rng& rng);

}  // namespace router
