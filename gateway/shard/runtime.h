// Runtime: one configuration, compiled for the shards: routes, replicas, tenants. Immutable. A reload builds
// a new runtime and swaps it in shard by shard; running requests keep the one that they began with.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/config/adapters.h"
#include "gateway/config/config.h"
#include "gateway/metrics/served_names.h"
#include "gateway/net/transport.h"
#include "gateway/people/principal.h"
#include "gateway/shard/model_queue.h"
#include "gateway/shard/model_switch.h"
#include "gateway/shard/passed_fields.h"
#include "gateway/shard/scaling_hints.h"
#include "plugins/auth/jwt_authenticator.h"
#include "router/facts/token_estimate.h"
#include "router/limits/price.h"
#include "router/limits/spec.h"
#include "router/limits/tree.h"
#include "router/load/replica_load.h"
#include "router/routes/route_table.h"

namespace gateway {

struct ModelRuntime {
  const config::Model* config;
  router::limits::ModelRef limits;
  router::limits::Price price;
  router::limits::Price batch_price;
  std::shared_ptr<router::TokenEstimate> estimate;  // learned; survives reloads
  std::optional<config::Queue> queue;               // none: no request waits for this model
  std::shared_ptr<ModelQueue> waits;                // its waiting requests; survives reloads
  const config::ModelPolicy* policy = nullptr;      // its own or its base's; null: only configured endpoints
  std::shared_ptr<const ScalingHints> hints{};      // null without a policy
  std::vector<std::string> devices{};               // the kinds of devices that its replicas may hold
  std::vector<const config::Parameters*> parameters{};         // its own and its base's; none empty
  std::vector<std::shared_ptr<const ModelSwitch>> switches{};  // likewise
  bool awaits_discovery = false;  // no endpoint is known yet, but some may be discovered

  // How long a request waits while no replica serves, and how often its stream gets a heartbeat meanwhile; 0: never.
  conf::Duration cold_wait() const;
  conf::Duration cold_heartbeat() const;
  // The error message for new requests while the model takes none; none: it takes requests.
  std::optional<std::string> WhyPaused() const;
};

struct ReplicaRuntime {
  const config::Endpoint* config;
  std::string pool_key;  // names the pool of connections that this replica may use
  net::Remote remote;
  std::string fields;  // "host: …\r\nauthorization: …\r\n", sent with every request
  PassedFields passed;

  const std::string& name() const { return config->name; }
};

struct TenantRuntime {
  const config::Tenant* config;
  std::string path;
  std::vector<bool> models;  // by ModelId; the parent's unless the tenant lists its own
  config::ApiSet apis;
  std::vector<config::Parameters> parameters;  // its own and those above, the root's first; none empty
  std::string cache_domain;                    // tenants of one domain use each other's cached prompts
  bool disabled = false;                       // it or a tenant above it
  bool self_service = false;                   // likewise
};

// The estimates of every model that was ever configured, by name. Thread-safe.
class TokenEstimates {
 public:
  std::shared_ptr<router::TokenEstimate> Get(const std::string& model);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<router::TokenEstimate>> by_model_;
};

// State that is learned from traffic and outlives a configuration.
struct Learned {
  router::limits::LimitTree& limits;
  router::ReplicaStates& replicas;
  TokenEstimates& estimates;
  ModelQueues& queues;
  ScalingHintsByModel& scaling_hints;
  ModelSwitches& switches;
};

// Replicas that take requests now besides configured endpoints, by model: those that Tidegate has started, and those
// that were discovered.
using Launched = std::map<std::string, std::vector<std::shared_ptr<const config::Endpoint>>, std::less<>>;

class Runtime {
 public:
  // Errors: TLS files cannot be loaded. Adds entries to `learned`, but changes none.
  static absl::StatusOr<std::shared_ptr<const Runtime>> Build(Config config, const Learned& learned,
                                                              conf::TimePoint now,
                                                              const Launched& launched = {});
  // The same configuration with other launched replicas. Endpoints that stay keep their TLS contexts.
  absl::StatusOr<std::shared_ptr<const Runtime>> With(const Launched& launched, const Learned& learned) const;

