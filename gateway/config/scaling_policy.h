// What the laws go by in a policy file: how many replicas of one model there should be, as in
// conf/policies/scaling. model_policy.h reads the whole file.
//
// Every field of scheduler/autoscale/policy.h stands under its own name; what a law does not know is refused
// under it. What a file does not say has its default, but for the targets of kpa and hpa, which have none.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "scheduler/autoscale/policy.h"
#include "scheduler/io/loaded.h"

namespace conf {
class Object;
}

namespace gateway::config {

// The file's own keys but for those that say what a replica needs and how it is started.
void BindScaling(conf::Object& object, scheduler::autoscale::ScalingPolicy& out);

// Of a whole file, for who starts nothing. Time zones are looked up in the system's database, secrets are
// not.
scheduler::io::Loaded<scheduler::autoscale::ScalingPolicy> ReadScalingPolicy(std::string_view text,
                                                                             const std::string& file);

// What it goes by, as a file says it: ReadScalingPolicy reads its text back.
nlohmann::json ToJson(const scheduler::autoscale::ScalingPolicy& policy);

}  // namespace gateway::config
