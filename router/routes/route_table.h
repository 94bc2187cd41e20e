// The models, their names, and the replicas that serve them: an immutable table, rebuilt on every reload.
//
// Built once from plain structs, which the shell fills from configuration and from the control loop, then
// read by every shard without a lock. ModelId and ReplicaId are dense indices of one table and mean nothing
// in another; state that outlives a table is found by ReplicaSpec::identity.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "conf/words.h"
#include "router/health/breaker.h"
#include "router/health/health.h"
#include "router/health/outlier_config.h"
#include "router/health/retry_budget.h"
#include "router/routes/adapter_id.h"
#include "router/routes/canary.h"
#include "router/routes/headroom_limits.h"
#include "router/routes/policy_parameters.h"
#include "router/routes/roles.h"

namespace router {

enum class ModelId : uint32_t {};
enum class ReplicaId : uint32_t {};

enum class PolicyKind : uint8_t {
  kLeastLoad,
  kRoundRobin,
  kPowerOfTwo,
  kWeighted,
  kRandom,
  kLeastRequests,
  kConsistentHash,
  kCacheAware,
  kEpp,
  kKvCost,
  kCost,
};
inline constexpr size_t kPolicyKinds = 11;

struct Timeouts {
  conf::Duration connect = std::chrono::seconds(5);
  conf::Duration first_byte = std::chrono::minutes(5);  // from the request's last byte to the answer's first
  conf::Duration idle = std::chrono::minutes(2);        // between two reads of an answer
  conf::Duration total = std::chrono::minutes(30);
};

struct RetryPolicy {
  uint32_t max_retries = 2;  // beyond the first try, on other replicas
  RetryBudgetConfig budget;
  conf::Duration backoff = std::chrono::milliseconds(25);  // doubles with each retry; jitter takes up to half
  conf::Duration max_backoff = std::chrono::seconds(1);
  conf::Duration max_wait = std::chrono::seconds(2);  // for a resting replica, when no other is left
};

// Conditions under which a request may go to a fallback model; a bit mask.
enum FallbackOn : uint8_t {
  kOnUnavailable = 1,  // no replica to try, or all tries failed before the first byte
  kOnOverloaded = 2,   // replicas answered 429 or 503, or still rest after that
  kOnTimeout = 4,      // no first byte in time
  kOnContext = 8,      // the request is longer than the model's context
};

struct FallbackSpec {
  std::string model;
  uint8_t on = kOnUnavailable | kOnOverloaded | kOnTimeout;
};

struct ModelSpec;
// Whether the model has a fallback for this condition.
bool FallsBackOn(FallbackOn condition, const ModelSpec& model);

struct ReplicaSpec {
  std::string identity;  // stable over reloads, unique in the table: "chat-small@http://10.0.0.5:8000"
  std::string url;
  std::string engine;          // the engine adapter's name: "vllm"
  std::string upstream_model;  // what the engine calls the model; empty: the name in the request
  std::string zone;            // empty: the gateway's
  std::string track;           // empty: stable
  Role role = Role::kBoth;
  double weight = 1;  // share of the traffic, or relative speed; 0: drained, no new requests
  // False for a provider, of whose load nothing is known: only the operator's max_running limits it.
  bool headroom_known = true;
};

struct ModelSpec {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<ReplicaSpec> replicas;
  std::string base;     // of a LoRA adapter: the model whose replicas serve it; empty: not an adapter
  std::string adapter;  // the adapter's name at those engines
  bool adapter_at_run_time = false;  // the gateway loads it: only replicas that hold it take its requests
  PolicyKind policy = PolicyKind::kCost;
  CostWeights cost;  // parameters of the policy of the same name, like the next three
  EppWeights epp;
  CacheAwareLimits cache_aware;
  HashLimits consistent_hash;
  std::vector<CanarySpec> canaries;
  conf::Duration sticky_for{};  // how long an idle session keeps its replica; 0: sessions are not sticky
  std::optional<HeadroomLimits> headroom;               // none: requests never wait for this model
  std::optional<PrefillTransferSpec> prefill_transfer;  // none: its replicas transfer no prompts
  std::vector<FallbackSpec> fallbacks;  // models to try next, in order; their own fallbacks are not tried
  Timeouts timeouts;
  RetryPolicy retry;
  BreakerConfig breaker;
  HealthConfig health;
  OutlierConfig outliers;
  std::optional<int64_t> max_output;  // tokens
  bool fail_open = true;              // use replicas that are down when all are
  bool discovers = false;  // replicas may come: none that is stable, or of a canary's track, is no fault
  bool launches = false;   // replicas are launched here: those of a new version may be there before any other
};

struct Replica {
  ReplicaId id;
  ModelId model;
  TrackId track;
  bool local;  // in the gateway's zone
  ReplicaSpec spec;
  std::string upstream_model_json;  // quoted JSON for the splice; empty: the name stays
};

struct Fallback {
  ModelId model;
  uint8_t on;
};

struct Model {
  ModelId id;
  ModelId served_by;  // the model whose replicas serve it: itself, or its base
  ModelSpec spec;     // its replicas were moved into the table
  uint32_t first_replica;
  uint32_t replica_count;
  std::vector<Fallback> fallbacks;
  std::vector<Canary> canaries;  // as in the spec
  bool zoned;                    // some of its replicas are in other zones
  AdapterId adapter = AdapterId::kNone;
  std::string adapter_json;  // as Replica::upstream_model_json
};

// The name of a model at one replica's engine.
struct UpstreamName {
  std::string_view name;
  std::string_view json;  // quoted JSON for the splice
};

class RouteTable {
 public:
  // The error names every fault of the specs, one per line. `zone` is the gateway's own; empty: zones are
  // ignored.
  static absl::StatusOr<RouteTable> Build(std::vector<ModelSpec> models, std::string_view zone = {});

  RouteTable() = default;

  std::optional<ModelId> Find(std::string_view name_or_alias) const;  // no allocation

  // kStable for "" and for a name that no replica has.
  TrackId TrackNamed(std::string_view name) const;
  const std::string& track_name(TrackId track) const { return tracks_[static_cast<size_t>(track)]; }

  const Model& model(ModelId id) const { return models_[static_cast<size_t>(id)]; }
  const Replica& replica(ReplicaId id) const { return replicas_[static_cast<size_t>(id)]; }
  UpstreamName NameAt(ModelId id, const Replica& replica) const {
    const Model& of = model(id);
    if (of.adapter != AdapterId::kNone) return {of.spec.adapter, of.adapter_json};
    return {replica.spec.upstream_model, replica.upstream_model_json};
  }

  std::span<const Model> models() const { return models_; }
  std::span<const Replica> replicas() const { return replicas_; }
  std::span<const Replica> replicas(ModelId id) const {
    return std::span(replicas_).subspan(model(id).first_replica, model(id).replica_count);
  }

 private:
  TrackId InternTrack(const std::string& name);
  std::string ServeByBase(Model& model);

  std::vector<Model> models_;
  std::vector<Replica> replicas_;  // grouped by model
  std::vector<std::string> tracks_{""};
  absl::flat_hash_map<std::string, ModelId> names_;
};

// Whether the policy reads the beginning of the prompt, or the session.
bool LooksAtPrompt(PolicyKind kind);

std::string_view PolicyName(PolicyKind kind);
std::optional<PolicyKind> PolicyByName(std::string_view name);
conf::Words<PolicyKind> PolicyWords();

}  // namespace router
