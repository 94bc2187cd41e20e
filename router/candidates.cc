#include "router/candidates.h"

#include <algorithm>

#include "router/load/headroom.h"
#include "router/load/spare_room.h"

namespace router {

AdapterWanted WantedBy(const Model& model, const LoadView& load) {
  return {.id = model.adapter,
          .placements = load.placements(model.id),
          .must_be_held = model.spec.adapter_at_run_time};
}

bool WaitsForAdapter(const RouteTable& table, ModelId model, const LoadView& load, conf::TimePoint now) {
  const Model& of = table.model(model);
  if (!of.spec.adapter_at_run_time) return false;
  const Candidates any(of.spec, table.replicas(model), load, {}, now, true);
  bool usable = false;
  for (uint32_t place = 0; place < any.size(); ++place) {
    if (!any.Usable(place)) continue;
    if (any.state(place).adapters.Holds(of.adapter)) return false;
    usable = true;
  }
  return usable;
}

bool Candidates::Tried(uint32_t place) const {
  return std::find(tried_.begin(), tried_.end(), replicas_[place].id) != tried_.end();
}

bool Candidates::Usable(uint32_t place) const {
  const ReplicaState& s = state(place);
  const Avoidance& avoid = scope_.avoid;
  if (avoid.suspected && s.outlier.suspected()) return false;
  if (avoid.mean_requests && !s.outlier.AdmitsOneMore(s.load.requests(), *avoid.mean_requests, now_)) {
    return false;
  }
  if (LacksAdapter(place)) return false;
  if (scope_.adapter.avoid_missing && s.adapters.IsMissing(scope_.adapter.id, now_)) return false;
  return InScope(place) && (!ask_health_ || s.health.Usable()) && s.breaker.Allows(now_) && !Tried(place) &&
         (scope_.headroom_for == nullptr || HasHeadroomFor(place, *scope_.headroom_for));
}

bool Candidates::HasHeadroomFor(uint32_t place, const PickFacts& facts) const {
  if (!spec_.headroom) return true;
  const ObservedSignals seen = state(place).engine.ReadObserved(now_);
  if (facts.spare && replicas_[place].spec.headroom_known &&
      !HasSpareRoom(Read(place), seen, *spec_.headroom))
    return false;
  const int64_t held = HeldAt(place, facts);
  return HasHeadroom(
      spec_, replicas_[place].spec, seen,
      {.cached = static_cast<double>(held), .uncached = static_cast<double>(facts.prompt_tokens - held)});
}

std::optional<uint32_t> Candidates::PlaceOf(ReplicaId id) const {
  if (replicas_.empty() || id < replicas_.front().id || id > replicas_.back().id) return std::nullopt;
  return static_cast<uint32_t>(id) - static_cast<uint32_t>(replicas_.front().id);
}

int64_t Candidates::CachedAt(uint32_t place, const PickFacts& facts) const {
  const int64_t held = HeldAt(place, facts);
  const bool remote =
      facts.remote_prefill_from > 0 && facts.prompt_tokens - held >= facts.remote_prefill_from;
  return remote ? facts.prompt_tokens : held;
}

int64_t Candidates::HeldAt(uint32_t place, const PickFacts& facts) const {
  const ReplicaId id = replicas_[place].id;
  for (const PrefixMatch& match : facts.cached) {
    if (match.replica != id) continue;
    return std::clamp<int64_t>(match.tokens, 0, std::max<int64_t>(0, facts.prompt_tokens - 1));
  }
  return 0;
}

size_t MatchesOf(const LoadView& load, std::span<const prefix::Holder> holders, size_t prompt_blocks,
                 int64_t prompt_tokens, std::span<PrefixMatch> out) {
  size_t count = 0;
  for (const prefix::Holder& holder : holders) {
    if (count == out.size()) break;
    const std::optional<ReplicaId> id = load.Find(holder.member);
    if (!id || prompt_blocks == 0) continue;
    const double share = static_cast<double>(holder.blocks) / static_cast<double>(prompt_blocks);
    out[count++] = {*id, static_cast<int64_t>(share * static_cast<double>(prompt_tokens))};
  }
  return count;
}

}  // namespace router
