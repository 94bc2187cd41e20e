#include "router/policies/epp.h"

#include <algorithm>
#include <limits>

#include "router/policies/least_of.h"

namespace router {
namespace {

double LoraAffinity(const Candidates& candidates, uint32_t place) {
  using State = AdapterAvailability::State;
  switch (candidates.AdapterAt(place).state) {
    case State::kLoaded:
      return 1;
    case State::kFreeSlot:
      return 0.8;
    case State::kLoading:
      return 0.6;
    case State::kEvicts:
    case State::kFull:
      break;
  }
  return 0;
}

}  // namespace

std::optional<Choice> PickEpp(const Candidates& candidates, const PickFacts& facts, ModelCell&,
                              scheduler::Rng& rng) {
  const EppWeights& weights = candidates.spec().epp;
  double shortest = std::numeric_limits<double>::infinity();
  double longest = 0;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.Usable(place)) continue;
    const double waiting = candidates.Read(place).scraped.waiting;
    shortest = std::min(shortest, waiting);
    longest = std::max(longest, waiting);
  }
  std::optional<Choice> best =
      LeastOf(candidates, rng, "highest score of queue, KV cache and prefix", [&](uint32_t place) {
        const Telemetry scraped = candidates.Read(place).scraped;
        const double queue = longest > shortest ? (longest - scraped.waiting) / (longest - shortest) : 1;
        const double prefix = facts.prompt_tokens > 0
                                  ? static_cast<double>(candidates.CachedAt(place, facts)) /
                                        static_cast<double>(facts.prompt_tokens)
                                  : 0;
        const double lora =
            candidates.adapter().id == AdapterId::kNone ? 0 : weights.lora * LoraAffinity(candidates, place);
        return -(weights.queue * queue + weights.kv * (1 - scraped.kv_use) + weights.prefix * prefix + lora);
      });
  if (best) best->score = -best->score;
  return best;
}

}  // namespace router
