#include "plugins/devices/builtin.h"

#include <fmt/format.h>

#include <iterator>

#include "plugins/devices/npu_smi.h"
#include "plugins/devices/nvml.h"
#include "plugins/devices/rocm_smi.h"

namespace plugins::devices {

std::vector<Probe> BuiltinProbes() {
  return {
      {"nvml", [] { return ProbeNvml(); }},
      {"npu-smi", [] { return ProbeNpuSmi(); }},
      {"rocm-smi", [] { return ProbeRocmSmi(); }},
  };
}

Found ProbeDevices(const std::vector<Probe>& probes) {
  Found all;
  for (const Probe& probe : probes) {
    Found found = probe.look();
    all.devices.insert(all.devices.end(), std::make_move_iterator(found.devices.begin()),
                       std::make_move_iterator(found.devices.end()));
    all.lost.insert(all.lost.end(), found.lost.begin(), found.lost.end());
    for (const std::string& problem : found.problems)
      all.problems.push_back(fmt::format("{}: {}", probe.name, problem));
  }
  return all;
}

}  // namespace plugins::devices
