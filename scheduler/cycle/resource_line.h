// The jobs that ask for countable resources, in the order of the queue, and which of them may have the free amount.
//
// What becomes free is kept for the first job that waits for the resource, so that smaller asks do not pass it for
// ever; others may have it if they end before, or if enough is left. The same holds from its expected start for a job
// with reserved nodes. With best-effort backfill nothing is kept. Inside the planner only; lives for one cycle.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "conf/time.h"
#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/reservation_book.h"

namespace scheduler {

class ResourceLine {
 public:
  ResourceLine(PlanDraft& draft, const ReservationBook& book)
      : draft_(draft), s_(draft.state()), book_(book) {}

  struct Refusal {
    Reason why;
    // A job that asks for the same and ends by then may start although this one may not.
    conf::TimePoint may_end_by{};
  };
  // Why the job may not start now; absent: it may. Keeps the resource for the job if it is the first that waits for it.
  std::optional<Refusal> WhyNot(JobIndex job);
  // Whether WhyNot() would return nothing; keeps nothing for the job.
  bool MayHave(JobIndex job) const;
  // Nodes are reserved for the job, which is expected to start then.
  void Reserved(JobIndex job, conf::TimePoint start);
  // It has started, and holds what it asked for.
  void Started(JobIndex job);

 private:
  struct Kept {
    JobIndex job = kNone;    // for which it is kept
    conf::TimePoint from{};  // when enough is expected to be free; max: not known
    uint32_t spare = 0;      // that is left for others then
  };
  std::optional<Refusal> WhyNot(JobIndex job, const ResourceAsk& ask) const;
  uint32_t FreeFor(JobIndex job, const std::string& name) const;
  Kept KeepFor(JobIndex job, const ResourceAsk& ask, conf::TimePoint start);

  PlanDraft& draft_;
  PlanningState& s_;
  const ReservationBook& book_;
  std::map<std::string, Kept> kept_;  // by resource
};

}  // namespace scheduler
