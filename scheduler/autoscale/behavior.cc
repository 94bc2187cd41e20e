#include "scheduler/autoscale/behavior.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scheduler::autoscale {
namespace {

// A stabilisation of zero still has what is wanted now.
conf::Duration AtLeastNow(conf::Duration window) {
  return std::max(window, conf::Duration(1));
}

}  // namespace

BehaviorLimits::BehaviorLimits(Behavior behavior)
    : behavior_(std::move(behavior)),
      wanted_up_(AtLeastNow(behavior_.scale_up.stabilization)),
      wanted_down_(AtLeastNow(behavior_.scale_down.stabilization)) {
  for (const ScalingRules* rules : {&behavior_.scale_up, &behavior_.scale_down}) {
    for (const RateLimit& limit : rules->policies) longest_ = std::max(longest_, limit.period);
  }
}

int64_t BehaviorLimits::ChangedWithin(conf::Duration period, bool up, conf::TimePoint now) const {
  int64_t by = 0;
  for (const Change& change : changes_) {
    if (change.at > now - period && (change.by > 0) == up) by += std::abs(change.by);
  }
  return by;
}

double BehaviorLimits::UpTo(double current, conf::TimePoint now) const {
  const ScalingRules& rules = behavior_.scale_up;
  if (rules.select == Select::kDisabled) return current;
  if (rules.policies.empty()) return std::numeric_limits<double>::infinity();
  const bool most = rules.select == Select::kMax;
  double allowed = most ? 0 : std::numeric_limits<double>::infinity();
  for (const RateLimit& limit : rules.policies) {
    const double before = current - static_cast<double>(ChangedWithin(limit.period, true, now)) +
                          static_cast<double>(ChangedWithin(limit.period, false, now));
    const double to = limit.type == RateUnit::kReplicas ? before + limit.value
                                                        : std::ceil(before * (1 + limit.value / 100.0));
    allowed = most ? std::max(allowed, to) : std::min(allowed, to);
  }
  return std::max(allowed, current);
}

double BehaviorLimits::DownTo(double current, conf::TimePoint now) const {
  const ScalingRules& rules = behavior_.scale_down;
  if (rules.select == Select::kDisabled) return current;
  if (rules.policies.empty()) return 0;
  const bool most = rules.select == Select::kMax;  // the greatest change: the lowest number
  double allowed = most ? std::numeric_limits<double>::infinity() : 0;
  for (const RateLimit& limit : rules.policies) {
    const double before = current - static_cast<double>(ChangedWithin(limit.period, true, now)) +
                          static_cast<double>(ChangedWithin(limit.period, false, now));
    const double to = limit.type == RateUnit::kReplicas ? before - limit.value
                                                        : std::trunc(before * (1 - limit.value / 100.0));
    allowed = most ? std::min(allowed, to) : std::max(allowed, to);
  }
  return std::clamp(allowed, 0.0, current);
}

uint32_t BehaviorLimits::Apply(uint32_t current, uint32_t wanted, conf::TimePoint now) {
  // As in Kubernetes, the replica count at the first tick counts as wanted.
  if (wanted_up_.empty()) {
    if (behavior_.scale_up.stabilization > conf::Duration::zero()) wanted_up_.Add(current, now);
    if (behavior_.scale_down.stabilization > conf::Duration::zero()) wanted_down_.Add(current, now);
  }
  wanted_up_.Add(wanted, now);
  wanted_down_.Add(wanted, now);
  double to = current;
  to = std::max(to, wanted_up_.Least());
  to = std::min(to, wanted_down_.Most());
  while (!changes_.empty() && changes_.front().at <= now - longest_) changes_.pop_front();
  if (to > current) to = std::min(to, UpTo(current, now));
  if (to < current) to = std::max(to, DownTo(current, now));
  return static_cast<uint32_t>(to);
}

void BehaviorLimits::Changed(uint32_t from, uint32_t to, conf::TimePoint now) {
  if (from != to) changes_.push_back({now, int64_t{to} - int64_t{from}});
}

}  // namespace scheduler::autoscale
