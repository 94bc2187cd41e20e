#include "scheduler/autoscale/load.h"

#include <algorithm>
#include <cmath>

namespace scheduler::autoscale {
namespace {

constexpr double kNoLoad = 1e-3;      // replicas: what is left of a mean that only decays
constexpr double kShortest = 5;       // seconds: about what requests may wait for
constexpr double kOfAnswer = 0.5;     // part of the time that an answer takes
constexpr double kAnswersOver = 300;  // seconds, "the last minutes"
constexpr double kSoon = 10;
constexpr double kLater = 40;
constexpr double kSure = 2;  // standard deviations that are no chance
constexpr double kNoiseOver = 120;

// The weight of what came in `passed` seconds, in a mean over about the last `over`.
double WeightOf(double passed, double over) {
  return 1 - std::exp(-passed / over);
}

}  // namespace

Load::Load(double longest) : longest_(std::max(longest, kShortest)) {}

double Load::Spread(const Tick& tick) {
  const double kept = 1 - WeightOf(tick.passed, kAnswersOver);
  request_seconds_ = request_seconds_ * kept + tick.running * tick.passed;
  came_ = came_ * kept + tick.came;
  const double answer = came_ > 0 ? request_seconds_ / came_ : 0;
  const double over = std::clamp(kOfAnswer * answer, kShortest, longest_);
  spread_ += (tick.work - spread_) * WeightOf(tick.passed, over);
  return spread_;
}

double Load::Sure(const Tick& tick) {
  // Two successive values differ by chance, whatever the trend.
  const double step = tick.work - before_;
  before_ = tick.work;
  const double weight = WeightOf(tick.passed, kNoiseOver);
  noise_ += weight * (step * step / 2 * tick.passed - noise_);
  soon_ += (tick.work - soon_) * WeightOf(tick.passed, kSoon);
  later_ += (tick.work - later_) * WeightOf(tick.passed, kLater);
  // A mean that forgets over kSoon seconds averages the chance of twice as many.
  return std::max(soon_ - kSure * std::sqrt(noise_ / (2 * kSoon)),
                  later_ - kSure * std::sqrt(noise_ / (2 * kLater)));
}

double Load::Next(const Tick& tick) {
  if (tick.passed <= 0) return 0;  // over what time the work came is not known
  occupied_ += (tick.occupied - occupied_) * WeightOf(tick.passed, kShortest);
  const double load = std::max({Spread(tick), Sure(tick), occupied_});
  return load < kNoLoad ? 0 : load;
}

}  // namespace scheduler::autoscale
