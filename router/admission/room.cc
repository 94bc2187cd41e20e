#include "router/admission/room.h"

#include <algorithm>

#include "router/pick.h"

namespace router {
namespace {

constexpr double kFullKv = 0.97;
constexpr double kFewWaiting = 8;  // or a quarter of what runs: as for a veto of the policy `cost`
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

bool HasRoom(const Signals& s, const RoomSpec& spec, double spared) {
  if (s.requests < 1) return true;
  const double runs = spec.max_running > 0 ? spec.max_running : s.max_running;
  const bool begins_soon =
      !s.rate_measured || s.backlog < (conf::ToSeconds(spec.busy_for) + spared) * s.prefill_rate;
  return s.requests < runs && s.waiting < std::max(kFewWaiting, runs / 4) && s.kv_use < kFullKv &&
         begins_soon;
}

RoomFound LookForRoom(const RouteTable& table, ModelId model, const LoadView& load, uint32_t enough,
                      conf::TimePoint now) {
  const ModelSpec& spec = table.model(model).spec;
  const std::span<const Replica> replicas = table.replicas(model);
  const Candidates all(spec, replicas, load, {}, now, true);
  std::atomic<uint32_t>& room_at = load.cell(model).room_at;
  const uint32_t size = all.size();
  const uint32_t begin = size > 0 ? room_at.load(kRelaxed) % size : 0;
  RoomFound found;
  uint32_t next = begin;
  uint32_t looked = 0;
  for (; looked < std::min(size, kRoomLooks) && found.replicas < enough; ++looked) {
    const uint32_t place = (begin + looked) % size;
    const ReplicaState& state = all.state(place);
    if (!all.Usable(place)) {
      found.usable = found.usable || (all.weight(place) > 0 && state.breaker.IsResting(now));
      continue;
    }
    found.usable = true;
    if (!all.HasRoomFor(place, {})) continue;
    if (found.replicas++ == 0) next = place;
  }
  if (found.replicas == 0 && size > 0) next = (begin + looked) % size;
  if (next != begin) room_at.store(next, kRelaxed);
  return found;
}

void RoomMayBeAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica) {
  const std::span<const Replica> replicas = table.replicas(model);
  if (replicas.size() <= kRoomLooks || replica < replicas.front().id || replica > replicas.back().id) return;
  const uint32_t place = static_cast<uint32_t>(replica) - static_cast<uint32_t>(replicas.front().id);
  load.cell(model).room_at.store(place, kRelaxed);
}

}  // namespace router
