// The lives of jobs in a simulated world: how work goes on, is kept and is lost.
#include <algorithm>
#include <cmath>

#include "scheduler/sim/draws.h"
#include "scheduler/sim/world.h"

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

void World::PushOfJob(EventKind kind, uint32_t job, conf::TimePoint at) {
  events_.Push({at, job, lives_[job].epoch, kind});
}

bool World::HasContract(uint32_t job) const {
  return jobs_[job].job.checkpoint.interval > conf::Duration::zero();
}

conf::Duration World::RestoreTime(uint32_t job) const {
  const bool restores = lives_[job].kept > conf::Duration::zero();
  return options_.load + (restores ? jobs_[job].job.checkpoint.restart : conf::Duration::zero());
}

void World::SetWaiting(uint32_t job, bool waits) {
  Life& life = lives_[job];
  if (life.counted_waiting == waits) return;
  life.counted_waiting = waits;
  collector_.Waits(life.queue, DeviceMilli(jobs_[job].job), waits ? 1 : -1);
}

// What it did since it was last settled: first no work, until `useful_from`, then work.
void World::Settle(uint32_t job) {
  Life& life = lives_[job];
  const conf::TimePoint from = std::exchange(life.settled, now_);
  if (life.held_milli == 0 && life.rate == 0) return;
  const conf::TimePoint useful = std::clamp(life.useful_from, from, now_);
  const Spent pause = life.idle ? Spent::kIdle : life.checkpoints ? Spent::kSaved : Spent::kRestarted;
  collector_.Uses(pause, DeviceHours(life.held_milli, useful - from));
  life.unsafe_h += DeviceHours(life.held_milli, now_ - useful);
  life.done += Scaled(now_ - useful, life.rate);
}

void World::BeginCheckpoint(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  life.checkpoints = true;
  life.useful_from = now_ + jobs_[job].job.checkpoint.save;
  Schedule(job);
}

void World::CheckpointDone(uint32_t job) {
  Settle(job);
  lives_[job].checkpoints = false;
  Keep(job);
  planner_.Checkpointed(lives_[job].index, now_);
}

void World::Keep(uint32_t job) {
  Life& life = lives_[job];
  life.kept = life.done;
  collector_.Uses(Spent::kUseful, life.unsafe_h);
  life.unsafe_h = 0;
}

void World::Lose(uint32_t job) {
  Life& life = lives_[job];
  life.checkpoints = false;
  life.done = life.kept;
  collector_.Uses(Spent::kLost, life.unsafe_h);
  life.unsafe_h = 0;
}

// Takes over from the planner what the job holds; its accounts are settled.
void World::UpdateHeld(uint32_t job) {
  Life& life = lives_[job];
  int64_t held = 0;
  uint32_t members = 0;
  const ClusterState& state = planner_.state();
  const bool holds =
      life.stage == Stage::kRunning || life.stage == Stage::kHalted || life.stage == Stage::kStopping;
  if (holds) {
    for (const MemberId id : state.of(life.index)) {
      const Holding& holding = state.member(id).holding;
      held += HeldMilli(holding, state.view_of(holding.node));
      ++members;
    }
  }
  const uint32_t wanted = Members(jobs_[job].job);
  life.rate = members >= wanted ? 1 : static_cast<double>(members) / wanted;
  if (held != life.held_milli) collector_.Holds(life.queue, held - life.held_milli);
  life.held_milli = held;
}

void World::MeasurePlace(uint32_t job) {
  const JobIndex index = lives_[job].index;
  if (lives_[job].held_milli == 0 || Members(jobs_[job].job) < 2) return;
  collector_.Placed(jtted_.Of(index, planner_.jobs()[index]), lives_[job].held_milli);
}

void World::Start(uint32_t job) {
  Life& life = lives_[job];
  if (life.stage == Stage::kWaiting) {
    SetWaiting(job, false);
    ++active_;
    collector_.Runs(1);
    if (!life.was_started) collector_.FirstStart(now_ - life.due, DeviceMilli(jobs_[job].job));
    life.was_started = true;
    life.settled = now_;
    life.useful_from = now_ + RestoreTime(job);
  } else {
    Settle(job);
    // After a fault all members restore; members that only join do not hold up the others.
    if (life.stage == Stage::kHalted) life.useful_from = now_ + RestoreTime(job);
  }
  life.stage = Stage::kRunning;
  UpdateHeld(job);
  MeasurePlace(job);
  Schedule(job);
}

