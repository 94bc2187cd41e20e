// The LoRA adapter slots of an engine: which adapters are loaded, and which of those are in use. As in vLLM,
// an adapter is loaded when the first sequence that needs it is admitted, and stays until its slot is needed;
// then the least recently used adapter without a running sequence is removed.
//
// Pure, one owner. Adapters are numbers from 1; there are few slots, so every operation is O(slots).
#pragma once

#include <cstdint>
#include <vector>

namespace scheduler::engine {

class AdapterCache {
 public:
  // `slots` of 0: no bound.
  explicit AdapterCache(uint32_t slots) : slots_(slots) {}

  // Whether a sequence with this adapter can be admitted now.
  bool HasSlotFor(uint32_t adapter) const;
  // A sequence with this adapter is admitted. True when the adapter must be loaded.
  bool Acquire(uint32_t adapter);
  // A sequence with this adapter has ended.
  void Release(uint32_t adapter);

  uint32_t slots() const { return slots_; }
  uint64_t loads() const { return loads_; }
  uint64_t evictions() const { return evictions_; }
  std::vector<uint32_t> Loaded() const;  // least recently used first
  std::vector<uint32_t> InUse() const;

 private:
  struct Slot {
    uint32_t adapter;
    uint32_t users;
  };

  bool IsFull() const { return slots_ > 0 && loaded_.size() >= slots_; }

  uint32_t slots_;
  std::vector<Slot> loaded_;  // least recently used first
  uint64_t loads_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace scheduler::engine
