#include "scheduler/autoscale/demand.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <numbers>

#include "scheduler/autoscale/sane.h"

namespace scheduler::autoscale {
namespace {

constexpr conf::Duration kRecent = std::chrono::seconds(5);  // about what requests may wait for
constexpr double kSure = 2;                                  // standard deviations that are no chance
constexpr double kNoiseOver = 120;                           // seconds, "of late"
constexpr double kDeviationOver = 600;
constexpr conf::Duration kUnknownColdStart = std::chrono::seconds(90);
constexpr conf::Duration kLongestLead = std::chrono::minutes(10);
constexpr double kBacklogOver = 15;  // seconds in which it should be gone
constexpr double kMostMargin = 0.5;  // of the level
constexpr double kMostReplicas = 1e9;
constexpr double kUsualAttainment = 0.99;

// Standard deviations above the mean below which a part of a normal distribution is.
double Deviations(double part) {
  return std::numbers::sqrt2 * boost::math::erf_inv(2 * std::clamp(part, 0.5, 0.9999) - 1);
}

}  // namespace

DemandLaw::DemandLaw(const ScalingPolicy& policy)
    : settings_(policy.demand),
      ttft_(policy.ttft),
      margin_(settings_.margin * Deviations(policy.attainment) / Deviations(kUsualAttainment)),
      headroom_(policy.attainment, policy.ttft),
      work_(std::max(settings_.window, kRecent)),
      fewest_(std::max(settings_.hold, conf::Duration(1))) {}

// The least that one may go down to from here.
uint32_t DemandLaw::Fewest(uint32_t replicas) const {
  while (replicas > 0 && demand_ <= settings_.down_at * replicas &&
         demand_ <= settings_.up_at * (replicas - 1)) {
    --replicas;
  }
  return replicas;
}

double DemandLaw::LevelNow(double work, double passed, conf::TimePoint now) {
  work_.Add(work, now);
  // Two that follow one another differ by chance, whatever the trend.
  const double step = work - before_;
  before_ = work;
  const double kept = std::exp(-passed / kNoiseOver);
  noise_ = noise_ * kept + step * step / 2 * passed * (1 - kept);
  recent_ = work_.Mean(kRecent, now);
  const double sure = recent_ - kSure * std::sqrt(noise_ / conf::ToSeconds(kRecent));
  return std::max(work_.Mean(settings_.window, now), sure);
}

void DemandLaw::LearnDeviation(double level, double passed, conf::Duration cold_start, conf::TimePoint now) {
  const conf::Duration lead =
      cold_start > conf::Duration::zero() ? std::min(cold_start, kLongestLead) : kUnknownColdStart;
  levels_.push_back({now, level});
  while (levels_.size() > 1 && levels_[1].at <= now - lead) levels_.pop_front();
  if (levels_.front().at > now - lead) {
    variance_ = noise_ / conf::ToSeconds(kRecent);  // nothing was expected yet
    return;
  }
  const double off = recent_ - levels_.front().work;
  const double heard = conf::ToSeconds(now - *began_);
  variance_ += (off * off - variance_) * std::min(1.0, passed / std::min(kDeviationOver, heard));
}

uint32_t DemandLaw::Decide(const DemandSignals& signals, uint32_t replicas, uint32_t coming,
                           conf::Duration cold_start, conf::TimePoint now) {
  const double work = Sane(signals.work);
  if (!began_) {
    began_ = last_ = now;
    before_ = work;
  }
  const double passed = conf::ToSeconds(now - last_);
  last_ = now;
  const double level = LevelNow(work, passed, now);
  LearnDeviation(level, passed, cold_start, now);
  // After a fall the deviation is that of times that are over.
  demand_ = level + std::min(margin_ * std::sqrt(variance_), kMostMargin * level);
  demand_ = std::max(demand_, Sane(signals.occupied));
  headroom_.Learn(signals.first_tokens, coming > 0, now);
  demand_ *= 1 + headroom_.part();
  if (signals.oldest > ttft_ / 2) demand_ += Sane(signals.backlog) / kBacklogOver;
  demand_ = std::min(demand_, kMostReplicas);

  const double up = std::ceil(demand_ / settings_.up_at);
  const uint32_t wanted = demand_ > settings_.up_at * replicas ? static_cast<uint32_t>(up) : Fewest(replicas);
  fewest_.Add(wanted, now);
  if (now - *began_ < settings_.hold) return std::max(wanted, replicas);
  return std::max(wanted, std::min(replicas, static_cast<uint32_t>(fewest_.Most())));
}

}  // namespace scheduler::autoscale
