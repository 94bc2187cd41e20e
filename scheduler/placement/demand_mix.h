// The typical demand: shapes and their frequencies, which placement weighs.
//
// `version` changes with the content: scores that were computed for another version are invalid.
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

// The parts of a shape that count in a mix: CPU, devices, kinds and profile. Memory, labels, isolation and
// tenant do not, so requests that differ only in those are one item.
Shape DemandOf(const Shape& shape);

// The frequency of each shape, in order of first appearance.
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

// The mix of a known list of requests.
DemandMix MixOf(std::span<const Shape> asks);

// The typical items: the most frequent ones that cover `cover` of all requests (FGD's rule, with 0.95). Of
// equally frequent items the larger first. Indices into mix.items.
inline constexpr double kTypicalCover = 0.95;
std::vector<size_t> TypicalItems(const DemandMix& mix, double cover = kTypicalCover);

// Thousandths of one device that a share or a partition takes on devices of the kind; 0 for other shapes, and
// where the kind has no such partition.
uint16_t ShareMilli(const Shape& shape, const Cluster& cluster, KindId kind);

// Thousandths of devices of any kind that the shape takes; a partition counts as on the first kind that has
// it.
int64_t DemandMilli(const Shape& shape, const Cluster& cluster);

}  // namespace scheduler
