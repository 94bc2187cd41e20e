#include "router/prefix/table.h"

#include <new>

namespace router::prefix {
namespace {

// Zeroed memory, which the system hands out page by page at the first write.
template <class T>
T* Allocate(size_t count) {
  void* const memory = std::calloc(count, sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

}  // namespace

void Table::Reserve(uint32_t entries) {
  slot_count_ = SlotsFor(entries);
  slots_ = Zeroed<Slot>(Allocate<Slot>(slot_count_));
  entries_ = Zeroed<Entry>(Allocate<Entry>(size_t{entries} + 1));
  capacity_ = entries;
}

size_t Table::Seek(uint64_t block) const {
  size_t slot = Home(block);
  while (slots_[slot].head != 0 && slots_[slot].block != block) slot = slot + 1 < slot_count_ ? slot + 1 : 0;
  return slot;
}

uint32_t Table::Add(uint64_t block) {
  uint32_t entry = free_;
  if (entry != 0) {
    free_ = entries_[entry].next;
  } else {
    entry = ++used_;
  }
  Slot& slot = slots_[Seek(block)];
  entries_[entry] = Entry{.next = slot.head};
  slot = Slot{block, entry};
  ++size_;
  return entry;
}

// Closes the gap: each following slot, up to the next empty one, moves back unless its home lies behind the
// gap.
void Table::Vacate(size_t gap) {
  for (size_t slot = gap;;) {
    slot = slot + 1 < slot_count_ ? slot + 1 : 0;
    if (slots_[slot].head == 0) break;
    const size_t home = Home(slots_[slot].block);
    const size_t from_home = (slot + slot_count_ - home) % slot_count_;
    const size_t from_gap = (slot + slot_count_ - gap) % slot_count_;
    if (from_home < from_gap) continue;
    slots_[gap] = slots_[slot];
    gap = slot;
  }
  slots_[gap] = Slot{};
}

}  // namespace router::prefix
