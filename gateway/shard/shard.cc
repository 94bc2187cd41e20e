#include "gateway/shard/shard.h"
#include "gateway/shard/principals.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/ledger/request_id.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway {
namespace {

constexpr size_t kMaxIdentities = 16384;
constexpr size_t kTokenCacheBytes = 16u << 20;

}  // namespace

Shard::Shard(uint32_t shard_index, Shared& all, uint64_t seed)
    : index(shard_index),
      shared(all),
      loop([](const std::exception_ptr& error) { log::Exception("shard task", error); }),
      rng(seed),
      journal(all.ledger->Shard(shard_index)) {}

void Shard::Swap(std::shared_ptr<const Runtime> runtime, std::shared_ptr<const PrincipalIndex> principals) {
  if (runtime_ && runtime_->issuers() != runtime->issuers())
    jwt_keys_.clear();  // they are stored by the issuer's number, which may now mean another issuer
  // The shard has its own control block: requests on other cores do not share its reference counter.
  const Runtime* raw = runtime.get();
  runtime_ = std::shared_ptr<const Runtime>(raw, [keep = std::move(runtime)](const Runtime*) {});
  const bool same_keys = principals_ && principals_->keys == principals->keys;
  principals_ = std::move(principals);
  metrics.Bind(runtime_->names());
  by_identity_.clear();
  jwt_.reset();
  if (runtime_->issuers()) {
    jwt_ = std::make_unique<plugins::auth::JwtAuthenticator>(runtime_->issuers(), kTokenCacheBytes);
    for (size_t i = 0; i < jwt_keys_.size() && i < runtime_->issuers()->size(); ++i)
      jwt_->SetKeys(i, jwt_keys_[i]);
  }

  absl::flat_hash_set<std::string> used;
  for (const ReplicaRuntime& replica : runtime_->replicas()) used.insert(replica.pool_key);
  absl::erase_if(pools_, [&](const auto& pool) { return !used.contains(pool.first); });
  if (!same_keys) running_calls.OnKeys(*principals_->keys);  // last, because the ended calls run on from here
}

void Shard::SetJwtKeys(size_t issuer, const plugins::auth::PublishedKeys& keys) {
  if (jwt_keys_.size() <= issuer) jwt_keys_.resize(issuer + 1);
  jwt_keys_[issuer] = keys;
  if (jwt_) jwt_->SetKeys(issuer, keys);
}

PrincipalRef Shard::PrincipalFor(const std::shared_ptr<const plugins::auth::JwtIdentity>& identity) {
  if (const auto it = by_identity_.find(identity); it != by_identity_.end()) return it->second;
  const PrincipalRef* tenant = principals_->ForTenant(identity->tenant);
  if (!tenant) return nullptr;
  if (by_identity_.size() >= kMaxIdentities) by_identity_.clear();
  return by_identity_[identity] = BearerPrincipal(**tenant, *identity, *runtime_);
}

std::shared_ptr<net::http::Pool> Shard::PoolFor(const ReplicaRuntime& replica) {
  std::shared_ptr<net::http::Pool>& pool = pools_[replica.pool_key];
  if (!pool) pool = std::make_shared<net::http::Pool>(loop, replica.remote, net::http::Pool::Options{});
  return pool;
}

std::string_view Shard::NewRequestId(conf::TimePoint now, std::array<char, 36>& text) {
  const uint64_t high = shared.request_tag ? *shared.request_tag : rng.Next();
  ledger::WriteRequestId(now, high, rng.Next(), text);
  return {text.data(), text.size()};
}

}  // namespace gateway
