// A map by 64-bit hash that keeps recently used entries in bounded memory: two generations, of which the
// older is dropped as a whole when the younger is full. A hit in the older moves to the younger.
//
// One thread. Holds at most 2 * `per_generation` entries.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace router::prefix {

template <class Value>
class RecentMap {
 public:
  explicit RecentMap(size_t per_generation) : per_generation_(per_generation) {}

  // Null when unknown or dropped. Valid until the next call.
  Value* Find(uint64_t hash) {
    if (const auto young = young_.find(hash); young != young_.end()) return &young->second;
    const auto old = old_.find(hash);
    if (old == old_.end()) return nullptr;
    Value value = std::move(old->second);
    old_.erase(old);
    return &Insert(hash, std::move(value));
  }

  Value& operator[](uint64_t hash) {
    Value* const known = Find(hash);
    return known != nullptr ? *known : Insert(hash, Value());
  }

  size_t size() const { return young_.size() + old_.size(); }

 private:
  Value& Insert(uint64_t hash, Value value) {
    if (young_.size() >= per_generation_) {
      old_ = std::move(young_);
      young_ = {};
    }
    return young_.insert_or_assign(hash, std::move(value)).first->second;
  }

  const size_t per_generation_;
  absl::flat_hash_map<uint64_t, Value> young_;
  absl::flat_hash_map<uint64_t, Value> old_;
};

}  // namespace router::prefix
