// QueueTicks: looks for room now and then while requests wait, for what no event tells: a backlog that is
// worked off meanwhile, telemetry that has changed, a signal that crossed with a request's coming. Rests
// while nobody waits.
//
// Thread: the control loop's.
#pragma once

#include <functional>
#include <memory>

#include "gateway/net/watchdog.h"
#include "gateway/queue/model_queue.h"
#include "gateway/runtime.h"

namespace gateway {

class QueueTicks final : private net::Alarm {
 public:
  using CurrentRuntime = std::function<std::shared_ptr<const Runtime>()>;

  QueueTicks(net::Watchdog& watchdog, const ModelQueues& queues, CurrentRuntime runtime)
      : Alarm(watchdog), queues_(queues), runtime_(std::move(runtime)) {}

  // Somebody has come to wait.
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
