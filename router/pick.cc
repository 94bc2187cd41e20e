#include "router/pick.h"

#include <algorithm>
#include <array>

#include "router/admission/room.h"
#include "router/policies/cache_aware.h"
#include "router/policies/consistent_hash.h"
#include "router/policies/cost.h"
#include "router/policies/epp.h"
#include "router/policies/kv_cost.h"
#include "router/policies/least_load.h"
#include "router/policies/least_requests.h"
#include "router/policies/power_of_two.h"
#include "router/policies/random.h"
#include "router/policies/round_robin.h"
#include "router/policies/weighted.h"

namespace router {
namespace {

// In the order of PolicyKind.
constexpr std::array<Policy, kPolicyKinds> kPolicies = {
    PickLeastLoad,      PickRoundRobin, PickPowerOfTwo, PickWeighted, PickRandom, PickLeastRequests,
    PickConsistentHash, PickCacheAware, PickEpp,        PickKvCost,   PickCost};

// Another shard may take a half-open replica's only trial between the choice and the claim.
constexpr int kMaxClaims = 4;

// Why nobody is usable, told of the reason that will pass soonest.
void Explain(const Candidates& candidates, conf::TimePoint now, Decision& decision) {
  bool any = false;
  bool tried = false;
  bool down = false;
  bool broken = false;
  bool resting = false;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (candidates.weight(place) <= 0) continue;
    any = true;
    const ReplicaState& state = candidates.state(place);
    if (candidates.Tried(place)) {
      tried = true;
    } else if (!state.health.Usable()) {
      down = true;
    } else {
      (state.breaker.IsResting(now) ? resting : broken) = true;
      const conf::TimePoint at = state.breaker.RetryAt(now);
      decision.retry_at = std::min(decision.retry_at.value_or(at), at);
    }
  }
  decision.considered = candidates.size();
  decision.none = !any      ? NoneBecause::kNoReplicas
                  : resting ? NoneBecause::kAllResting
                  : broken  ? NoneBecause::kAllBroken
                  : tried   ? NoneBecause::kAllTried
                  : down    ? NoneBecause::kAllDown
                            : NoneBecause::kNoReplicas;
  decision.reason = ReasonText(decision.none);
}

bool AllDown(const Candidates& candidates) {
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (candidates.weight(place) > 0 && candidates.state(place).health.Usable()) return false;
  }
  return candidates.size() > 0;
}

// True when a candidate was chosen and claimed.
bool Choose(const Candidates& candidates, Policy policy, const LoadView& load, const PickFacts& facts,
            ModelCell& cell, conf::TimePoint now, scheduler::Rng& rng, Decision& decision) {
  for (int claim = 0; claim < kMaxClaims; ++claim) {
    const std::optional<Choice> choice = policy(candidates, facts, cell, rng);
    if (!choice) return false;
    const ReplicaId id = candidates.replica(choice->place).id;
    const Admission admission = load[id].breaker.Admit(now);
    if (admission == Admission::kRefused) continue;
    decision.replica = id;
    decision.cached = candidates.CachedAt(choice->place, facts);
    const int64_t uncached = facts.prompt_tokens - decision.cached;
    const Work work{facts.tokens, uncached, uncached + facts.output_tokens, facts.whole};
    decision.charge = Charge(load.shared(id), work, admission, now);
    decision.terms = choice->terms;
    decision.reason = choice->reason;
    decision.score = choice->score;
    decision.considered = choice->considered;
    return true;
  }
  return false;
}

}  // namespace

std::string_view ReasonText(NoneBecause because) {
  switch (because) {
    case NoneBecause::kPicked:
      return "picked";
    case NoneBecause::kNoReplicas:
      return "the model has no replica that takes requests";
    case NoneBecause::kAllTried:
      return "every usable replica has been tried";
    case NoneBecause::kAllDown:
      return "every replica is down";
    case NoneBecause::kAllBroken:
      return "the breakers of all usable replicas are open";
    case NoneBecause::kAllResting:
      return "all usable replicas have asked for a pause";
  }
  return "picked";
}

bool Candidates::Tried(uint32_t place) const {
  return std::find(tried_.begin(), tried_.end(), replicas_[place].id) != tried_.end();
}

bool Candidates::Usable(uint32_t place) const {
  const ReplicaState& s = state(place);
  return weight(place) > 0 && (!ask_health_ || s.health.Usable()) && s.breaker.Allows(now_) &&
         !Tried(place) && (room_for_ == nullptr || HasRoomFor(place, *room_for_));
}

bool Candidates::HasRoomFor(uint32_t place, const PickFacts& facts) const {
  if (!spec_.room || !replicas_[place].spec.room_known) return true;
  const Signals signals = Read(place);
  return HasRoom(signals, *spec_.room, static_cast<double>(CachedAt(place, facts)) / signals.prefill_rate);
}

std::optional<uint32_t> Candidates::PlaceOf(ReplicaId id) const {
  if (replicas_.empty() || id < replicas_.front().id || id > replicas_.back().id) return std::nullopt;
  return static_cast<uint32_t>(id) - static_cast<uint32_t>(replicas_.front().id);
}

int64_t Candidates::CachedAt(uint32_t place, const PickFacts& facts) const {
  const ReplicaId id = replicas_[place].id;
  for (const PrefixMatch& match : facts.cached) {
    if (match.replica == id)
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

Decision Pick(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng) {
  const ModelSpec& spec = table.model(model).spec;
  const Policy policy = kPolicies[static_cast<size_t>(spec.policy)];
  const std::span<const Replica> replicas = table.replicas(model);
  ModelCell& cell = load.cell(model);
  Decision decision;
  if (facts.prefer_room && spec.room) {
    const Candidates roomy(spec, replicas, load, tried, now, true, &facts);
    if (Choose(roomy, policy, load, facts, cell, now, rng, decision)) return decision;
  }
  const Candidates candidates(spec, replicas, load, tried, now, true);
  if (Choose(candidates, policy, load, facts, cell, now, rng, decision)) return decision;
  if (spec.fail_open && tried.empty() && AllDown(candidates)) {
    const Candidates any(spec, replicas, load, tried, now, false);
    decision.failed_open = true;
    if (Choose(any, policy, load, facts, cell, now, rng, decision)) return decision;
  }
  Explain(candidates, now, decision);
  return decision;
}

}  // namespace router
