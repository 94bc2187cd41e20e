// The clocks of an AMD GPU, as the kernel's driver amdgpu tells them in files: ROCm SMI's own function has a struct that
// differs from release to release.
//
// Blocks for as long as the driver takes; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plugins::devices {

struct AmdgpuClocks {
  std::optional<uint32_t> core_mhz{};
  std::optional<uint32_t> memory_mhz{};
};

// Of the GPU at that address of the PCI bus, which has the form of rsmi_dev_pci_id_get: the domain in the upper 32 bits, then
// bus, device and function in 8, 5 and 3. `devices` is the kernel's folder of all, /sys/bus/pci/devices.
AmdgpuClocks ReadAmdgpuClocks(const std::string& devices, uint64_t pci_id);

}  // namespace plugins::devices
