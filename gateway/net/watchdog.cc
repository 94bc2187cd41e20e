#include "gateway/net/watchdog.h"

#include <algorithm>
#include <utility>

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
  Set(watchdog_.now_() + after);
}

int64_t Watchdog::TickAt(conf::TimePoint t) {
  return t.time_since_epoch() / kTick;
}

void Watchdog::Insert(Alarm& alarm) {
  if (count_++ == 0 && !turning_) turned_to_ = TickAt(now_());
  // A distant alarm waits half a turn ahead and is checked again there.
  alarm.slot_tick_ = std::clamp(alarm.due_, turned_to_ + 1, turned_to_ + kSlots / 2);
  Alarm*& head = slots_[static_cast<size_t>(alarm.slot_tick_ % kSlots)];
  alarm.prev_ = nullptr;
  alarm.next_ = head;
  if (head) head->prev_ = &alarm;
  head = &alarm;
  if (alarm.slot_tick_ < wakes_at_) WakeAt(alarm.slot_tick_);
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

void Watchdog::WakeAt(int64_t tick) {
  if (stopped_ || turning_) return;
  wakes_at_ = tick;
  timer_.expires_after(std::max(conf::TimePoint(tick * kTick) - now_(), conf::Duration::zero()));
  timer_.async_wait([this](ErrorCode error) {
    if (!error && !stopped_) Turn();  // an error: the timer was set again
  });
}

void Watchdog::Turn() {
  turning_ = true;
  const int64_t now = TickAt(now_());
  turned_to_ = std::max(turned_to_, now - kSlots);
  while (turned_to_ < now) {
    // A quarter turn at a time, so that an alarm that is put back (at most half a turn ahead) never lands in
    // a slot that is still to be emptied.
    const int64_t first = turned_to_ + 1;
    turned_to_ = std::min(now, turned_to_ + kSlots / 4);
    for (int64_t tick = first; tick <= turned_to_; ++tick) Fire(slots_[static_cast<size_t>(tick % kSlots)]);
  }
  turning_ = false;
  wakes_at_ = Alarm::kNever;
  if (count_ == 0) return;
  int64_t next = turned_to_ + 1;
  while (!slots_[static_cast<size_t>(next % kSlots)]) ++next;
  WakeAt(next);
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
