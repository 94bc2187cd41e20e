#include "scheduler/autoscale/daily_peaks.h"

#include <algorithm>
#include <limits>

namespace scheduler::autoscale {

DailyPeaks::Memory DailyPeaks::memory() const {
  Memory out{.first = std::max(first_, last_ - kSlots + 1)};
  for (int64_t slot = out.first; slot <= last_; ++slot) out.most.push_back(At(slot));
  return out;
}

void DailyPeaks::Recall(const Memory& memory) {
  if (memory.most.empty() || memory.most.size() > static_cast<size_t>(kSlots) || memory.first < 0 ||
      memory.first > std::numeric_limits<int64_t>::max() / 2)
    return;
  first_ = memory.first;
  last_ = memory.first - 1;
  for (const uint16_t most : memory.most) most_[static_cast<size_t>(++last_ % kSlots)] = most;
}

void DailyPeaks::Observe(conf::TimePoint now, uint32_t wanted) {
  const int64_t slot = SlotOf(now);
  if (last_ < first_) {
    first_ = slot;
    last_ = slot - 1;
  }
  // Slots that passed unobserved, a week of them at most, lose the value of the week before.
  for (int64_t passed = std::max(last_ + 1, slot - kSlots + 1); passed <= slot; ++passed)
    most_[static_cast<size_t>(passed % kSlots)] = 0;
  last_ = std::max(last_, slot);
  uint16_t& most = most_[static_cast<size_t>(last_ % kSlots)];
  most =
      std::max(most, static_cast<uint16_t>(std::min<uint32_t>(wanted, std::numeric_limits<uint16_t>::max())));
}

uint32_t DailyPeaks::Forecast(conf::TimePoint now, conf::Duration ahead) const {
  uint32_t most = 0;
  for (size_t day = 1; day <= kDays; ++day) {
    const conf::TimePoint then = now - std::chrono::hours(24) * static_cast<int64_t>(day);
    for (int64_t slot = SlotOf(then);
         slot <= SlotOf(then + std::min<conf::Duration>(ahead, std::chrono::hours(24))); ++slot)
      most = std::max<uint32_t>(most, At(slot));
  }
  return most;
}

uint16_t DailyPeaks::At(int64_t slot) const {
  return slot < first_ || slot > last_ || slot <= last_ - kSlots ? 0
                                                                 : most_[static_cast<size_t>(slot % kSlots)];
}

}  // namespace scheduler::autoscale
