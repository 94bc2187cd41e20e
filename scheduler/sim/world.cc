#include "scheduler/sim/world.h"

#include <algorithm>
#include <utility>

namespace scheduler::sim {
namespace {

constexpr conf::Duration kLongestWorld = std::chrono::hours(100 * 8760);
// A job that waits behind jobs that never end, and has not started after this time, never will.
constexpr conf::Duration kLongestStandstill = std::chrono::hours(90 * 24);

bool HasDues(const std::vector<TraceJob>& jobs, const Policy& policy, const WorldOptions& options) {
  if (policy.defragment.enabled || options.mtbf > conf::Duration::zero() || !options.faults.empty()) {
    return true;
  }
  return std::ranges::any_of(jobs, [](const TraceJob& job) {
    return job.job.limit || job.job.not_before || job.job.idle_timeout > conf::Duration::zero() ||
           job.job.topology.wait > conf::Duration::zero();
  });
}

}  // namespace

World::World(const Cluster& cluster, std::vector<Queue> queues, Policy policy,
             const std::vector<TraceJob>& jobs, WorldOptions options)
    : sim_(cluster, std::move(queues), std::move(policy), jobs, std::move(options)),
      lives_(sim_),
      outages_(sim_, lives_),
      planner_has_dues_(HasDues(jobs, sim_.policy, sim_.options)) {}

Report World::Run(const std::function<bool(const Progress&)>& progress) {
  const conf::TimePoint end =
      sim_.start + (sim_.options.horizon > conf::Duration::zero() ? sim_.options.horizon : kLongestWorld);
  while (!NothingWillHappen()) {
    const conf::TimePoint next = NextTime();
    if (next > end) {
      sim_.collector.Advance(end, sim_.planner.state());
      sim_.now = end;
      break;
    }
    sim_.collector.Advance(next, sim_.planner.state());
    sim_.now = next;
    while (!sim_.events.empty() && sim_.events.top().at == sim_.now) Handle(sim_.events.Pop());
    while (!AllHaveArrived() && NextArrival() <= sim_.now) lives_.Arrive();
    PlanIfDue();
    if (progress && !progress({lives_.over(), sim_.arrivals.size(), sim_.now - sim_.start})) break;
  }
  return Finish();
}

conf::TimePoint World::NextTime() const {
  conf::TimePoint next = conf::TimePoint::max();
  if (!AllHaveArrived()) next = std::max(sim_.now, NextArrival());
  if (!sim_.events.empty()) next = std::min(next, sim_.events.top().at);
  return next;
}

// All that can end has ended, or what waits can never start.
bool World::NothingWillHappen() const {
  if (!AllHaveArrived()) return false;
  if (sim_.events.empty()) return true;
  if (lives_.all_over()) return true;
  if (sim_.coming == 0 && lives_.only_endless_for() > kLongestStandstill) return true;
  return lives_.active() == 0 && sim_.coming == 0 && outages_.down() == 0 && !wake_ &&
         sim_.events.top().at > sim_.now;
}

void World::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kEnds:
    case EventKind::kStopped:
    case EventKind::kMoved:
    case EventKind::kCheckpoints:
    case EventKind::kCheckpointed:
    case EventKind::kGoesIdle:
    case EventKind::kComesBack:
    case EventKind::kBecomesDue:
      return lives_.Handle(event);
    case EventKind::kDomainFails:
    case EventKind::kNodeFails:
    case EventKind::kNodeIsBack:
    case EventKind::kDrains:
    case EventKind::kDrained:
      return outages_.Handle(event);
    case EventKind::kWake:
      if (wake_ == event.at) wake_.reset();
      sim_.something_happened = true;
      return;
  }
}

void World::PlanIfDue() {
  if (!sim_.something_happened) return;
  const bool first = last_cycle_ == conf::TimePoint::min();
  std::optional<conf::TimePoint> wake;
  if (!first && sim_.now < last_cycle_ + sim_.options.min_cycle) {
    wake = last_cycle_ + sim_.options.min_cycle;
  } else {
    sim_.something_happened = false;
    last_cycle_ = sim_.now;
    ++sim_.counts.cycles;
    if (sim_.options.snapshot_at && sim_.now >= sim_.start + *sim_.options.snapshot_at) {
      sim_.options.on_snapshot(sim_.planner.TakeSnapshot(sim_.now));
      sim_.options.snapshot_at.reset();
    }
    Rng draws = CycleRng(sim_.options.seed, sim_.planner.version());
    const Plan plan = sim_.planner.Run(sim_.now, draws);
    if (sim_.options.planned) sim_.options.planned(sim_.now, plan, sim_.planner);
    for (const Action& action : plan.actions) lives_.Apply(action);
    lives_.ResumeHalted();
    if (lives_.active() + sim_.planner.pending() > 0)
      wake = planner_has_dues_ ? sim_.planner.NextDue() : sim_.planner.NextReservedStart();
    if (wake) wake = std::max(*wake, sim_.now + conf::Duration(1));
  }
  if (wake && (!wake_ || *wake < *wake_)) {
    wake_ = wake;
    sim_.events.Push({*wake, 0, 0, EventKind::kWake});
  }
}

Report World::Finish() {
  lives_.CountUnfinished();
  Report report = sim_.collector.Finish();
  report.seed = sim_.options.seed;
  report.submitted = sim_.counts.submitted;
  report.finished = sim_.counts.finished;
  report.failed = sim_.counts.failed;
  report.unfinished = sim_.counts.unfinished;
  report.preemptions = sim_.counts.preemptions;
  report.moves = sim_.counts.moves;
  report.faults = sim_.counts.faults;
  report.quarantined = sim_.counts.quarantined;
  report.restarts = sim_.counts.restarts;
  report.cycles = sim_.counts.cycles;
  for (size_t i = 0; i < sim_.queues.size(); ++i) report.queues[i].name = sim_.queues[i].name;
  return report;
}

}  // namespace scheduler::sim
