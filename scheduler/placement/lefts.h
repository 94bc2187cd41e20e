// The free part of each device of a node, in the form that scores need.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/state/node_state.h"

namespace scheduler {

// In thousandths, by device; for a device with partitions the free compute slices; 0 for an unhealthy device.
struct Lefts {
  std::array<uint16_t, kMaxDevices> of{};
  size_t devices = 0;
  int whole = 0;  // wholly free
  int sum = 0;
};

inline uint16_t LeftOf(const DeviceState& device, const TypeView& view) {
  if (!device.healthy) return 0;
  return device.used_slots == 0 ? device.free_milli : FreeComputeMilli(device, view);
}

inline Lefts LeftsOf(const NodeState& state, const TypeView& view) {
  Lefts lefts{.devices = state.devices, .whole = state.whole_count()};
  for (size_t d = 0; d < state.devices; ++d) {
    lefts.of[d] = LeftOf(state.device[d], view);
    lefts.sum += lefts.of[d];
  }
  return lefts;
}

// Takes `count` wholly free devices; which ones makes no difference here.
inline void TakeWhole(Lefts& lefts, int count) {
  lefts.whole -= count;
  lefts.sum -= count * kWholeDevice;
  for (size_t d = 0; count > 0; ++d) {
    if (lefts.of[d] != kWholeDevice) continue;
    lefts.of[d] = 0;
    --count;
  }
}

// Takes `milli` of one device.
inline void TakeFrom(Lefts& lefts, size_t device, int milli) {
  lefts.whole -= lefts.of[device] == kWholeDevice;
  lefts.of[device] = static_cast<uint16_t>(lefts.of[device] - milli);
  lefts.sum -= milli;
}

}  // namespace scheduler
