// The devices, CPU and memory that members of a job hold on one node.
#pragma once

#include <bit>
#include <cstdint>

#include "scheduler/model.h"

namespace scheduler {

enum class Isolation : uint8_t {
  kNone,
  kTenant,  // shares a node only with work of its own tenant
  kNode,    // has the node to itself
};

// The resources that one member holds.
struct Holding {
  NodeId node = 0;
  uint32_t devices = 0;  // bit d: a share of device d
  uint16_t milli = 0;    // of each of them, kWholeDevice for whole ones; 0 for a partition
  uint8_t profile = 0;   // 1 + index into the layout's profiles; 0: not a partition
  uint8_t start = 0;     // the partition's first slot
  Isolation isolation = Isolation::kNone;
  uint32_t tenant = 0;
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  int32_t device_mib = 0;  // of each device

  friend bool operator==(const Holding&, const Holding&) = default;
};

// Bit 0: a part of a device; bit k: k whole ones. 0 for a member without devices.
inline uint32_t SizeBit(const Holding& holding) {
  if (holding.devices == 0) return 0;
  return holding.milli == kWholeDevice ? uint32_t{1} << std::popcount(holding.devices) : 1;
}

// A member of a job by its role and rank, and where it is placed.
struct MemberAt {
  uint16_t role = 0;
  uint32_t rank = 0;
  Holding holding;

  friend bool operator==(const MemberAt&, const MemberAt&) = default;
};

}  // namespace scheduler
