#include "scheduler/autoscale/demand.h"

#include <algorithm>
#include <cmath>

#include "scheduler/autoscale/sane.h"

namespace scheduler::autoscale {
namespace {

constexpr conf::Duration kUnknownColdStart = std::chrono::seconds(90);
constexpr conf::Duration kLongestLead = std::chrono::minutes(10);
constexpr double kLeastBacklogOver = 15;  // seconds in which it should be gone, at least
constexpr double kMostReplicas = 1e9;

}  // namespace

DemandLaw::DemandLaw(const ScalingPolicy& policy)
    : settings_(policy.demand),
      ttft_(policy.ttft),
      headroom_(policy.attainment, policy.ttft),
      hindsight_(policy),
      load_(conf::ToSeconds(settings_.window)),
      fewest_(std::max(settings_.hold, conf::Duration(1))) {}

// The lower bound of a scale-down from here.
uint32_t DemandLaw::Fewest(uint32_t replicas) const {
  while (replicas > 0 && demand_ <= settings_.down_at * replicas &&
         demand_ <= settings_.up_at * (replicas - 1)) {
    --replicas;
  }
  return replicas;
}

uint32_t DemandLaw::Decide(const DemandSignals& signals, double running, uint32_t replicas, uint32_t coming,
                           conf::Duration cold_start, conf::TimePoint now) {
  if (!began_) began_ = last_ = now;
  const double passed = conf::ToSeconds(now - last_);
  last_ = now;
  const conf::Duration lead =
      cold_start > conf::Duration::zero() ? std::min(cold_start, kLongestLead) : kUnknownColdStart;
  const double load = load_.Next({.work = Sane(signals.work),
                                  .running = Sane(running),
                                  .came = Sane(signals.first_tokens.came),
                                  .occupied = Sane(signals.occupied),
                                  .passed = passed});
  hindsight_.Add(load, lead, now);
  // First tokens that are late because replicas are too few do not show that the load is estimated too low.
  const uint32_t ready = replicas - std::min(coming, replicas);
  headroom_.Learn(signals.first_tokens, coming > 0 || load > ready, now);
  demand_ = hindsight_.kept() * (1 + headroom_.part());
  if (signals.oldest > ttft_ / 2)
    demand_ += Sane(signals.backlog) / std::max(kLeastBacklogOver, conf::ToSeconds(lead));
  demand_ = std::min(demand_, kMostReplicas);

  const double up = std::ceil(demand_ / settings_.up_at);
  const uint32_t wanted = demand_ > settings_.up_at * replicas ? static_cast<uint32_t>(up) : Fewest(replicas);
  fewest_.Add(wanted, now);
  if (now - *began_ < settings_.hold) return std::max(wanted, replicas);
  return std::max(wanted, std::min(replicas, static_cast<uint32_t>(fewest_.Most())));
}

}  // namespace scheduler::autoscale
