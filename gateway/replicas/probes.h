// Probes: requests the health paths of replicas regularly, on the control loop. router::Health decides when
// to ask, and what an answer means.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"

namespace gateway {

class Probes final : private net::Alarm {
 public:
  explicit Probes(net::Loop& loop) : Alarm(loop.watchdog), loop_(loop) {}

  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();  // for ever; running probes end without a result

 private:
  void OnAlarm() override;
  net::Task<void> Probe(std::shared_ptr<const Runtime> runtime, ReplicaId replica);

  void NoteCredentials(router::ReplicaState& state, int status);

  net::Loop& loop_;
  std::shared_ptr<const Runtime> runtime_;
  net::AbortGroup fetches_;
  std::set<std::string> refusing_;  // identities of replicas whose last probe was refused
};

}  // namespace gateway
