// What a member holds of the planner's cluster, in the launchers' words.
#pragma once

#include "plugins/launchers/launcher.h"
#include "scheduler/model.h"
#include "scheduler/state/node_state.h"

namespace gateway::control {

plugins::launchers::Grant GrantOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding);

}  // namespace gateway::control
