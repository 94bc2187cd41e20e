// The requests that wait at the gateway, and why.
#include <fmt/format.h>

#include <algorithm>

#include "conf/shown.h"
#include "conf/time.h"
#include "gateway/admin/answers/traffic.h"
#include "gateway/admin/handlers.h"
#include "gateway/admin/input.h"
#include "router/admission/dispatch_plan.h"
#include "router/load/headroom.h"

namespace gateway::admin {
namespace {

// Of one queue, whatever waits in it.
constexpr size_t kShown = 100;

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
  if (standing.ahead > 0)
    return fmt::format("about {} {} first", conf::Counted(standing.ahead, "request"),
                       standing.ahead == 1 ? "goes" : "go");
  if (room.replicas == 0) return "no replica can be used";
  if (room.with_room == 0)
    return room.replicas == 1 ? "its replica has no room"
                              : fmt::format("none of {} replicas has room", room.replicas);
  return room.planned ? "the replica that serves it best has no room for its prompt yet"
                      : "its turn has come";
}

}  // namespace

Answer ListQueues(const Operations&, const Call& call) {
  std::vector<answers::Queue> all;
  const std::string only = call.Query("model");
  for (const ModelRuntime& model : call.runtime->models()) {
    const std::string& name = model.config->name;
    if (!only.empty() && name != only) continue;
    if (model.config->lora) continue;  // its requests wait in the queue of its base
    const config::Queue config = model.queue.value_or(config::Queue());
    const ModelQueue::View view = model.waits->Describe(call.now, kShown);
    const Room room = RoomOf(*call.runtime, *call.runtime->routes().Find(name), call.now);
    answers::Queue& out = all.emplace_back();
    out.model = name;
    out.enabled = model.queue.has_value();
    out.max_requests = config.max_requests;
    out.max_bytes = config.max_bytes;
    out.drain_per_second = view.drain_per_second;
    out.replicas = room.replicas;
    out.replicas_with_room = room.with_room;
    for (const ModelQueue::Band& band : view.bands) {
      out.waiting += band.waiting;
      out.bytes += band.bytes;
      const auto spec = std::ranges::find(config.bands, band.name, &config::Band::name);
      out.bands.push_back({.name = band.name,
                           .reserved = spec == config.bands.end() ? 0.0 : spec->reserved,
                           .waiting = band.waiting,
                           .bytes = band.bytes,
                           .oldest_ms = conf::ToMillis(band.oldest)});
    }
    out.expected_wait_ms = out.waiting > 0 ? answers::MillisOrNull(view.expected_wait) : 0;
    for (const ModelQueue::Standing& standing : view.requests) {
      out.requests.push_back({.request_id = standing.request,
                              .tenant = standing.tenant,
                              .band = standing.band,
                              .ahead = standing.ahead,
                              .waited_ms = conf::ToMillis(standing.waited),
                              .expected_wait_ms = answers::MillisOrNull(standing.expected_wait),
                              .reason = WhyOf(standing, room)});
    }
  }
  return ListPage(std::move(all), &answers::Queue::model, call);
}

}  // namespace gateway::admin
