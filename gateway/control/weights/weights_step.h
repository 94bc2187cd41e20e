// The step that brings a model's weights to a node, as a launcher needs it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/scaling.h"
#include "gateway/control/weights/weights_neighbours.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// For a run of that policy on devices of that kind (empty: no devices). Absent where the policy has no weights, or the
// configuration no store.
std::optional<plugins::launchers::WeightsStep> WeightsStepOf(const config::Scaling& scaling,
                                                             const config::ModelPolicy& policy,
                                                             std::string_view kind,
                                                             const NeighbourStores& neighbours);

// For a run of a job with these data sets, of which there is one at least.
std::optional<plugins::launchers::WeightsStep> DataStepOf(const config::Scaling& scaling,
                                                          const std::vector<config::DataSet>& data,
                                                          const NeighbourStores& neighbours);

}  // namespace gateway::control
