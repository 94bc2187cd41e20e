#include "router/load/occupied.h"

#include <algorithm>

#include "router/load/headroom.h"

namespace router {

double OccupiedOf(const EngineSignals& engine, const scheduler::autoscale::Capacity& capacity,
                  const HeadroomLimits& room, conf::Duration inter_token, conf::TimePoint now) {
  if (IsFull(engine.ReadObserved(now), room)) return 1;
  const ReplicaSignals signals = engine.Read(now);
  if (signals.requests < 1) return 0;  // the contents of an idle cache are no load
  const double context = signals.kv_use * capacity.kv_tokens / signals.requests;
  const double most = MostInTime(capacity, context, inter_token);
  const double part = std::clamp(std::max(signals.requests / most, signals.kv_use), 0.0, 1.0);
  return part * std::max(0.0, signals.requests - signals.spare) / signals.requests;
}

}  // namespace router
