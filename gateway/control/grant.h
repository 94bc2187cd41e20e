// What a member holds of the planner's cluster, in the launchers' words, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/launchers/launcher.h"
#include "scheduler/model.h"
#include "scheduler/state/node_state.h"
#include "scheduler/work.h"

namespace gateway::control {

plugins::launchers::Grant GrantOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding);

// Nothing: the cluster has no such node, device or partition (any more).
std::optional<scheduler::Holding> HoldingOf(const scheduler::Cluster& cluster,
                                            const plugins::launchers::Grant& grant);

// Thousandths of devices; of a partition, by the compute of the device that it has. 0: there is no such one.
int64_t HeldMilli(const scheduler::Cluster& cluster, const plugins::launchers::Grant& grant);

}  // namespace gateway::control
