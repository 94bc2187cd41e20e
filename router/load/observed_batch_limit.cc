#include "router/load/observed_batch_limit.h"

#include <algorithm>

namespace router {
namespace {

constexpr double kFewWaiting = 8;
constexpr double kLongerThanAStep = 0.25;  // seconds

}  // namespace

// Assumes that the engine works off others' requests beside ours in proportion to their number.
bool ObservedBatchLimit::Queues(const Observation& seen, conf::TimePoint now) const {
  if (seen.waiting < kFewWaiting || seen.ours < 1) return false;
  const double seconds = conf::ToSeconds(now - at_);
  if (at_ == conf::TimePoint() || seconds <= 0) return false;
  const double all_per_ours = std::max(1.0, (seen.running + seen.waiting) / seen.ours);
  const double pace = (seen.ended - ended_) / seconds * all_per_ours;
  return seen.waiting > pace * kLongerThanAStep;
}

void ObservedBatchLimit::Observe(const Observation& seen, conf::TimePoint now) {
  const bool covered = seen.running + seen.waiting >= seen.ours / 2;
  partial_ = !covered && (partial_ || !covered_);
  covered_ = covered;
  const bool queues = covered && Queues(seen, now);
  if (queues && queued_) {
    limit_ = seen.running;
  } else if (limit_ > 0 && seen.running >= limit_) {
    limit_ = seen.waiting > 0 ? seen.running : 2 * seen.running;
  }
  queued_ = queues;
  ended_ = seen.ended;
  at_ = now;
}

}  // namespace router
