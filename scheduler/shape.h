// A member's ask, resolved against a cluster: numbers and bits where the ask has names.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/work.h"

namespace scheduler {

struct Shape {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  uint16_t count = 0;  // whole devices
  uint16_t milli = 0;  // or a share of one
  int32_t device_mib = 0;
  uint64_t kinds = 0;  // bit k: device kind k will do; 0: needs no device
  std::vector<uint8_t>
      profile;  // per partition layout: 1 + the profile's index, 0 where it has none; empty: no partition
  std::vector<LabelRule> require;
  std::vector<LabelRule> avoid;
  std::vector<LabelRule> prefer;
  Isolation isolation = Isolation::kNone;
  uint32_t tenant = 0;  // 0 where no node or ask makes a difference by tenant

  bool needs_device() const { return kinds != 0; }
  bool is_partition() const { return !profile.empty(); }
};

}  // namespace scheduler
