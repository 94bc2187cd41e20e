#include "gateway/shard/queue_ticks.h"

#include "gateway/net/clock.h"

namespace gateway {

void QueueTicks::OnAlarm() {
  const std::shared_ptr<const Runtime> runtime = runtime_();
  const conf::TimePoint now = net::Now();
  bool any = false;
  for (const std::shared_ptr<ModelQueue>& queue : queues_.All()) {
    queue->WakeNext(runtime->SupplyOf(queue->model()), now);
    any = any || queue->waiting() > 0;
  }
  if (any) SetAfter(kTick);
}

}  // namespace gateway
