#include "gateway/control/scaling/signals.h"

#include <algorithm>
#include <utility>

namespace gateway::control {
namespace {

void Add(const ClassCells& cells, AskedOfClass& sum) {
  sum.came += cells.came.value();
  sum.came_tokens += cells.came_tokens.value();
  sum.refused += cells.refused.value();
  sum.in_time += cells.in_time.value();
  sum.late += cells.late.value();
  sum.hopeless += cells.hopeless.value();
  sum.active += cells.active.value();
  sum.waiting += cells.waiting.value();
  sum.waiting_tokens += cells.waiting_tokens.value();
}

// The increase of a counter since the last tick.
uint64_t Since(uint64_t now, uint64_t& before) {
  const uint64_t last = std::exchange(before, now);
  return now < last ? 0 : now - last;
}

}  // namespace

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
      sum.lines += cells.demand.lines.value();
      sum.came += cells.demand.active.value();
      for (size_t reason = 0; reason < ledger::kEndReasons; ++reason) {
        if (static_cast<ledger::EndReason>(reason) != ledger::EndReason::kRefused)
          sum.came += cells.requests[reason].value();
      }
      for (const auto& [band, of_class] : cells.classes) {
        Add(*of_class, sum.classes[band]);
        sum.in_time += of_class->in_time.value();
        sum.late += of_class->late.value();
        sum.hopeless += of_class->hopeless.value();
      }
    });
  }
  return sums;
}

void Add(const DemandAt& elsewhere, Asked& sum) {
  sum.work_ns += elsewhere.work_ns;
  sum.came += elsewhere.came;
  sum.in_time += elsewhere.in_time;
  sum.late += elsewhere.late;
  sum.hopeless += elsewhere.hopeless;
  sum.held_work_ns += elsewhere.held_work_ns;
  sum.active += elsewhere.active;
  sum.waiting_elsewhere += elsewhere.waiting;
  sum.oldest_elsewhere = std::max(sum.oldest_elsewhere, elsewhere.oldest);
  sum.lines += elsewhere.lines;
  sum.oldest_line_elsewhere = std::max(sum.oldest_line_elsewhere, elsewhere.oldest_line);
}

conf::Duration OldestLine(const ModelQueue& queue, conf::TimePoint now) {
  if (queue.waiting() == queue.urgent()) return {};
  const ModelQueue::View view = queue.Describe(now, 0);
  const auto lines = std::ranges::find_if(view.bands, &ModelQueue::Band::spare);
  return lines == view.bands.end() ? conf::Duration() : lines->oldest;
}

DemandByModel DemandHere(std::span<const ShardMetrics* const> shards, const Runtime& runtime,
                         conf::TimePoint now) {
  DemandByModel here;
  if (!runtime.config().scaling) return here;
  const auto asked = AddUp(shards, runtime);
  for (const config::ModelPolicy& policy : runtime.config().scaling->models) {
    const auto of = asked.find(policy.model());
    const std::optional<ModelId> id = runtime.routes().Find(policy.model());
    if (of == asked.end() || of->second.came + of->second.lines == 0 || !id) continue;
    DemandAt& at = here[policy.model()];
    at = {.work_ns = of->second.work_ns,
          .came = of->second.came,
          .in_time = of->second.in_time,
          .late = of->second.late,
          .hopeless = of->second.hopeless,
          .held_work_ns = of->second.held_work_ns,
          .active = of->second.active,
          .lines = of->second.lines};
    const ModelQueue& queue = *runtime.model(*id).waits;
    at.oldest_line = OldestLine(queue, now);
    at.waiting = queue.urgent();
    if (at.waiting == 0) continue;
    for (const ModelQueue::Band& band : queue.Describe(now, 0).bands) {
      if (!band.spare) at.oldest = std::max(at.oldest, band.oldest);
    }
  }
  return here;
}

scheduler::autoscale::Signals Meter::Next(const Asked& asked, const ModelQueue& queue, conf::TimePoint now) {
  const bool first = last_ == conf::TimePoint();
  const uint64_t work = Since(asked.work_ns, work_ns_);
  const uint64_t in_time = Since(asked.in_time, in_time_);
  const uint64_t late = Since(asked.late, late_);
  const uint64_t hopeless = Since(asked.hopeless, hopeless_);
  const conf::Duration passed = first ? kTick : std::max(now - last_, kTick);
  last_ = now;

  scheduler::autoscale::Signals signals;
  if (!first) {
    signals.demand.work = static_cast<double>(work) / static_cast<double>(passed.count());
    signals.demand.first_tokens = {.came = static_cast<double>(in_time + late + hopeless),
                                   .late = static_cast<double>(late),
                                   .hopeless = static_cast<double>(hopeless)};
  }
  signals.in_flight = static_cast<double>(asked.active);
  const uint64_t held = queue.urgent() + asked.waiting_elsewhere;
  if (held == 0) return signals;
  signals.held = static_cast<double>(held);
  signals.demand.oldest = asked.oldest_elsewhere;
  signals.demand.backlog = static_cast<double>(asked.held_work_ns) * 1e-9;
  for (const ModelQueue::Band& band : queue.Describe(now, 0).bands) {
    if (!band.spare) signals.demand.oldest = std::max(signals.demand.oldest, band.oldest);
  }
  return signals;
}

}  // namespace gateway::control
