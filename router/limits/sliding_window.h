// An exact sliding minute: the amount charged in the last 60 seconds, in a ring of one-second buckets.
//
// The total covers the current second and the 60 before it: all of the last 60 s and at most one second more.
// So an amount admitted while total + amount <= limit never puts more than the limit into any 60 s. A charge
// leaves the window after 60 to 61 s. Time never goes back: an earlier second counts as the latest one seen.
// 504 bytes. Not thread-safe; the owner locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace router::limits {

class SlidingWindow {
 public:
  static constexpr int64_t kSeconds = 60;

  // The amount in the window that ends at `second` (Unix seconds).
  int64_t Total(int64_t second) {
    if (second > head_) Advance(second);
    return total_;
  }

  // Adds to the bucket of `second`, moving the window forward if it is new; a negative `amount` gives back.
  // Does nothing when that bucket has left the window.
  void Add(int64_t second, int64_t amount) {
    if (second > head_) Advance(second);
    if (second <= head_ - kSlots) return;
    buckets_[Slot(second)] += amount;
    total_ += amount;
  }

  // The first second at which at least `amount` of the present total has left the window, if nothing comes;
  // the second at which the window is empty if the total is less. `amount` > 0.
  int64_t SecondWhenFreed(int64_t amount) const;

  // The first second at which the window is empty, if nothing comes; the present second when it is empty
  // already.
  int64_t SecondWhenEmpty() const;

 private:
  static constexpr int64_t kSlots = kSeconds + 1;
  static size_t Slot(int64_t second) { return static_cast<size_t>(second % kSlots); }
  void Advance(int64_t second);

  int64_t head_ = 0;  // the latest second seen
  int64_t total_ = 0;
  std::array<int64_t, kSlots> buckets_ = {};
};

}  // namespace router::limits
