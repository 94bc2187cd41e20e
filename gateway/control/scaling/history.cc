#include "gateway/control/scaling/history.h"

#include <algorithm>

namespace gateway::control {

void History::Add(const Tick& tick, conf::TimePoint now) {
  if (!began_) {
    began_ = last_ = now;
    came_ = tick.came;
    return;
  }
  const double passed = conf::ToSeconds(now - last_);
  last_ = now;
  sums_.work += tick.signals.demand.work * passed;
  sums_.in_flight += tick.signals.in_flight * passed;
  sums_.held += tick.signals.held * passed;
  sums_.occupied += tick.signals.demand.occupied * passed;
  sums_.ready += tick.ready * passed;
  sums_.there += tick.there * passed;
  sums_.demand += tick.demand * passed;
  if (now - *began_ < kStep) return;

  const double seconds = conf::ToSeconds(now - *began_);
  steps_.push_back({.at = now,
                    .seconds = seconds,
                    .work = sums_.work / seconds,
                    .arrivals = tick.came > came_ ? static_cast<double>(tick.came - came_) / seconds : 0,
                    .in_flight = sums_.in_flight / seconds,
                    .held = sums_.held / seconds,
                    .occupied = sums_.occupied / seconds,
                    .ready = sums_.ready / seconds,
                    .there = sums_.there / seconds,
                    .demand = sums_.demand / seconds});
  if (steps_.size() > kSteps) steps_.pop_front();
  sums_ = {};
  began_ = now;
  came_ = std::max(came_, tick.came);  // an ending request may be counted twice for a moment
}

}  // namespace gateway::control
