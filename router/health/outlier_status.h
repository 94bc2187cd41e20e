// Whether a replica is an outlier of its pool: good, hung (it takes requests and sends no token), or ejected
// (much slower than the others); and whether it is in slow start, when its share of the load still grows.
//
// A suspicion is softer than an open breaker: a suspected replica gets no request while another can take it,
// and is used when no other can. Real requests test whether the suspicion is over, one at a time and ever
// more rarely.
//
// One per replica, process-wide. The thread that runs DetectOutliers (outlier_detection.h) writes it; every
// shard reads it without a lock and may claim trials.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "conf/time.h"

namespace router {

class OutlierStatus {
 public:
  enum class State : uint8_t { kGood, kHung, kEjected };
  static std::string_view NameOf(State state);

  State state() const { return state_.load(std::memory_order_relaxed); }
  bool suspected() const { return state() != State::kGood; }
  // When the suspicion began; meaningless while the replica is good.
  conf::TimePoint since() const {
    return conf::TimePoint(conf::Duration(since_.load(std::memory_order_relaxed)));
  }

  // Claims the trial that is due: true for one caller per pause. The next pause is twice as long, up to a
  // bound.
  bool ClaimTrial(conf::TimePoint now);

  // The part of the other replicas' load that this one may hold: grows from a tenth to 1 over its slow start.
  double Share(conf::TimePoint now) const;
  bool InSlowStart(conf::TimePoint now) const { return Share(now) < 1; }
  // Whether a replica that holds `requests` may take one more, the others holding `mean` each.
  bool AdmitsOneMore(int64_t requests, double mean, conf::TimePoint now) const {
    return static_cast<double>(requests) < Share(now) * mean + 1;
  }

  // For the thread that runs DetectOutliers. `pause`: until the first trial; `max_pause`: between two trials
  // of a hung replica.
  void Suspect(State why, conf::Duration pause, conf::Duration max_pause, conf::TimePoint now);
  void Clear() { state_.store(State::kGood, std::memory_order_relaxed); }
  void BeginSlowStart(conf::Duration length, conf::TimePoint now);

 private:
  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }

  std::atomic<State> state_{State::kGood};
  std::atomic<int64_t> since_{0};              // ns
  std::atomic<int64_t> trial_at_{0};           // ns
  std::atomic<int64_t> pause_{0};              // ns; between the next trial and the one after it
  std::atomic<int64_t> max_pause_{0};          // ns
  std::atomic<int64_t> slow_start_from_{0};    // ns
  std::atomic<int64_t> slow_start_length_{0};  // ns; 0: not in slow start
};

}  // namespace router
