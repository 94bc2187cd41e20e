// Shared: what all shards of the process share. Each member is thread-safe by itself.
//
// Owner: the Process, which makes it before the shards and destroys it after them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/ledger/ledger.h"
#include "gateway/queue/model_queue.h"
#include "gateway/replicas/computed_prompts.h"
#include "gateway/routing/log.h"
#include "gateway/runtime.h"
#include "gateway/telemetry/otlp.h"
#include "gateway/telemetry/trace_context.h"
#include "plugins/auth/key_store.h"
#include "router/limits/tree.h"
#include "router/replica_load.h"
#include "router/sessions.h"

namespace gateway {

struct Shared {
  router::limits::LimitTree limits;
  router::prefix::Index prefixes;
  router::ReplicaStates replicas{&prefixes};
  router::Sessions sessions;
  TokenEstimates estimates;
  ComputedPrompts computed;
  ModelQueues queues;
  control::Outlooks outlooks;
  std::unique_ptr<ledger::Ledger> ledger;
  std::unique_ptr<plugins::auth::KeyStore> keys;
  std::unique_ptr<telemetry::OtlpExporter> traces;  // absent: no tracing
  std::optional<telemetry::Sampler> sampler;        // with traces
  std::string state_dir;
  std::unique_ptr<routing::RoutingLog> routing_log;

  // Any shard: a token named a key that its issuer's set does not hold.
  std::function<void(size_t issuer)> on_unknown_key_id = [](size_t) {};
  std::atomic<bool> draining{false};
  std::atomic<bool> limits_failed_closed{
      false};                         // Redis is gone, and configuration says to admit nothing then
  std::atomic<bool> disk_low{false};  // less free than ledger.min_free_bytes

  Learned learned() { return {limits, replicas, estimates, queues, outlooks}; }
};

}  // namespace gateway
