// The load of a model, for the autoscaler and by class: the sums of the shards' cells, and their changes from one tick
// to the next.
//
// Thread: the control loop's.
#pragma once

#include <map>
#include <span>
#include <string>

#include "gateway/control/lead/gateway_record.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/shard/model_queue.h"
#include "gateway/shard/runtime.h"
#include "scheduler/autoscale/autoscaler.h"

namespace gateway::control {

// For one class (ClassCells).
struct AskedOfClass {
  uint64_t came = 0;  // requests, by now; ...
  uint64_t came_tokens = 0;
  uint64_t refused = 0;
  uint64_t in_time = 0;  // first tokens; ...
  uint64_t late = 0;
  uint64_t hopeless = 0;
  uint64_t active = 0;  // now; ...
  uint64_t waiting = 0;
  uint64_t waiting_tokens = 0;
};

struct Asked {
  uint64_t work_ns = 0;
  uint64_t held_work_ns = 0;
  uint64_t active = 0;
  uint64_t came = 0;     // requests, by now
  uint64_t in_time = 0;  // first tokens, likewise
  uint64_t late = 0;
  uint64_t hopeless = 0;
  uint64_t waiting_elsewhere = 0;     // requests that wait at other gateways,
  conf::Duration oldest_elsewhere{};  // and the age of the oldest of them
  uint64_t lines = 0;                 // of batches, at all gateways
  conf::Duration oldest_line_elsewhere{};
  std::map<std::string, AskedOfClass, std::less<>> classes;
};

// By model; an adapter counts as its base.
std::map<std::string, Asked, std::less<>> AddUp(std::span<const ShardMetrics* const> shards,
                                                const Runtime& runtime);

// Adds a model's demand at other gateways.
void Add(const DemandAt& elsewhere, Asked& sum);

// The demand that this gateway reports to others: of the models that a policy scales, and of no others.
DemandByModel DemandHere(std::span<const ShardMetrics* const> shards, const Runtime& runtime,
                         conf::TimePoint now);

// Age of the oldest line of a batch that waits here.
conf::Duration OldestLine(const ModelQueue& queue, conf::TimePoint now);

class Meter {
 public:
  // Once a tick; work counts for at least kTick, so that an early tick is no burst.
  scheduler::autoscale::Signals Next(const Asked& asked, const ModelQueue& queue, conf::TimePoint now);

  static constexpr conf::Duration kTick = std::chrono::milliseconds(100);

 private:
  uint64_t work_ns_ = 0;
  uint64_t in_time_ = 0;
  uint64_t late_ = 0;
  uint64_t hopeless_ = 0;
  conf::TimePoint last_{};
};

}  // namespace gateway::control
