#include "scheduler/sim/until_allocated.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "scheduler/placement/mix_learner.h"
#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"

namespace scheduler::sim {
namespace {

constexpr uint32_t kProgressEvery = 512;  // arrivals

struct Size {
  int64_t one = 0;  // milli of one device
  int64_t all = 0;
};

Size SizeOf(const Ask& ask) {
  if (ask.devices.empty()) return {};
  const DeviceAsk& devices = ask.devices.front();
  return {devices.count > 0 ? kWholeDevice : devices.milli, DeviceMilli(devices)};
}

// Indices of the asks, in the order in which they arrive.
std::vector<uint32_t> OrderOfArrival(const std::vector<Size>& sizes, double target, Rng& rng) {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  rng.Shuffle(order);
  int64_t total = 0;
  for (const Size& size : sizes) total += size.all;
  if (static_cast<double>(total) > target) {
    while (static_cast<double>(total) > target) {
      const auto gone = order.begin() + static_cast<ptrdiff_t>(rng.Uniform(order.size()));
      total -= sizes[*gone].all;
      order.erase(gone);
    }
    return order;
  }
  for (;;) {
    const auto next = static_cast<uint32_t>(rng.Uniform(sizes.size()));
    if (static_cast<double>(total + sizes[next].one) > target) return order;
    total += sizes[next].all;
    order.push_back(next);
  }
}

// Means by whole percent of load.
class Readings {
 public:
  void Add(double load, double allocated) {
    const auto percent = static_cast<size_t>(std::nearbyint(load));
    if (percent >= sum_.size()) {
      sum_.resize(percent + 1, 0);
      count_.resize(percent + 1, 0);
    }
    sum_[percent] += allocated;
    count_[percent] += 1;
  }

  std::vector<double> Means() const {
    std::vector<double> means(sum_.size(), 0);
    for (size_t p = 0; p < means.size(); ++p) {
      means[p] = count_[p] > 0 ? sum_[p] / count_[p] : p > 0 ? means[p - 1] : 0;
    }
    return means;
  }

 private:
  std::vector<double> sum_;
  std::vector<double> count_;
};

std::vector<Size> SizesOf(std::span<const Ask> asks) {
  std::vector<Size> sizes;
  sizes.reserve(asks.size());
  for (const Ask& ask : asks) sizes.push_back(SizeOf(ask));
  return sizes;
}

}  // namespace

std::vector<uint32_t> ArrivalOrder(const Cluster& cluster, std::span<const Ask> asks,
                                   const UntilAllocatedOptions& options) {
  Rng rng(options.seed);
  rng.Next();  // the order among equal nodes
  const auto capacity = static_cast<double>(ClusterState(cluster).totals().capacity_milli);
  return OrderOfArrival(SizesOf(asks), options.load * capacity, rng);
}

UntilAllocated FillUntilAllocated(const Cluster& cluster, std::span<const Ask> asks,
                                  const UntilAllocatedOptions& options) {
  const PlacementPolicy& policy = *FindPlacementPolicy(options.placement);
  ClusterState state(cluster, policy.needs_sizes);
  ShapeTable shapes(cluster);
  Placer placer(state, shapes, policy);
  Rng rng(options.seed);
  placer.SetTieOrder(rng.Next() + options.naming);

  std::vector<std::vector<ShapeId>> shapes_of;
  const std::vector<Size> sizes = SizesOf(asks);
  std::vector<Shape> demand;
  for (const Ask& ask : asks) {
    shapes_of.push_back(shapes.Resolve(ask, ""));
    if (!shapes_of.back().empty()) demand.push_back(shapes[shapes_of.back().front()]);
  }
  MixLearner learner(cluster);
  placer.SetMix(options.mix == MixFrom::kList ? MixOf(demand) : learner.mix());

  const auto capacity = static_cast<double>(state.totals().capacity_milli);
  const std::vector<uint32_t> order = OrderOfArrival(sizes, options.load * capacity, rng);
  UntilAllocated result;
  Readings readings;
  int64_t arrived = 0;
  int64_t allocated = 0;
  for (const uint32_t ask : order) {
    arrived += sizes[ask].all;
    const std::vector<ShapeId>& alternatives = shapes_of[ask];
    if (options.mix == MixFrom::kArrivals && !alternatives.empty() &&
        learner.Observe(shapes[alternatives.front()])) {
      placer.SetMix(learner.mix());
    }
    if (const std::optional<Holding> holding = placer.Choose(alternatives, {}, rng)) {
      Trial trial(state);
      trial.Assign({.job = ask, .rank = result.arrived, .holding = *holding});
      trial.Commit();
      allocated += sizes[ask].all;
    } else {
      ++result.refused;
    }
    ++result.arrived;
    readings.Add(static_cast<double>(arrived) * 100 / capacity,
                 static_cast<double>(allocated) * 100 / capacity);
    if (options.progress && result.arrived % kProgressEvery == 0) {
      options.progress(static_cast<double>(result.arrived) / static_cast<double>(order.size()));
    }
  }
  result.allocated = readings.Means();
  return result;
}

}  // namespace scheduler::sim
