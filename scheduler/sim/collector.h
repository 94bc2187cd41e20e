// Adds up what happens in a simulated cluster into a Report.
//
// It receives every change at the moment of the change, after Advance to that moment. Nothing changes in
// between, so integrals are exact. Bounded: samples by the caller's choice of step, the heat map by its
// columns, waits by the number of jobs. Owned by the world; one thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "scheduler/placement/jtted.h"
#include "scheduler/queue.h"
#include "scheduler/sim/report.h"

namespace scheduler::sim {

// The use of the time of held devices.
enum class Spent : uint8_t { kUseful, kLost, kRestarted, kSaved, kIdle, kOpen };

class Collector {
 public:
  // All outlive it. `step` is the time between samples, above 0.
  Collector(const Cluster& cluster, std::span<const Queue> queues, const DemandMix& mix,
            conf::TimePoint start, conf::Duration step);

  // Until `now` the cluster stood as `state` says, which must not have changed yet.
  void Advance(conf::TimePoint now, const ClusterState& state);

  // A job of `device_milli` devices begins (1) or ceases (-1) to wait for room.
  void Waits(uint32_t queue, int64_t device_milli, int sign);
  void Runs(int sign) { running_ = static_cast<uint32_t>(static_cast<int>(running_) + sign); }
  // The devices that the queue's jobs hold change by `change_milli`.
  void Holds(uint32_t queue, int64_t change_milli);
  void Uses(Spent what, double device_hours) { spent_[static_cast<size_t>(what)] += device_hours; }

  void FirstStart(conf::Duration waited, int64_t device_milli);
  void Placed(const Jtted& jtted, int64_t device_milli);
  void Finished(conf::Duration turnaround, conf::Duration run);

  // Ends the account; the world adds its own counts.
  Report Finish();

 private:
  struct OfQueue {
    int64_t deserved = 0;  // milli; the largest number for none
    int64_t held = 0;
    int64_t waiting = 0;
    conf::TimePoint since{};
    double held_h = 0;
    double entitled_h = 0;
    double granted_h = 0;  // of the entitlement
    std::vector<float> samples{};
  };

  void Integrate(conf::TimePoint until, const ClusterState& state);
  void TakeSample(const ClusterState& state);
  void PaintColumn(const ClusterState& state);
  void Settle(OfQueue& queue) const;
  WaitsOfClass Summarise(std::vector<double>& waits) const;

  const Cluster* cluster_;
  const DemandMix* mix_;
  conf::TimePoint start_;
  conf::TimePoint now_;
  conf::Duration step_;
  conf::TimePoint next_sample_;
  double capacity_ = 0;  // devices, healthy or not

  int64_t held_milli_ = 0;
  int64_t waiting_milli_ = 0;
  uint32_t waiting_ = 0;
  uint32_t running_ = 0;
  double step_held_h_ = 0;
  double held_h_ = 0;
  double energy_kwh_ = 0;
  bool waited_all_step_ = true;
  std::array<double, 6> spent_{};
  std::vector<OfQueue> queues_;

  std::array<std::vector<double>, kSizeClasses> waits_;  // hours
  std::vector<double> waits_of_large_;
  std::vector<double> turnarounds_;
  std::vector<double> slowdowns_;
  std::vector<GangPlaced> gangs_;
  double node_deviation_ = 0;
  double leaf_deviation_ = 0;

  std::vector<Sample> samples_;
  HeatMap heat_;
  std::vector<float> column_;  // being filled
  uint32_t samples_per_column_ = 1;
  uint32_t samples_in_column_ = 0;
};

}  // namespace scheduler::sim
