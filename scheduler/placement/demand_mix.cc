#include "scheduler/placement/demand_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

namespace scheduler {

Shape DemandOf(const Shape& shape) {
  Shape demand;
  demand.cpu_milli = shape.cpu_milli;
  demand.count = shape.count;
  demand.milli = shape.milli;
  demand.kinds = shape.kinds;
  demand.profile = shape.profile;
  return demand;
}

std::string DemandCounts::KeyOf(const Shape& shape) {
  std::string key = fmt::format("{} {} {} {:x} ", shape.cpu_milli, shape.count, shape.milli, shape.kinds);
  key.append(shape.profile.begin(), shape.profile.end());
  return key;
}

void DemandCounts::Add(const Shape& shape, uint64_t times) {
  const auto [at, is_new] = at_.try_emplace(KeyOf(shape), items_.size());
  if (is_new) items_.push_back({DemandOf(shape), 0});
  items_[at->second].count += times;
}

void DemandCounts::Halve() {
  std::vector<DemandCount> items = std::exchange(items_, {});
  at_.clear();
  for (const DemandCount& item : items) {
    if (item.count > 1) Add(item.shape, item.count / 2);
  }
}

DemandMix DemandCounts::Mix(uint64_t version) const {
  uint64_t all = 0;
  for (const DemandCount& item : items_) all += item.count;
  DemandMix mix;
  mix.version = version;
  mix.items.reserve(items_.size());
  for (const DemandCount& item : items_) {
    mix.items.push_back({item.shape, static_cast<double>(item.count) / static_cast<double>(all)});
  }
  return mix;
}

DemandMix MixOf(std::span<const Shape> asks) {
  DemandCounts counts;
  for (const Shape& ask : asks) counts.Add(ask, 1);
  return counts.Mix(1);
}

std::vector<size_t> TypicalItems(const DemandMix& mix, double cover) {
  std::vector<size_t> order(mix.items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t at) {
    const Shape& s = mix.items[at].shape;
    return std::tuple(mix.items[at].share, s.cpu_milli, s.count > 0 ? kWholeDevice : s.milli, s.count,
                      s.kinds);
  };
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const auto rank_a = rank(a);
    const auto rank_b = rank(b);
    return rank_a != rank_b ? rank_a > rank_b : mix.items[a].shape.profile > mix.items[b].shape.profile;
  });
  constexpr double kRounding = 1e-12;
  double covered = 0;
  size_t typical = 0;
  while (typical < order.size() && covered < cover - kRounding) covered += mix.items[order[typical++]].share;
  order.resize(typical);
  return order;
}

uint16_t ShareMilli(const Shape& shape, const Cluster& cluster, KindId kind) {
  if (!shape.is_partition()) return shape.count > 0 ? uint16_t{0} : std::min(shape.milli, kWholeDevice);
  if (kind >= cluster.kinds.size()) return 0;
  const uint32_t layout = cluster.kinds[kind].layout;
  if (layout >= shape.profile.size() || shape.profile[layout] == 0) return 0;
  const PartitionLayout& cut = cluster.layouts[layout];
  if (shape.profile[layout] > cut.profiles.size()) return 0;
  return static_cast<uint16_t>(cut.profiles[shape.profile[layout] - size_t{1}].compute * kWholeDevice /
                               cut.compute);
}

int64_t DemandMilli(const Shape& shape, const Cluster& cluster) {
  if (!shape.needs_device()) return 0;
  if (shape.count > 0) return int64_t{shape.count} * kWholeDevice;
  return ShareMilli(shape, cluster, static_cast<KindId>(std::countr_zero(shape.kinds)));
}

}  // namespace scheduler
