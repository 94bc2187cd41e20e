#include "scheduler/placement/tide.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "scheduler/placement/devices.h"
#include "scheduler/placement/partition_choice.h"

namespace scheduler {
namespace {

constexpr double kPriceWeight = 0.2;
constexpr double kCpuLevel = 0.02;
constexpr double kDeviceLevel = 0.01;
constexpr double kUnlinked = 1;
constexpr double kAlike = 1e-9;  // thousandths of waste that make no difference

// The smallest Σ W over the devices that a share can go to, and the device.
struct LeastWaste {
  double waste = std::numeric_limits<double>::infinity();
  size_t device = 0;
};

LeastWaste BestShare(const ScoreInput& input, const WasteTable::OnNode& on, const Lefts& lefts) {
  const double sum = on.Devices(lefts);
  LeastWaste best;
  for (size_t d = 0; d < lefts.devices; ++d) {
    if (!TakesShare(input, d)) continue;
    const double waste = on.DevicesAfter(sum, lefts, lefts.of[d], input.shape.milli);
    if (waste < best.waste - kAlike) best = {waste, d};
  }
  return best;
}

int64_t CpuAfter(const ScoreInput& input) {
  return input.state.free_cpu_milli - input.shape.cpu_milli;
}

}  // namespace

double TideScore(const ScoreInput& input) {
  const WasteTable& waste = input.tables.waste;
  const Shape& shape = input.shape;
  const KindId kind = input.view.type->kind;
  const int64_t cpu_after = CpuAfter(input);
  double score = -kCpuLevel * static_cast<double>(cpu_after) / input.tables.largest_cpu;
  if (input.state.devices == 0) return score;

  Lefts lefts = LeftsOf(input.state, input.view);
  score += WasteTable::InDevices(waste.On(kind, input.state.free_cpu_milli).Devices(lefts),
                                 waste.Starved(input.state.free_cpu_milli, lefts.sum));
  const WasteTable::OnNode on = waste.On(kind, cpu_after);
  double devices_after = 0;
  int64_t taken = 0;
  if (!shape.needs_device()) {
    devices_after = on.Devices(lefts);
  } else if (shape.count > 0) {
    taken = int64_t{shape.count} * kWholeDevice;
    TakeWhole(lefts, shape.count);
    devices_after = on.Devices(lefts);
  } else if (shape.is_partition()) {
    taken = ShareMilli(shape, input.cluster, kind);
    const auto device = static_cast<size_t>(std::countr_zero(KindestPartition(input).devices));
    TakeFrom(lefts, device, static_cast<int>(taken));
    devices_after = on.Devices(lefts);
  } else {
    taken = shape.milli;
    devices_after = BestShare(input, on, lefts).waste;
    lefts.sum -= shape.milli;
  }
  score -= WasteTable::InDevices(devices_after, waste.Starved(cpu_after, lefts.sum));
  score -= kDeviceLevel * lefts.sum / input.tables.largest_milli;
  score -= kPriceWeight * waste.Price(kind) * static_cast<double>(taken) / kWholeDevice;
  return GetsLinkedDevices(input) ? score : score - kUnlinked;
}

DeviceChoice TideDevices(const ScoreInput& input) {
  if (input.shape.count > 0 || input.shape.is_partition() || !input.shape.needs_device()) {
    return TightestDevices(input);
  }
  const WasteTable::OnNode on = input.tables.waste.On(input.view.type->kind, CpuAfter(input));
  return {uint32_t{1} << BestShare(input, on, LeftsOf(input.state, input.view)).device};
}

}  // namespace scheduler
