#include "gateway/control/planning/cluster_metrics.h"

#include <algorithm>

namespace gateway::control {
namespace {

constexpr conf::Duration kOccupationStep = std::chrono::minutes(1);
// A clock that jumps, or a machine that slept: that time is not known.
constexpr conf::Duration kLongestOccupationTick = std::chrono::seconds(10);

double DeviceSeconds(int64_t milli, conf::Duration time) {
  return static_cast<double>(milli) / scheduler::kWholeDevice * conf::ToSeconds(time);
}

}  // namespace

void ClusterMetrics::Tick(const scheduler::Planner& planner, conf::TimePoint now) {
  Account(planner.state().totals(), now);
  if (status_.known && now >= figured_ && now - figured_ < kEvery) return;
  figured_ = now;
  status_.known = true;
  status_.now = scheduler::FiguresOf(planner, now);
}

// Ticks are so short that what changes in one counts as from its end.
void ClusterMetrics::Account(const scheduler::ClusterTotals& totals, conf::TimePoint now) {
  const conf::Duration passed = now - std::exchange(accounted_, now);
  if (minutes_.empty() || now < minute_began_ || now - minute_began_ >= kOccupationStep) {
    minute_began_ = now;
    minutes_.emplace_back();
    if (minutes_.size() > kMinutes) minutes_.pop_front();
  }
  if (passed <= conf::Duration::zero() || passed > kLongestOccupationTick) return;
  const double capacity = DeviceSeconds(totals.capacity_milli, passed);
  const double held = DeviceSeconds(totals.allocated_milli, passed);
  status_.capacity_seconds += capacity;
  status_.held_seconds += held;
  minutes_.back().capacity += capacity;
  minutes_.back().held += held;
}

void ClusterMetrics::OnFirstStart(const std::string& queue, int64_t device_milli, conf::Duration waited) {
  const double seconds = std::max(conf::ToSeconds(waited), 0.0);
  WaitsOfJobs& of = status_.waits[{queue, scheduler::SizeClass(device_milli)}];
  const auto bucket = std::ranges::lower_bound(WaitsOfJobs::kBounds, seconds) - WaitsOfJobs::kBounds.begin();
  ++of.counts[static_cast<size_t>(bucket)];
  of.sum += seconds;
  std::deque<double>& last = waited_[queue];
  last.push_back(seconds);
  if (last.size() > kKeptWaits) last.pop_front();
}

ClusterStatus ClusterMetrics::status() const {
  ClusterStatus out = status_;
  Minute sum;
  for (const Minute& minute : minutes_) {
    sum.capacity += minute.capacity;
    sum.held += minute.held;
  }
  out.sor = scheduler::OccupationRate(sum.held, sum.capacity);
  for (const auto& [queue, waits] : waited_) {
    std::vector<double> sorted(waits.begin(), waits.end());
    std::ranges::sort(sorted);
    out.recent[queue] = {.jobs = sorted.size(),
                         .p50 = scheduler::Quantile(sorted, 0.5),
                         .p90 = scheduler::Quantile(sorted, 0.9),
                         .longest = sorted.back()};
  }
  return out;
}

}  // namespace gateway::control
