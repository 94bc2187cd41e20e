#include "scheduler/autoscale/replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "scheduler/autoscale/autoscaler.h"

namespace scheduler::autoscale {
namespace {

constexpr double kTick = 1;        // seconds
constexpr double kNothing = 1e-9;  // seconds of a replica that are rounding

conf::Duration Seconds(double seconds) {
  return conf::Duration(std::llround(seconds * 1e9));
}

// Ratios of the fluid model, from the totals of the observation.
struct Proportions {
  double work_of_request = 0;
  double in_flight_of_work = 0;  // requests at replicas, for each second of work a second
  double occupied_of_work = 0;

  explicit Proportions(std::span<const Observed> observed) {
    double work = 0;
    double arrivals = 0;
    double running = 0;
    double occupied = 0;
    for (const Observed& step : observed) {
      work += step.work * step.seconds;
      arrivals += step.arrivals * step.seconds;
      running += std::max(step.in_flight - step.held, 0.0) * step.seconds;
      occupied += step.occupied * step.seconds;
    }
    if (arrivals > 0) work_of_request = work / arrivals;
    if (work > 0) in_flight_of_work = running / work;
    if (work > 0) occupied_of_work = occupied / work;
  }
};

class Run {
 public:
  Run(const ScalingPolicy& policy, std::span<const Observed> observed, conf::Duration cold_start)
      : autoscaler_(policy), proportions_(observed), cold_start_(cold_start) {
    if (observed.empty()) return;
    const conf::TimePoint begin = observed.front().at - Seconds(observed.front().seconds);
    for (int64_t i = std::llround(observed.front().ready); i > 0; --i)
      replicas_.push_back({.id = next_id_++, .phase = ReplicaPhase::kReady, .since = begin});
    out_.steps.reserve(observed.size());
    for (const Observed& step : observed) {
      conf::TimePoint now = step.at - Seconds(step.seconds);
      for (double left = step.seconds; left > kNothing; left -= kTick) {
        const double passed = std::min(left, kTick);
        now += Seconds(passed);
        Tick(step.work, passed, now);
      }
      out_.steps.push_back({.at = step.at,
                            .demand = demand_,
                            .ready = Ready(),
                            .there = static_cast<uint32_t>(replicas_.size()),
                            .waiting = waiting_});
    }
  }

  Replayed Take() { return std::move(out_); }

 private:
  struct Work {
    conf::TimePoint came;
    double left;
  };

  uint32_t Ready() const {
    return static_cast<uint32_t>(std::ranges::count(replicas_, ReplicaPhase::kReady, &ReplicaView::phase));
  }

  // What could be done since the last tick; returns how much was.
  double Serve(double work, double passed, conf::TimePoint now) {
    out_.work += work * passed;
    if (work > 0) queue_.push_back({now, work * passed});
    double can = Ready() * passed;
    double done = 0;
    late_ = 0;
    while (!queue_.empty()) {
      Work& first = queue_.front();
      const conf::Duration waited = now - first.came;
      const bool gives_up = waited > autoscaler_.policy().hold;
      if (!gives_up && can <= kNothing) break;
      const double part = gives_up ? first.left : std::min(first.left, can);
      if (gives_up) {
        out_.refused += part;
      } else {
        can -= part;
        done += part;
        if (waited > autoscaler_.policy().ttft) late_ += part;
      }
      out_.longest_wait = std::max(out_.longest_wait, waited);
      first.left -= part;
      if (first.left > kNothing) break;
      queue_.pop_front();
    }
    out_.late += late_;
    waiting_ = 0;
    for (const Work& one : queue_) waiting_ += one.left;
    return done;
  }

  void Tick(double work, double passed, conf::TimePoint now) {
    out_.replica_seconds += static_cast<double>(replicas_.size()) * passed;
    for (ReplicaView& replica : replicas_) {
      if (replica.phase != ReplicaPhase::kPending || now - replica.since < cold_start_) continue;
      replica.phase = ReplicaPhase::kReady;
      replica.since = now;
    }
    const double rate = Serve(work, passed, now) / passed;
    out_.most = std::max(out_.most, Ready());

    Signals signals;
    signals.demand = {
        .work = work,
        .backlog = waiting_,
        .oldest = queue_.empty() ? conf::Duration() : now - queue_.front().came,
        .occupied = std::min(rate * proportions_.occupied_of_work, static_cast<double>(Ready()))};
    if (const double each = proportions_.work_of_request; each > 0) {
      signals.held = waiting_ / each;
      signals.demand.first_tokens = {.came = rate * passed / each, .late = late_ / each};
    }
    signals.in_flight = rate * proportions_.in_flight_of_work + signals.held;
    const Decision decision = autoscaler_.Tick(signals, replicas_, cold_start_, now);
    demand_ = decision.demand;
    const auto gone = [&](const ReplicaView& replica) {
      const auto among = [&](const std::vector<uint32_t>& ids) {
        return std::ranges::find(ids, replica.id) != ids.end();
      };
      return among(decision.drain) || among(decision.cancel) || among(decision.failed);
    };
    out_.stops += static_cast<uint32_t>(std::erase_if(replicas_, gone));
    for (uint32_t i = 0; i < decision.start; ++i)
      replicas_.push_back({.id = next_id_++, .phase = ReplicaPhase::kPending, .since = now});
    out_.starts += decision.start;
  }

  Autoscaler autoscaler_;
  const Proportions proportions_;
  const conf::Duration cold_start_;
  std::vector<ReplicaView> replicas_;
  std::deque<Work> queue_;
  double waiting_ = 0;
  double late_ = 0;  // of what was done in the last tick
  double demand_ = 0;
  uint32_t next_id_ = 1;
  Replayed out_;
};

}  // namespace

Replayed Replay(const ScalingPolicy& policy, std::span<const Observed> observed, conf::Duration cold_start) {
  return Run(policy, observed, cold_start).Take();
}

}  // namespace scheduler::autoscale
