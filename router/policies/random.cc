#include "router/policies/random.h"

#include "router/policies/least_of.h"

namespace router {
namespace {

constexpr uint32_t kMaxDraws = 16;

}  // namespace

std::optional<Choice> PickRandom(const Candidates& candidates, const PickFacts&, ModelCell&,
                                 scheduler::Rng& rng) {
  for (uint32_t drawn = 1; drawn <= kMaxDraws; ++drawn) {
    const auto place = static_cast<uint32_t>(rng.Uniform(candidates.size()));
    if (place < candidates.size() && candidates.Usable(place)) return Choice{place, 0, drawn, "at random"};
  }
  return LeastOf(candidates, rng, "at random", [](uint32_t) { return 0.0; });
}

}  // namespace router
