// The devices that a member holds: from the planner's cluster to the launchers' form, and back.
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

plugins::launchers::DeviceGrant GrantOf(const scheduler::Cluster& cluster, const scheduler::Holding& holding);

// Absent: the cluster does not have this node, device or partition.
std::optional<scheduler::Holding> HoldingOf(const scheduler::Cluster& cluster,
                                            const plugins::launchers::DeviceGrant& grant);

// Thousandths of a device; for a partition, by its part of the device's compute. 0: no such partition.
int64_t HeldMilli(const scheduler::Cluster& cluster, const plugins::launchers::DeviceGrant& grant);

}  // namespace gateway::control
