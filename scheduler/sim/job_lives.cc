#include "scheduler/sim/job_lives.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <utility>

#include "scheduler/sim/draws.h"
#include "scheduler/state/shape_table.h"

namespace scheduler::sim {
namespace {

constexpr conf::Duration kBeyond = std::chrono::hours(30 * 8760);

double DeviceHours(int64_t milli, conf::Duration time) {
  return static_cast<double>(milli) / kWholeDevice * (static_cast<double>(time.count()) / 3.6e12);
}

conf::Duration Scaled(conf::Duration time, double factor) {
  if (factor == 1) return time;
  const double scaled = static_cast<double>(time.count()) * factor;
  return conf::Duration(std::llround(std::min(scaled, static_cast<double>(kBeyond.count()))));
}

}  // namespace

JobLives::JobLives(Simulation& simulation) : sim_(simulation), lives_(simulation.arrivals.size()) {
  for (uint32_t i = 0; i < sim_.queues.size(); ++i) queues_.emplace(sim_.queues[i].name, i);
  const std::vector<TraceJob>& rows = sim_.arrivals.trace();
  const auto endless = std::ranges::count_if(rows, [](const TraceJob& row) { return !row.run; });
  endless_ = static_cast<uint32_t>(endless) * sim_.arrivals.times();
  if (std::ranges::any_of(rows, [](const TraceJob& row) { return !row.job.after.empty(); })) {
    ReadDependencies();
  }
}

// Jobs wait for others of their own run.
void JobLives::ReadDependencies() {
  const std::vector<TraceJob>& rows = sim_.arrivals.trace();
  absl::flat_hash_map<std::string_view, size_t> row_of;
  dependents_.resize(rows.size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    row_of.emplace(rows[i].job.id, i);
    for (const std::string& before : rows[i].job.after) dependents_[row_of.at(before)].push_back(i);
    for (size_t job = i; job < lives_.size(); job += rows.size()) {
      lives_[job].unmet = static_cast<uint32_t>(rows[i].job.after.size());
    }
  }
}

void JobLives::Handle(const Event& event) {
  const uint32_t job = event.subject;
  if (event.kind == EventKind::kBecomesDue) {
    --sim_.coming;
    return BecomeDue(job);
  }
  Life& life = lives_[job];
  if (event.kind == EventKind::kMoved) {  // whatever else happens to the job meanwhile
    if (life.leaves == event.at) PlacesLeft(job);
    return;
  }
  if (event.epoch != life.epoch) return;
  switch (event.kind) {
    case EventKind::kEnds:
      return End(job);
    case EventKind::kStopped:
      return StopDone(job);
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

void JobLives::Arrive() {
  const uint32_t job = sim_.arrivals.next();
  const Job& asked = AskOf(job);
  Life& life = lives_[job];
  by_id_.emplace(sim_.arrivals.IdOf(job), job);
  life.index = sim_.planner.Submit(sim_.arrivals.Submit(), sim_.now);
  life.stage = Stage::kWaiting;
  life.queue = queues_.at(asked.queue);
  life.due = sim_.now;
  if (by_index_.size() <= life.index) by_index_.resize(life.index + size_t{1}, 0);
  by_index_[life.index] = job;
  ++sim_.counts.submitted;
  changed_ = sim_.now;
  sim_.something_happened = true;
  if (life.hopeless) {
    sim_.planner.Withdraw(life.index, sim_.now);
    return Over(job, false);
  }
  if (asked.not_before && *asked.not_before > sim_.now) {
    ++sim_.coming;
    sim_.events.Push({*asked.not_before, job, 0, EventKind::kBecomesDue});
  } else {
    BecomeDue(job);
  }
}

void JobLives::BecomeDue(uint32_t job) {
  Life& life = lives_[job];
  const auto& not_before = AskOf(job).not_before;
  if (life.stage != Stage::kWaiting || life.unmet > 0 || (not_before && *not_before > sim_.now)) return;
  life.due = sim_.now;
  sim_.something_happened = true;
  SetWaiting(job, true);
}

void JobLives::Apply(const Action& action) {
  const uint32_t job = by_id_.at(action.job);
  Life& life = lives_[job];
  switch (action.kind) {
    case ActionKind::kStart:
      return Start(job);
    case ActionKind::kMove:
      ++sim_.counts.moves;
      return Move(job);
    case ActionKind::kShrink:
      return Shrink(job, action.grace);
    case ActionKind::kPreempt:
      ++sim_.counts.preemptions;
      return BeginStop(job, action.grace);
    case ActionKind::kSuspend:
      return BeginStop(job, action.grace);
    case ActionKind::kStop:
      // A job that never started leaves at once.
      return life.stage == Stage::kWaiting ? Over(job, false) : BeginStop(job, action.grace);
  }
}

std::vector<uint32_t> JobLives::SettleOn(NodeId node) {
  std::vector<uint32_t> hit;
  const ClusterState& state = sim_.planner.state();
  for (const MemberId id : state.on(node)) hit.push_back(by_index_[state.member(id).job]);
  std::ranges::sort(hit);
  hit.erase(std::unique(hit.begin(), hit.end()), hit.end());
  for (const uint32_t job : hit) Settle(job);
  return hit;
}

void JobLives::FailMembers(const std::vector<uint32_t>& jobs) {
  for (const uint32_t job : jobs) {
    Life& life = lives_[job];
    RollBack(job);
    if (life.stage == Stage::kStopping) {
      life.saves = false;  // it is stopped when its grace ends, with nothing left to save
    } else if (life.stage == Stage::kRunning) {
      ++sim_.counts.restarts;
      ++life.epoch;
      life.idle = false;
      life.stage = Stage::kHalted;
      life.useful_from = conf::TimePoint::max();
      halted_.push_back(job);
    }
    UpdateHeld(job);
  }
}

void JobLives::ResumeHalted() {
  for (const uint32_t job : halted_) {
    Life& life = lives_[job];
    if (life.stage != Stage::kHalted) continue;
    Settle(job);
    life.stage = Stage::kRunning;
    life.useful_from = sim_.now + RestoreTime(job);
    UpdateHeld(job);
    Schedule(job);
  }
  halted_.clear();
}

void JobLives::CountUnfinished() {
  for (uint32_t job = 0; job < sim_.arrivals.next(); ++job) {
    Life& life = lives_[job];
    if (life.stage == Stage::kOver) continue;
    ++sim_.counts.unfinished;
    if (life.held_milli == 0) continue;
    Settle(job);
    sim_.collector.Uses(Spent::kOpen, life.unsafe_h);
  }
}

void JobLives::PushOfJob(EventKind kind, uint32_t job, conf::TimePoint at) {
  sim_.events.Push({at, job, lives_[job].epoch, kind});
}

bool JobLives::HasContract(uint32_t job) const {
  return AskOf(job).checkpoint.interval > conf::Duration::zero();
}

conf::Duration JobLives::RestoreTime(uint32_t job) const {
  const bool restores = lives_[job].kept > conf::Duration::zero();
  return sim_.options.load + (restores ? AskOf(job).checkpoint.restart : conf::Duration::zero());
}

void JobLives::SetWaiting(uint32_t job, bool waits) {
  Life& life = lives_[job];
  if (life.counted_waiting == waits) return;
  life.counted_waiting = waits;
  sim_.collector.Waits(life.queue, DeviceMilli(AskOf(job), *sim_.cluster), waits ? 1 : -1);
}

// Accounts for the time since the last call: first no work, until `useful_from`, then work.
void JobLives::Settle(uint32_t job) {
  Life& life = lives_[job];
  const conf::TimePoint from = std::exchange(life.settled, sim_.now);
  if (life.held_milli == 0 && life.rate == 0) return;
  const conf::TimePoint useful = std::clamp(life.useful_from, from, sim_.now);
  const Spent pause = life.idle ? Spent::kIdle : life.checkpoints ? Spent::kSaved : Spent::kRestarted;
  sim_.collector.Uses(pause, DeviceHours(life.held_milli, useful - from));
  life.unsafe_h += DeviceHours(life.held_milli, sim_.now - useful);
  life.done += Scaled(sim_.now - useful, life.rate);
}

void JobLives::BeginCheckpoint(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  life.checkpoints = true;
  life.useful_from = sim_.now + AskOf(job).checkpoint.save;
  Schedule(job);
}

void JobLives::CheckpointDone(uint32_t job) {
  Settle(job);
  lives_[job].checkpoints = false;
  Keep(job);
  sim_.planner.Checkpointed(lives_[job].index, sim_.now);
}

void JobLives::Keep(uint32_t job) {
  Life& life = lives_[job];
  life.kept = life.done;
  sim_.collector.Uses(Spent::kUseful, life.unsafe_h);
  life.unsafe_h = 0;
}

void JobLives::RollBack(uint32_t job) {
  Life& life = lives_[job];
  life.checkpoints = false;
  life.done = life.kept;
  sim_.collector.Uses(Spent::kLost, life.unsafe_h);
  life.unsafe_h = 0;
}

// Reads the job's devices from the planner; its accounts are settled.
void JobLives::UpdateHeld(uint32_t job) {
  Life& life = lives_[job];
  int64_t held = 0;
  uint32_t members = 0;
  const ClusterState& state = sim_.planner.state();
  const bool holds =
      life.stage == Stage::kRunning || life.stage == Stage::kHalted || life.stage == Stage::kStopping;
  if (holds) {
    for (const MemberId id : state.of(life.index)) {
      const Holding& holding = state.member(id).holding;
      held += HeldMilli(holding, state.view_of(holding.node));
      ++members;
    }
  }
  const uint32_t wanted = Members(AskOf(job));
  life.rate = members >= wanted ? 1 : static_cast<double>(members) / wanted;
  if (held != life.held_milli) sim_.collector.Holds(life.queue, held - life.held_milli);
  life.held_milli = held;
}

void JobLives::MeasurePlace(uint32_t job) {
  const JobIndex index = lives_[job].index;
  if (lives_[job].held_milli == 0 || Members(AskOf(job)) < 2) return;
  sim_.collector.Placed(sim_.jtted.Of(index, sim_.planner.jobs()[index]), lives_[job].held_milli);
}

void JobLives::CountActive(uint32_t job, int change) {
  active_ += static_cast<uint32_t>(change);
  sim_.collector.Runs(change);
  if (!RunOf(job) && !AskOf(job).limit) return;
  active_ending_ += static_cast<uint32_t>(change);
  changed_ = sim_.now;
}

void JobLives::Start(uint32_t job) {
  Life& life = lives_[job];
  if (life.stage == Stage::kWaiting) {
    SetWaiting(job, false);
    CountActive(job, 1);
    if (!life.was_started)
      sim_.collector.FirstStart(sim_.now - life.due, DeviceMilli(AskOf(job), *sim_.cluster));
    life.was_started = true;
    life.settled = sim_.now;
    life.useful_from = sim_.now + RestoreTime(job);
  } else {
    Settle(job);
    // After a fault all members restore; members that only join do not hold up the others.
    if (life.stage == Stage::kHalted) life.useful_from = sim_.now + RestoreTime(job);
  }
  life.stage = Stage::kRunning;
  UpdateHeld(job);
  MeasurePlace(job);
  Schedule(job);
}

void JobLives::Schedule(uint32_t job) {
  Life& life = lives_[job];
  ++life.epoch;
  if (life.idle) {
    if (life.stage == Stage::kRunning && life.back != conf::TimePoint::max())
      PushOfJob(EventKind::kComesBack, job, life.back);
    return;
  }
  if (life.rate == 0) return;
  const conf::TimePoint from = std::max(sim_.now, life.useful_from);
  const Job& asked = AskOf(job);
  if (const std::optional<conf::Duration> run = RunOf(job)) {
    const conf::Duration left = std::max(*run - life.done, conf::Duration::zero());
    // A part of the members may need longer than any world lasts.
    const conf::Duration needed = Scaled(left, 1 / life.rate);
    if (needed < kBeyond) PushOfJob(EventKind::kEnds, job, from + needed);
  }
  if (life.checkpoints) PushOfJob(EventKind::kCheckpointed, job, life.useful_from);
  if (HasContract(job) && life.stage == Stage::kRunning) {
    PushOfJob(EventKind::kCheckpoints, job, from + asked.checkpoint.interval);
  }
  if (asked.work == WorkClass::kNotebook && asked.idle_timeout > conf::Duration::zero() &&
      life.stage == Stage::kRunning) {
    PushOfJob(EventKind::kGoesIdle, job, from + Exponential(sim_.user_rng, sim_.options.notebook_used));
  }
}

void JobLives::BeginStop(uint32_t job, conf::Duration grace) {
  Life& life = lives_[job];
  Settle(job);
  if (life.stage == Stage::kHalted) {
    ++life.epoch;
    life.saves = false;
  } else {
    const conf::Duration save = AskOf(job).checkpoint.save;
    // A notebook's state is on its disk, whatever happens.
    const bool can_save =
        (HasContract(job) && sim_.options.saves_when_told) || AskOf(job).work == WorkClass::kNotebook;
    life.saves = can_save && save <= grace;
    life.stage = Stage::kStopping;
    if (life.saves) {
      grace = save;
      ++life.epoch;
    } else {
      Schedule(job);  // it may end by itself before the grace does
    }
  }
  life.stage = Stage::kStopping;
  if (life.saves) {
    life.useful_from = conf::TimePoint::max();
    life.checkpoints = false;
  }
  PushOfJob(EventKind::kStopped, job, sim_.now + grace);
}

void JobLives::StopDone(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  ++life.epoch;
  life.idle = false;
  life.leaves = conf::TimePoint::min();
  if (life.saves) {
    Keep(job);
    sim_.planner.Checkpointed(life.index, sim_.now);
  } else {
    RollBack(job);
  }
  const JobIndex index = life.index;
  sim_.planner.Stopped(index, sim_.now);
  sim_.something_happened = true;
  CountActive(job, -1);
  const JobEntry& entry = sim_.planner.jobs()[index];
  if (!entry.alive) return Over(job, false);
  life.stage = entry.phase == Phase::kSuspended ? Stage::kSuspended : Stage::kWaiting;
  UpdateHeld(job);
  if (life.stage == Stage::kWaiting) {
    SetWaiting(job, true);
  } else {
    ++sim_.coming;
    PushOfJob(EventKind::kComesBack, job, sim_.now + Exponential(sim_.user_rng, sim_.options.notebook_idle));
  }
}

void JobLives::End(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  Keep(job);
  sim_.planner.Ended(life.index, sim_.now);
  CountActive(job, -1);
  sim_.collector.Finished(sim_.now - life.due, *RunOf(job));
  Over(job, true);
}

void JobLives::Over(uint32_t job, bool well) {
  Life& life = lives_[job];
  ++life.epoch;
  life.leaves = conf::TimePoint::min();
  SetWaiting(job, false);
  life.stage = Stage::kOver;
  UpdateHeld(job);
  life.index = kNone;
  by_id_.erase(sim_.arrivals.IdOf(job));
  ++over_;
  sim_.something_happened = true;
  if (!RunOf(job)) --endless_;
  ++(well ? sim_.counts.finished : sim_.counts.failed);
  for (const uint32_t next : DependentsOf(job)) {
    if (well) {
      --lives_[next].unmet;
      BecomeDue(next);
    } else {
      lives_[next].hopeless = true;  // the planner stops those that it knows
    }
  }
}

std::vector<uint32_t> JobLives::DependentsOf(uint32_t job) const {
  std::vector<uint32_t> dependents;
  if (dependents_.empty()) return dependents;
  const auto rows = static_cast<uint32_t>(dependents_.size());
  for (const uint32_t row : dependents_[job % rows]) dependents.push_back(job - job % rows + row);
  return dependents;
}

// Members start at the new places before they leave the old ones. What trains saves and restores once; a
// replica is replaced without a gap.
void JobLives::Move(uint32_t job) {
  Life& life = lives_[job];
  const Job& asked = AskOf(job);
  Settle(job);
  UpdateHeld(job);
  conf::TimePoint moved = sim_.now + sim_.options.load;
  if (asked.work != WorkClass::kInference) {
    if (HasContract(job)) {
      Keep(job);
      sim_.planner.Checkpointed(life.index, sim_.now);
    } else {
      RollBack(job);
    }
    moved = sim_.now + asked.checkpoint.save + RestoreTime(job);
    life.checkpoints = false;
    life.useful_from = std::max(life.useful_from, moved);
    if (life.idle) life.back = std::max(life.back, moved);
  }
  MeasurePlace(job);
  Schedule(job);
  LeavePlaces(job, moved);
}

// The members work on until they stop; one that can save needs no more of its grace than that.
void JobLives::Shrink(uint32_t job, conf::Duration grace) {
  const bool can_save = HasContract(job) && sim_.options.saves_when_told;
  LeavePlaces(job, sim_.now + (can_save ? std::min(AskOf(job).checkpoint.save, grace) : grace));
}

void JobLives::LeavePlaces(uint32_t job, conf::TimePoint at) {
  lives_[job].leaves = at;
  sim_.events.Push({at, job, 0, EventKind::kMoved});
}

void JobLives::PlacesLeft(uint32_t job) {
  Life& life = lives_[job];
  life.leaves = conf::TimePoint::min();
  Settle(job);
  sim_.planner.Moved(life.index, sim_.now);
  const double rate = life.rate;
  UpdateHeld(job);
  if (life.stage == Stage::kRunning && life.rate != rate) Schedule(job);
  sim_.something_happened = true;
}

void JobLives::GoIdle(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  life.idle = true;
  life.checkpoints = false;
  life.useful_from = conf::TimePoint::max();
  sim_.planner.Idle(life.index, sim_.now);
  sim_.something_happened = true;
  const conf::Duration away = Exponential(sim_.user_rng, sim_.options.notebook_idle);
  life.back = away < AskOf(job).idle_timeout ? sim_.now + away : conf::TimePoint::max();
  Schedule(job);
}

void JobLives::ComeBack(uint32_t job) {
  Life& life = lives_[job];
  sim_.something_happened = true;
  sim_.planner.Used(life.index, sim_.now);
  if (life.stage == Stage::kSuspended) {
    --sim_.coming;
    life.stage = Stage::kWaiting;
    return SetWaiting(job, true);
  }
  Settle(job);
  life.idle = false;
  life.useful_from = sim_.now;
  Schedule(job);
}

}  // namespace scheduler::sim
