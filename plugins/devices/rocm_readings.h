// Readings of AMD's GPUs by ROCm SMI's library (librocm_smi64), opened where it exists. Its functions are looked
// up one by one; each may be missing.
//
// A call of the driver may hang: read on a thread for which nothing waits (sampler.h). One thread.
#pragma once

#include <memory>
#include <string>

#include "plugins/devices/reading.h"

namespace plugins::devices {

class RocmReader {
 public:
  // Tries the names in order; by default those of the releases since ROCm 5. `pci_devices`: the folder of the kernel
  // with the clocks.
  explicit RocmReader(std::string library = {}, std::string pci_devices = "/sys/bus/pci/devices");
  ~RocmReader();

  // Without the library there are neither devices nor problems. A device's key is its unique id as rocm-smi
  // prints it ("0x9246…"), or its number where it has none. `at` is left to the caller.
  Readings Read();
  bool opened() const;

 private:
  struct Driver;
  const std::string library_;
  const std::string pci_devices_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace plugins::devices
