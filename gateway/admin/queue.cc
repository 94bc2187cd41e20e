// The requests that wait at the gateway, and why.
#include <fmt/format.h>

#include <algorithm>

#include "conf/time.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "router/admission/dispatch_plan.h"
#include "router/load/headroom.h"

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

// Of one queue, whatever waits in it.
constexpr size_t kShown = 100;

ordered_json Millis(const std::optional<conf::Duration>& d) {
  return d ? ordered_json(conf::ToMillis(*d)) : ordered_json();
}

struct Room {
  size_t replicas = 0;   // that take requests
  size_t with_room = 0;  // for a short prompt, at least
  bool planned = false;  // a request waits for the replica that serves it best
};

Room RoomOf(const Runtime& runtime, ModelId model, conf::TimePoint now) {
  const router::ModelSpec& spec = runtime.routes().model(model).spec;
  Room room{.planned = router::WaitsForBestReplica(spec)};
  for (const router::Replica& replica : runtime.routes().replicas(model)) {
    const router::ReplicaState& state = runtime.load()[replica.id];
    if (replica.spec.weight <= 0 || !state.health.Usable() || !state.breaker.Allows(now)) continue;
    ++room.replicas;
    if (router::HasHeadroom(spec, replica.spec, state.engine.ReadObserved(now))) ++room.with_room;
  }
  return room;
}

std::string WhyOf(const ModelQueue::Standing& standing, const Room& room) {
  if (standing.ahead > 0) return fmt::format("about {} requests go first", standing.ahead);
  if (room.replicas == 0) return "no replica can be used";
  if (room.with_room == 0) return fmt::format("none of {} replicas has room", room.replicas);
  return room.planned ? "the replica that serves it best has no room for its prompt yet"
                      : "its turn has come";
}

}  // namespace

Answer ListQueues(const Operations&, const Call& call) {
  std::vector<ordered_json> all;
  const std::string only = call.Query("model");
  for (const ModelRuntime& model : call.runtime->models()) {
    const std::string& name = model.config->name;
    if (!only.empty() && name != only) continue;
    if (model.config->lora) continue;  // its requests wait in the queue of its base
    const config::Queue config = model.queue.value_or(config::Queue());
    const ModelQueue::View view = model.waits->Describe(call.now, kShown);
    const Room room = RoomOf(*call.runtime, *call.runtime->routes().Find(name), call.now);
    ordered_json& out = all.emplace_back();
    uint64_t waiting = 0;
    uint64_t bytes = 0;
    ordered_json bands = ordered_json::array();
    for (const ModelQueue::Band& band : view.bands) {
      waiting += band.waiting;
      bytes += band.bytes;
      const auto spec = std::ranges::find(config.bands, band.name, &config::Band::name);
      bands.push_back({{"name", band.name},
                       {"reserved", spec == config.bands.end() ? 0.0 : spec->reserved},
                       {"waiting", band.waiting},
                       {"bytes", band.bytes},
                       {"oldest_ms", conf::ToMillis(band.oldest)}});
    }
    out["model"] = name;
    out["enabled"] = model.queue.has_value();
    out["waiting"] = waiting;
    out["bytes"] = bytes;
    out["max_requests"] = config.max_requests;
    out["max_bytes"] = config.max_bytes;
    out["expected_wait_ms"] = waiting > 0 ? Millis(view.expected_wait) : ordered_json(0);
    out["drain_per_second"] = view.drain_per_second;
    out["replicas"] = room.replicas;
    out["replicas_with_room"] = room.with_room;
    out["bands"] = std::move(bands);
    out["requests"] = ordered_json::array();
    for (const ModelQueue::Standing& standing : view.requests) {
      out["requests"].push_back({{"request_id", standing.request},
                                 {"tenant", standing.tenant},
                                 {"band", standing.band},
                                 {"ahead", standing.ahead},
                                 {"waited_ms", conf::ToMillis(standing.waited)},
                                 {"expected_wait_ms", Millis(standing.expected_wait)},
                                 {"reason", WhyOf(standing, room)}});
    }
  }
  return ListPage(all, "model", call);
}

}  // namespace gateway::admin
