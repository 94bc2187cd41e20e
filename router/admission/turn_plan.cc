#include "router/admission/turn_plan.h"

#include <algorithm>

#include "router/admission/room.h"

namespace router {

bool TurnPlan::Plans(const ModelSpec& model) {
  return model.room && model.policy == PolicyKind::kCost && !model.handover;
}

TurnPlan::TurnPlan(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
                   scheduler::Rng& rng)
    : table_(table),
      load_(load),
      now_(now),
      plan_(
          [this, model](uint32_t place) {
            const Replica& replica = table_.replicas(model)[place];
            return IsFull(table_.model(model).spec, replica.spec, load_[replica.id].engine.ReadSeen(now_));
          },
          load.cell(model), rng) {}

TurnPlan::Going TurnPlan::Ask(ModelId asked, const PickFacts& facts) {
  const Model& model = table_.model(asked);
  if (!Plans(model.spec) || facts.of_session || facts.track != kStable) return {};
  const Candidates candidates(
      model.spec, table_.replicas(asked), load_, {}, now_, true,
      {.shunned = {.suspected = true}, .adapter = {.id = model.adapter, .homes = load_.homes(asked)}});
  const std::optional<Choice> best = plan_.Next(candidates, facts);
  if (!best) return {};
  const auto takes =
      std::chrono::duration<double>(std::min(best->terms.compute + best->terms.adapter, 3600.0));
  return {.now = candidates.HasRoomFor(best->place, facts),
          .takes = std::chrono::duration_cast<conf::Duration>(takes)};
}

std::optional<Turn> NextToGo(AdmissionQueue& queue, const RouteTable& table, ModelId model,
                             const LoadView& load, uint32_t called, bool may_start, conf::TimePoint now,
                             scheduler::Rng& rng, absl::FunctionRef<Asking(WaitTicket)> who) {
  const RoomFound room = LookForRoom(table, model, load, called + 1, now);
  if ((room.expected() || may_start) && room.replicas <= called) return std::nullopt;
  TurnPlan plan(table, model, load, now, rng);
  return queue.Next(now, TurnPlan::kLooks, [&](WaitTicket ticket) {
    const Asking asking = who(ticket);
    return plan.Ask(asking.model, *asking.facts).now;
  });
}

bool AllHaveRoom(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now) {
  if (!TurnPlan::Plans(table.model(model).spec)) return true;
  const auto looks = std::min<uint32_t>(kRoomLooks, static_cast<uint32_t>(table.replicas(model).size()));
  return LookForRoom(table, model, load, looks, now).replicas >= looks;
}

}  // namespace router
