// DailyPeaks: how many replicas of a model were wanted at each time of the last seven days. The forecast for the next
// hour is the most that any of these days wanted in the same hour: a burst at nine is expected again the next day.
//
// Pure: no clock, no threads. Memory: one number for every ten minutes of a week, 2 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "conf/time.h"

namespace scheduler::autoscale {

class DailyPeaks {
 public:
  static constexpr size_t kDays = 7;

  // The observations, to be kept while no process runs, by slots of ten minutes since the epoch.
  struct Memory {
    int64_t first = 0;
    std::vector<uint16_t> most{};  // replicas; empty: nothing was observed
  };
  Memory memory() const;
  // Call it before the first Observe().
  void Recall(const Memory& memory);

  // `wanted` replicas at `now`; times never go back.
  void Observe(conf::TimePoint now, uint32_t wanted);

  // The most replicas that any earlier day wanted between this time of the day and `ahead` later (at most a day); 0
  // without an earlier day.
  uint32_t Forecast(conf::TimePoint now, conf::Duration ahead) const;

 private:
  static constexpr conf::Duration kSlot = std::chrono::minutes(10);
  static constexpr int64_t kSlotsOfADay = std::chrono::hours(24) / kSlot;
  static constexpr int64_t kSlots = kSlotsOfADay * kDays;

  static int64_t SlotOf(conf::TimePoint at) { return at.time_since_epoch() / kSlot; }
  // 0 where it was not observed.
  uint16_t At(int64_t slot) const;

  std::array<uint16_t, kSlots> most_{};
  int64_t first_ = 0;  // the first slot that was observed
  int64_t last_ = -1;  // the last one; before first_: none was
};

}  // namespace scheduler::autoscale
