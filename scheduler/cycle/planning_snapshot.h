// Converts a planning state to a snapshot and back. Inside the planner only.
#pragma once

#include "scheduler/cycle/planning_state.h"
#include "scheduler/snapshot.h"

namespace scheduler {

// Fills a new state, made for the snapshot's cluster and queues.
void Restore(PlanningState& state, const Snapshot& snapshot);

Snapshot TakeSnapshot(const PlanningState& state);

}  // namespace scheduler
