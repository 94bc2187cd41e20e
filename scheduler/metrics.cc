#include "scheduler/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "scheduler/placement/filters.h"

namespace scheduler {

size_t SizeClass(int64_t device_milli) {
  constexpr std::array<int64_t, kSizeClasses - 1> kFrom = {8, 64, 256, 1024};
  return static_cast<size_t>(
      std::ranges::count_if(kFrom, [&](int64_t devices) { return device_milli >= devices * kWholeDevice; }));
}

double AllocationRate(const ClusterTotals& totals) {
  if (totals.capacity_milli == 0) return 0;
  return static_cast<double>(totals.allocated_milli) / static_cast<double>(totals.capacity_milli);
}

double OccupationRate(double held, double capacity) {
  return capacity > 0 ? held / capacity : 0;
}

double FragmentationRate(const ClusterTotals& totals) {
  if (totals.device_nodes == 0) return 0;
  return static_cast<double>(totals.fragmented_nodes) / totals.device_nodes;
}

namespace {

// The part of one node's idle share that the shape cannot use.
int64_t UnusableMilli(const NodeState& state, const Shape& shape, const FixedClass& fixed,
                      const TypeView& view) {
  if (!shape.needs_device() || !KindAllows(shape, fixed, view) || !LabelsAllow(shape, fixed) ||
      !Fits(state, shape, view)) {
    return FreeMilli(state, view);
  }
  if (shape.is_partition()) return 0;
  const int wanted = shape.milli > 0 ? shape.milli : kWholeDevice;
  int64_t unusable = 0;
  for (size_t d = 0; d < state.devices; ++d) {
    const DeviceState& device = state.device[d];
    if (device.healthy && device.free_milli < wanted) unusable += device.free_milli;
  }
  return unusable;
}

}  // namespace

double FragmentedShare(const ClusterState& state, const DemandMix& mix) {
  const int64_t capacity = state.totals().capacity_milli;
  if (capacity == 0) return 0;
  std::vector<int64_t> unusable(mix.items.size());  // whole numbers: the order of classes does not count
  for (const ClassId id : state.classes().live()) {
    const NodeClass& of = state.classes()[id];
    const FixedClass& fixed = state.fixed(of.fixed);
    if (!fixed.schedulable) continue;
    for (size_t i = 0; i < mix.items.size(); ++i) {
      unusable[i] += static_cast<int64_t>(of.nodes.size()) *
                     UnusableMilli(of.state, mix.items[i].shape, fixed, state.view(of.type));
    }
  }
  double sum = 0;
  for (size_t i = 0; i < mix.items.size(); ++i) sum += mix.items[i].share * static_cast<double>(unusable[i]);
  return sum / static_cast<double>(capacity);
}

double Quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

double Mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double JainIndex(std::span<const double> values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

double BoundedSlowdown(double turnaround_s, double run_s, double bound_s) {
  return std::max(1.0, turnaround_s / std::max(run_s, bound_s));
}

}  // namespace scheduler
