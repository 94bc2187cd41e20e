// Shared: what all shards of the process share. Each member is thread-safe by itself.
//
// Owner: the Process, which makes it before the shards and destroys it after them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "gateway/ledger/ledger.h"
#include "gateway/runtime.h"
#include "plugins/auth/key_store.h"
#include "router/limits/tree.h"
#include "router/replica_load.h"

namespace gateway {

struct Shared {
  router::limits::LimitTree limits;
  router::ReplicaStates replicas;
  TokenEstimates estimates;
  std::unique_ptr<ledger::Ledger> ledger;
  std::unique_ptr<plugins::auth::KeyStore> keys;
  // Any shard: a token named a key that its issuer's set does not hold.
  std::function<void(size_t issuer)> on_unknown_key_id = [](size_t) {};
  std::atomic<bool> draining{false};

  Learned learned() { return {limits, replicas, estimates}; }
};

}  // namespace gateway
