#include "router/policies/consistent_hash.h"

#include <xxhash.h>

#include <cmath>

#include "router/policies/least_of.h"

namespace router {
namespace {

// Weighted rendezvous hashing: the lowest of -ln(uniform) / weight wins.
double Distance(uint64_t affinity, uint64_t replica, double weight) {
  const uint64_t pair[2] = {affinity, replica};
  const double uniform = (static_cast<double>(XXH3_64bits(pair, sizeof pair) >> 11) + 0.5) * 0x1p-53;
  return -std::log(uniform) / weight;
}

}  // namespace

std::optional<Choice> PickConsistentHash(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                         scheduler::Rng& rng) {
  double requests = 1;
  double weights = 0;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    requests += static_cast<double>(candidates.state(place).load.requests());
    weights += candidates.weight(place);
  }
  const uint64_t affinity = facts.affinity != 0 ? facts.affinity : rng.Next();
  return LeastOf(candidates, rng, "first by hash among replicas below their load bound", [&](uint32_t place) {
    const ReplicaState& state = candidates.state(place);
    const double weight = candidates.weight(place);
    const double bound = std::ceil(candidates.spec().consistent_hash.bound * requests * weight / weights);
    const bool full = static_cast<double>(state.load.requests()) + 1 > bound;
    return full ? HUGE_VAL : Distance(affinity, state.identity_hash, weight);
  });
}

}  // namespace router
