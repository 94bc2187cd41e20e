// The launcher that the section `scaling` of the configuration names.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/config/config.h"
#include "gateway/control/launching/run_users.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/broker/broker.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// Finds the runs of earlier processes. Blocks; call it before the loop runs.
// `broker` starts the runs that change to another user (`users`); null: no run does.
absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenLauncher(
    net::Loop& loop, const Config& config, const RunUsers& users, plugins::launchers::Broker* broker);

}  // namespace gateway::control
