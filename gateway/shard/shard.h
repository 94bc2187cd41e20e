// Shard: one core's event loop and what its requests need: the current runtime, the connections to replicas, the
// journal, the metric cells. A client's connection stays on the shard that accepted it.
//
// Thread: its own, except for loop.Post() and functions whose comment says otherwise.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/ledger/journal.h"
#include "gateway/metrics/shard_metrics.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/http/pool.h"
#include "gateway/net/loop.h"
#include "gateway/people/principal.h"
#include "gateway/shard/running_calls.h"
#include "gateway/shard/runtime.h"
#include "gateway/shard/shared.h"
#include "gateway/shard/text_buffers.h"
#include "plugins/auth/jwt_authenticator.h"
#include "router/facts/body_facts.h"
#include "router/prefix/block_hash.h"
#include "scheduler/rng.h"

namespace gateway {

class Shard {
 public:
  Shard(uint32_t index, Shared& shared, uint64_t seed);

  // New requests take the new runtime; running requests keep theirs. If the issuers have changed, their keys are
  // unknown until SetJwtKeys, which must follow at once.
  void Swap(std::shared_ptr<const Runtime> runtime, std::shared_ptr<const PrincipalIndex> principals);

  std::shared_ptr<const Runtime> runtime() const { return runtime_; }
  const PrincipalIndex& principals() const { return *principals_; }

  std::shared_ptr<net::http::Pool> PoolFor(const ReplicaRuntime& replica);

  // Null: no issuer is configured.
  plugins::auth::JwtAuthenticator* jwt() { return jwt_.get(); }
  void SetJwtKeys(size_t issuer, const plugins::auth::PublishedKeys& keys);
  void OnUnknownKeyId(size_t issuer) { shared.on_unknown_key_id(issuer); }
  // The principal of a token's bearer; null: its tenant is not configured.
  PrincipalRef PrincipalFor(const std::shared_ptr<const plugins::auth::JwtIdentity>& identity);

  // Writes an id with the time and 80 random bits (ledger/request_id.h) into `text`.
  std::string_view NewRequestId(conf::TimePoint now, std::array<char, 36>& text);

  const uint32_t index;
  Shared& shared;
  net::Loop loop;
  scheduler::Rng rng;
  router::FactsScanner scanner;
  router::prefix::BlockHasher block_hasher;
  ledger::ShardJournal& journal;
  ShardMetrics metrics;
  RunningCalls running_calls;
  TextBuffers texts;
  net::AbortGroup shadow_copies;  // running ones; see request/shadow_copy.h

 private:
  std::shared_ptr<const Runtime> runtime_;
  std::shared_ptr<const PrincipalIndex> principals_;
  absl::flat_hash_map<std::string, std::shared_ptr<net::http::Pool>> pools_;

  std::unique_ptr<plugins::auth::JwtAuthenticator> jwt_;
  std::vector<plugins::auth::PublishedKeys> jwt_keys_;  // by issuer
  absl::flat_hash_map<std::shared_ptr<const plugins::auth::JwtIdentity>, PrincipalRef> by_identity_;
};

}  // namespace gateway
