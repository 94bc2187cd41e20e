// One part of the prefix index: maps a block hash to the chain of entries that name its holders. Fixed
// memory, linear probing with backward shift deletion: it never grows or rehashes and leaves no tombstones,
// so a call takes no longer than a chain. The owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace router::prefix {

struct Entry {
  uint32_t next = 0;        // in the block's chain; 0: the last
  uint32_t generation = 0;  // of its member, at its last use
  uint32_t used_at = 0;     // in ticks
  uint16_t member = 0;
  uint8_t users = 0;  // running requests that use it, up to 255; 0: it may be evicted
  bool predicted : 1 = false;
  bool reported : 1 = false;  // by the engine itself
};

class Table {
 public:
  static constexpr size_t kBytesPerEntry = sizeof(Entry) + 16 * 4 / 3;

  // Allocates BytesFor(entries) of memory.
  void Reserve(uint32_t entries);
  static size_t BytesFor(uint32_t entries) {
    return (size_t{entries} + 1) * sizeof(Entry) + SlotsFor(entries) * sizeof(Slot);
  }

  // The first entry of a block's chain; 0: no replica holds it.
  uint32_t Head(uint64_t block) const { return slots_[Seek(block)].head; }
  Entry& operator[](uint32_t entry) { return entries_[entry]; }
  const Entry& operator[](uint32_t entry) const { return entries_[entry]; }

  bool full() const { return free_ == 0 && used_ == capacity_; }
  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }

  // Adds an entry at the head of the block's chain and returns it; the table must not be full.
  uint32_t Add(uint64_t block);

  // Removes the entries of the block for which `dead` is true; returns their number.
  template <class Dead>
  uint32_t Remove(uint64_t block, Dead&& dead) {
    const size_t slot = Seek(block);
    const uint32_t removed = RemoveFrom(slot, dead);
    if (removed > 0 && slots_[slot].head == 0) Vacate(slot);
    return removed;
  }

  // Calls `visit(block, head)` for the next `count` blocks of an endless round over the table.
  template <class Visit>
  void Round(uint32_t count, Visit&& visit) {
    for (size_t steps = 0; count > 0 && steps < slot_count_; ++steps) {
      hand_ = hand_ + 1 < slot_count_ ? hand_ + 1 : 0;
      if (slots_[hand_].head == 0) continue;
      visit(slots_[hand_].block, slots_[hand_].head);
      --count;
    }
  }

 private:
  struct Slot {
    uint64_t block;
    uint32_t head;  // 0: empty
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using Zeroed = std::unique_ptr<T[], Free>;

  static size_t SlotsFor(uint32_t entries) { return size_t{entries} + entries / 3 + 2; }
  size_t Home(uint64_t block) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<size_t>((Wide{block} * slot_count_) >> 64);
  }
  size_t Seek(uint64_t block) const;
  void Vacate(size_t slot);

  template <class Dead>
  uint32_t RemoveFrom(size_t slot, Dead&& dead) {
    uint32_t removed = 0;
    for (uint32_t* link = &slots_[slot].head; *link != 0;) {
      const uint32_t entry = *link;
      if (!dead(entries_[entry])) {
        link = &entries_[entry].next;
        continue;
      }
      *link = entries_[entry].next;
      entries_[entry].next = free_;
      free_ = entry;
      --size_;
      ++removed;
    }
    return removed;
  }

  Zeroed<Slot> slots_;
  Zeroed<Entry> entries_;  // index 0 is not used
  size_t slot_count_ = 0;
  size_t hand_ = 0;
  uint32_t capacity_ = 0;
  uint32_t used_ = 0;  // entries taken at least once
  uint32_t free_ = 0;
  uint32_t size_ = 0;
};

}  // namespace router::prefix
