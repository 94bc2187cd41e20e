#include "gateway/control/open_launcher.h"

#include "gateway/config/state_files.h"
#include "gateway/control/open_slurm.h"
#include "gateway/log.h"
#include "plugins/devices/builtin.h"
#include "plugins/devices/faults.h"
#include "plugins/devices/machine.h"
#include "plugins/launchers/process.h"

namespace gateway::control {

namespace {

// Nothing where there are no devices.
std::function<std::map<std::string, plugins::devices::Fault>()> FindFaultsOf(
    const std::vector<plugins::devices::LocalNode>& nodes) {
  std::vector<plugins::devices::Device> known;
  for (const plugins::devices::LocalNode& node : nodes)
    known.insert(known.end(), node.devices.begin(), node.devices.end());
  if (known.empty()) return nullptr;
  auto watch =
      std::make_shared<plugins::devices::FaultWatch>(std::move(known), plugins::devices::BuiltinProbes());
  return [watch = std::move(watch)] { return watch->Look(); };
}

}  // namespace

absl::StatusOr<std::unique_ptr<plugins::launchers::Launcher>> OpenLauncher(
    net::Loop& loop, const config::Scaling& scaling, const std::string& state_dir, const RunUsers& users,
    plugins::launchers::Broker* broker) {
  if (scaling.launcher == config::LauncherKind::kSlurm) return OpenSlurm(loop, scaling, state_dir);
  using plugins::launchers::ProcessLauncher;
  ProcessLauncher::Options options;
  options.state_dir = LauncherDir(state_dir);
  options.nodes = scaling.probed ? scaling.probed->nodes : plugins::devices::LocalNodesOf(scaling.nodes);
  if (scaling.probed) {
    for (const std::string& left : scaling.probed->left_out) log::Warn("device not used", {{"why", left}});
    options.find_faults = FindFaultsOf(scaling.probed->nodes);
  }
  options.first_port = scaling.ports.first;
  options.last_port = scaling.ports.last;
  options.limits = {.processes = scaling.runs.processes,
                    .open_files = scaling.runs.open_files,
                    .file_bytes = uint64_t{scaling.runs.file_gib.value_or(0)} << 30};
  options.log_bytes = uint64_t{scaling.runs.log_mib} << 20;
  if (broker != nullptr && !users.names().empty()) {
    options.make_host = [&](const std::string& token, const std::string& wrapper) {
      return broker->MakeHost(token, wrapper, users.names());
    };
  }
  auto launcher = ProcessLauncher::Open(loop, std::move(options));
  if (!launcher.ok()) return launcher.status();
  return *std::move(launcher);
}

}  // namespace gateway::control