void World::Schedule(uint32_t job) {
  Life& life = lives_[job];
  ++life.epoch;
  if (life.rate == 0) return;
  const conf::TimePoint from = std::max(now_, life.useful_from);
  const Job& asked = jobs_[job].job;
  if (jobs_[job].run) {
    const conf::Duration left = std::max(*jobs_[job].run - life.done, conf::Duration::zero());
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
    PushOfJob(EventKind::kGoesIdle, job, from + Exponential(user_rng_, options_.notebook_used));
  }
}

void World::BeginStop(uint32_t job, conf::Duration grace) {
  Life& life = lives_[job];
  Settle(job);
  if (life.stage == Stage::kHalted) {
    ++life.epoch;
    life.saves = false;
  } else {
    const conf::Duration save = jobs_[job].job.checkpoint.save;
    // A notebook's state is on its disk, whatever happens.
    const bool can_save =
        (HasContract(job) && options_.saves_when_told) || jobs_[job].job.work == WorkClass::kNotebook;
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
  PushOfJob(EventKind::kStopped, job, now_ + grace);
}

void World::StopDone(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  ++life.epoch;
  life.idle = false;
  if (life.saves) {
    Keep(job);
    planner_.Checkpointed(life.index, now_);
  } else {
    Lose(job);
  }
  const JobIndex index = life.index;
  planner_.Stopped(index, now_);
  something_happened_ = true;
  --active_;
  collector_.Runs(-1);
  const JobEntry& entry = planner_.jobs()[index];
  if (!entry.alive) return Over(job, false);
  life.stage = entry.phase == Phase::kSuspended ? Stage::kSuspended : Stage::kWaiting;
  UpdateHeld(job);
  if (life.stage == Stage::kWaiting) {
    SetWaiting(job, true);
  } else {
    ++coming_;
    PushOfJob(EventKind::kComesBack, job, now_ + Exponential(user_rng_, options_.notebook_idle));
  }
}

void World::End(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  Keep(job);
  planner_.Ended(life.index, now_);
  --active_;
  collector_.Runs(-1);
  collector_.Finished(now_ - life.due, *jobs_[job].run);
  Over(job, true);
}

void World::Over(uint32_t job, bool well) {
  Life& life = lives_[job];
  ++life.epoch;
  SetWaiting(job, false);
  life.stage = Stage::kOver;
  UpdateHeld(job);
  life.index = kNone;
  ++over_;
  something_happened_ = true;
  if (!jobs_[job].run) --endless_;
  if (!well) {
    ++counts_.failed;
    return;
  }
  ++counts_.finished;
  if (dependents_.empty()) return;
  for (const uint32_t next : dependents_[job]) {
    --lives_[next].unmet;
    BecomeDue(next);
  }
}

// Members start at the new places before they leave the old ones. What trains saves and restores once; a
// replica is replaced without a gap.
void World::Move(uint32_t job) {
  Life& life = lives_[job];
  const Job& asked = jobs_[job].job;
  Settle(job);
  UpdateHeld(job);
  conf::TimePoint moved = now_ + options_.load;
  if (asked.work != WorkClass::kInference) {
    if (HasContract(job)) {
      Keep(job);
      planner_.Checkpointed(life.index, now_);
    } else {
      Lose(job);
    }
    moved = now_ + asked.checkpoint.save + RestoreTime(job);
    life.checkpoints = false;
    life.useful_from = std::max(life.useful_from, moved);
  }
  MeasurePlace(job);
  Schedule(job);
  PushOfJob(EventKind::kMoved, job, moved);
}

void World::GoIdle(uint32_t job) {
  Life& life = lives_[job];
  Settle(job);
  ++life.epoch;
  life.idle = true;
  life.checkpoints = false;
  life.useful_from = conf::TimePoint::max();
  planner_.Idle(life.index, now_);
  something_happened_ = true;
  const conf::Duration away = Exponential(user_rng_, options_.notebook_idle);
  if (away < jobs_[job].job.idle_timeout) PushOfJob(EventKind::kComesBack, job, now_ + away);
}

void World::ComeBack(uint32_t job) {
  Life& life = lives_[job];
  something_happened_ = true;
  planner_.Used(life.index, now_);
  if (life.stage == Stage::kSuspended) {
    --coming_;
    life.stage = Stage::kWaiting;
    return SetWaiting(job, true);
  }
  Settle(job);
  life.idle = false;
  life.useful_from = now_;
  Schedule(job);
}

}  // namespace scheduler::sim
