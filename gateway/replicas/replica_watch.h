// ReplicaWatch: has every model's replicas looked at, ten times a second, on the control loop. Who hangs or
// is an outlier is router::PoolWatch's to say; what changes is logged.
#pragma once

#include <memory>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/runtime.h"
#include "router/pool_watch.h"

namespace gateway {

class ReplicaWatch final : private net::Alarm {
 public:
  explicit ReplicaWatch(net::Loop& loop) : Alarm(loop.watchdog) {}

  // Looks at once.
  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();

 private:
  void OnAlarm() override;

  std::shared_ptr<const Runtime> runtime_;
  std::vector<router::PoolWatch::Change> changes_;
};

}  // namespace gateway
