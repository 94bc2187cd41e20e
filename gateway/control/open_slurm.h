// The launcher of a configuration whose replicas run through Slurm.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/config/scaling.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// Asks nothing yet: a Slurm that is away is waited for.
absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenSlurm(net::Loop& loop,
                                                                        const config::Scaling& scaling,
                                                                        const std::string& state_dir);

}  // namespace gateway::control
