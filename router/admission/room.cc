#include "router/admission/room.h"

#include <algorithm>

#include "router/admission/turn_plan.h"
#include "router/pick.h"
#include "router/relaxed.h"

namespace router {
namespace {

constexpr double kFullKv = 0.97;
// A queue is more than these, or than that part of what runs: as for a veto of the policy `cost`.
constexpr double kFewQueued = 8;
constexpr double kFewOfRunning = 0.25;
// Where no first token has come yet.
constexpr double kUnmeasuredWaiting = 64;
// Of `busy_for`, what may stand before a prompt however long that is.
constexpr double kAnyone = 0.1;

}  // namespace

bool IsFull(const SeenSignals& s, const RoomSpec& spec) {
  const double most = spec.max_running > 0 ? spec.max_running : s.max_running;
  if (most > 0 && s.requests >= most) return true;
  return s.full_batch > 0 && s.requests >= s.full_batch + std::max(kFewQueued, kFewOfRunning * s.full_batch);
}

bool HasRoom(const SeenSignals& s, const RoomSpec& spec, const Prompt& prompt, WaitsFor waits) {
  if (s.requests < 1) return true;
  if (IsFull(s, spec) || s.kv_use >= kFullKv) return false;
  const bool any = waits == WaitsFor::kAny;
  const double busy_for = conf::ToSeconds(spec.busy_for);
  const double before_anyone = any ? busy_for : kAnyone * busy_for;
  const double own = prompt.computed / s.prefill_rate;
  const double spared = prompt.held / s.prefill_rate;
  const double before = std::max(before_anyone, busy_for - own) + (any ? s.alone : s.latency) + spared;
  if (s.rate_measured && s.backlog >= before * s.prefill_rate) return false;
  const double wait = before_anyone + s.alone + spared;
  const double few = s.first_tokens > 0 ? std::max(kFewQueued, wait * s.first_tokens) : kUnmeasuredWaiting;
  return s.waiting < few;
}

bool HasRoom(const ModelSpec& model, const ReplicaSpec& replica, const SeenSignals& seen,
             const Prompt& prompt) {
  if (!model.room) return true;
  const WaitsFor waits = TurnPlan::Plans(model) ? WaitsFor::kThis : WaitsFor::kAny;
  if (replica.room_known) return HasRoom(seen, *model.room, prompt, waits);
  return model.room->max_running <= 0 || seen.requests < model.room->max_running;
}

bool IsFull(const ModelSpec& model, const ReplicaSpec& replica, const SeenSignals& seen) {
  if (!model.room || seen.requests < 1) return false;
  if (replica.room_known) return IsFull(seen, *model.room);
  return model.room->max_running > 0 && seen.requests >= model.room->max_running;
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
  std::optional<conf::TimePoint> rested_at;
  uint32_t next = begin;
  uint32_t looked = 0;
  for (; looked < std::min(size, kRoomLooks) && found.replicas < enough; ++looked) {
    const uint32_t place = (begin + looked) % size;
    const ReplicaState& state = all.state(place);
    if (!all.Usable(place)) {
      if (all.weight(place) > 0 && state.breaker.IsResting(now)) {
        const conf::TimePoint at = state.breaker.RetryAt(now);
        rested_at = std::min(rested_at.value_or(at), at);
      }
      continue;
    }
    found.usable = true;
    if (!all.HasRoomFor(place, {})) continue;
    if (found.replicas++ == 0) next = place;
  }
  if (found.replicas == 0 && size > 0) next = (begin + looked) % size;
  if (next != begin) room_at.store(next, kRelaxed);
  if (!found.usable && !FallsBackOn(kOnOverloaded, spec)) found.rested_at = rested_at;
  return found;
}

void RoomMayBeAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica) {
  const std::span<const Replica> replicas = table.replicas(model);
  if (replicas.size() <= kRoomLooks || replica < replicas.front().id || replica > replicas.back().id) return;
  const uint32_t place = static_cast<uint32_t>(replica) - static_cast<uint32_t>(replicas.front().id);
  load.cell(model).room_at.store(place, kRelaxed);
}

}  // namespace router
