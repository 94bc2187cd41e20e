// Which models there are, under which names, and which replicas serve them: an immutable table, rebuilt on
// reload.
//
// Built once from plain structs (the shell reads them from configuration and from the control loop), then
// read from every shard without a lock. ModelId and ReplicaId are dense indices within one table and mean
// nothing in another; what outlives a table goes by ReplicaSpec::identity.
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
#include "router/adapters.h"
#include "router/admission/room_spec.h"
#include "router/breaker.h"
#include "router/canary.h"
#include "router/cost_weights.h"
#include "router/health.h"
#include "router/policy_parameters.h"
#include "router/retry_budget.h"
#include "router/roles.h"
#include "router/watch_config.h"

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
  conf::Duration backoff = std::chrono::milliseconds(25);  // doubles with each retry; jittered down to a half
  conf::Duration max_backoff = std::chrono::seconds(1);
  conf::Duration max_wait = std::chrono::seconds(2);  // for a replica that rests, when none else is left
};

// Why a request may go on to a fallback model; a mask of these.
enum FallbackOn : uint8_t {
  kOnUnavailable = 1,  // no replica to try, or all tries failed before the first byte
  kOnOverloaded = 2,   // replicas answered 429 or 503, or rest since they did
  kOnTimeout = 4,      // no first byte in time
  kOnContext = 8,      // the request is longer than the model's context
};

struct FallbackSpec {
  std::string model;
  uint8_t on = kOnUnavailable | kOnOverloaded | kOnTimeout;
};

struct ModelSpec;
// Whether another model is to be asked on this condition.
bool FallsBackOn(FallbackOn condition, const ModelSpec& model);

struct ReplicaSpec {
  std::string identity;  // stable over reloads, unique in the table: "chat-small@http://10.0.0.5:8000"
  std::string url;
  std::string engine;          // the engine adapter's name: "vllm"
  std::string upstream_model;  // what the engine calls the model; empty: the name in the request
  std::string zone;            // where it stands; empty: wherever the gateway does
  std::string track;           // empty: the stable one
  Role role = Role::kBoth;
  double weight = 1;       // share of the traffic, or relative speed; 0: drained, no new requests
  bool room_known = true;  // false: a provider, whose room is its own affair but for the operator's bound
};

struct ModelSpec {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<ReplicaSpec> replicas;
  std::string base;     // a LoRA adapter's: the model whose replicas serve it; empty: it has its own
  std::string adapter;  // ... what their engines call it
  PolicyKind policy = PolicyKind::kCost;
  CostWeights cost;  // of the policy of that name, like those that follow
  EppWeights epp;
  CacheAwareLimits cache_aware;
  HashLimits consistent_hash;
  std::vector<CanarySpec> canaries;
  conf::Duration sticky_for{};           // how long a session keeps its replica unused; 0: it has none
  std::optional<RoomSpec> room;          // none: nobody waits for this model
  std::optional<HandoverSpec> handover;  // none: its replicas hand no prompts over
  std::vector<FallbackSpec> fallbacks;   // models to try next, in order; theirs are not followed
  Timeouts timeouts;
  RetryPolicy retry;
  BreakerConfig breaker;
  HealthConfig health;
  WatchConfig watch;
  std::optional<int64_t> max_output;  // tokens
  bool fail_open = true;              // when every replica is down, try them all the same
};

struct Replica {
  ReplicaId id;
  ModelId model;
  TrackId track;
  bool local;  // in the gateway's zone
  ReplicaSpec spec;
  std::string upstream_model_json;  // quoted, ready to be spliced; empty: no splice
};

struct Fallback {
  ModelId model;
  uint8_t on;
};

struct Model {
  ModelId id;
  ModelId served_by;  // whose replicas these are: its own, or its base's
  ModelSpec spec;     // without replicas: they are in the table
  uint32_t first_replica;
  uint32_t replica_count;
  std::vector<Fallback> fallbacks;
  std::vector<Canary> canaries;  // as in the spec
  bool zoned;                    // some of its replicas stand in other zones
  AdapterId adapter = AdapterId::kNone;
  std::string adapter_json;  // as Replica::upstream_model_json
};

// A model as one of its replicas' engines calls it.
struct UpstreamName {
  std::string_view name;
  std::string_view json;  // quoted, ready to be spliced
};

class RouteTable {
 public:
  // Names every fault of the specs, one a line; nothing is built unless all are good. `zone` is the gateway's
  // own; empty: it knows of none.
  static absl::StatusOr<RouteTable> Build(std::vector<ModelSpec> models, std::string_view zone = {});

  RouteTable() = default;

  std::optional<ModelId> Find(std::string_view name_or_alias) const;  // no allocation

  // "" is the stable track's; kStable where nothing is called so.
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
  std::vector<Replica> replicas_;  // those of one model stand together
  std::vector<std::string> tracks_{""};
  absl::flat_hash_map<std::string, ModelId> names_;
};

// Whether it goes by what a request's prompt begins with, or by its session.
bool LooksAtPrompt(PolicyKind kind);

std::string_view PolicyName(PolicyKind kind);
std::optional<PolicyKind> PolicyByName(std::string_view name);
std::span<const std::string_view> PolicyNames();

}  // namespace router
