// What a model is asked for, as the autoscaler wants it: the shards' cells added up, and how they move from
// one tick to the next.
//
// Control loop's thread.
#pragma once

#include <map>
#include <span>
#include <string>

#include "gateway/metrics/shard_metrics.h"
#include "gateway/queue/model_queue.h"
#include "gateway/runtime.h"
#include "scheduler/autoscale/autoscaler.h"

namespace gateway::control {

struct Asked {
  uint64_t work_ns = 0;
  uint64_t held_work_ns = 0;
  uint64_t active = 0;
  uint64_t came = 0;  // requests, by now
};

// By model; adapters are their bases'.
std::map<std::string, Asked, std::less<>> AddUp(std::span<const ShardMetrics* const> shards,
                                                const Runtime& runtime);

class Meter {
 public:
  // Once a tick; work counts for at least kTick, so that an early tick is no burst.
  scheduler::autoscale::Signals Next(const Asked& asked, const ModelQueue& queue, conf::TimePoint now);

  static constexpr conf::Duration kTick = std::chrono::milliseconds(100);

 private:
  uint64_t work_ns_ = 0;
  conf::TimePoint last_{};
};

}  // namespace gateway::control
