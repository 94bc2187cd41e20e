#include "router/routes/route_table.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "conf/json_text.h"
#include "conf/text.h"
#include "router/facts/json_index.h"

namespace router {
namespace {

constexpr conf::Word<PolicyKind> kPolicyWords[] = {{"least-load", PolicyKind::kLeastLoad},
                                                   {"round-robin", PolicyKind::kRoundRobin},
                                                   {"power-of-two", PolicyKind::kPowerOfTwo},
                                                   {"weighted", PolicyKind::kWeighted},
                                                   {"random", PolicyKind::kRandom},
                                                   {"least-requests", PolicyKind::kLeastRequests},
                                                   {"consistent-hash", PolicyKind::kConsistentHash},
                                                   {"cache-aware", PolicyKind::kCacheAware},
                                                   {"epp", PolicyKind::kEpp},
                                                   {"kv-cost", PolicyKind::kKvCost},
                                                   {"cost", PolicyKind::kCost}};
static_assert(std::size(kPolicyWords) == kPolicyKinds);

class Faults {
 public:
  void Add(std::string fault) {
    if (!text_.empty()) text_ += '\n';
    text_ += fault;
  }
  bool empty() const { return text_.empty(); }
  absl::Status ToStatus() const { return absl::InvalidArgumentError(text_); }

