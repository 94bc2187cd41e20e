#include "plugins/devices/builtin.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>

#include "plugins/devices/npu_smi.h"
#include "plugins/devices/nvml.h"
#include "plugins/devices/nvml_readings.h"
#include "plugins/devices/rocm_readings.h"
#include "plugins/devices/rocm_smi.h"

namespace plugins::devices {

std::vector<Probe> BuiltinProbes() {
  return {
      {"nvml", [] { return ProbeNvml(); }},
      {"npu-smi", [] { return ProbeNpuSmi(); }},
      {"rocm-smi", [] { return ProbeRocmSmi(); }},
  };
}

std::vector<Reader> BuiltinReaders() {
  constexpr conf::Duration kSecond = std::chrono::seconds(1);
  const auto nvml = std::make_shared<NvmlReader>();
  const auto rocm = std::make_shared<RocmReader>();
  return {
      {"nvml", Vendor::kNvidia, kSecond, [nvml] { return nvml->Read(); }},
      // A program of its own for each reading.
      {"npu-smi", Vendor::kAscend, 5 * kSecond, [] { return ReadNpuSmi(); }},
      {"rocm-smi", Vendor::kAmd, kSecond, [rocm] { return rocm->Read(); }},
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
