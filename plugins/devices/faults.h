// FaultWatch: what has happened since to the devices that a gateway gives away: errors that their driver
// reports, memory that has to be repaired, devices that are gone.
//
// NVIDIA's by NVML: row remapping and page retirement that has failed or waits for a reset, a GPU that is
// lost, and Xids, of which those that programs cause themselves say nothing against the device. Others by
// what npu-smi and rocm-smi say of their health. An Xid stays until the process ends, anything else as long
// as it is so.
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
  bool lost = false;  // it does not work any more: what runs on it cannot go on
  friend bool operator==(const Fault&, const Fault&) = default;
};

// What a device is known by over looks: its UUID, or what its runtime calls it.
const std::string& KeyOf(const Device& device);

// Nothing: a program's own fault, or a note.
std::string_view MeaningOfXid(uint64_t xid);

class FaultWatch {
 public:
  // `library`: NVML's, for Xids; what the probes find is compared with `known`.
  FaultWatch(std::vector<Device> known, std::vector<Probe> probes,
             const std::string& library = "libnvidia-ml.so.1");

  // Those of the known that should not be used, by KeyOf(). Blocks for as long as the vendors' tools take.
  std::map<std::string, Fault> Look();

 private:
  const std::vector<Device> known_;
  const std::vector<Probe> probes_;
  const std::unique_ptr<XidWatch> xids_;
  std::map<std::string, Fault> reported_;  // Xids
  std::set<std::string> missing_;          // at the last look
};

}  // namespace plugins::devices
