#include "scheduler/autoscale/autoscaler.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scheduler/autoscale/sane.h"

namespace scheduler::autoscale {
namespace {

constexpr double kRecentSeconds = 60;
constexpr conf::Duration kScheduleEvery = std::chrono::minutes(1);  // the resolution of cron

Behavior BehaviorOf(const ScalingPolicy& policy) {
  if (policy.behavior) return *policy.behavior;
  return policy.law == Law::kHpa ? HpaBehavior() : Behavior{};
}

}  // namespace

Autoscaler::Autoscaler(ScalingPolicy policy)
    : policy_(std::move(policy)),
      demand_(policy_),
      kpa_(policy_.kpa),
      hpa_(policy_.hpa),
      limits_(BehaviorOf(policy_)) {}

std::optional<Hindsight::Memory> Autoscaler::memory() const {
  return policy_.law == Law::kDemand ? std::optional(demand_.memory()) : std::nullopt;
}

uint32_t Autoscaler::AskLaw(const Signals& signals, const Counts& counts, conf::Duration cold_start,
                            conf::TimePoint now, Decision& out) {
  const double in_flight = Sane(signals.in_flight);
  uint32_t wanted = 0;
  switch (policy_.law) {
    case Law::kDemand:
      wanted = demand_.Decide(signals.demand, in_flight - Sane(signals.held), counts.there(), counts.coming,
                              cold_start, now);
      out.demand = demand_.demand();
      out.headroom = demand_.headroom().part();
      out.late = demand_.headroom().late();
      out.why = out.headroom > 0 ? "demand, and first tokens came late" : "demand";
      return wanted;
    case Law::kKpa:
      wanted = kpa_.Decide(in_flight, counts.ready, now);
      out.why = kpa_.panics() ? "requests in flight, panic" : "requests in flight";
      break;
    case Law::kHpa:
      wanted = hpa_.Decide(in_flight, counts.there(), now);
      out.why = "requests in flight";
      break;
    case Law::kSchedule:
      out.why = "schedule";
      break;
  }
  out.demand = wanted;
  return wanted;
}

uint32_t Autoscaler::Bounded(const Signals& signals, uint32_t wanted, uint32_t there, conf::TimePoint now,
                             Decision& out) {
  if (Sane(signals.in_flight) > 0 || Sane(signals.demand.work) > 0 || !busy_at_) busy_at_ = now;
  // Whatever the law would keep for traffic that may return.
  if (now - *busy_at_ >= policy_.scale_to_zero_after) wanted = 0;
  if (wanted == 0 && Sane(signals.held) > 0) {
    wanted = 1;
    out.why = "requests are held";
  }
  const bool in_use = wanted > 0 || (there > 0 && now - *busy_at_ < policy_.scale_to_zero_after);
  if (in_use && wanted < policy_.standby) {
    out.why = wanted > 0 ? "idle.standby" : "not idle for long enough";
    wanted = policy_.standby;
  }
  // Rate limits would keep zero replicas at zero.
  uint32_t to = there == 0 ? std::max(limits_.Apply(there, wanted, now), std::min(wanted, 1u))
                           : limits_.Apply(there, wanted, now);
  if (to != wanted) out.why = "behavior";
  if (!floor_at_ || now - *floor_at_ >= kScheduleEvery) {
    floor_ = FloorAt(policy_.schedule, now);
    floor_at_ = std::chrono::floor<std::chrono::minutes>(now);
  }
  const uint32_t least = std::max(policy_.min, floor_);
  if (to < least) {
    to = least;
    out.why = floor_ > policy_.min ? "schedule" : "replicas.min";
  }
  if (to > policy_.max) {
    to = policy_.max;
    out.why = "replicas.max";
  }
  return held_.value_or(to);
}

Decision Autoscaler::Tick(const Signals& signals, std::span<const ReplicaView> replicas,
                          conf::Duration cold_start, conf::TimePoint now) {
  const double passed = conf::ToSeconds(now - last_.value_or(now));
  last_ = now;
  recent_load_ += (Sane(signals.demand.work) - recent_load_) * -std::expm1(-passed / kRecentSeconds);
  Decision out;
  Counts counts;
  std::vector<ReplicaView> coming;
  std::vector<ReplicaView> ready;
  std::vector<ReplicaView> draining;
  for (const ReplicaView& replica : replicas) {
    const bool failed = replica.phase == ReplicaPhase::kPending && cold_start > conf::Duration::zero() &&
                        now - replica.since > 2 * cold_start;
    if (failed) {
      out.failed.push_back(replica.id);
    } else if (replica.phase == ReplicaPhase::kReady) {
      ready.push_back(replica);
    } else {
      (replica.phase == ReplicaPhase::kDraining ? draining : coming).push_back(replica);
    }
  }
  counts.ready = static_cast<uint32_t>(ready.size());
  counts.coming = static_cast<uint32_t>(coming.size());
  const uint32_t there = counts.there();
  out.wanted = Bounded(signals, AskLaw(signals, counts, cold_start, now, out), there, now, out);
  limits_.Changed(there, out.wanted, now);

  if (out.wanted > there) {
    uint32_t more = out.wanted - there;
    // The busiest first: it has the most to lose, and the warmest cache.
    std::ranges::sort(draining, {},
                      [](const ReplicaView& r) { return std::tuple(-int64_t{r.in_flight}, r.id); });
    for (const ReplicaView& replica : draining) {
      if (more == 0) break;
      out.take_back.push_back(replica.id);
      --more;
    }
    out.start = more;
    return out;
  }
  uint32_t fewer = there - out.wanted;
  std::ranges::sort(coming, {}, [](const ReplicaView& r) {
    return std::tuple(r.phase != ReplicaPhase::kUnplaced, -r.since.time_since_epoch().count(), r.id);
  });
  std::ranges::sort(ready, {}, [](const ReplicaView& r) {
    return std::tuple(r.in_flight, -r.since.time_since_epoch().count(), r.id);
  });
  for (const ReplicaView& replica : coming) {
    if (fewer == 0) break;
    out.cancel.push_back(replica.id);
    --fewer;
  }
  for (const ReplicaView& replica : ready) {
    if (fewer == 0) break;
    out.drain.push_back(replica.id);
    --fewer;
  }
  return out;
}

}  // namespace scheduler::autoscale
