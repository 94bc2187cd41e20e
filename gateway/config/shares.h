// A share of a device, such as {share: 0.5}: the planner counts it, but a process may use all of a device that it sees.
// So a share is refused unless something enforces it, or the operator accepts that it is only counted.
//
// Pure.
#pragma once

#include <string>

#include "gateway/config/scaling.h"
#include "scheduler/work.h"

namespace gateway::config {

// The problem of a request for a share; empty: none.
std::string WhyNotShared(const scheduler::DeviceAsk& ask, const Scaling& scaling);

}  // namespace gateway::config
