#include "scheduler/sim/world.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "scheduler/sim/draws.h"

namespace scheduler::sim {
namespace {

constexpr size_t kMostSamples = 100'000;
constexpr conf::Duration kLongestWorld = std::chrono::hours(100 * 8760);

conf::TimePoint FirstSubmission(const std::vector<TraceJob>& jobs) {
  return jobs.empty() ? conf::TimePoint() : jobs.front().job.submitted;
}

// The step that was asked for, doubled until the whole trace has few enough samples.
conf::Duration SampleStep(const std::vector<TraceJob>& jobs, conf::Duration wanted) {
  if (jobs.empty()) return wanted;
  const conf::Duration span = jobs.back().job.submitted - jobs.front().job.submitted;
  while (span / wanted > static_cast<int64_t>(kMostSamples)) wanted *= 2;
  return wanted;
}

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

World::World(const Cluster& cluster, std::vector<Queue> queues, Policy policy, std::vector<TraceJob> jobs,
             WorldOptions options)
    : cluster_(&cluster),
      queues_(std::move(queues)),
      policy_(std::move(policy)),
      jobs_(std::move(jobs)),
      options_(std::move(options)),
      fault_rng_(options_.seed),
      user_rng_(fault_rng_.Fork()),
      mix_(MixOf(jobs_, cluster)),
      planner_(cluster, queues_, policy_),
      jtted_(planner_.state(), planner_.shapes()),
      start_(FirstSubmission(jobs_)),
      now_(start_),
      collector_(cluster, queues_, mix_, start_, SampleStep(jobs_, options_.sample_every)),
      lives_(jobs_.size()),
      node_epoch_(cluster.nodes.size()),
      down_(cluster.nodes.size()),
      quarantined_(cluster.nodes.size()),
      drained_(cluster.nodes.size()),
      planner_has_dues_(HasDues(jobs_, policy_, options_)) {
  absl::flat_hash_map<std::string, uint32_t> queue_of;
  for (uint32_t i = 0; i < queues_.size(); ++i) queue_of.emplace(queues_[i].name, i);
  by_id_.reserve(jobs_.size());
  for (uint32_t i = 0; i < jobs_.size(); ++i) {
    by_id_.emplace(jobs_[i].job.id, i);
    lives_[i].queue = queue_of.at(jobs_[i].job.queue);
    if (!jobs_[i].run) ++endless_;
    for (const std::string& before : jobs_[i].job.after) {
      dependents_.resize(jobs_.size());
      dependents_[by_id_.at(before)].push_back(i);
      ++lives_[i].unmet;
    }
  }
  if (options_.mtbf > conf::Duration::zero()) {
    for (NodeId node = 0; node < cluster.nodes.size(); ++node) {
      events_.Push({start_ + Exponential(fault_rng_, options_.mtbf), node, 0, EventKind::kNodeFails});
    }
  }
  for (uint32_t i = 0; i < options_.faults.size(); ++i) {
    events_.Push({start_ + options_.faults[i].at, i, 0, EventKind::kDomainFails});
  }
  for (uint32_t i = 0; i < options_.drains.size(); ++i) {
    events_.Push({start_ + options_.drains[i].at, i, 0, EventKind::kDrains});
    ++coming_;
  }
}

Report World::Run(const std::function<bool(const Progress&)>& progress) {
  const conf::TimePoint end =
      start_ + (options_.horizon > conf::Duration::zero() ? options_.horizon : kLongestWorld);
  while (!NothingWillHappen()) {
    const conf::TimePoint next = NextTime();
    if (next > end) {
      collector_.Advance(end, planner_.state());
      now_ = end;
      break;
    }
    collector_.Advance(next, planner_.state());
    now_ = next;
    while (!events_.empty() && events_.top().at == now_) Handle(events_.Pop());
    while (next_arrival_ < jobs_.size() && jobs_[next_arrival_].job.submitted <= now_)
      Arrive(next_arrival_++);
    PlanIfDue();
    if (progress && !progress({over_, jobs_.size(), now_ - start_})) break;
  }
  return Finish();
}

conf::TimePoint World::NextTime() const {
  conf::TimePoint next = conf::TimePoint::max();
  if (next_arrival_ < jobs_.size()) next = std::max(now_, jobs_[next_arrival_].job.submitted);
  if (!events_.empty()) next = std::min(next, events_.top().at);
  return next;
}

// All that can end has ended, or what waits can never start.
bool World::NothingWillHappen() const {
  if (next_arrival_ < jobs_.size()) return false;
  if (events_.empty()) return true;
  if (over_ + endless_ >= jobs_.size()) return true;
  return active_ == 0 && coming_ == 0 && down_count_ == 0 && !wake_ && events_.top().at > now_;
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
      if (event.epoch == lives_[event.subject].epoch) HandleOfJob(event);
      return;
    case EventKind::kBecomesDue:
      --coming_;
      return BecomeDue(event.subject);
    case EventKind::kDomainFails: {
      scratch_.clear();
      const DomainId domain = options_.faults[event.subject].domain;
      const auto nodes = planner_.state().nodes_under(domain);
      scratch_.assign(nodes.begin(), nodes.end());
      for (const NodeId node : scratch_) FailNode(node);
      return;
    }
    case EventKind::kNodeFails:
      if (event.epoch == node_epoch_[event.subject]) FailNode(event.subject);
      return;
    case EventKind::kNodeIsBack:
      return NodeIsBack(event.subject);
    case EventKind::kDrains: {
      const Drain& drain = options_.drains[event.subject];
      events_.Push({now_ + drain.length, event.subject, 0, EventKind::kDrained});
      drained_[drain.node] = true;
      something_happened_ = true;
      if (!down_[drain.node]) planner_.SetHealth(drain.node, Health::kDraining, now_);
      return;
    }
    case EventKind::kDrained: {
      const NodeId node = options_.drains[event.subject].node;
      --coming_;
      drained_[node] = false;
      something_happened_ = true;
      if (down_[node]) return;
      planner_.SetHealth(node, Health::kHealthy, now_);
      return KeepOut(node);
    }
    case EventKind::kWake:
      if (wake_ == event.at) wake_.reset();
      something_happened_ = true;
      return;
  }
}

void World::HandleOfJob(const Event& event) {
  const uint32_t job = event.subject;
  Life& life = lives_[job];
  switch (event.kind) {
    case EventKind::kEnds:
      return End(job);
    case EventKind::kStopped:
      return StopDone(job);
    case EventKind::kMoved:
      Settle(job);
      planner_.Moved(life.index, now_);
      UpdateHeld(job);
      something_happened_ = true;
      return;
    case EventKind::kCheckpoints:
      return BeginCheckpoint(job);
    case EventKind::kCheckpointed:
      return CheckpointDone(job);
    case EventKind::kGoesIdle:
      return GoIdle(job);
    case EventKind::kComesBack:
      return ComeBack(job);
    default:
      assert(false);
  }
}

void World::Arrive(uint32_t job) {
  Life& life = lives_[job];
  const Job& asked = jobs_[job].job;
  life.index = planner_.Submit(asked, now_);
  life.stage = Stage::kWaiting;
  if (by_index_.size() <= life.index) by_index_.resize(life.index + size_t{1}, 0);
  by_index_[life.index] = job;
  ++counts_.submitted;
  something_happened_ = true;
  if (asked.not_before && *asked.not_before > now_) {
    ++coming_;
    events_.Push({*asked.not_before, job, 0, EventKind::kBecomesDue});
  } else {
    BecomeDue(job);
  }
}

void World::BecomeDue(uint32_t job) {
  Life& life = lives_[job];
  const auto& not_before = jobs_[job].job.not_before;
  if (life.stage != Stage::kWaiting || life.unmet > 0 || (not_before && *not_before > now_)) return;
  life.due = now_;
  something_happened_ = true;
  SetWaiting(job, true);
}

void World::PlanIfDue() {
  if (!something_happened_) return;
  const bool first = last_cycle_ == conf::TimePoint::min();
  std::optional<conf::TimePoint> wake;
  if (!first && now_ < last_cycle_ + options_.min_cycle) {
    wake = last_cycle_ + options_.min_cycle;
  } else {
    something_happened_ = false;
    last_cycle_ = now_;
    ++counts_.cycles;
    if (options_.snapshot_at && now_ >= start_ + *options_.snapshot_at) {
      options_.on_snapshot(planner_.TakeSnapshot(now_));
      options_.snapshot_at.reset();
    }
    Rng draws = CycleRng(options_.seed, planner_.version());
    const Plan plan = planner_.Run(now_, draws);
    if (options_.planned) options_.planned(now_, plan, planner_);
    for (const Action& action : plan.actions) Apply(action);
    ResumeHalted();
    if (planner_has_dues_ && active_ + planner_.pending() > 0) wake = planner_.NextDue();
    if (wake) wake = std::max(*wake, now_ + conf::Duration(1));
  }
  if (wake && (!wake_ || *wake < *wake_)) {
    wake_ = wake;
    events_.Push({*wake, 0, 0, EventKind::kWake});
  }
}

void World::Apply(const Action& action) {
  const uint32_t job = by_id_.at(action.job);
  Life& life = lives_[job];
  switch (action.kind) {
    case ActionKind::kStart:
      return Start(job);
    case ActionKind::kMove:
      ++counts_.moves;
      return Move(job);
    case ActionKind::kShrink:
      Settle(job);
      UpdateHeld(job);
      return Schedule(job);
    case ActionKind::kPreempt:
      ++counts_.preemptions;
      return BeginStop(job, action.grace);
    case ActionKind::kSuspend:
      return BeginStop(job, action.grace);
    case ActionKind::kStop:
      // What never started has left at once.
      return life.stage == Stage::kWaiting ? Over(job, false) : BeginStop(job, action.grace);
  }
}

Report World::Finish() {
  for (uint32_t job = 0; job < next_arrival_; ++job) {
    Life& life = lives_[job];
    if (life.stage == Stage::kOver) continue;
    ++counts_.unfinished;
    if (life.held_milli == 0) continue;
    Settle(job);
    collector_.Uses(Spent::kOpen, life.unsafe_h);
  }
  Report report = collector_.Finish();
  report.seed = options_.seed;
  report.submitted = counts_.submitted;
  report.finished = counts_.finished;
  report.failed = counts_.failed;
  report.unfinished = counts_.unfinished;
  report.preemptions = counts_.preemptions;
  report.moves = counts_.moves;
  report.faults = counts_.faults;
  report.quarantined = counts_.quarantined;
  report.restarts = counts_.restarts;
  report.cycles = counts_.cycles;
  for (size_t i = 0; i < queues_.size(); ++i) report.queues[i].name = queues_[i].name;
  return report;
}

DemandMix MixOf(const std::vector<TraceJob>& jobs, const Cluster& cluster, size_t items) {
  ShapeTable shapes(cluster);
  std::vector<uint64_t> count;
  uint64_t all = 0;
  for (const TraceJob& job : jobs) {
    for (const Role& role : job.job.roles) {
      const std::vector<ShapeId> resolved = shapes.Resolve(role.ask, job.job.tenant);
      if (resolved.empty()) continue;
      count.resize(shapes.size());
      count[resolved.front()] += role.count;
    }
  }
  std::vector<ShapeId> order(count.size());
  for (ShapeId id = 0; id < order.size(); ++id) order[id] = id;
  std::ranges::sort(order, {}, [&](ShapeId id) { return std::pair(~count[id], id); });
  if (order.size() > items) order.resize(items);
  for (const ShapeId id : order) all += count[id];
  DemandMix mix;
  mix.version = 1;
  for (const ShapeId id : order) {
    if (count[id] == 0) break;
    mix.items.push_back({shapes[id], static_cast<double>(count[id]) / static_cast<double>(all)});
  }
  return mix;
}

}  // namespace scheduler::sim
