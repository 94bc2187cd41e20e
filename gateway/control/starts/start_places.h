// The places where a model's next replica may go, by its policy, the nodes' health and the free devices. Used to
// estimate the lead time; the planner decides, and knows quotas and topology.
#pragma once

#include <vector>

#include "gateway/config/model_policy.h"
#include "gateway/control/learned/learned_starts.h"
#include "gateway/control/weights/node_weights.h"
#include "gateway/control/workloads/context.h"

namespace gateway::control {

std::vector<StartPlace> StartPlacesOf(const Context& context, const config::ModelPolicy& policy,
                                      const NodeWeights& weights);

}  // namespace gateway::control
