// The free amounts of one node, and whether, how often and where a member fits.
//
// Pure functions over small values; the shapes that they are asked about are resolved beforehand
// (shape_table.h). A device is whole (all free), shared by fractions, or cut into partitions; which of these,
// its free share says.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "scheduler/holding.h"
#include "scheduler/model.h"
#include "scheduler/shape.h"
#include "scheduler/state/type_view.h"

namespace scheduler {

struct DeviceState {
  uint16_t free_milli = kWholeDevice;  // 0 while it is cut into partitions
  uint8_t used_slots = 0;              // bits of its layout's memory slots that partitions hold
  bool healthy = true;
  int32_t free_mib = 0;  // stays 0 where the kind's memory is not known

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};

inline constexpr uint32_t kManyTenants = UINT32_MAX;

struct NodeState {
  int64_t free_cpu_milli = 0;
  int64_t free_memory_mib = 0;
  uint32_t tenant = 0;  // of all its members; 0 while it has none, kManyTenants when they differ
  Isolation isolation = Isolation::kNone;  // the strictest that a member on it asked for
  uint8_t devices = 0;
  uint16_t members = 0;
  uint32_t sizes = 0;  // of its members, one bit each (SizeBit); stays 0 where no policy looks at it
  uint32_t whole = 0;  // bit d: device d is wholly free
  std::array<DeviceState, kMaxDevices> device{};

  int whole_count() const { return std::popcount(whole); }
  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// The state of a node of which nothing is taken.
NodeState EmptyNode(const Cluster& cluster, NodeId node);

// Whether one member fits; eligibility by labels, kind and health is the shape's matter.
bool Fits(const NodeState& state, const Shape& shape, const TypeView& view);

// How many members fit together.
uint32_t Slots(const NodeState& state, const Shape& shape, const TypeView& view);

// Whether just what the holding names is free; its node and its devices exist.
bool IsFree(const NodeState& state, const Holding& holding, const TypeView& view);

// Changes `state` by one member. Take requires that everything in the holding is free. After Give, `tenant` and
// `isolation` are right when no member is left; otherwise the caller sets them from the members that stay.
void Take(NodeState& state, const Holding& holding, const TypeView& view);
void Give(NodeState& state, const Holding& holding, const TypeView& view);

// A device that is not healthy takes nothing new; its members stay until they release it.
void SetDeviceHealth(NodeState& state, size_t device, bool healthy);

// Free share of the healthy devices in milli: of partitions, the compute slices that are not held.
int64_t FreeMilli(const NodeState& state, const TypeView& view);

// The free compute slices of a partitioned device, in milli.
uint16_t FreeComputeMilli(const DeviceState& device, const TypeView& view);

// The share of a device that a holding counts for, in milli, over all its devices.
int64_t HeldMilli(const Holding& holding, const TypeView& view);

// The bits that a partition of `profile` occupies from `start`.
inline uint8_t SlotBits(const PartitionProfile& profile, uint8_t start) {
  return static_cast<uint8_t>(((1u << profile.slots) - 1) << start);
}

// Whether partitions may go onto the device: healthy, and whole or cut already.
bool TakesPartitions(const DeviceState& device);

// How many partitions of one profile go beside those that hold the slots `used`.
uint32_t PartitionsLeft(uint8_t used, const PartitionProfile& profile);

}  // namespace scheduler
