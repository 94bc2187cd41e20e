// Runtime: one configuration, compiled for the shards: routes, replicas, tenants. Immutable; a reload makes a
// new one and swaps it in shard by shard, and requests under way keep theirs.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "gateway/control/outlook.h"
#include "gateway/keys/principal.h"
#include "gateway/net/transport.h"
#include "gateway/queue/model_queue.h"
#include "plugins/auth/jwt_authenticator.h"
#include "router/limits/price.h"
#include "router/limits/spec.h"
#include "router/limits/tree.h"
#include "router/replica_load.h"
#include "router/route_table.h"
#include "router/token_estimate.h"

namespace gateway {

struct ModelRuntime {
  const config::Model* config;
  router::limits::ModelRef limits;
  router::limits::Price price;
  std::shared_ptr<router::TokenEstimate> estimate;    // learned; survives reloads
  std::optional<config::Queue> queue;                 // none: nobody waits for it
  std::shared_ptr<ModelQueue> waits;                  // who does; survives reloads
  const config::ModelPolicy* policy = nullptr;        // of it, or of its base; null: its endpoints are all
  std::shared_ptr<const control::Outlook> outlook{};  // where it has a policy
  std::vector<std::string> devices{};                 // kinds that its replicas may hold
};

struct ReplicaRuntime {
  const config::Endpoint* config;
  std::string pool_key;  // what a pooled connection must have been made for
  net::Remote remote;
  std::string fields;  // "host: …\r\nauthorization: …\r\n", sent with every request

  const std::string& name() const { return config->name; }
};

struct TenantRuntime {
  const config::Tenant* config;
  std::string path;
  std::vector<bool> models;  // by ModelId, the parent's where it gives none
  config::ApiSet apis;
};

// The estimates of every model that was ever configured, by name. Thread-safe.
class TokenEstimates {
 public:
  std::shared_ptr<router::TokenEstimate> Get(const std::string& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<router::TokenEstimate>> by_model_;
};

// What learns and therefore outlives a configuration.
struct Learned {
  router::limits::LimitTree& limits;
  router::ReplicaStates& replicas;
  TokenEstimates& estimates;
  ModelQueues& queues;
  control::Outlooks& outlooks;
};

// Replicas that Tidegate has started and that take requests now, by model; beside the configured endpoints.
using Launched = std::map<std::string, std::vector<std::shared_ptr<const config::Endpoint>>, std::less<>>;

class Runtime {
 public:
  // Errors: TLS files that do not load. Changes nothing but by adding to what is learned.
  static absl::StatusOr<std::shared_ptr<const Runtime>> Build(Config config, const Learned& learned,
                                                              conf::TimePoint now,
                                                              const Launched& launched = {});
  // The same configuration with other launched replicas. What connects to the configured endpoints is shared.
  absl::StatusOr<std::shared_ptr<const Runtime>> With(const Launched& launched, const Learned& learned) const;

  const Config& config() const { return *config_; }
  const std::string& hash() const { return hash_; }
  conf::TimePoint loaded_at() const { return loaded_at_; }
  const router::RouteTable& routes() const { return routes_; }
  const router::LoadView& load() const { return *load_; }
  const ModelRuntime& model(ModelId id) const { return models_[static_cast<size_t>(id)]; }
  const ReplicaRuntime& replica(ReplicaId id) const { return replicas_[static_cast<size_t>(id)]; }
  std::span<const ModelRuntime> models() const { return models_; }
  std::span<const ReplicaRuntime> replicas() const { return replicas_; }
  std::span<const TenantRuntime> tenants() const { return tenants_; }
  // Whether a request that finds no replica of the model is to wait, since one may be started for it. Another
  // model that it may fall back to is asked at once.
  bool MayStart(ModelId id) const {
    return model(id).policy != nullptr &&
           !router::FallsBackOn(router::kOnUnavailable, routes_.model(id).spec);
  }
  // By name or by path; null when there is none.
  const TenantRuntime* FindTenant(std::string_view name_or_path) const;

  // Who may sign bearer tokens; null when nobody.
  std::shared_ptr<const plugins::auth::JwtAuthenticator::Issuers> issuers() const { return issuers_; }

  // The tenants' limits, for LimitTree::Update.
  std::vector<router::limits::NodeSpec> LimitNodes() const;

 private:
  Runtime() = default;
  absl::Status Assemble(const Launched& launched, const Learned& learned);
  void AddTenants();

  std::shared_ptr<const Config> config_;
  std::string hash_;
  conf::TimePoint loaded_at_;
  router::RouteTable routes_;
  std::unique_ptr<router::LoadView> load_;
  std::vector<ModelRuntime> models_;
  std::vector<ReplicaRuntime> replicas_;
  std::map<const config::Endpoint*, ReplicaRuntime> connections_;  // of configured endpoints
  Launched launched_;                                              // keeps what replicas_ point to
  std::vector<TenantRuntime> tenants_;
  std::shared_ptr<const plugins::auth::JwtAuthenticator::Issuers> issuers_;
};

// Who may come in, by the keys' table and the runtime's tenants. Keys with limits of their own become nodes
// of the tree; those of keys that no longer work leave it.
std::shared_ptr<const PrincipalIndex> BuildPrincipals(const Runtime& runtime,
                                                      std::shared_ptr<const plugins::auth::KeyTable> keys,
                                                      router::limits::LimitTree& limits, conf::TimePoint now);

// A bearer's principal: its tenant's, narrowed by what the token says.
PrincipalRef BearerPrincipal(const Principal& tenant, const plugins::auth::JwtIdentity& identity,
                             const Runtime& runtime);

}  // namespace gateway
