// The part of a cycle for running jobs: gangs that lost members, elastic jobs that may grow, members on
// nodes that drain, and nodes that are better emptied. Inside the planner only.
#pragma once

#include "scheduler/cycle/moves.h"
#include "scheduler/cycle/plan_draft.h"
#include "scheduler/cycle/reservation_book.h"

namespace scheduler {

// Stops jobs that have run for their limit, and suspends idle notebooks.
void StopOverdueJobs(PlanDraft& draft);

// A gang that lost members to a fault gets others in their place, or waits again as a whole.
void RepairGangs(PlanDraft& draft, ReservationBook& book);

// Elastic jobs take the room that no job waits for.
void GrowElasticJobs(PlanDraft& draft, const ReservationBook& book);

// Members on nodes that drain start elsewhere first, then stop at their old places: inference replicas, which
// others could replace, and jobs that resume from a checkpoint.
void LeaveDrainingNodes(PlanDraft& draft, ReservationBook& book);

// One round of defragmentation, when it is due. A gang's nodes were chosen for its topology, so only members that run
// alone are moved. Where moves have a budget, its rules apply.
void Defragment(PlanDraft& draft, ReservationBook& book, const Moves& moves);

}  // namespace scheduler
