#include "gateway/control/open_launcher.h"

#include "gateway/control/open_slurm.h"
#include "gateway/log.h"
#include "plugins/devices/machine.h"
#include "plugins/launchers/process.h"

namespace gateway::control {

absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenLauncher(net::Loop& loop,
                                                                           const config::Scaling& scaling,
                                                                           const std::string& state_dir) {
  if (scaling.launcher == config::LauncherKind::kSlurm) return OpenSlurm(loop, scaling, state_dir);
  using plugins::launchers::ProcessLauncher;
  ProcessLauncher::Options options;
  options.state_dir = state_dir + "/launcher";
  options.nodes = scaling.probed ? scaling.probed->nodes : plugins::devices::LocalNodesOf(scaling.nodes);
  if (scaling.probed) {
    for (const std::string& left : scaling.probed->left_out) log::Warn("device not used", {{"why", left}});
  }
  options.first_port = scaling.ports.first;
  options.last_port = scaling.ports.last;
  auto launcher = ProcessLauncher::Open(loop, std::move(options));
  if (!launcher.ok()) return launcher.status();
  return *std::move(launcher);
}

}  // namespace gateway::control
