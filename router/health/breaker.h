// Circuit breaker: whether a replica may be sent requests, by the results of the last ones.
//
// Process-wide, one per replica, called from every shard. A closed breaker costs two relaxed loads; failures
// and trials take a short lock. Transport errors and 5xx count against the replica. A 429, or a 503 with
// Retry-After, makes it rest for as long as it asks. All other answers, clients' 4xx included, are neutral or
// good.
//
// A failure may be caused by the caller's request: with `several_callers`, such failures open it
// when more than one caller has had them, or when a health probe fails, too. A failed connection does not
// depend on the caller, so it counts for every caller.
//
//   closed ── too many failures ──▶ open ── open_for ──▶ half-open ── good trial ──▶ closed
//                                    ▲                       └──────── bad trial ──▶ open, for twice as long
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
  double failure_rate = 0.5;   // share of failures in a window that opens it…
  uint32_t min_requests = 20;  // …if the window has at least this many requests
  conf::Duration window = std::chrono::seconds(10);
  conf::Duration open_for = std::chrono::seconds(5);  // doubles with every failed trial
  conf::Duration max_open_for = std::chrono::seconds(60);
  uint32_t trials = 1;                                    // good trials in a row until it closes
  conf::Duration trial_for = std::chrono::seconds(60);    // a trial without a result is given up after this
  conf::Duration default_rest = std::chrono::seconds(1);  // for a 429 without Retry-After
  conf::Duration max_rest = std::chrono::seconds(60);
  bool several_callers = false;  // failures of one caller alone do not open it
};

// The caller of the failed requests: a hash of the organisation. kAnyCaller: only the replica can be the
// cause.
using CallerId = uint64_t;
inline constexpr CallerId kAnyCaller = 0;

enum class Outcome : uint8_t { kGood, kBad, kNeutral };

// The outcome of a try, by the status of the answer. A redirect means a wrong URL, so it is a failure. A 503 with
// Retry-After and a 529 mean load, not a fault; 501 and 505 mean nothing.
Outcome OutcomeOf(int status, bool has_retry_after);

enum class Admission : uint8_t { kRefused, kAdmitted, kTrial };

class Breaker {
 public:
  enum class Phase : uint8_t { kClosed, kOpen, kHalfOpen };

  explicit Breaker(const BreakerConfig& config = {}) : config_(config) {}

  // Applies changed settings; observations stay.
  void Configure(const BreakerConfig& config);

  // Whether Admit would let a request through. Claims nothing.
  bool Allows(conf::TimePoint now) const;

  // Claims the right to send one request; every kTrial must be followed by Report or Abandon.
  Admission Admit(conf::TimePoint now);

  // The result of an admitted request. Late results from before the breaker opened change nothing.
  void Report(Outcome outcome, Admission admission, conf::TimePoint now, CallerId caller = kAnyCaller);
  void Abandon(Admission admission) { Report(Outcome::kNeutral, admission, {}); }

  // One caller's failures would have opened it, and wait for a probe to agree.
  bool Suspected(conf::TimePoint now) const {
    return suspected_until_.load(std::memory_order_relaxed) > Nanos(now);
  }
  void OnProbeFailed(conf::TimePoint now);

  // The replica asked for a pause (429, 503). Capped; a later, shorter request does not shorten it. With
  // `several_callers`, what it asked of one caller alone, whose request may have been too large for it, lasts
  // for default_rest at most: the whole pause is for all when it asks a second one meanwhile.
  void Rest(std::optional<conf::Duration> retry_after, conf::TimePoint now, CallerId caller = kAnyCaller);

  Phase phase(conf::TimePoint now) const;

  // When Allows may become true; not after `now` if it is already.
  conf::TimePoint RetryAt(conf::TimePoint now) const;
  bool IsResting(conf::TimePoint now) const;

 private:
  // The callers of a row of failures.
  struct Callers {
    CallerId first = kAnyCaller;
    bool enough = false;  // to blame the replica

    void Add(CallerId caller);
  };

  static int64_t Nanos(conf::TimePoint t) { return t.time_since_epoch().count(); }
  void Open(conf::TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> closed_{true};
  std::atomic<int64_t> rest_until_{0};
  std::atomic<int64_t> open_until_{0};
  std::atomic<int64_t> trial_until_{0};  // 0: no trial is under way
  std::atomic<int64_t> suspected_until_{0};
  std::atomic<uint32_t> consecutive_{0};
  std::atomic<uint32_t> good_{0};  // in this window

  absl::Mutex mutex_;
  BreakerConfig config_ ABSL_GUARDED_BY(mutex_);
  uint32_t good_trials_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t bad_ ABSL_GUARDED_BY(mutex_) = 0;
  Callers rested_ ABSL_GUARDED_BY(mutex_);  // while the pause that was asked for lasts
  conf::TimePoint asked_until_ ABSL_GUARDED_BY(mutex_){};
  Callers in_a_row_ ABSL_GUARDED_BY(mutex_);   // of the consecutive failures
  Callers in_window_ ABSL_GUARDED_BY(mutex_);  // of this window's
  conf::TimePoint window_start_ ABSL_GUARDED_BY(mutex_){};
  conf::Duration next_open_for_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace router
