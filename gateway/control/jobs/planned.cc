// Between jobs and the planner: what it is asked, and what comes of its decisions.
#include <algorithm>
#include <utility>

#include "gateway/control/jobs/jobs.h"

namespace gateway::control {
namespace {

using scheduler::ActionKind;
using scheduler::MemberAt;

bool SamePlace(const MemberAt& a, const MemberAt& b) {
  return a.role == b.role && a.rank == b.rank;
}

}  // namespace

void Jobs::AskPlanner(Job& job) {
  const conf::TimePoint now = around_.now();
  job.held = !job.crashes.MayStart(now) || !Awaits(job).empty();
  if (job.held) return;
  if (std::string why = UsedUp(job.file()); !why.empty()) {
    job.withheld = true;
    job.unplaced = std::move(why);
    return;
  }
  around_.planner().Submit(AskOf(job, around_.uncut), now);
  around_.changed();
}

// Whatever the planner still thinks of it.
void Jobs::LeavePlanner(const Job& job) {
  scheduler::Planner& planner = around_.planner();
  if (const scheduler::JobIndex index = planner.jobs().Find(job.id); index != scheduler::kNone) {
    planner.Ended(index, around_.now());
    around_.changed();
  }
}

void Jobs::Apply(const scheduler::Action& action) {
  Job* const job = Get(action.job);
  if (job == nullptr) return;
  switch (action.kind) {
    case ActionKind::kStart:
      if (job->state == JobState::kPending) return Begin(*job, action.members, action.why.text);
      [[fallthrough]];
    case ActionKind::kMove: {
      std::vector<MemberAt> next =
          job->afterwards == Afterwards::kResizes ? job->next : std::vector<MemberAt>();
      if (next.empty()) {
        for (const JobMember& member : job->members) next.push_back(member.at);
      }
      for (const MemberAt& to : action.members) {
        std::erase_if(next, [&](const MemberAt& at) { return SamePlace(at, to); });
        next.push_back(to);
      }
      return Resize(*job, std::move(next), action.why);
    }
    case ActionKind::kShrink: {
      std::vector<MemberAt> next;
      for (const JobMember& member : job->members) {
        if (std::ranges::find(action.members, member.at) == action.members.end()) next.push_back(member.at);
      }
      return Resize(*job, std::move(next), action.why);
    }
    case ActionKind::kPreempt:
      return End(*job, Afterwards::kWaits, action.why.text);
    case ActionKind::kSuspend:
      return End(*job, Afterwards::kSuspends, action.why.text);
    case ActionKind::kStop:
      if (!job->holds()) return Enter(*job, JobState::kFailed, action.why.text);
      return End(*job, Afterwards::kFails, action.why.text);
  }
}

void Jobs::Unplaced(const std::string& job, std::string why) {
  if (Job* const waits = Get(job)) waits->unplaced = std::move(why);
}

}  // namespace gateway::control
