// ReplicaWatch: checks every model's replicas for hangs and outliers ten times a second, on the control loop.
// router::DetectOutliers decides; this logs the changes.
#pragma once

#include <memory>
#include <vector>

#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "router/outlier_detection.h"

namespace gateway {

class ReplicaWatch final : private net::Alarm {
 public:
  explicit ReplicaWatch(net::Loop& loop) : Alarm(loop.watchdog) {}

  // The first check is at once.
  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();

 private:
  void OnAlarm() override;

  std::shared_ptr<const Runtime> runtime_;
  std::vector<router::OutlierChange> changes_;
};

}  // namespace gateway
