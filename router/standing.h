// How a replica stands in its pool, by what comes from it: good, hung (it takes requests and no token comes),
// or ejected (much slower than the others); and whether it is new, so that its share is still to grow.
//
// A suspicion is softer than an open breaker: who is suspected is left alone while anybody else can take the
// request, and when nobody can it is used all the same. Real requests find out whether it is over, one at a
// time and ever more rarely.
//
// One per replica, process-wide. Written by the one thread that calls WatchPool (pool_watch.h), but for the
// claims of trials; read by every shard without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "conf/time.h"
#include "router/engine_signals.h"

namespace router {

class Standing {
 public:
  enum class State : uint8_t { kGood, kHung, kEjected };
  static std::string_view NameOf(State state);

  State state() const { return state_.load(std::memory_order_relaxed); }
  bool suspected() const { return state() != State::kGood; }
  // Since when; of no meaning while it is good.
  conf::TimePoint since() const {
    return conf::TimePoint(conf::Duration(since_.load(std::memory_order_relaxed)));
  }

  // One request may find out now. True once for each pause; the next is twice as long, up to a bound.
  bool ClaimTrial(conf::TimePoint now);

  // The part of the others' load that it may hold: grows from a tenth to 1 over its slow start.
  double Share(conf::TimePoint now) const;
  bool InSlowStart(conf::TimePoint now) const { return Share(now) < 1; }
  // Whether it may take one more request beside those it holds, others holding `mean` each.
  bool HasRoom(int64_t requests, double mean, conf::TimePoint now) const {
    return static_cast<double>(requests) < Share(now) * mean + 1;
  }

 private:
  friend class PoolWatch;
  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Suspect(State why, conf::Duration pause, conf::Duration max_pause, conf::TimePoint now);
  void Clear() { state_.store(State::kGood, std::memory_order_relaxed); }
  void BeginSlowStart(conf::Duration over, conf::TimePoint now);

  // What the watching thread remembers; nobody else's.
  struct Memory {
    bool usable = false;           // when last looked at
    Tally tally;                   // at the window's begin, or since when it was ejected
    uint32_t slow_windows = 0;     // in a row
    conf::Duration next_eject{};   // 0: as configured
    conf::TimePoint good_since{};  // not ejected since
  };
  Memory memory_;

  std::atomic<State> state_{State::kGood};
  std::atomic<int64_t> since_{0};       // ns
  std::atomic<int64_t> trial_at_{0};    // ns
  std::atomic<int64_t> pause_{0};       // ns; until the trial after the next
  std::atomic<int64_t> max_pause_{0};   // ns
  std::atomic<int64_t> grows_from_{0};  // ns; slow start
  std::atomic<int64_t> grows_over_{0};  // ns; 0: not in slow start
};

}  // namespace router
