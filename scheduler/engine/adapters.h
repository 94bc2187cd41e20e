// The slots of an engine for LoRA adapters: which are loaded, and which of those are in use. As in vLLM: an
// adapter is loaded when the first sequence that needs it is admitted, stays until its slot is needed, and of
// those that no running sequence uses the one that was used longest ago goes first.
//
// Pure, one owner. Adapters are numbers from 1; slots are few, so all is O(slots).
#pragma once

#include <cstdint>
#include <vector>

namespace scheduler::engine {

class AdapterCache {
 public:
  // `slots` of 0: no bound.
  explicit AdapterCache(uint32_t slots) : slots_(slots) {}

  // Whether a sequence that needs it can be admitted now.
  bool HasSlotFor(uint32_t adapter) const;
  // A sequence that needs it is admitted. True when it has to be loaded.
  bool Acquire(uint32_t adapter);
  // A sequence that used it has ended.
  void Release(uint32_t adapter);

  uint32_t slots() const { return slots_; }
  uint64_t loads() const { return loads_; }
  uint64_t evictions() const { return evictions_; }
  std::vector<uint32_t> Loaded() const;  // used longest ago first
  std::vector<uint32_t> InUse() const;

 private:
  struct Slot {
    uint32_t adapter;
    uint32_t users;
  };

  bool IsFull() const { return slots_ > 0 && loaded_.size() >= slots_; }

  uint32_t slots_;
  std::vector<Slot> loaded_;  // used longest ago first
  uint64_t loads_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace scheduler::engine
