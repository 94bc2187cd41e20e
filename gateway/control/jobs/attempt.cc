// One attempt of a job, from the devices that it is given to what becomes of it when all its members have
// ended.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

using scheduler::MemberAt;

}  // namespace

void Jobs::Begin(Job& job, std::vector<MemberAt> members, std::string why) {
  std::ranges::sort(members, {}, [](const MemberAt& at) { return std::pair(at.role, at.rank); });
  for (const JobMember& member : job.before) to_forget_.push_back(member.run);
  job.before = std::move(job.members);
  job.members.clear();
  job.next.clear();
  ++job.attempt;
  job.checkpointed = job.ran_from = {};
  job.started = around_.now();
  for (const MemberAt& at : members) {
    const auto rank = static_cast<uint32_t>(job.members.size());
    job.members.push_back({.at = at, .run = RunId(job, rank)});
  }
  Enter(job, JobState::kStarting, std::move(why));
}

void Jobs::Resize(Job& job, std::vector<MemberAt> next, const scheduler::Reason& why) {
  if (!job.holds()) return;
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  if (ends && job.afterwards > Afterwards::kResizes) return;
  job.next = std::move(next);
  End(job, Afterwards::kResizes,
      fmt::format("goes on with {} members instead of {}: {}", job.next.size(), job.members.size(),
                  why.text));
}

// Its members end, after they have saved where that is worth while and there is time for it.
void Jobs::End(Job& job, Afterwards then, std::string why, std::string actor) {
  if (!job.holds()) return;
  const bool ends = job.state == JobState::kSaving || job.state == JobState::kStopping;
  if (ends && then < job.afterwards) return;
  const bool comes_back =
      then == Afterwards::kResizes || then == Afterwards::kWaits || then == Afterwards::kSuspends;
  // At its limit it may still save what it has: somebody may hand it in again.
  const bool saves = (comes_back || then == Afterwards::kFails) && job.file().checkpoint.given;
  job.afterwards = then;
  if (saves && job.state == JobState::kRunning)
    return Enter(job, JobState::kSaving, std::move(why), std::move(actor));
  if (ends && (saves || job.state == JobState::kStopping)) {
    job.why = std::move(why);
    job.actor = std::move(actor);
    job.recorded = job.saved = false;
    ++job.version;
    return around_.wake();
  }
  Enter(job, JobState::kStopping, std::move(why), std::move(actor));
}

// It has saved, or its time for that is up.
void Jobs::StopSaving(Job& job) {
  const bool recorded = job.recorded;
  Enter(job, JobState::kStopping, job.why, job.actor);
  job.recorded = recorded;
}

// All members have ended: what is to become of it.
void Jobs::Settle(Job& job) {
  const conf::TimePoint now = around_.now();
  scheduler::Planner& planner = around_.planner();
  const Afterwards then = job.afterwards;
  if (job.checkpointed != conf::TimePoint()) job.resumes = true;
  job.done = job.kept();
  const std::string why = job.why;
  const std::string actor = job.actor;
  if (then == Afterwards::kResizes) {
    const scheduler::JobIndex index = planner.jobs().Find(job.id);
    if (index != scheduler::kNone && planner.jobs()[index].phase == scheduler::Phase::kRunning) {
      planner.Moved(index, now);
      around_.changed();
      return Begin(job, std::exchange(job.next, {}), why);
    }
  }
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    around_.changed();
    if (planner.jobs()[index].phase == scheduler::Phase::kStopping) {
      planner.Stopped(index, now);
    }
  }
  switch (then) {
    case Afterwards::kResizes:
    case Afterwards::kWaits:
    case Afterwards::kRetries:
      if (then == Afterwards::kRetries && job.restarts++ >= job.file().job.restart_budget) {
        LeavePlanner(job);
        return Enter(job, JobState::kFailed,
                     fmt::format("{}; its {} restarts are used up", why, job.restarts - 1), actor);
      }
      if (then == Afterwards::kRetries) {
        LeavePlanner(job);  // until it may start again
        const bool ran = job.ran_from != conf::TimePoint();
        job.crashes.Failed(why, ran ? now - job.ran_from : conf::Duration::zero(), now);
      }
      Enter(job, JobState::kPending, why, actor);
      if (planner.jobs().Find(job.id) == scheduler::kNone) AskPlanner(job);
      return;
    case Afterwards::kSuspends:
      LeavePlanner(job);
      return Enter(job, JobState::kSuspended, why, actor);
    case Afterwards::kEnds:
      LeavePlanner(job);
      return Enter(job, JobState::kDone, why, actor);
    case Afterwards::kFails:
      LeavePlanner(job);
      return Enter(job, JobState::kFailed, why, actor);
    case Afterwards::kCancels:
      LeavePlanner(job);
      return Enter(job, JobState::kCancelled, why, actor);
  }
}

}  // namespace gateway::control
