// The launcher of a configuration whose replicas are pods of Kubernetes.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "gateway/config/config.h"
#include "gateway/net/loop.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

// Reads how Kubernetes is reached, and sends no request yet: if it does not answer, the gateway waits for it.
absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenKubernetes(net::Loop& loop,
                                                                             const Config& config);

}  // namespace gateway::control
