// Readings of NVIDIA's GPUs by NVML. The library stays open from the first reading on; after its driver was unloaded or
// restarted, the next reading begins anew.
//
// A call of the driver may hang for minutes: read on a thread for which nothing waits (sampler.h). One thread.
#pragma once

#include <memory>
#include <string>

#include "plugins/devices/reading.h"

namespace plugins::devices {

class NvmlReader {
 public:
  explicit NvmlReader(std::string library = "libnvidia-ml.so.1");
  ~NvmlReader();

  // Without the library there are neither devices nor problems. `at` is left to the caller.
  Readings Read();
  // The library is there.
  bool opened() const;

 private:
  struct Driver;
  const std::string library_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace plugins::devices
