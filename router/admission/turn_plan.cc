#include "router/admission/turn_plan.h"

#include <algorithm>

#include "router/admission/room.h"

namespace router {

bool TurnPlan::Plans(const ModelSpec& model) {
  return model.room && model.policy == PolicyKind::kCost && !model.handover && model.adapter.empty();
}

TurnPlan::TurnPlan(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
                   scheduler::Rng& rng)
    : model_(table.model(model)),
      candidates_(model_.spec, table.replicas(model), load, {}, now, true, {.shunned = {.suspected = true}}),
      plan_(
          candidates_,
          [this, now](uint32_t place) {
            const SeenSignals seen = candidates_.state(place).engine.ReadSeen(now);
            return IsFull(model_.spec, candidates_.replica(place).spec, seen);
          },
          load.cell(model), rng) {}

TurnPlan::Going TurnPlan::Ask(const PickFacts& facts) {
  if (!Plans(model_.spec) || facts.of_session || facts.track != kStable) return {};
  const std::optional<Choice> best = plan_.Next(facts);
  if (!best) return {};
  const auto compute = std::chrono::duration<double>(std::min(best->terms.compute, 3600.0));
  return {.now = candidates_.HasRoomFor(best->place, facts),
          .compute = std::chrono::duration_cast<conf::Duration>(compute)};
}

bool AllHaveRoom(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now) {
  if (!TurnPlan::Plans(table.model(model).spec)) return true;
  const auto looks = std::min<uint32_t>(kRoomLooks, static_cast<uint32_t>(table.replicas(model).size()));
  return LookForRoom(table, model, load, looks, now).replicas >= looks;
}

}  // namespace router
