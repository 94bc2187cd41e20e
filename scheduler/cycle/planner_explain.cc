// Why a job waits, asked of the planner: what explain.h needs, gathered from the state and the last cycle.
#include <utility>

#include "scheduler/cycle/explain.h"
#include "scheduler/cycle/planning_state.h"
#include "scheduler/planner.h"

namespace scheduler {
namespace {

std::string_view Name(Verdict::Bound bound) {
  switch (bound) {
    case Verdict::Bound::kNone:
      return "none";
    case Verdict::Bound::kLimit:
      return "limit";
    case Verdict::Bound::kUserLimit:
      return "user-limit";
    case Verdict::Bound::kDeserved:
      return "deserved";
    case Verdict::Bound::kLent:
      return "lent";
  }
  return "";
}

std::vector<QuotaRefusal> RefusalsOf(const PlanningState& s, JobIndex job) {
  const JobAccount& account = s.accounts[job];
  const Verdict verdict = s.queues.Admit(account.account, account.minimum);
  if (verdict.admitted()) return {};
  QuotaRefusal refusal{.queue = s.queues.name(verdict.queue),
                       .bound = std::string(Name(verdict.bound)),
                       .kind = verdict.kind == kAnyKind ? "*" : s.state.cluster().kinds[verdict.kind].name,
                       .has = verdict.has,
                       .asked = verdict.asked,
                       .most = verdict.most};
  for (QueueIndex queue = 0; queue < s.queues.size(); ++queue) {
    if (s.queues.Under(queue, verdict.queue)) refusal.counts.push_back(queue);
  }
  if (verdict.bound == Verdict::Bound::kUserLimit) refusal.user = s.jobs[job].job.user;
  return {std::move(refusal)};
}

}  // namespace

Explanation Planner::Explain(JobIndex job, conf::TimePoint now) const {
  const PlanningState& s = *state_;
  ExplainInput input{.state = s.state,
                     .shapes = s.shapes,
                     .jobs = s.jobs,
                     .job = job,
                     .now = now,
                     .unknown_estimate = s.policy.backfill.unknown_estimate,
                     .quotas = RefusalsOf(s, job),
                     .reservations = s.reservations,
                     .line_stopped_by = s.line_stopped_by};
  for (const std::string& id : s.jobs[job].job.after) {
    if (s.jobs.Find(id) != kNone) input.unfinished.push_back(id);
  }
  return scheduler::Explain(input);
}

}  // namespace scheduler
