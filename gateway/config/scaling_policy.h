// The keys of a policy file that decide how many replicas a model gets, as in conf/policies/scaling.
// model_policy.h reads the whole file.
//
// Every field of scheduler/autoscale/policy.h has a key of its own name. A key that the file's law does not
// use is an error. A key that the file does not give has its default; the targets of kpa and hpa have no
// default.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scheduler/autoscale/policy.h"

namespace conf {
class Object;
}

namespace gateway::config {

// All keys but `placement` and `replica`.
void BindScaling(conf::Object& object, scheduler::autoscale::ScalingPolicy& out);

// In the form of a file: ReadScalingPolicy of model_policy.h reads its text back.
nlohmann::json ToJson(const scheduler::autoscale::ScalingPolicy& policy);

}  // namespace gateway::config
