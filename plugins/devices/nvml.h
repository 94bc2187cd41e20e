// NVIDIA GPUs by NVML, the driver's own library, opened when it is there: nothing of it is needed to build
// or run. MIG instances are told with their place; NVLink domains as who reaches whom over it.
//
// Declarations are our own, of the few functions that are called, after NVIDIA's API reference; those that a
// driver does not have yet are done without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/probe.h"

namespace plugins::devices {

Found LookByNvml(const std::string& library = "libnvidia-ml.so.1");

// An error that the driver has reported of a GPU, by NVIDIA's number.
struct Xid {
  std::string uuid{};
  uint64_t number = 0;
};

// Hears of Xids from when it is opened, and keeps the driver awake. Any thread, one call at a time.
class XidWatch {
 public:
  // Null: there is no NVML, or it tells of none.
  static std::unique_ptr<XidWatch> Open(const std::string& library = "libnvidia-ml.so.1");
  virtual ~XidWatch() = default;
  // Since the last call; waits for none.
  virtual std::vector<Xid> Take() = 0;
};

}  // namespace plugins::devices
