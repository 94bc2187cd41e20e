// Probes: asks replicas' health paths from time to time, on the control loop. When to ask and what an answer
// means is router::Health's to say.
#pragma once

#include <memory>

#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/runtime.h"

namespace gateway {

class Probes final : private net::Alarm {
 public:
  explicit Probes(net::Loop& loop) : Alarm(loop.watchdog), loop_(loop) {}

  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();  // for good; probes under way end and count for nothing

 private:
  void OnAlarm() override;
  net::Task<void> Probe(std::shared_ptr<const Runtime> runtime, ReplicaId replica);

  net::Loop& loop_;
  std::shared_ptr<const Runtime> runtime_;
  net::AbortGroup fetches_;
};

}  // namespace gateway
