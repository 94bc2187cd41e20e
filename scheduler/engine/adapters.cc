#include "scheduler/engine/adapters.h"

#include <algorithm>

namespace scheduler::engine {

bool AdapterCache::HasSlotFor(uint32_t adapter) const {
  return !IsFull() || std::ranges::any_of(loaded_, [adapter](const Slot& slot) {
    return slot.adapter == adapter || slot.users == 0;
  });
}

bool AdapterCache::Acquire(uint32_t adapter) {
  Slot slot{adapter, 0};
  const auto found = std::ranges::find(loaded_, adapter, &Slot::adapter);
  const bool loads = found == loaded_.end();
  if (!loads) {
    slot = *found;
    loaded_.erase(found);
  } else {
    ++loads_;
    if (const auto idle = std::ranges::find(loaded_, 0u, &Slot::users); IsFull() && idle != loaded_.end()) {
      loaded_.erase(idle);
      ++evictions_;
    }
  }
  ++slot.users;
  loaded_.push_back(slot);
  return loads;
}

void AdapterCache::Release(uint32_t adapter) {
  --std::ranges::find(loaded_, adapter, &Slot::adapter)->users;
}

std::vector<uint32_t> AdapterCache::Loaded() const {
  std::vector<uint32_t> all;
  all.reserve(loaded_.size());
  for (const Slot& slot : loaded_) all.push_back(slot.adapter);
  return all;
}

std::vector<uint32_t> AdapterCache::InUse() const {
  std::vector<uint32_t> used;
  for (const Slot& slot : loaded_) {
    if (slot.users > 0) used.push_back(slot.adapter);
  }
  return used;
}

}  // namespace scheduler::engine
