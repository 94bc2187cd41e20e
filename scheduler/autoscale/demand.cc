#include "scheduler/autoscale/demand.h"

#include <algorithm>
#include <cmath>

namespace scheduler::autoscale {
namespace {

constexpr conf::Duration kShort = std::chrono::seconds(5);          // what is compared with the window's mean
constexpr conf::Duration kDeviationOver = std::chrono::minutes(5);  // "of late"
constexpr double kMostReplicas = 1e9;

}  // namespace

DemandLaw::DemandLaw(const DemandSettings& settings, conf::Duration ttft)
    : settings_(settings),
      ttft_(ttft),
      work_(std::max(settings.window, kShort)),
      fewest_(std::max(settings.hold, conf::Duration(1))) {}

// The least that one may go down to from here.
uint32_t DemandLaw::Fewest(uint32_t replicas) const {
  while (replicas > 0 && demand_ <= settings_.down_at * replicas &&
         demand_ <= settings_.up_at * (replicas - 1)) {
    --replicas;
  }
  return replicas;
}

uint32_t DemandLaw::Decide(const DemandSignals& signals, uint32_t replicas, conf::TimePoint now) {
  work_.Add(signals.work, now);
  const double mean = work_.Mean(settings_.window, now);
  const double off = work_.Mean(kShort, now) - mean;
  if (!began_) began_ = last_ = now;
  const double passed = conf::ToSeconds(now - last_);
  last_ = now;
  const double kept = std::exp(-passed / conf::ToSeconds(kDeviationOver));
  variance_ = variance_ * kept + off * off * (1 - kept);
  // A deviation of nothing is nothing.
  demand_ = mean > 0 ? mean + settings_.margin * std::sqrt(variance_) : 0;
  if (signals.oldest > ttft_ / 2 && std::isfinite(signals.backlog) && signals.backlog > 0) {
    demand_ += signals.backlog / conf::ToSeconds(settings_.window);
  }
  demand_ = std::min(demand_, kMostReplicas);

  const double up = std::ceil(demand_ / settings_.up_at);
  const uint32_t wanted = demand_ > settings_.up_at * replicas ? static_cast<uint32_t>(up) : Fewest(replicas);
  fewest_.Add(wanted, now);
  if (now - *began_ < settings_.hold) return std::max(wanted, replicas);
  return std::max(wanted, std::min(replicas, static_cast<uint32_t>(fewest_.Most())));
}

}  // namespace scheduler::autoscale
