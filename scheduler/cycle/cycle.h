// One planning cycle over the planner's state, from its start to a plan. Inside the planner only.
//
//   jobs that are over → nominated jobs → gangs that lost members → advance reservations → the queue, in
//   order, with backfill, reclaim, preemption and moves → elastic growth → nodes that drain → devices with
//   faults → gangs that come together → defragmentation
//
// All of it happens in one trial, committed at the end.
#pragma once

#include "conf/time.h"
#include "scheduler/cycle/planning_state.h"
#include "scheduler/plan.h"
#include "scheduler/rng.h"

namespace scheduler {

Plan RunCycle(PlanningState& state, conf::TimePoint now, Rng& rng);

}  // namespace scheduler
