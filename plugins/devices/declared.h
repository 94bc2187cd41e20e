// Devices as configuration declares them, for machines whose tools do not tell, and for trying things out.
//
//   devices: [{kind: h100, count: 8, memory: 80GiB, vendor: nvidia, link_domains: 1, numa: 2}]
#pragma once

#include <string>
#include <vector>

#include "conf/reader.h"
#include "plugins/devices/device.h"

namespace plugins::devices {

struct DeclaredDevices {
  std::string kind{};
  uint16_t count = 1;
  uint64_t memory_bytes = 0;  // 0: not known, and not counted
  Vendor vendor = Vendor::kNvidia;
  // What the runtime calls each, where it is not 0, 1, 2, …: indices or UUIDs, as many as `count`.
  std::vector<std::string> ids{};
  uint16_t link_domains = 1;  // groups of equal size that reach each other over NVLink or HCCS
  uint16_t numa = 1;          // likewise
};

void Bind(conf::Object& o, DeclaredDevices& d);

// In the order of the list; a runtime counts its own devices.
std::vector<Device> DevicesOf(const std::vector<DeclaredDevices>& declared);

}  // namespace plugins::devices
