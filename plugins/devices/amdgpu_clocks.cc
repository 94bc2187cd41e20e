#include "plugins/devices/amdgpu_clocks.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace plugins::devices {
namespace {

constexpr uint64_t kHertzPerMhz = 1'000'000;

// The value of a hwmon file, which is in hertz.
std::optional<uint32_t> MhzOf(const std::filesystem::path& file) {
  uint64_t hertz = 0;
  if (!(std::ifstream(file) >> hertz) || hertz / kHertzPerMhz > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(hertz / kHertzPerMhz);
}

}  // namespace

AmdgpuClocks ReadAmdgpuClocks(const std::string& devices, uint64_t pci_id) {
  const std::filesystem::path monitors =
      std::filesystem::path(devices) /
      fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci_id >> 32U, (pci_id >> 8U) & 0xffU, (pci_id >> 3U) & 0x1fU,
                  pci_id & 0x7U) /
      "hwmon";
  std::error_code failed;
  for (std::filesystem::directory_iterator at(monitors, failed), end; !failed && at != end;
       at.increment(failed)) {
    // The kernel's page on amdgpu: 1 is the clock of graphics and compute, 2 is the clock of memory.
    const AmdgpuClocks clocks{MhzOf(at->path() / "freq1_input"), MhzOf(at->path() / "freq2_input")};
    if (clocks.core_mhz || clocks.memory_mhz) return clocks;
  }
  return {};
}

}  // namespace plugins::devices
