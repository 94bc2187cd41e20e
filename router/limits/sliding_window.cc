#include "router/limits/sliding_window.h"

#include <algorithm>

namespace router::limits {

void SlidingWindow::Advance(int64_t second) {
  // Each second that begins reuses the slot of the one that leaves.
  const int64_t begun = std::min(second - head_, kSlots);
  for (int64_t s = second - begun + 1; s <= second; ++s) {
    total_ -= buckets_[Slot(s)];
    buckets_[Slot(s)] = 0;
  }
  head_ = second;
}

int64_t SlidingWindow::SecondWhenFreed(int64_t amount) const {
  int64_t freed = 0;
  for (int64_t s = std::max<int64_t>(head_ - kSlots + 1, 0); s <= head_; ++s) {
    freed += buckets_[Slot(s)];
    if (freed >= amount) return s + kSlots;
  }
  return SecondWhenEmpty();
}

int64_t SlidingWindow::SecondWhenEmpty() const {
  for (int64_t s = head_; s >= 0 && s > head_ - kSlots; --s) {
    if (buckets_[Slot(s)] != 0) return s + kSlots;
  }
  return head_;
}

}  // namespace router::limits
