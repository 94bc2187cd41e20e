// Scrapes: reads the load metrics of engines, on the control loop, outside the request path. plugins/engines
// parses them, router::EngineSignals weighs them. Engines without metrics are not scraped.
//
// A busy engine is scraped every second, an engine without our requests less often, one that does not answer
// still less often; all with jitter. An address that serves several models is scraped once for all of them.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"
#include "gateway/shard/runtime.h"
#include "plugins/engines/engine.h"
#include "scheduler/rng.h"

namespace gateway {

class Scrapes final : private net::Alarm {
 public:
  Scrapes(net::Loop& loop, router::prefix::Index& prefixes, uint64_t seed)
      : Alarm(loop.watchdog), loop_(loop), prefixes_(prefixes), rng_(seed) {}

  void Start(std::shared_ptr<const Runtime> runtime);
  void Stop();  // for ever; running scrapes end without a result

 private:
  // One engine: the replicas behind one address.
  struct Target {
    const plugins::engines::EngineAdapter* adapter = nullptr;
    std::vector<ReplicaId> replicas{};
    conf::TimePoint due{};
    uint32_t failures = 0;  // in a row
    bool asked = false;     // a scrape is running
  };

  void OnAlarm() override;
  net::Task<void> Scrape(std::shared_ptr<const Runtime> runtime, std::string key);
  net::Task<plugins::engines::EngineReport> Ask(const ReplicaRuntime& replica,
                                                const plugins::engines::EngineAdapter& adapter);
  void Apply(const Runtime& runtime, const Target& target, const plugins::engines::EngineReport& report);
  conf::Duration Pause(const Runtime& runtime, const Target& target);

  net::Loop& loop_;
  router::prefix::Index& prefixes_;
  scheduler::Rng rng_;
  std::shared_ptr<const Runtime> runtime_;
  absl::flat_hash_map<std::string, Target> targets_;  // by ReplicaRuntime::pool_key
  uint32_t under_way_ = 0;
  net::AbortGroup fetches_;
};

}  // namespace gateway
