#include "scheduler/learned_power.h"

#include <algorithm>

namespace scheduler {

void LearnedPower::Add(KindId kind, bool held, double watts, std::optional<double> limit, double seconds) {
  if (!(watts >= 0) || !(seconds >= 0) || (seconds == 0 && !limit)) return;
  Seen& seen = seen_[kind];
  if (limit) seen.limit = std::max(seen.limit, *limit);
  if (seconds == 0) return;
  if (!held) {
    seen.idle_seconds += seconds;
    seen.idle_joules += watts * seconds;
    if (seen.idle_seconds > kMost) {
      seen.idle_seconds /= 2;
      seen.idle_joules /= 2;
    }
    return;
  }
  seen.held[std::min(static_cast<size_t>(watts / kStep), kSteps - 1)] += seconds;
  seen.held_seconds += seconds;
  seen.enough |= seen.held_seconds >= kEnoughSeconds;
  if (seen.held_seconds <= kMost) return;
  for (double& of_step : seen.held) of_step /= 2;
  seen.held_seconds /= 2;
}

std::optional<KindWatts> LearnedPower::Of(KindId kind, const DeviceKind& declared) const {
  if (declared.busy_watts > 0) return KindWatts{declared.idle_watts, declared.busy_watts};
  const auto found = seen_.find(kind);
  if (found == seen_.end()) return std::nullopt;
  const Seen& seen = found->second;
  KindWatts watts;
  if (seen.idle_seconds > 0) watts.idle = seen.idle_joules / seen.idle_seconds;
  if (seen.enough || seen.limit == 0) {
    double sum = 0;
    for (size_t step = 0; step < kSteps && sum < kQuantile * seen.held_seconds; ++step) {
      sum += seen.held[step];
      watts.busy = static_cast<double>(step + 1) * kStep;
    }
  } else {
    watts.busy = seen.limit;
  }
  watts.busy = std::max(watts.busy, watts.idle);
  return watts;
}

}  // namespace scheduler
