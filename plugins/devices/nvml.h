// NVIDIA GPUs by NVML, the driver's own library. It is opened where it exists, and needed neither to build
// nor to run. MIG instances are reported with their places; devices that reach each other over NVLink share a
// domain.
//
// The few functions that are called are declared here, after NVIDIA's API reference; a function that an older
// driver lacks is done without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/probe.h"

namespace plugins::devices {

Found ProbeNvml(const std::string& library = "libnvidia-ml.so.1");

// An error of a GPU that the driver reported, by NVIDIA's number.
struct Xid {
  std::string uuid{};
  uint64_t number = 0;
};

// Collects the Xids that come after it was opened, and keeps the driver awake. Any thread, one call at a
// time.
class XidWatch {
 public:
  // Null: there is no NVML, or it reports no Xids.
  static std::unique_ptr<XidWatch> Open(const std::string& library = "libnvidia-ml.so.1");
  virtual ~XidWatch() = default;
  // The Xids since the last call; does not wait for any.
  virtual std::vector<Xid> Take() = 0;
};

}  // namespace plugins::devices
