// A set of node ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/model.h"

namespace scheduler {

class NodeSet {
 public:
  explicit NodeSet(size_t nodes) : words_((nodes + 63) / 64) {}
  void Add(NodeId node) { words_[node / 64] |= uint64_t{1} << (node % 64); }
  void Remove(NodeId node) { words_[node / 64] &= ~(uint64_t{1} << (node % 64)); }
  void AddAll(const NodeSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void Clear() { words_.assign(words_.size(), 0); }
  bool Has(NodeId node) const { return (words_[node / 64] >> (node % 64) & 1) != 0; }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace scheduler
