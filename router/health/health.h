// Whether a replica is up, by its answers to health probes. The shell sends the probes; this class says when
// one is due and what its result means.
//
// Process-wide, one per replica: one prober writes, every shard reads. A failed probe (connection refused,
// error status) always counts. A late one counts only if no request has succeeded since the previous probe,
// because a busy engine may miss a probe. A replica without a probe result is used; a failed first probe
// takes it down.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "conf/time.h"

namespace router {

struct HealthConfig {
  conf::Duration interval = std::chrono::seconds(5);
  conf::Duration fast_interval = std::chrono::seconds(1);  // while it is not up
  uint32_t rise = 2;                                       // good probes in a row until it is up
  uint32_t fall = 3;  // failed or missed probes in a row until it is down
};

enum class HealthState : uint8_t { kUnknown, kUp, kDown };
std::string_view HealthName(HealthState state);

enum class ProbeResult : uint8_t { kGood, kFailed, kMissed };  // missed: no answer in time

class Health {
 public:
  explicit Health(const HealthConfig& config = {}) : config_(config) {}

  // Applies changed settings; observations stay.
  void Configure(const HealthConfig& config);

  HealthState state() const { return state_.load(std::memory_order_acquire); }
  bool Usable() const { return state() != HealthState::kDown; }

  // Whether a probe is due. True once per probe: the next one is due after this one's result.
  bool ClaimDue(conf::TimePoint now);

  // When ClaimDue will be true, if no probe is under way.
  conf::TimePoint next_probe() const;

  // Something speaks against the replica: the next probe is due now.
  void ProbeSoon(conf::TimePoint now);

  void OnProbe(ProbeResult result, conf::TimePoint now);

  // A request has just succeeded.
  void OnTraffic() { traffic_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<HealthState> state_{HealthState::kUnknown};
  std::atomic<bool> traffic_{false};
  mutable absl::Mutex mutex_;
  HealthConfig config_ ABSL_GUARDED_BY(mutex_);
  bool probing_ ABSL_GUARDED_BY(mutex_) = false;
  conf::TimePoint next_ ABSL_GUARDED_BY(mutex_){};
  uint32_t good_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t bad_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace router
