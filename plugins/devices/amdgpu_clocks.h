// The clocks of an AMD GPU, from files of the kernel's driver amdgpu: the struct of ROCm SMI's own function differs from
// release to release.
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

// Reads the clocks of the GPU at an address of the PCI bus. The address has the form of rsmi_dev_pci_id_get: the domain
// in the upper 32 bits, then bus, device and function in 8, 5 and 3 bits. `devices`: the kernel's folder of all devices,
// /sys/bus/pci/devices.
AmdgpuClocks ReadAmdgpuClocks(const std::string& devices, uint64_t pci_id);

}  // namespace plugins::devices
