// FaultWatch: faults of the devices that a gateway assigns: errors that a driver reports, memory that
// needs repair, devices that are gone.
//
// NVIDIA's devices are watched by NVML: row remapping or page retirement that failed or waits for a reset, a lost GPU,
// and Xids, except those that programs cause themselves. Other vendors' devices are judged by the health that npu-smi
// and rocm-smi report. A fault by an Xid stays until the process ends, any other fault as long as it is reported.
//
// Any thread, one call at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/devices/device.h"
#include "plugins/devices/nvml.h"
#include "plugins/devices/probe.h"

namespace plugins::devices {

struct Fault {
  std::string why{};
  bool lost = false;  // the device no longer works: a run on it cannot continue
  friend bool operator==(const Fault&, const Fault&) = default;
};

// The key of a device that stays the same from look to look: its UUID, or its name for the runtime.
const std::string& KeyOf(const Device& device);

// The meaning of an Xid for its device; empty: a program caused it, or it is only a note.
std::string_view MeaningOfXid(uint64_t xid);
// The device can no longer be used at all.
bool IsLostByXid(uint64_t xid);

class FaultWatch {
 public:
  // `library` is NVML's, for Xids. Devices that the probes find are compared with `known`.
  FaultWatch(std::vector<Device> known, std::vector<Probe> probes,
             const std::string& library = "libnvidia-ml.so.1");

  // The known devices that should not be used, by KeyOf(). Blocks for as long as the vendors' tools take.
  std::map<std::string, Fault> FindFaults();

 private:
  const std::vector<Device> known_;
  const std::vector<Probe> probes_;
  const std::unique_ptr<XidWatch> xids_;
  std::map<std::string, Fault> reported_;  // Xids
  std::set<std::string> missing_;          // at the last look
};

}  // namespace plugins::devices
