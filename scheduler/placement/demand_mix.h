// What is typically asked for: shapes and how often, which placement weighs.
//
// `version` changes with the content: scores that were computed under another one are stale.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/learned_demand.h"
#include "scheduler/model.h"
#include "scheduler/shape.h"

namespace scheduler {

struct DemandMix {
  struct Item {
    Shape shape;
    double share = 0;  // of all asks; the shares sum to 1
  };
  std::vector<Item> items;
  uint64_t version = 0;
};

// What of a shape counts in a mix: CPU, devices, kinds and profile. Memory, labels, isolation and tenant are
// left out, so that asks that differ in those only are one item.
Shape DemandOf(const Shape& shape);

// How often each shape was asked for, in the order of first appearance.
class DemandCounts {
 public:
  void Add(const Shape& shape, uint64_t times);
  void Halve();  // and forget what is 0 then
  DemandMix Mix(uint64_t version) const;
  const std::vector<DemandCount>& items() const { return items_; }

 private:
  static std::string KeyOf(const Shape& shape);

  std::vector<DemandCount> items_;
  absl::flat_hash_map<std::string, size_t> at_;
};

// The mix of a known list of asks.
DemandMix MixOf(std::span<const Shape> asks);

// The items that are typical: the most frequent ones, until `cover` of all asks is covered (FGD's rule, with
// 0.95). Of equally frequent ones the larger first. Indices into mix.items.
inline constexpr double kTypicalCover = 0.95;
std::vector<size_t> TypicalItems(const DemandMix& mix, double cover = kTypicalCover);

// Milli of one device that a share or a partition takes on devices of the kind; 0 for other shapes, and where
// the kind has no such partition.
uint16_t ShareMilli(const Shape& shape, const Cluster& cluster, KindId kind);

// Devices of any kind that the shape takes, in milli; a partition counts as on the first kind that has it.
int64_t DemandMilli(const Shape& shape, const Cluster& cluster);

}  // namespace scheduler
