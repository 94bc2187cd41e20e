// History: demand and replicas of one model over the last hour, in steps of a few seconds. A changed policy
// is tried on it.
//
// Bounded: kSteps. Owner: the model's pool in the Scaler. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/autoscale/autoscaler.h"
#include "scheduler/autoscale/replay.h"

namespace gateway::control {

class History {
 public:
  static constexpr conf::Duration kStep = std::chrono::seconds(2);
  static constexpr size_t kSteps = 1800;

  struct Tick {
    const scheduler::autoscale::Signals& signals;
    uint64_t came = 0;  // requests since the start of the gateway
    uint32_t ready = 0;
    uint32_t there = 0;
    double demand = 0;
  };
  // At each tick; times must not go back.
  void Add(const Tick& tick, conf::TimePoint now);

  const std::deque<scheduler::autoscale::Observed>& steps() const { return steps_; }

 private:
  std::deque<scheduler::autoscale::Observed> steps_;
  scheduler::autoscale::Observed sums_{};  // of the current step, times seconds
  std::optional<conf::TimePoint> began_{};
  conf::TimePoint last_{};
  uint64_t came_ = 0;  // value at the last tick
};

// The last hour of one model, as the admin API shows it.
struct ScalingHistory {
  std::string file;  // of the policy
  scheduler::autoscale::ScalingPolicy policy;
  uint32_t members = 1;                        // of a replica
  double devices = 0;                          // of a replica, those of all its members
  std::optional<conf::Duration> cold_start{};  // 90th percentile of the starts; nothing: none was measured
  std::vector<scheduler::autoscale::Observed> steps{};
};

}  // namespace gateway::control
