#include "scheduler/state/node_state.h"

#include <algorithm>
#include <cassert>

namespace scheduler {
namespace {

// How often an ask fits into what is there; asking for nothing is no bound.
uint32_t Times(int64_t free, int64_t ask) {
  if (ask <= 0) return UINT32_MAX;
  return free <= 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>(free / ask, UINT32_MAX));
}

bool IsolationAllows(const NodeState& state, Isolation isolation, uint32_t tenant) {
  if (state.isolation == Isolation::kNode) return false;
  if (state.members == 0) return true;
  if (isolation == Isolation::kNode) return false;
  const bool same_tenant = tenant != 0 && state.tenant == tenant;
  return same_tenant || (isolation == Isolation::kNone && state.isolation == Isolation::kNone);
}

bool MemoryFits(const DeviceState& device, const Shape& shape) {
  return shape.device_mib == 0 || device.free_mib >= shape.device_mib;
}

uint32_t WholeDevices(const NodeState& state, const Shape& shape) {
  if (shape.device_mib == 0) return static_cast<uint32_t>(state.whole_count());
  uint32_t count = 0;
  for (int d = 0; d < state.devices; ++d) {
    const auto at = static_cast<size_t>(d);
    count += (state.whole >> d & 1) != 0 && MemoryFits(state.device[at], shape);
  }
  return count;
}

uint32_t Shares(const NodeState& state, const Shape& shape) {
  uint32_t count = 0;
  for (size_t d = 0; d < state.devices; ++d) {
    const DeviceState& device = state.device[d];
    if (!device.healthy) continue;
    count += std::min(Times(device.free_milli, shape.milli), Times(device.free_mib, shape.device_mib));
  }
  return count;
}

uint32_t DeviceSlots(const NodeState& state, const Shape& shape, const TypeView& view) {
  if (shape.count > 0) return WholeDevices(state, shape) / shape.count;
  if (!shape.is_partition()) return Shares(state, shape);
  const uint8_t number = ProfileOn(shape, view);
  if (number == 0) return 0;
  uint32_t count = 0;
  for (size_t d = 0; d < state.devices; ++d) {
    const DeviceState& device = state.device[d];
    if (!TakesPartitions(device)) continue;
    count += PartitionsLeft(device.used_slots, view.layout->profiles[number - 1u]);
  }
  return count;
}

void SetWhole(NodeState& state, size_t device) {
  const DeviceState& d = state.device[device];
  const uint32_t bit = uint32_t{1} << device;
  const bool whole = d.healthy && d.free_milli == kWholeDevice;
  state.whole = whole ? state.whole | bit : state.whole & ~bit;
}

}  // namespace

NodeState EmptyNode(const Cluster& cluster, NodeId node) {
  const NodeType& type = cluster.type_of(node);
  NodeState state{.free_cpu_milli = type.cpu_milli,
                  .free_memory_mib = type.memory_mib,
                  .devices = type.devices,
                  .whole = (uint32_t{1} << type.devices) - 1};
  for (size_t d = 0; d < type.devices; ++d) {
    state.device[d].free_mib = static_cast<int32_t>(cluster.kinds[type.kind].memory_mib);
  }
  return state;
}

bool TakesPartitions(const DeviceState& device) {
  return device.healthy && (device.used_slots != 0 || device.free_milli == kWholeDevice);
}

uint32_t PartitionsLeft(uint8_t used, const PartitionProfile& profile) {
  uint32_t count = 0;
  for (const uint8_t start : profile.starts) {
    const uint8_t bits = SlotBits(profile, start);
    if ((used & bits) != 0) continue;
    used |= bits;
    ++count;
  }
  return count;
}

bool Fits(const NodeState& state, const Shape& shape, const TypeView& view) {
  if (shape.cpu_milli > state.free_cpu_milli || shape.memory_mib > state.free_memory_mib) return false;
  if (!IsolationAllows(state, shape.isolation, shape.tenant)) return false;
  return !shape.needs_device() || DeviceSlots(state, shape, view) > 0;
}

uint32_t Slots(const NodeState& state, const Shape& shape, const TypeView& view) {
  if (!Fits(state, shape, view)) return 0;
  if (shape.isolation == Isolation::kNode) return 1;
  uint32_t slots =
      std::min(Times(state.free_cpu_milli, shape.cpu_milli), Times(state.free_memory_mib, shape.memory_mib));
  if (shape.needs_device()) slots = std::min(slots, DeviceSlots(state, shape, view));
  return slots;
}

