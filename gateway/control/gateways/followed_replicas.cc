#include "gateway/control/gateways/followed_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "conf/text.h"
#include "gateway/control/scaling/capacity.h"
#include "gateway/log.h"
#include "gateway/store/kinds.h"

namespace gateway::control {
namespace {

std::string IdentityOf(const ServedReplica& replica) {
  return fmt::format("{}@{}", replica.model, replica.address.replica);
}

}  // namespace

std::optional<ServedReplica> ReadServedReplica(const std::string& id, const std::string& body) {
  try {
    const nlohmann::json in = nlohmann::json::parse(body);
    if (!in.contains("model") || in.at("members").empty()) return std::nullopt;
    const nlohmann::json& leader = in["members"].front();
    ServedReplica replica;
    replica.model = in["model"].get<std::string>();
    replica.version = in.value("version", "");
    replica.address = {.replica = id,
                       .host = leader.value("host", ""),
                       .port = leader.value("port", uint16_t{0}),
                       .keyed = in.value("keyed", false)};
    replica.serves = in.value("serves", false);
    if (replica.address.host.empty() || replica.address.port == 0) return std::nullopt;
    return replica;
  } catch (const std::exception& error) {
    log::Error("the record of a workload cannot be read", {{"workload", id}, {"why", error.what()}});
  }
  return std::nullopt;
}

FollowedReplicas::FollowedReplicas(net::Loop& loop, store::Store& store, Environment env)
    : store_(store),
      env_(std::move(env)),
      follower_(loop, store, store::kWorkload,
                {.replace = [this](const std::vector<store::Object>& all) { Replace(all); },
                 .apply = [this](const std::vector<store::Change>& changes) { Apply(changes); }}) {}

net::Task<absl::Status> FollowedReplicas::Start() {
  absl::StatusOr<ReplicaKeys> keys = co_await ReplicaKeys::Load(store_);
  if (!keys.ok()) co_return keys.status();
  keys_ = *std::move(keys);
  co_return co_await follower_.Start();
}

void FollowedReplicas::Replace(const std::vector<store::Object>& all) {
  replicas_.clear();
  for (const store::Object& object : all) {
    if (std::optional<ServedReplica> replica = ReadServedReplica(object.id, object.body))
      replicas_[object.id] = *std::move(replica);
  }
  env_.changed();
}

void FollowedReplicas::Apply(const std::vector<store::Change>& changes) {
  bool changed = false;
  for (const store::Change& change : changes) {
    const auto known = replicas_.find(change.id);
    std::optional<ServedReplica> now =
        change.body ? ReadServedReplica(change.id, *change.body) : std::nullopt;
    if (known == replicas_.end() ? !now : now == known->second) continue;
    changed = true;
    if (now) {
      replicas_[change.id] = *std::move(now);
    } else {
      replicas_.erase(known);
    }
  }
  if (changed) env_.changed();
  env_.workloads_changed();
}

Launched FollowedReplicas::Serving() const {
  Launched serving;
  for (const auto& [id, replica] : replicas_) {
    const config::ModelPolicy* const policy = replica.serves ? env_.policy(replica.model) : nullptr;
    // Absent: since a reload, Kubernetes starts the model's replicas.
    if (policy == nullptr || !policy->replica) continue;
    const auto endpoint = EndpointOf(replica.address, config::TemplateOf(*policy, replica.version), keys_);
    serving[replica.model].push_back(InRole(endpoint, env_.role(*policy, replica.version), replica.version));
  }
  return serving;
}

bool FollowedReplicas::Serves(const std::string& replica) const {
  const auto known = replicas_.find(replica);
  return known != replicas_.end() && known->second.serves;
}

std::map<std::string, uint32_t, std::less<>> FollowedReplicas::Leaving() const {
  std::map<std::string, uint32_t, std::less<>> leaving;
  for (const auto& [id, replica] : replicas_) {
    if (replica.serves) continue;
    const int64_t requests = env_.load(IdentityOf(replica))->load.requests();
    if (requests > 0) leaving[id] = static_cast<uint32_t>(std::min<int64_t>(requests, UINT32_MAX));
  }
  return leaving;
}

void FollowedReplicas::EstimateCapacities(const std::vector<config::ModelPolicy>& policies,
                                          ScalingHintsByModel& hints, conf::TimePoint now) const {
  for (const config::ModelPolicy& policy : policies) {
    if (!policy.replica) continue;  // the cluster starts its replicas
    const std::string& model = policy.model();
    std::vector<std::shared_ptr<router::ReplicaState>> states;
    std::vector<const router::EngineSignals*> engines;
    for (const auto& [id, replica] : replicas_) {
      if (!replica.serves || replica.model != model) continue;
      states.push_back(env_.load(IdentityOf(replica)));
      engines.push_back(&states.back()->engine);
    }
    hints.Get(model)->SetCapacity(EstimateCapacity(policy.replica->preset, engines, now).capacity);
  }
}

}  // namespace gateway::control
