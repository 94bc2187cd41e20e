#include "scheduler/placement/fragmentation_table.h"

#include <algorithm>

namespace scheduler {
namespace {

constexpr size_t kCounts = kMaxDevices + 1;

template <class T>
void SortUnique(std::vector<T>& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

}  // namespace

FragmentationTable::FragmentationTable(const Cluster& cluster, const DemandMix& mix) {
  const std::vector<size_t> typical = TypicalItems(mix);
  const auto kinds = static_cast<KindId>(cluster.kinds.size());
  double covered = 0;
  std::vector<uint16_t> sizes;
  for (const size_t at : typical) {
    const Shape& shape = mix.items[at].shape;
    covered += mix.items[at].share;
    if (!shape.needs_device()) continue;
    cpus_.push_back(shape.cpu_milli);
    for (KindId kind = 0; kind < kinds; ++kind) {
      if (const uint16_t milli = ShareMilli(shape, cluster, kind); milli > 0) sizes.push_back(milli);
    }
  }
  SortUnique(cpus_);
  SortUnique(sizes);
  levels_ = sizes.size() + 1;
  level_.resize(kWholeDevice + size_t{1});
  for (size_t left = 0; left < level_.size(); ++left) {
    level_[left] = static_cast<uint16_t>(std::ranges::upper_bound(sizes, left) - sizes.begin());
  }

  const size_t rows = cpus_.size() + 1;
  shares_.assign(kinds * rows * levels_, 0);
  wholes_.assign(kinds * rows * kCounts, 0);
  for (const size_t at : typical) {
    const Shape& shape = mix.items[at].shape;
    const auto share = static_cast<float>(mix.items[at].share / covered);
    for (KindId kind = 0; kind < kinds; ++kind) {
      if ((shape.kinds >> kind & 1) == 0) continue;
      const uint16_t milli = ShareMilli(shape, cluster, kind);
      for (size_t row = Row(shape.cpu_milli); row < rows; ++row) {
        if (milli > 0) {
          float* const of = &shares_[(kind * rows + row) * levels_];
          for (size_t level = level_[milli]; level < levels_; ++level) of[level] += share;
        } else if (shape.count > 0) {
          float* const of = &wholes_[(kind * rows + row) * kCounts];
          for (size_t count = shape.count; count < kCounts; ++count) of[count] += share;
        }
      }
    }
  }
}

size_t FragmentationTable::Row(int64_t cpu_milli) const {
  return static_cast<size_t>(std::ranges::upper_bound(cpus_, cpu_milli) - cpus_.begin());
}

double FragmentationTable::Of(KindId kind, int64_t cpu_milli, const Lefts& lefts) const {
  const size_t at = kind * (cpus_.size() + 1) + Row(cpu_milli);
  const float* const shares = &shares_[at * levels_];
  double usable = 0;
  for (size_t d = 0; d < lefts.devices; ++d) {
    usable += double{shares[level_[lefts.of[d]]]} * lefts.of[d];
  }
  usable += double{wholes_[at * kCounts + static_cast<size_t>(lefts.whole)]} * lefts.whole * kWholeDevice;
  return lefts.sum - usable;
}

}  // namespace scheduler
