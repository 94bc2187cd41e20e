// The launcher of a configuration whose replicas run through Slurm.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/config/scaling.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// Sends no request yet: if Slurm does not answer, the gateway waits for it.
absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenSlurm(net::Loop& loop,
                                                                        const config::Scaling& scaling,
                                                                        const std::string& state_dir);

}  // namespace gateway::control
