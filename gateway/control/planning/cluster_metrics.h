// ClusterMetrics: the cluster over time, as the control loop sees it: device time, available and held; how long jobs
// waited for their first start; and the figures of the moment, once a second.
//
// Owner: the ScalingLoop. Thread: the control loop's. Bounded: waits by queue and size class of configured queues, an
// hour of minutes.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "scheduler/cluster_figures.h"
#include "scheduler/metrics.h"

namespace gateway::control {

// JWTD: how long the jobs of a queue, of one size class, waited from submission to their first start.
struct WaitsOfJobs {
  static constexpr std::array<double, 12> kBounds = {1,    5,     15,    60,    300,    900,
                                                     3600, 14400, 43200, 86400, 259200, 604800};  // seconds
  std::array<uint64_t, kBounds.size() + 1> counts{};  // not cumulative; the last: longer
  double sum = 0;                                     // seconds
};

// The waits of the last starts in a queue, in seconds.
struct RecentWaits {
  size_t jobs = 0;
  double p50 = 0;
  double p90 = 0;
  double longest = 0;
};

struct ClusterStatus {
  bool known = false;  // the planner has begun
  scheduler::ClusterFigures now{};
  double sor = 0;               // over the last hour, or since the start
  double capacity_seconds = 0;  // of healthy devices, since the start; never falls, like the next
  double held_seconds = 0;      // of those
  std::map<std::pair<std::string, size_t>, WaitsOfJobs> waits{};  // by queue and size class
  std::map<std::string, RecentWaits> recent{};                    // by queue
};

class ClusterMetrics {
 public:
  static constexpr conf::Duration kEvery = std::chrono::seconds(1);  // between two figures of the moment
  static constexpr size_t kMinutes = 60;                             // that the occupation rate looks back
  static constexpr size_t kKeptWaits = 128;                          // for each queue

  // Ten times a second, before the planner changes anything.
  void Tick(const scheduler::Planner& planner, conf::TimePoint now);
  // A job got devices for the first time.
  void OnFirstStart(const std::string& queue, int64_t device_milli, conf::Duration waited);

  ClusterStatus status() const;

 private:
  struct Minute {
    double capacity = 0;  // device-seconds
    double held = 0;
  };

  void Account(const scheduler::ClusterTotals& totals, conf::TimePoint now);

  ClusterStatus status_;
  std::map<std::string, std::deque<double>> waited_;  // by queue, seconds
  std::deque<Minute> minutes_;                        // the last is under way
  conf::TimePoint minute_began_{};
  conf::TimePoint accounted_{};
  conf::TimePoint figured_{};
};

}  // namespace gateway::control
