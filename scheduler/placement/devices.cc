#include "scheduler/placement/devices.h"

#include "scheduler/placement/partition_choice.h"
#include "scheduler/rng.h"
#include "scheduler/state/device_table.h"

namespace scheduler {
namespace {

bool HasMemory(const ScoreInput& input, size_t device) {
  return input.shape.device_mib == 0 || input.state.device[device].free_mib >= input.shape.device_mib;
}

uint32_t WholeDevices(const ScoreInput& input) {
  uint32_t free = input.state.whole;
  for (size_t d = 0; d < input.state.devices; ++d) {
    if (!HasMemory(input, d)) free &= ~(uint32_t{1} << d);
  }
  return input.view.near->Nearest(free, input.shape.count);
}

DeviceChoice Share(const ScoreInput& input) {
  size_t best = input.state.devices;
  for (size_t d = 0; d < input.state.devices; ++d) {
    if (!TakesShare(input, d)) continue;
    if (best == input.state.devices ||
        input.state.device[d].free_milli < input.state.device[best].free_milli) {
      best = d;
    }
  }
  return {uint32_t{1} << best};
}

}  // namespace

bool TakesShare(const ScoreInput& input, size_t d) {
  const DeviceState& device = input.state.device[d];
  return device.healthy && device.free_milli >= input.shape.milli && HasMemory(input, d);
}

DeviceChoice TightestDevices(const ScoreInput& input) {
  if (!input.shape.needs_device()) return {};
  if (input.shape.count > 0) return {WholeDevices(input)};
  return input.shape.is_partition() ? KindestPartition(input) : Share(input);
}

DeviceChoice RandomDevices(const ScoreInput& input) {
  if (!input.shape.needs_device() || input.shape.count > 0 || input.shape.is_partition()) {
    return TightestDevices(input);
  }
  Rng rng(input.draw);
  uint32_t chosen = 0;
  uint64_t able = 0;
  for (size_t d = 0; d < input.state.devices; ++d) {
    if (TakesShare(input, d) && rng.Uniform(++able) == 0) chosen = uint32_t{1} << d;
  }
  return {chosen};
}

bool GetsLinkedDevices(const ScoreInput& input) {
  return input.shape.count < 2 || input.view.near->Linked(WholeDevices(input));
}

}  // namespace scheduler
