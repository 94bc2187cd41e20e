#include "gateway/control/signals.h"

#include <algorithm>

namespace gateway::control {

std::map<std::string, Asked, std::less<>> AddUp(std::span<const ShardMetrics* const> shards,
                                                const Runtime& runtime) {
  std::map<std::string, Asked, std::less<>> sums;
  for (const ShardMetrics* shard : shards) {
    shard->ForEachModel([&](const std::string& name, const ModelCells& cells) {
      const config::Model* const model = runtime.config().FindModel(name);
      Asked& sum = sums[model != nullptr && model->lora ? model->lora->base : name];
      sum.work_ns += cells.demand.work_ns.value();
      sum.held_work_ns += cells.demand.held_work_ns.value();
      sum.active += cells.demand.active.value();
      sum.came += cells.demand.active.value();
      for (size_t reason = 0; reason < ledger::kEndReasons; ++reason) {
        if (static_cast<ledger::EndReason>(reason) != ledger::EndReason::kRefused)
          sum.came += cells.requests[reason].value();
      }
    });
  }
  return sums;
}

scheduler::autoscale::Signals Meter::Next(const Asked& asked, const ModelQueue& queue, conf::TimePoint now) {
  const bool first = last_ == conf::TimePoint();
  const uint64_t work = first || asked.work_ns < work_ns_ ? 0 : asked.work_ns - work_ns_;
  const conf::Duration passed = first ? kTick : std::max(now - last_, kTick);
  work_ns_ = asked.work_ns;
  last_ = now;

  scheduler::autoscale::Signals signals;
  signals.demand.work = static_cast<double>(work) / static_cast<double>(passed.count());
  signals.in_flight = static_cast<double>(asked.active);
  if (queue.waiting() == 0) return signals;
  signals.held = queue.waiting();
  signals.demand.backlog = static_cast<double>(asked.held_work_ns) * 1e-9;
  for (const ModelQueue::Band& band : queue.Look(now, 0).bands)
    signals.demand.oldest = std::max(signals.demand.oldest, band.oldest);
  return signals;
}

}  // namespace gateway::control
