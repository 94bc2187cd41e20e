// The replicas that Tidegate runs, the demand of each model, and the reasons.
#include <fmt/format.h>

#include "conf/time.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "gateway/config/scaling_policy.h"

namespace gateway::admin {
namespace {

using control::ReplicaState;
using nlohmann::ordered_json;

ordered_json OrNull(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json DevicesOf(const control::MemberPlace& member) {
  ordered_json devices = ordered_json::array();
  for (const uint8_t device : member.devices) devices.push_back(std::to_string(device));
  return devices;
}

}  // namespace

Answer ListReplicas(const Operations& operations, const Call& call) {
  const std::string only = call.Query("model");
  std::vector<ordered_json> all;
  for (const control::ReplicaStatus& replica : operations.scaling().replicas) {
    if (!only.empty() && replica.model != only) continue;
    ordered_json& out = all.emplace_back();
    out["id"] = replica.run;
    out["model"] = replica.model;
    out["state"] = Name(replica.state);
    const control::MemberPlace leader = replica.members.empty() ? control::MemberPlace() : replica.members[0];
    out["node"] = OrNull(leader.node);
    out["device_kind"] = OrNull(leader.kind);
    out["devices"] = DevicesOf(leader);
    out["members"] = ordered_json::array();
    for (size_t rank = 0; rank < replica.members.size(); ++rank) {
      const control::MemberPlace& member = replica.members[rank];
      out["members"].push_back({{"rank", rank},
                                {"run", member.run},
                                {"node", member.node},
                                {"device_kind", OrNull(member.kind)},
                                {"devices", DevicesOf(member)},
                                {"state", member.state},
                                {"reason", OrNull(member.why)}});
    }
    out["address"] = OrNull(replica.address);
    out["age_ms"] = conf::ToMillis(call.now - replica.wanted);
    out["in_state_ms"] = conf::ToMillis(call.now - replica.since);
    out["adopted"] = replica.adopted;
    out["outstanding_requests"] = replica.in_flight;
    out["reason"] = replica.why;
  }
  return ListPage(all, "id", call);
}

Answer ListScaling(const Operations& operations, const Call& call) {
  const std::string only = call.Query("model");
  std::vector<ordered_json> all;
  const control::Status status = operations.scaling();
  for (const control::ModelStatus& model : status.models) {
    if (!only.empty() && model.model != only) continue;
    ordered_json& out = all.emplace_back();
    out["model"] = model.model;
    out["policy"] = model.policy;
    out["law"] = model.law;
    out["min"] = model.min;
    out["max"] = model.max;
    out["demand"] = model.demand;
    out["wanted"] = model.wanted;
    out["reason"] = model.why;
    out["headroom"] = model.headroom;
    out["capacity_by"] = model.capacity;
    out["outstanding_requests"] = model.in_flight;
    out["held_requests"] = model.held;
    for (size_t s = 0; s < control::kReplicaStates; ++s)
      out[std::string(Name(static_cast<ReplicaState>(s)))] = model.replicas[s];
    out["failed_starts"] = model.failures;
    out["next_start"] = model.next_start ? ordered_json(conf::FormatTime(*model.next_start)) : ordered_json();
    out["trouble"] = OrNull(model.trouble);
    out["cold_starts"] = ordered_json::array();
    for (const control::ColdStart& start : status.cold_starts) {
      if (start.model != model.model) continue;
      out["cold_starts"].push_back({{"device_kind", OrNull(start.kind)},
                                    {"starts", start.starts},
                                    {"p50_ms", conf::ToMillis(start.p50)},
                                    {"p90_ms", conf::ToMillis(start.p90)}});
    }
    out["classes"] = ordered_json::array();
    for (const control::ClassStatus& of : model.classes) {
      out["classes"].push_back({{"class", of.name},
                                {"requests", of.came},
                                {"refused_requests", of.refused},
                                {"first_tokens_in_time", of.in_time},
                                {"first_tokens_late", of.late},
                                {"first_tokens_hopeless", of.hopeless},
                                {"outstanding_requests", of.at_replicas},
                                {"held_requests", of.waiting},
                                {"held_prompt_tokens", of.waiting_tokens},
                                {"oldest_ms", conf::ToMillis(of.oldest)}});
    }
  }
  return ListPage(all, "model", call);
}

Answer ShowScalingHistory(const Operations& operations, const Call& call) {
  const std::optional<control::ScalingHistory> history = operations.scaling_history(call.item);
  if (!history) {
    return Refuse(api::Code::kNotFound,
                  fmt::format("no policy of this gateway is for a model \"{}\"", call.item), call.request_id);
  }
  ordered_json out;
  out["model"] = call.item;
  out["file"] = history->file;
  out["policy"] = config::ToJson(history->policy);
  out["members"] = history->members;
  out["devices_per_replica"] = history->devices;
  out["cold_start_p90_ms"] =
      history->cold_start ? ordered_json(conf::ToMillis(*history->cold_start)) : ordered_json();
  out["steps"] = ordered_json::array();
  for (const scheduler::autoscale::Observed& step : history->steps) {
    out["steps"].push_back({{"at", conf::FormatTime(step.at)},
                            {"seconds", step.seconds},
                            {"work", step.work},
                            {"arrivals_per_second", step.arrivals},
                            {"outstanding_requests", step.in_flight},
                            {"held_requests", step.held},
                            {"occupied", step.occupied},
                            {"ready", step.ready},
                            {"there", step.there},
                            {"demand", step.demand}});
  }
  return Json(out);
}

}  // namespace gateway::admin
