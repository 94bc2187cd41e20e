// Shared: the state that all shards of the process share. Each member is thread-safe by itself.
//
// Owner: the Process, which creates it before the shards and destroys it after them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/ledger/content_keys.h"
#include "gateway/ledger/ledger.h"
#include "gateway/limits/body_memory.h"
#include "gateway/limits/failed_attempts.h"
#include "gateway/people/keys.h"
#include "gateway/routing/log.h"
#include "gateway/shard/computed_prompts.h"
#include "gateway/shard/model_queue.h"
#include "gateway/shard/response_owners.h"
#include "gateway/shard/runtime.h"
#include "gateway/telemetry/access_log.h"
#include "gateway/telemetry/otlp.h"
#include "gateway/telemetry/trace_context.h"
#include "router/limits/tree.h"
#include "router/load/replica_load.h"
#include "router/routes/sessions.h"

namespace gateway {

namespace batches {
class Service;
}
namespace feedback {
class Service;
}

struct Shared {
  router::limits::LimitTree limits;
  BodyMemory body_memory;
  FailedAttempts failed_attempts;
  router::prefix::Index prefixes;
  router::ReplicaStates replicas{&prefixes};
  router::Sessions sessions;
  ResponseOwners response_owners;
  TokenEstimates estimates;
  ComputedPrompts computed;
  ModelQueues queues;
  ScalingHintsByModel scaling_hints;
  ModelSwitches switches;
  std::unique_ptr<ledger::Ledger> ledger;
  std::unique_ptr<ledger::ContentKeys> content_keys;
  std::unique_ptr<Keys> keys;                       // for the control loop; shards have their PrincipalIndex
  std::unique_ptr<telemetry::OtlpExporter> traces;  // null: no tracing
  std::optional<telemetry::Sampler> sampler;        // set if `traces` is
  telemetry::AccessLog access_log;
  std::string state_dir;
  std::optional<uint16_t> request_tag;  // in the ids of requests (ledger/request_id.h); none: alone
  std::unique_ptr<routing::RoutingLog> routing_log;

  // Called by any shard if a token names a key that its issuer's key set does not have.
  std::function<void(size_t issuer)> on_unknown_key_id = [](size_t) {};
  std::atomic<bool> stopping{false};  // load balancers should send no new requests
  std::atomic<bool> draining{false};  // the gateway takes no new requests
  std::atomic<bool> limits_failed_closed{
      false};                             // Redis is unreachable, and the configuration admits nothing then
  std::atomic<bool> disk_low{false};      // less space is free than ledger.min_free_bytes
  batches::Service* batches = nullptr;    // runs on the control loop; null only in tests
  feedback::Service* feedback = nullptr;  // likewise

  Learned learned() { return {limits, replicas, estimates, queues, scaling_hints, switches}; }
};

}  // namespace gateway
