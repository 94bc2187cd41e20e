// Shard: one core's event loop with what its requests need: the runtime it currently serves, its connections
// to replicas, its journal, its metric cells. A connection stays on the shard that accepted it.
//
// Thread: its own, but for Post() and what says otherwise.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/keys/principal.h"
#include "gateway/ledger/journal.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/loop.h"
#include "gateway/routing/shadow.h"
#include "gateway/runtime.h"
#include "gateway/shared.h"
#include "plugins/auth/jwt_authenticator.h"
#include "router/facts.h"
#include "router/prefix/block_hash.h"
#include "scheduler/rng.h"

namespace gateway {

class Shard {
 public:
  Shard(uint32_t index, Shared& shared, uint64_t seed);

  // Shard's thread. New requests take the new runtime, those under way keep theirs. With other issuers it
  // knows none of their keys: SetJwtKeys is to follow at once.
  void Swap(std::shared_ptr<const Runtime> runtime, std::shared_ptr<const PrincipalIndex> principals);

  std::shared_ptr<const Runtime> runtime() const { return runtime_; }
  const PrincipalIndex& principals() const { return *principals_; }

  std::shared_ptr<net::http::Pool> PoolFor(const ReplicaRuntime& replica);

  // Null where no issuer is configured.
  plugins::auth::JwtAuthenticator* jwt() { return jwt_.get(); }
  void SetJwtKeys(size_t issuer, const plugins::auth::PublishedKeys& keys);
  void OnUnknownKeyId(size_t issuer) { shared.on_unknown_key_id(issuer); }
  // Of a token's bearer; null when its tenant is not configured.
  PrincipalRef PrincipalFor(const std::shared_ptr<const plugins::auth::JwtIdentity>& identity);

  // "req_" and 128 random bits in hex, into `text`.
  std::string_view NewRequestId(std::array<char, 36>& text);

  const uint32_t index;
  Shared& shared;
  net::Loop loop;
  scheduler::Rng rng;
  router::FactsScanner scanner;
  router::prefix::BlockHasher block_hasher;
  ledger::ShardJournal& journal;
  ShardMetrics metrics;
  routing::Shadows shadows{*this};

 private:
  std::shared_ptr<const Runtime> runtime_;
  std::shared_ptr<const PrincipalIndex> principals_;
  absl::flat_hash_map<std::string, std::shared_ptr<net::http::Pool>> pools_;

  std::unique_ptr<plugins::auth::JwtAuthenticator> jwt_;
  std::vector<plugins::auth::PublishedKeys> jwt_keys_;  // by issuer
  absl::flat_hash_map<std::shared_ptr<const plugins::auth::JwtIdentity>, PrincipalRef> by_identity_;
};

}  // namespace gateway
