// The kinds of devices that can satisfy a workload's request. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scheduler/model.h"
#include "scheduler/work.h"

namespace gateway::config {

// The kinds of devices that can satisfy one of the asks, in order.
std::vector<std::string> KindsOf(const scheduler::Cluster& cluster,
                                 std::span<const scheduler::DeviceAsk> asks);

}  // namespace gateway::config
