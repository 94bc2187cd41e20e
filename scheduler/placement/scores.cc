#include "scheduler/placement/scores.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "scheduler/placement/devices.h"
#include "scheduler/placement/lefts.h"

namespace scheduler {
namespace {

// For members without devices, and as a tie-break: the share of CPU that stays free, in [0, 1].
double CpuLeft(const ScoreInput& input) {
  const int64_t all = std::max<int64_t>(input.view.type->cpu_milli, 1);
  return static_cast<double>(input.state.free_cpu_milli - input.shape.cpu_milli) / static_cast<double>(all);
}

}  // namespace

double LeastDevicesLeft(const ScoreInput& input) {
  return -static_cast<double>(FreeMilli(input.state, input.view)) - CpuLeft(input);
}

double LeastDevicesLeftLinked(const ScoreInput& input) {
  return LeastDevicesLeft(input) + (GetsLinkedDevices(input) ? 4.0 * kWholeDevice : 0.0);
}

double MostDevicesLeft(const ScoreInput& input) {
  return static_cast<double>(FreeMilli(input.state, input.view)) + CpuLeft(input);
}

double DotProduct(const ScoreInput& input) {
  const PolicyTables& largest = input.tables;
  const double cpu = static_cast<double>(input.state.free_cpu_milli) / largest.largest_cpu *
                     (static_cast<double>(input.shape.cpu_milli) / largest.largest_cpu);
  const double devices = static_cast<double>(FreeMilli(input.state, input.view)) / largest.largest_milli *
                         (static_cast<double>(DeviceMilli(input.shape, input.view)) / largest.largest_milli);
  return std::trunc(100 * (1 - (cpu + devices) / 2));
}

double LeastLeftAfter(const ScoreInput& input) {
  const int64_t milli = FreeMilli(input.state, input.view) - DeviceMilli(input.shape, input.view);
  const double left = static_cast<double>(input.state.free_cpu_milli - input.shape.cpu_milli) /
                          input.tables.largest_cpu * 0.5 +
                      static_cast<double>(milli) / input.tables.largest_milli * 0.5;
  return std::trunc((1 - left) * 100);
}

double UsedDevicesFirst(const ScoreInput& input) {
  if (!input.shape.needs_device()) return 0;
  const int whole = input.state.whole_count();
  if (whole == input.state.devices) return std::max(33 - whole, whole);
  if (input.shape.count > 0) return std::max(50 - input.shape.count, 33);
  const uint32_t device = TightestDevices(input).devices;
  if ((input.state.whole & device) != 0) return 49;
  const int left = LeftOf(input.state.device[static_cast<size_t>(std::countr_zero(device))], input.view);
  return std::max(100 - left * 100 / kWholeDevice / 10, 50);
}

double AmongItsOwnSize(const ScoreInput& input) {
  if (!input.shape.needs_device()) return 0;
  const uint32_t own = uint32_t{1} << input.shape.count;
  const uint32_t sizes = input.state.sizes;
  int base = sizes == 0 ? 25 : 0;
  if ((sizes & own) != 0) base = sizes == own ? 75 : 50;
  const auto largest = static_cast<int64_t>(input.tables.largest_milli);
  const int64_t whole = 25 * (largest - FreeMilli(input.state, input.view)) / largest + base;
  return static_cast<double>(whole);
}

double NoScore(const ScoreInput&) {
  return 0;
}

}  // namespace scheduler
