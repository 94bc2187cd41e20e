#include "router/admission/full_batch.h"

#include <algorithm>

namespace router {
namespace {

constexpr double kFewWaiting = 8;
constexpr double kLongerThanAStep = 0.25;  // seconds

}  // namespace

// The engine works off others' requests beside ours, in the proportion in which they are there.
bool FullBatch::Queues(const Sight& sight, conf::TimePoint now) const {
  if (sight.waiting < kFewWaiting || sight.ours < 1) return false;
  const double seconds = conf::ToSeconds(now - at_);
  if (at_ == conf::TimePoint() || seconds <= 0) return false;
  const double all_per_ours = std::max(1.0, (sight.running + sight.waiting) / sight.ours);
  const double pace = (sight.ended - ended_) / seconds * all_per_ours;
  return sight.waiting > pace * kLongerThanAStep;
}

void FullBatch::Saw(const Sight& sight, conf::TimePoint now) {
  const bool covered = sight.running + sight.waiting >= sight.ours / 2;
  partial_ = !covered && (partial_ || !covered_);
  covered_ = covered;
  const bool queues = covered && Queues(sight, now);
  if (queues && queued_) {
    full_ = sight.running;
  } else if (full_ > 0 && sight.running >= full_) {
    full_ = sight.waiting > 0 ? sight.running : 2 * sight.running;
  }
  queued_ = queues;
  ended_ = sight.ended;
  at_ = now;
}

}  // namespace router
