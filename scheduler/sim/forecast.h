// Forecast: when the jobs that wait in a snapshot would start, by the same planner, in virtual time.
//
// Running jobs end at their estimates (their limits, or the policy's unknown_estimate), one that is late as the
// planner expects it. Replicas stay as they are; no job arrives, no node fails. Elastic jobs keep the end that they
// had when they started. Pure: the same snapshot, policy and seed give the same forecast.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace scheduler::sim {

struct ForecastOptions {
  conf::Duration horizon = std::chrono::hours(24 * 30);
  uint32_t max_cycles = 50'000;
  uint64_t seed = 1;
};

struct ForecastJob {
  std::string id{};
  std::string queue{};
  std::string tenant{};
  std::optional<conf::TimePoint> starts{};  // absent: not within the forecast
  std::optional<conf::TimePoint> ends{};    // of its first run; absent: it ends by itself never or later
};

struct Forecast {
  std::vector<ForecastJob> jobs{};  // the waiting jobs of the snapshot without replicas, in its order
  conf::TimePoint until{};          // how far it went
  uint32_t cycles = 0;
  uint32_t preemptions = 0;
  bool whole = false;  // every job started, or the horizon was reached; false: cancelled, or out of cycles
};

// `go_on(started, of)` is asked after each planning cycle; false ends the forecast.
Forecast ForecastStarts(const Snapshot& snapshot, const Policy& policy, const ForecastOptions& options,
                        const std::function<bool(size_t, size_t)>& go_on);

}  // namespace scheduler::sim
