#include "router/policies/kv_cost.h"

#include "router/policies/least_of.h"

namespace router {
namespace {

constexpr double kBlockTokens = 16;

}  // namespace

std::optional<Choice> PickKvCost(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                                 scheduler::Rng& rng) {
  return LeastOf(candidates, rng, "fewest KV blocks to compute and in use", [&](uint32_t place) {
    const ReplicaSignals signals = candidates.Read(place);
    const auto prompt = static_cast<double>(facts.prompt_tokens);
    const double uncached = prompt - static_cast<double>(candidates.CachedAt(place, facts));
    return (signals.backlog + uncached + signals.context + prompt) / kBlockTokens;
  });
}

}  // namespace router
