// The files that section `scaling` names: cluster, planner and the policies of models.
#pragma once

#include <vector>

#include "conf/document.h"
#include "conf/problem.h"
#include "gateway/config/config.h"
#include "gateway/config/machine_probe.h"

namespace gateway::config {

// Reads the files, and checks that they agree: each model has one policy, devices and queues exist, and
// something serves each model. Adds the problems of a file to `problems`, under that file's name.
void LoadScaling(conf::Document& document, Config& config, const MachineProbe& probe,
                 std::vector<conf::Problem>& problems);

}  // namespace gateway::config
