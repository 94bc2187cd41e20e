#include "router/admission/dispatch_plan.h"

#include <algorithm>

#include "router/admission/headroom_search.h"
#include "router/load/headroom.h"

namespace router {

DispatchPlan::DispatchPlan(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now,
                           scheduler::Rng& rng)
    : table_(table),
      load_(load),
      now_(now),
      plan_(
          [this, model](uint32_t place) {
            const Replica& replica = table_.replicas(model)[place];
            return IsFull(table_.model(model).spec, replica.spec,
                          load_[replica.id].engine.ReadObserved(now_));
          },
          load.cell(model), rng),
      rng_(rng) {}

Candidates DispatchPlan::CandidatesOf(ModelId asked) const {
  const Model& model = table_.model(asked);
  return {model.spec,
          table_.replicas(asked),
          load_,
          {},
          now_,
          true,
          {.avoid = {.suspected = true}, .adapter = WantedBy(model, load_)}};
}

// If one waiting spare request finds no replica, the others find none either.
DispatchPlan::Advice DispatchPlan::ConsiderSpare(ModelId asked, const PickFacts& facts) {
  if (no_spare_room_) return {.now = false};
  const Candidates candidates = CandidatesOf(asked);
  const uint32_t size = candidates.size();
  const auto begin = size > kMaxHeadroomScan ? static_cast<uint32_t>(rng_.Uniform(size)) : 0;
  bool usable = false;
  for (uint32_t i = 0; i < std::min(size, kMaxHeadroomScan); ++i) {
    const uint32_t place = (begin + i) % size;
    if (!candidates.Usable(place)) continue;
    if (candidates.HasHeadroomFor(place, facts)) return {};
    usable = true;
  }
  no_spare_room_ = usable;
  return {.now = !usable};
}

DispatchPlan::Advice DispatchPlan::Consider(ModelId asked, const PickFacts& facts) {
  const Model& model = table_.model(asked);
  if (WaitsForAdapter(table_, asked, load_, now_)) return {.now = false};
  if (facts.spare && model.spec.headroom) return ConsiderSpare(asked, facts);
  if (!WaitsForBestReplica(model.spec) || facts.of_session || facts.track != kStable) return {};
  const Candidates candidates = CandidatesOf(asked);
  const std::optional<Choice> best = plan_.Next(candidates, facts);
  if (!best) return {};
  const auto takes =
      std::chrono::duration<double>(std::min(best->terms.compute + best->terms.adapter, 3600.0));
  return {.now = candidates.HasHeadroomFor(best->place, facts),
          .takes = std::chrono::duration_cast<conf::Duration>(takes)};
}

std::optional<Dispatch> NextDispatch(AdmissionQueue& queue, const RouteTable& table, ModelId model,
                                     const LoadView& load, uint32_t dispatched, bool may_start,
                                     conf::TimePoint now, scheduler::Rng& rng,
                                     absl::FunctionRef<WaitingRequest(WaitTicket)> lookup) {
  const HeadroomFound found = FindHeadroom(table, model, load, dispatched + 1, now);
  if ((found.expected() || may_start) && found.replicas <= dispatched) return std::nullopt;
  DispatchPlan plan(table, model, load, now, rng);
  return queue.Next(now, DispatchPlan::kMaxConsidered, [&](WaitTicket ticket) {
    const WaitingRequest request = lookup(ticket);
    if (request.facts->spare && queue.urgent() > 0) return false;
    return plan.Consider(request.model, *request.facts).now;
  });
}

bool AllHaveHeadroom(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now) {
  if (!WaitsForBestReplica(table.model(model).spec)) return true;
  const auto scanned =
      std::min<uint32_t>(kMaxHeadroomScan, static_cast<uint32_t>(table.replicas(model).size()));
  return FindHeadroom(table, model, load, scanned, now).replicas >= scanned;
}

}  // namespace router
