// Whether a replica may be sent requests, judged by how the last ones ended.
//
// Process-wide, one per replica, called from every shard. Closed, it costs two relaxed loads; failures and
// trials take a short lock. Transport errors and 5xx count against a replica; 429 and an honest 503 make it
// rest for as long as it asks; any other answer, a client's 4xx above all, is neutral or good.
//
//   closed ── too many failures ──▶ open ── its time is over ──▶ half-open ── one trial at a time ──▶ closed,
//   or open for longer
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "conf/time.h"

namespace router {

struct BreakerConfig {
  uint32_t consecutive_failures = 5;
  double failure_rate = 0.5;   // of the requests in a window that has had a failure…
  uint32_t min_requests = 20;  // …and at least so many
  conf::Duration window = std::chrono::seconds(10);
  conf::Duration open_for = std::chrono::seconds(5);  // doubles with every failed trial
  conf::Duration max_open_for = std::chrono::seconds(60);
  uint32_t trials = 1;                                    // good ones in a row until it closes
  conf::Duration trial_for = std::chrono::seconds(60);    // after which a silent trial is given up
  conf::Duration default_rest = std::chrono::seconds(1);  // for a 429 without Retry-After
  conf::Duration max_rest = std::chrono::seconds(60);
};

enum class Outcome : uint8_t { kGood, kBad, kNeutral };

// What an answer's status says of the replica. A 503 that names a time is load, not a fault; 501 and 505 are
// facts.
Outcome OutcomeOf(int status, bool has_retry_after);

enum class Admission : uint8_t { kRefused, kAdmitted, kTrial };

class Breaker {
 public:
  enum class Phase : uint8_t { kClosed, kOpen, kHalfOpen };

  explicit Breaker(const BreakerConfig& config = {}) : config_(config) {}

  // Takes over changed settings; what has been observed stays.
  void Configure(const BreakerConfig& config);

  // Would Admit let a request through? Claims nothing.
  bool Allows(conf::TimePoint now) const;

  // Claims the right to send one request; every kTrial must be followed by Report or Abandon.
  Admission Admit(conf::TimePoint now);

  // How an admitted request ended. Late results of requests from before the breaker opened change nothing.
  void Report(Outcome outcome, Admission admission, conf::TimePoint now);
  void Abandon(Admission admission) { Report(Outcome::kNeutral, admission, {}); }

  // The replica asked to be left alone for this long (429, 503); capped, never shortened by a later, shorter
  // wish.
  void Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now);

  Phase phase(conf::TimePoint now) const;

  // When Allows may become true; at or before `now` if it is already.
  conf::TimePoint RetryAt(conf::TimePoint now) const;
  bool IsResting(conf::TimePoint now) const;

 private:
  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Open(conf::TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> closed_{true};
  std::atomic<int64_t> rest_until_{0};
  std::atomic<int64_t> open_until_{0};
  std::atomic<int64_t> trial_until_{0};  // 0: no trial is out
  std::atomic<uint32_t> consecutive_{0};
  std::atomic<uint32_t> good_{0};  // in this window

  absl::Mutex mutex_;
  BreakerConfig config_ ABSL_GUARDED_BY(mutex_);
  uint32_t good_trials_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t bad_ ABSL_GUARDED_BY(mutex_) = 0;
  conf::TimePoint window_start_ ABSL_GUARDED_BY(mutex_){};
  conf::Duration next_open_for_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace router
