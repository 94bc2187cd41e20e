#include "scheduler/halving.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace scheduler {

std::optional<uint64_t> StepsOf(const HalvingRule& rule, size_t rung) {
  uint64_t steps = rule.first;
  for (size_t i = 0; i < rung; ++i) {
    if (steps > std::numeric_limits<uint64_t>::max() / rule.factor) return std::nullopt;
    steps *= rule.factor;
  }
  return steps;
}

void Halving::Restore(size_t rung, double value) {
  if (rung >= kMostRungs) return;
  if (rung >= rungs_.size()) rungs_.resize(rung + 1);
  rungs_[rung].push_back(value);
}

size_t Halving::RungsAt(uint64_t step) const {
  size_t rungs = 0;
  while (rungs < kMostRungs) {
    const std::optional<uint64_t> steps = StepsOf(rule_, rungs);
    if (!steps || *steps > step) break;
    ++rungs;
  }
  return rungs;
}

HalvingVerdict Halving::Reach(size_t rung, double value) {
  if (rung >= kMostRungs) return {};
  Restore(rung, value);
  const std::vector<double>& values = rungs_[rung];
  const auto better = std::ranges::count_if(
      values, [&](double other) { return rule_.maximize ? other > value : other < value; });
  const size_t go_on = std::max<size_t>(values.size() / rule_.factor, 1);
  if (static_cast<size_t>(better) < go_on) return {};
  const double best = rule_.maximize ? *std::ranges::max_element(values) : *std::ranges::min_element(values);
  return {true,
          fmt::format("at step {} its value {:.6g} ranks {} of {}, and only {} {} (the best value is {:.6g})",
                      StepsOf(rule_, rung).value_or(0), value, better + 1, values.size(),
                      go_on == 1 ? std::string("the best one") : fmt::format("the best {}", go_on),
                      go_on == 1 ? "continues" : "continue", best)};
}

}  // namespace scheduler