bool IsFree(const NodeState& state, const Holding& holding, const TypeView& view) {
  if (holding.cpu_milli > state.free_cpu_milli || holding.memory_mib > state.free_memory_mib) return false;
  if (!IsolationAllows(state, holding.isolation, holding.tenant)) return false;
  for (uint32_t left = holding.devices; left != 0; left &= left - 1) {
    const DeviceState& device = state.device[static_cast<size_t>(std::countr_zero(left))];
    if (!device.healthy || device.free_mib < holding.device_mib) return false;
    if (holding.profile == 0) {
      if (device.free_milli < holding.milli) return false;
    } else if (!TakesPartitions(device) ||
               (device.used_slots & SlotBits(view.layout->profiles[holding.profile - 1u], holding.start)) !=
                   0) {
      return false;
    }
  }
  return true;
}

void Take(NodeState& state, const Holding& holding, const TypeView& view) {
  state.free_cpu_milli -= holding.cpu_milli;
  state.free_memory_mib -= holding.memory_mib;
  assert(state.free_cpu_milli >= 0 && state.free_memory_mib >= 0);
  state.tenant = state.members == 0 || state.tenant == holding.tenant ? holding.tenant : kManyTenants;
  state.isolation = std::max(state.isolation, holding.isolation);
  ++state.members;
  for (uint32_t left = holding.devices; left != 0; left &= left - 1) {
    const auto d = static_cast<size_t>(std::countr_zero(left));
    DeviceState& device = state.device[d];
    if (holding.profile != 0) {
      const uint8_t bits = SlotBits(view.layout->profiles[holding.profile - 1u], holding.start);
      assert((device.used_slots & bits) == 0 &&
             (device.used_slots != 0 || device.free_milli == kWholeDevice));
      device.used_slots |= bits;
      device.free_milli = 0;
    } else {
      assert(device.free_milli >= holding.milli && device.used_slots == 0);
      device.free_milli = static_cast<uint16_t>(device.free_milli - holding.milli);
    }
    device.free_mib -= holding.device_mib;
    SetWhole(state, d);
  }
}

void Give(NodeState& state, const Holding& holding, const TypeView& view) {
  state.free_cpu_milli += holding.cpu_milli;
  state.free_memory_mib += holding.memory_mib;
  assert(state.members > 0);
  if (--state.members == 0) {
    state.tenant = 0;
    state.isolation = Isolation::kNone;
  }
  for (uint32_t left = holding.devices; left != 0; left &= left - 1) {
    const auto d = static_cast<size_t>(std::countr_zero(left));
    DeviceState& device = state.device[d];
    if (holding.profile != 0) {
      const uint8_t bits = SlotBits(view.layout->profiles[holding.profile - 1u], holding.start);
      device.used_slots = static_cast<uint8_t>(device.used_slots & ~bits);
      if (device.used_slots == 0) device.free_milli = kWholeDevice;
    } else {
      device.free_milli = static_cast<uint16_t>(device.free_milli + holding.milli);
    }
    device.free_mib += holding.device_mib;
    SetWhole(state, d);
  }
}

void SetDeviceHealth(NodeState& state, size_t device, bool healthy) {
  state.device[device].healthy = healthy;
  SetWhole(state, device);
}

uint16_t FreeComputeMilli(const DeviceState& device, const TypeView& view) {
  // A slot means a compute slice where a layout has the same number of both; of MIG's eight slots, the first seven do.
  const int usable = (1 << view.layout->compute) - 1;
  const int free = std::popcount(static_cast<unsigned>(~device.used_slots & usable));
  return static_cast<uint16_t>(free * kWholeDevice / view.layout->compute);
}

int64_t FreeMilli(const NodeState& state, const TypeView& view) {
  int64_t milli = 0;
  for (size_t d = 0; d < state.devices; ++d) {
    const DeviceState& device = state.device[d];
    if (!device.healthy) continue;
    milli += device.free_milli;
    if (device.used_slots != 0) milli += FreeComputeMilli(device, view);
  }
  return milli;
}

int64_t HeldMilli(const Holding& holding, const TypeView& view) {
  const int64_t devices = std::popcount(holding.devices);
  if (holding.profile == 0) return devices * holding.milli;
  const PartitionProfile& profile = view.layout->profiles[holding.profile - 1u];
  return devices * profile.compute * kWholeDevice / view.layout->compute;
}

}  // namespace scheduler
