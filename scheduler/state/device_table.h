// Which devices of a node to take together: those nearest to each other, leaving those that are near.
//
// Two devices of one link domain (NVLink, HCCS) are nearest, then two of one NUMA node, then the rest; within
// a link domain NUMA counts too. Chooses the free devices whose farthest pair is nearest (the bottleneck of a
// ring), then whose pairs are nearest on the whole, then those that leave the most near pairs behind, then
// the lowest. For types of up to eight devices each answer is a table look-up; beyond, devices
// are taken group by group, from the smallest link domain and NUMA node that holds them.
//
// Immutable; the type must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/model.h"

namespace scheduler {

class DeviceTable {
 public:
  explicit DeviceTable(const NodeType& type);

  // `count` of the devices in the mask `free`, which has at least as many.
  uint32_t Nearest(uint32_t free, int count) const;

  // Whether all the devices are of one link domain.
  bool Linked(uint32_t devices) const;

 private:
  static constexpr uint8_t kLargest = 8;
  static constexpr size_t kWidth = kLargest + 1;

  // 0: one link domain and NUMA node; the farther, the more.
  uint32_t Distance(size_t a, size_t b) const;
  void Fill();
  uint32_t GroupByGroup(uint32_t free, int count) const;

  const NodeType* type_;
  std::vector<uint8_t> nearest_;  // [free mask][count]; empty: too many devices, or all are alike
};

}  // namespace scheduler