 private:
  std::string text_;
};

void CheckReplicas(const ModelSpec& model, absl::flat_hash_set<std::string>& identities, Faults& faults) {
  double total = 0;
  for (const ReplicaSpec& replica : model.replicas) {
    if (replica.identity.empty()) {
      faults.Add(fmt::format("model \"{}\": a replica has no identity", model.name));
    } else if (!identities.insert(replica.identity).second) {
      faults.Add(fmt::format("model \"{}\": replica \"{}\" is listed twice", model.name, replica.identity));
    }
    if (!std::isfinite(replica.weight) || replica.weight < 0 || replica.weight > 1e6) {
      faults.Add(fmt::format("model \"{}\": replica \"{}\" has weight {}; it must be from 0 to 1000000",
                             model.name, replica.identity, replica.weight));
    }
    if (replica.track.empty()) total += replica.weight;
  }
  if (!model.replicas.empty() && total == 0 && !model.discovers && !model.launches) {
    faults.Add(fmt::format(
        "model \"{}\": the weights of its stable replicas sum to 0; give one a weight above 0", model.name));
  }
}

void CheckCost(const ModelSpec& model, Faults& faults) {
  const CostWeights& cost = model.cost;
  const std::pair<std::string_view, double> weights[] = {{"running", cost.running},
                                                         {"pool", cost.pool},
                                                         {"decode", cost.decode},
                                                         {"pressure", cost.pressure},
                                                         {"usual_silence", cost.usual_silence},
                                                         {"other_zone", cost.other_zone},
                                                         {"adapter_load", cost.adapter_load}};
  for (const auto& [name, weight] : weights) {
    if (std::isfinite(weight) && weight >= 0 && weight <= 1e6) continue;
    faults.Add(fmt::format("model \"{}\": cost weight {} is {}; it must be from 0 to 1000000", model.name,
                           name, weight));
  }
}

void CheckCanaries(const ModelSpec& model, Faults& faults) {
  double sum = 0;
  for (const CanarySpec& canary : model.canaries) {
    if (model.base.empty() && !model.discovers && !canary.may_be_empty &&
        std::ranges::none_of(model.replicas, [&](const auto& r) { return r.track == canary.track; })) {
      faults.Add(fmt::format("model \"{}\": no replica has the track \"{}\"", model.name, canary.track));
    }
    if (!(canary.percent >= 0))
      faults.Add(fmt::format("model \"{}\": canary \"{}\" takes {} %; it must be from 0 to 100", model.name,
                             canary.track, canary.percent));
    sum += canary.percent;
  }
  if (!(sum <= 100)) {
    faults.Add(fmt::format("model \"{}\": its canaries take {} % of the requests; 100 % is the most",
                           model.name, sum));
  }
}

}  // namespace

absl::StatusOr<RouteTable> RouteTable::Build(std::vector<ModelSpec> specs, std::string_view zone) {
  RouteTable table;
  Faults faults;
  absl::flat_hash_set<std::string> identities;
  table.models_.reserve(specs.size());
  for (ModelSpec& spec : specs) {
    const auto id = static_cast<ModelId>(table.models_.size());
    const auto claim = [&](const std::string& name) {
      if (name.empty()) {
        faults.Add(fmt::format("model \"{}\": a name is empty", spec.name));
      } else if (!table.names_.emplace(name, id).second) {
        faults.Add(fmt::format("the name \"{}\" is given to two models", name));
      }
    };
    claim(spec.name);
    for (const std::string& alias : spec.aliases) claim(alias);
    CheckReplicas(spec, identities, faults);
    CheckCost(spec, faults);
    CheckCanaries(spec, faults);
    if (!spec.base.empty() && !spec.replicas.empty())
      faults.Add(fmt::format("model \"{}\" is served by \"{}\" and must not have replicas of its own",
                             spec.name, spec.base));
    Model model{id,
                id,
                {},
                static_cast<uint32_t>(table.replicas_.size()),
                static_cast<uint32_t>(spec.replicas.size()),
                {},
                {},
                false,
                AdapterId::kNone,
                {}};
    for (ReplicaSpec& replica : std::exchange(spec.replicas, {})) {
      std::string quoted =
          replica.upstream_model.empty() ? std::string() : conf::Quoted(replica.upstream_model);
      const bool local = zone.empty() || replica.zone.empty() || replica.zone == zone;
      model.zoned |= !local;
      table.replicas_.push_back({static_cast<ReplicaId>(table.replicas_.size()), id,
                                 table.InternTrack(replica.track), local, std::move(replica),
                                 std::move(quoted)});
    }
    for (const CanarySpec& canary : spec.canaries)
      model.canaries.push_back({table.InternTrack(canary.track), canary.percent});
    model.spec = std::move(spec);
    table.models_.push_back(std::move(model));
  }
  for (Model& model : table.models_) {
    if (std::string fault = table.ServeByBase(model); !fault.empty()) faults.Add(std::move(fault));
    for (const FallbackSpec& spec : model.spec.fallbacks) {
      const std::optional<ModelId> fallback = table.Find(spec.model);
      if (!fallback) {
        faults.Add(fmt::format("model \"{}\": fallback \"{}\" is not a model", model.spec.name, spec.model));
      } else if (*fallback == model.id) {
        faults.Add(fmt::format("model \"{}\" falls back to itself", model.spec.name));
      } else {
        model.fallbacks.push_back({*fallback, spec.on});
      }
    }
  }
  if (!faults.empty()) return faults.ToStatus();
  return table;
}

// Gives an adapter its base's replicas. Returns what is wrong, or an empty string.
std::string RouteTable::ServeByBase(Model& model) {
  if (model.spec.base.empty()) return {};
  const std::optional<ModelId> found = Find(model.spec.base);
  if (!found)
    return fmt::format("model \"{}\": its base \"{}\" is not a model", model.spec.name, model.spec.base);
  const Model& base = models_[static_cast<size_t>(*found)];
  if (!base.spec.base.empty()) {
    return fmt::format("model \"{}\": its base \"{}\" is an adapter; name a model with replicas",
                       model.spec.name, model.spec.base);
  }
  if (model.spec.adapter.empty())
    return fmt::format("model \"{}\": its adapter has no name", model.spec.name);
  model.served_by = base.id;
  model.first_replica = base.first_replica;
  model.replica_count = base.replica_count;
  model.zoned = base.zoned;
  model.spec.prefill_transfer = base.spec.prefill_transfer;
  model.adapter = AdapterIdOf(model.spec.adapter);
  model.adapter_json = conf::Quoted(model.spec.adapter);
  return {};
}

std::optional<ModelId> RouteTable::Find(std::string_view name_or_alias) const {
  const auto found = names_.find(conf::Abseil(name_or_alias));
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

TrackId RouteTable::InternTrack(const std::string& name) {
  const auto found = std::ranges::find(tracks_, name);
  if (found != tracks_.end()) return static_cast<TrackId>(found - tracks_.begin());
  tracks_.push_back(name);
  return static_cast<TrackId>(tracks_.size() - 1);
}

TrackId RouteTable::TrackNamed(std::string_view name) const {
  const auto found = std::ranges::find(tracks_, name);
  return found == tracks_.end() ? kStable : static_cast<TrackId>(found - tracks_.begin());
}

bool LooksAtPrompt(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kConsistentHash:
    case PolicyKind::kCacheAware:
    case PolicyKind::kEpp:
    case PolicyKind::kKvCost:
    case PolicyKind::kCost:
      return true;
    case PolicyKind::kLeastLoad:
    case PolicyKind::kRoundRobin:
    case PolicyKind::kPowerOfTwo:
    case PolicyKind::kWeighted:
    case PolicyKind::kRandom:
    case PolicyKind::kLeastRequests:
      break;
  }
  return false;
}

bool FallsBackOn(FallbackOn condition, const ModelSpec& model) {
  return std::ranges::any_of(model.fallbacks, [&](const FallbackSpec& f) { return (f.on & condition) != 0; });
}

std::string_view PolicyName(PolicyKind kind) {
  return conf::WordOf(kPolicyWords, kind);
}

std::optional<PolicyKind> PolicyByName(std::string_view name) {
  return conf::ValueOf(kPolicyWords, name);
}

conf::Words<PolicyKind> PolicyWords() {
  return kPolicyWords;
}

}  // namespace router
