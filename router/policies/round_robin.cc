#include "router/policies/round_robin.h"

namespace router {

std::optional<Choice> PickRoundRobin(const Candidates& candidates, const PickFacts&, ModelCell& cell,
                                     scheduler::Rng&) {
  for (uint32_t skipped = 0; skipped < candidates.size(); ++skipped) {
    const uint64_t turn = cell.turn.fetch_add(1, std::memory_order_relaxed);
    const auto place = static_cast<uint32_t>(turn % candidates.size());
    if (candidates.Usable(place))
      return Choice{place, static_cast<double>(turn), skipped + 1, "next in turn"};
  }
  // Other shards have moved the turn meanwhile: look at each one once.
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (candidates.Usable(place)) {
      return Choice{place, static_cast<double>(place), candidates.size() + place + 1, "first usable"};
    }
  }
  return std::nullopt;
}

}  // namespace router
