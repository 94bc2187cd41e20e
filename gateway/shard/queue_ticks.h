// QueueTicks: wakes waiting requests periodically, for changes that no event reports: a shrinking backlog, new
// telemetry of a replica, a signal that came just before a request began to wait. Idle while no request waits.
//
// Thread: the control loop's.
#pragma once

#include <functional>
#include <memory>

#include "gateway/net/watchdog.h"
#include "gateway/shard/model_queue.h"
#include "gateway/shard/runtime.h"

namespace gateway {

class QueueTicks final : private net::Alarm {
 public:
  using CurrentRuntime = std::function<std::shared_ptr<const Runtime>()>;

  QueueTicks(net::Watchdog& watchdog, const ModelQueues& queues, CurrentRuntime runtime)
      : Alarm(watchdog), queues_(queues), runtime_(std::move(runtime)) {}

  // A request has begun to wait.
  void Begin() {
    if (!armed()) SetAfter(kTick);
  }

 private:
  static constexpr conf::Duration kTick = std::chrono::milliseconds(20);

  void OnAlarm() override;

  const ModelQueues& queues_;
  const CurrentRuntime runtime_;
};

}  // namespace gateway