  // What changes at run time, besides the file: tenants and grants, adapters, and the shares of new versions.
  struct InForce {
    std::vector<config::Tenant> tenants;
    std::vector<config::RunTimeAdapter> adapters{};
    std::vector<config::ShareOfVersion> shares{};
  };
  // The same configuration with other tenants and adapters in force. configured() does not change.
  absl::StatusOr<std::shared_ptr<const Runtime>> WithInForce(InForce in_force, const Launched& launched,
                                                             const Learned& learned) const;

  // The configuration in force: the file's, with the tenants and adapters of run time.
  const Config& config() const { return *config_; }
  // The configuration of the file.
  const Config& configured() const { return *configured_; }
  const std::string& hash() const { return hash_; }
  const ServedNames& names() const { return names_; }
  conf::TimePoint loaded_at() const { return loaded_at_; }
  const router::RouteTable& routes() const { return routes_; }
  const router::LoadView& load() const { return *load_; }
  const ModelRuntime& model(ModelId id) const { return models_[static_cast<size_t>(id)]; }
  const ReplicaRuntime& replica(ReplicaId id) const { return replicas_[static_cast<size_t>(id)]; }
  std::span<const ModelRuntime> models() const { return models_; }
  std::span<const ReplicaRuntime> replicas() const { return replicas_; }
  std::span<const TenantRuntime> tenants() const { return tenants_; }
  // Whether a request that finds no replica of the model waits, because one may be started or discovered. It does not
  // wait if it may fall back to another model.
  bool MayStartReplica(ModelId id) const {
    return (model(id).policy != nullptr || model(id).awaits_discovery) &&
           !router::FallsBackOn(router::kOnUnavailable, routes_.model(id).spec);
  }
  // The replicas that serve the model of this name now, for its queue.
  ModelSupply SupplyOf(std::string_view model) const;
  // By path, or by name if it is configured; null: there is no such tenant.
  const TenantRuntime* FindTenant(std::string_view name_or_path) const;

  // Whether tenants have more than one cache domain, so that cached prompts must be kept apart.
  bool has_cache_domains() const { return has_cache_domains_; }

  // The issuers whose bearer tokens are accepted; null: there are none.
  std::shared_ptr<const plugins::auth::JwtAuthenticator::Issuers> issuers() const { return issuers_; }

  // The tenants' limits, for LimitTree::Update.
  std::vector<router::limits::NodeSpec> LimitNodes() const;

 private:
  Runtime() = default;
  // `before`: known replicas take their connections from this runtime; null: all connections are new.
  absl::Status Assemble(const Launched& launched, const Learned& learned, const Runtime* before = nullptr);
  void AddTenants();
  void CollectNames();

  std::shared_ptr<const Config> configured_;
  std::shared_ptr<const Config> config_;
  std::string hash_;
  ServedNames names_;
  conf::TimePoint loaded_at_;
  router::RouteTable routes_;
  std::unique_ptr<router::LoadView> load_;
  std::vector<ModelRuntime> models_;
  std::vector<ReplicaRuntime> replicas_;
  std::map<const config::Endpoint*, ReplicaRuntime> connections_;  // of configured endpoints
  Launched launched_;                                           // owns the endpoints to which replicas_ point
  absl::flat_hash_map<const config::Endpoint*, size_t> added_;  // where launched_ endpoints are in replicas_
  std::vector<TenantRuntime> tenants_;
  absl::flat_hash_map<std::string, size_t> tenant_places_;  // by path, and for configured tenants by name
  bool has_cache_domains_ = false;
  std::shared_ptr<const plugins::auth::JwtAuthenticator::Issuers> issuers_;
};

}  // namespace gateway
