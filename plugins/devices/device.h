// Device: a GPU or NPU of a machine, as its vendor's tools report it or as the configuration declares it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"

namespace plugins::devices {

enum class Vendor : uint8_t { kNvidia, kAscend, kAmd };

// The words of configuration and reports.
inline constexpr conf::Word<Vendor> kVendorWords[] = {
    {"nvidia", Vendor::kNvidia}, {"ascend", Vendor::kAscend}, {"amd", Vendor::kAmd}};
std::string_view Name(Vendor vendor);

// A part of a device that an operator has cut (MIG). The gateway uses instances and makes none.
struct Instance {
  std::string profile{};  // "1g.10gb"
  uint8_t start = 0;      // its first memory slot
  int64_t memory_mib = 0;
  std::string visible{};  // its name for the runtime: "MIG-…"
};

struct Device {
  Vendor vendor = Vendor::kNvidia;
  std::string kind{};     // its name in cluster files: "h100", "ascend-910b"
  std::string product{};  // its name by its vendor
  int64_t memory_mib = 0;
  std::string uuid{};
  std::string visible{};          // its name in the runtime's variable: an index, or a UUID
  std::optional<uint8_t> numa{};  // absent: not known
  uint8_t link_domain = 0;        // devices of one domain reach each other over NVLink, HCCS or XGMI
  bool cut = false;               // into instances, so that it cannot be used as a whole
  std::vector<Instance> instances{};
  std::string trouble{};  // why it should not be used; empty: no reason is known
};

// The vendor of a kind, by its name in cluster files: "ascend-…", "mi300x"; any other kind is NVIDIA's.
Vendor VendorOf(std::string_view kind);

// "NVIDIA H100 80GB HBM3" -> "h100", "910B3" -> "ascend-910b", "AMD Instinct MI300X" -> "mi300x".
std::string KindOf(Vendor vendor, std::string_view product);

}  // namespace plugins::devices
