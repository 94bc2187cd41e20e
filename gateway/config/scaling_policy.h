// A scaling policy file: how many replicas of one model there should be, as in conf/policies/scaling.
//
// Every field of scheduler/autoscale/policy.h stands under its own name; what a law does not know is refused
// under it. What a file does not say has its default, but for the targets of kpa and hpa, which have none.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/autoscale/policy.h"
#include "scheduler/io/loaded.h"

namespace gateway::config {

// Time zones are looked up in the system's database.
scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> ReadScalingPolicy(std::string_view text,
                                                                             const std::string& file);

}  // namespace gateway::config
