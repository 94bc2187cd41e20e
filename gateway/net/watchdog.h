// Watchdog: coarse timers for thousands of connections, at the price of a store to arm or move one.
//
// An alarm that is moved later or cleared stays where it is in the wheel until its old slot comes up. Alarms fire up to
// one tick (10 ms) late, never early. The thread wakes only for ticks that have an alarm. One for each shard; the
// shard's thread only.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <coroutine>
#include <limits>

#include "conf/time.h"
#include "gateway/net/clock.h"
#include "gateway/net/stream.h"

namespace gateway::net {

class Watchdog;

class Alarm {
 public:
  explicit Alarm(Watchdog& watchdog) : watchdog_(watchdog) {}
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  virtual ~Alarm();

  void Set(conf::TimePoint at);
  void SetAfter(conf::Duration after);
  void Clear() { due_ = kNever; }
  bool armed() const { return due_ != kNever; }

 protected:
  // May set the alarm again, or destroy it.
  virtual void OnAlarm() = 0;

 private:
  friend class Watchdog;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  Watchdog& watchdog_;
  int64_t due_ = kNever;        // tick at which to fire
  int64_t slot_tick_ = kNever;  // tick whose slot holds this alarm; kNever: in none
  Alarm* prev_ = nullptr;
  Alarm* next_ = nullptr;
};

class Watchdog {
 public:
  static constexpr conf::Duration kTick = std::chrono::milliseconds(10);

  using Clock = conf::TimePoint (*)();

  explicit Watchdog(IoContext& io, Clock clock = &Now) : timer_(io), now_(clock) { slots_.fill(nullptr); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Stop();

 private:
  friend class Alarm;
  static constexpr int64_t kSlots = 1024;

  static int64_t TickAt(conf::TimePoint t);
  void Insert(Alarm& alarm);
  void Remove(Alarm& alarm);
  void WakeAt(int64_t tick);
  void Turn();
  void Fire(Alarm*& slot);

  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             IoContext::executor_type>
      timer_;
  const Clock now_;
  std::array<Alarm*, kSlots> slots_;
  size_t count_ = 0;
  int64_t turned_to_ = 0;
  int64_t wakes_at_ = Alarm::kNever;  // tick
  bool turning_ = false;
  bool stopped_ = false;
};

// co_await Sleep(watchdog).For(2s): false when Cancel() ended it early.
class Sleep final : private Alarm {
 public:
  explicit Sleep(Watchdog& watchdog) : Alarm(watchdog) {}

  auto For(conf::Duration d) {
    SetAfter(d);
    return Awaiter{*this};
  }
  auto Until(conf::TimePoint t) {
    Set(t);
    return Awaiter{*this};
  }
  void Cancel() {
    Clear();
    Wake(false);
  }

 private:
  struct Awaiter {
    Sleep& sleep;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) noexcept { sleep.waiter_ = h; }
    bool await_resume() const noexcept { return sleep.elapsed_; }
  };

  void OnAlarm() override { Wake(true); }
  void Wake(bool elapsed) {
    elapsed_ = elapsed;
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }

  std::coroutine_handle<> waiter_;
  bool elapsed_ = false;
};

}  // namespace gateway::net
