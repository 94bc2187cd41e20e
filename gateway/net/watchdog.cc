#include "gateway/net/watchdog.h"

#include <algorithm>
#include <utility>

#include "gateway/net/clock.h"

namespace gateway::net {

Alarm::~Alarm() {
  watchdog_.Remove(*this);
}

void Alarm::Set(conf::TimePoint at) {
  due_ = Watchdog::TickAt(at) + 1;
  if (due_ < slot_tick_) {
    watchdog_.Remove(*this);
    watchdog_.Insert(*this);
  }
}

void Alarm::SetAfter(conf::Duration after) {
  Set(Now() + after);
}

int64_t Watchdog::TickAt(conf::TimePoint t) {
  return t.time_since_epoch() / kTick;
}

void Watchdog::Insert(Alarm& alarm) {
  if (count_++ == 0) turned_to_ = TickAt(Now());
  // A far alarm waits half a turn ahead and is looked at again there.
  alarm.slot_tick_ = std::clamp(alarm.due_, turned_to_ + 1, turned_to_ + kSlots / 2);
  Alarm*& head = slots_[static_cast<size_t>(alarm.slot_tick_ % kSlots)];
  alarm.prev_ = nullptr;
  alarm.next_ = head;
  if (head) head->prev_ = &alarm;
  head = &alarm;
  Schedule();
}

void Watchdog::Remove(Alarm& alarm) {
  if (alarm.slot_tick_ == Alarm::kNever) return;
  if (alarm.prev_) {
    alarm.prev_->next_ = alarm.next_;
  } else {
    slots_[static_cast<size_t>(alarm.slot_tick_ % kSlots)] = alarm.next_;
  }
  if (alarm.next_) alarm.next_->prev_ = alarm.prev_;
  alarm.slot_tick_ = Alarm::kNever;
  --count_;
}

void Watchdog::Schedule() {
  if (scheduled_ || stopped_ || count_ == 0) return;
  scheduled_ = true;
  timer_.expires_after(kTick);
  timer_.async_wait([this](ErrorCode) {
    scheduled_ = false;
    if (!stopped_) Turn();
  });
}

void Watchdog::Turn() {
  const int64_t now = TickAt(Now());
  turned_to_ = std::max(turned_to_, now - kSlots);
  while (turned_to_ < now) {
    // A quarter turn at a time, so that what is put back (at most half a turn ahead) never lands in a slot
    // that is still to be emptied.
    const int64_t first = turned_to_ + 1;
    turned_to_ = std::min(now, turned_to_ + kSlots / 4);
    for (int64_t tick = first; tick <= turned_to_; ++tick) Fire(slots_[static_cast<size_t>(tick % kSlots)]);
  }
  Schedule();
}

void Watchdog::Fire(Alarm*& slot) {
  while (Alarm* alarm = slot) {
    Remove(*alarm);
    if (alarm->due_ <= turned_to_) {
      alarm->due_ = Alarm::kNever;
      alarm->OnAlarm();
    } else if (alarm->due_ != Alarm::kNever) {
      Insert(*alarm);
    }
  }
}

void Watchdog::Stop() {
  stopped_ = true;
  timer_.cancel();
}

}  // namespace gateway::net
