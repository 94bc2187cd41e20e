#include "router/admission/headroom_search.h"

#include <algorithm>

#include "router/candidates.h"
#include "router/relaxed.h"

namespace router {

HeadroomFound FindHeadroom(const RouteTable& table, ModelId model, const LoadView& load, uint32_t enough,
                           conf::TimePoint now) {
  const ModelSpec& spec = table.model(model).spec;
  const Candidates all(spec, table.replicas(model), load, {}, now, true);
  std::atomic<uint32_t>& hint = load.cell(model).headroom_hint;
  const uint32_t size = all.size();
  const uint32_t begin = size > 0 ? hint.load(kRelaxed) % size : 0;
  HeadroomFound found;
  std::optional<conf::TimePoint> rested_at;
  uint32_t next = begin;
  uint32_t scanned = 0;
  for (; scanned < std::min(size, kMaxHeadroomScan) && found.replicas < enough; ++scanned) {
    const uint32_t place = (begin + scanned) % size;
    const ReplicaState& state = all.state(place);
    if (!all.Usable(place)) {
      if (all.weight(place) > 0 && state.breaker.IsResting(now)) {
        const conf::TimePoint at = state.breaker.RetryAt(now);
        rested_at = std::min(rested_at.value_or(at), at);
      }
      continue;
    }
    found.usable = true;
    if (!all.HasHeadroomFor(place, {})) continue;
    if (found.replicas++ == 0) next = place;
  }
  if (found.replicas == 0 && size > 0) next = (begin + scanned) % size;
  if (next != begin) hint.store(next, kRelaxed);
  if (!found.usable && !FallsBackOn(kOnOverloaded, spec)) found.rested_at = rested_at;
  return found;
}

void HintHeadroomAt(const RouteTable& table, ModelId model, const LoadView& load, ReplicaId replica) {
  const std::span<const Replica> replicas = table.replicas(model);
  if (replicas.size() <= kMaxHeadroomScan) return;
  if (replica < replicas.front().id || replica > replicas.back().id) return;
  const uint32_t place = static_cast<uint32_t>(replica) - static_cast<uint32_t>(replicas.front().id);
  load.cell(model).headroom_hint.store(place, kRelaxed);
}

}  // namespace router
