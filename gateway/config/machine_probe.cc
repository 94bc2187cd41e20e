#include "gateway/config/machine_probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conf/text.h"
#include "plugins/devices/builtin.h"

namespace gateway::config {
namespace {

absl::StatusOr<plugins::devices::MachineCluster> Probe() {
  plugins::devices::Found found = plugins::devices::ProbeDevices();
  if (found.devices.empty()) {
    return absl::NotFoundError(
        conf::Abseil(fmt::format("no GPU or NPU was found on this machine{}{}",
                                 found.problems.empty() ? "" : ": ", fmt::join(found.problems, "; "))));
  }
  plugins::devices::MachineCluster machine =
      plugins::devices::MakeMachineCluster(plugins::devices::ThisMachine(), found.devices);
  machine.left_out.insert(machine.left_out.end(), found.problems.begin(), found.problems.end());
  return machine;
}

}  // namespace

absl::StatusOr<plugins::devices::MachineCluster> ProbeThisMachine() {
  static const auto* const found = new absl::StatusOr<plugins::devices::MachineCluster>(Probe());
  return *found;
}

absl::StatusOr<plugins::devices::MachineCluster> ProbeNothing() {
  return absl::NotFoundError("this command does not probe the machine");
}

}  // namespace gateway::config
