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
    if (!candidates.InScope(place)) continue;
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
    if (candidates.InScope(place) && candidates.state(place).health.Usable()) return false;
  }
  return candidates.size() > 0;
}

bool InTrouble(const ModelCell& cell) {
  return cell.suspected.load(std::memory_order_relaxed) > 0 ||
         cell.growing.load(std::memory_order_relaxed) > 0;
}

// Who is left alone at first, a few replicas of this pool being in trouble or new.
Shunned ShunnedOf(const Candidates& all, const ModelCell& cell, conf::TimePoint now) {
  Shunned shunned{.suspected = cell.suspected.load(std::memory_order_relaxed) > 0};
  if (cell.growing.load(std::memory_order_relaxed) == 0) return shunned;
  int64_t requests = 0;
  int64_t others = 0;
  for (uint32_t place = 0; place < all.size(); ++place) {
    if (all.state(place).standing.InSlowStart(now) || all.state(place).standing.suspected()) continue;
    if (!all.Usable(place)) continue;
    requests += all.state(place).load.requests();
    ++others;
  }
  if (others > 0) shunned.mean = static_cast<double>(requests) / static_cast<double>(others);
  return shunned;
}

// A suspected replica whose time for a trial has come: this request is it.
std::optional<Choice> PickTrial(const Candidates& all, const PickFacts&, ModelCell&, scheduler::Rng&) {
  for (uint32_t place = 0; place < all.size(); ++place) {
    Standing& standing = all.state(place).standing;
    if (!standing.suspected() || !all.Usable(place) || !standing.ClaimTrial(all.now())) continue;
    const bool hung = standing.state() == Standing::State::kHung;
    return Choice{.place = place,
                  .score = 0,
                  .considered = place + 1,
                  .reason = hung ? "a trial of a replica that hung" : "a trial of a replica that was slow"};
  }
  return std::nullopt;
}

// Somebody in the gateway's zone can be used and is not saturated.
bool OwnZoneSuffices(const Candidates& own) {
  for (uint32_t place = 0; place < own.size(); ++place) {
    if (own.Usable(place) && !Vetoed(own.Read(place))) return true;
  }
  return false;
}

// A choice becomes a decision when its replica has been claimed and charged.
bool Claim(const Candidates& candidates, const Choice& choice, const LoadView& load, const PickFacts& facts,
           conf::TimePoint now, Decision& decision) {
  const ReplicaId id = candidates.replica(choice.place).id;
  const Admission admission = load[id].breaker.Admit(now);
  if (admission == Admission::kRefused) return false;
  decision.replica = id;
  decision.cached = candidates.CachedAt(choice.place, facts);
  const int64_t uncached = facts.prompt_tokens - decision.cached;
  const int64_t held = candidates.HeldAt(choice.place, facts);
  decision.handed_over = decision.cached > held;
  const Work work{.tokens = facts.tokens,
                  .uncached = uncached,
                  .context = facts.prompt_tokens - held + facts.output_tokens,
                  .unseen = facts.whole,
                  .output = facts.max_output,
                  .handed_over = decision.handed_over};
  const AdapterId adapter = candidates.adapter().id;
  std::optional<double> expected;
  if (adapter != AdapterId::kNone) {
    const Signals before = candidates.Read(choice.place);
    if (before.rate_measured)
      expected = (before.backlog + static_cast<double>(uncached)) / before.prefill_rate;
  }
  decision.charge = Charge(load.shared(id), work, admission, now);
  if (adapter != AdapterId::kNone) decision.charge.UseAdapter(adapter, expected);
  decision.terms = choice.terms;
  decision.reason = choice.reason;
  decision.score = choice.score;
  decision.considered = choice.considered;
  return true;
}

// True when a candidate was chosen and claimed.
bool Choose(const Candidates& candidates, Policy policy, const LoadView& load, const PickFacts& facts,
            ModelCell& cell, conf::TimePoint now, scheduler::Rng& rng, Decision& decision) {
  for (int claim = 0; claim < kMaxClaims; ++claim) {
    const std::optional<Choice> choice = policy(candidates, facts, cell, rng);
    if (!choice) return false;
    if (Claim(candidates, *choice, load, facts, now, decision)) return true;
  }
  return false;
}

// The replica that the session has used last, while it can be used.
bool ChooseOfSession(const Candidates& candidates, const LoadView& load, const PickFacts& facts,
                     conf::TimePoint now, Decision& decision) {
  const std::optional<uint32_t> place = candidates.PlaceOf(*facts.of_session);
  return place && candidates.Usable(*place) &&
         Claim(candidates, {.place = *place, .score = 0, .considered = 1, .reason = "the session's replica"},
               load, facts, now, decision);
}

PickTrace* NewTrace(const PickFacts& facts, ModelId model, PolicyKind policy, conf::TimePoint now) {
  if (facts.log == nullptr || facts.log->picks.size() == PickLog::kMax) return nullptr;
  PickTrace& trace = facts.log->picks.emplace_back();
  trace.model = model;
  trace.policy = policy;
  trace.at = now;
  trace.tokens = facts.tokens;
  trace.prompt_tokens = facts.prompt_tokens;
  trace.output_tokens = facts.output_tokens;
  trace.part = facts.part;
  trace.handover_seconds = facts.handover_seconds;
  return &trace;
}

void Conclude(const Decision& decision, PickTrace& trace) {
  trace.replica = decision.replica;
  trace.reason = decision.reason;
  trace.score = decision.score;
  trace.cached = decision.cached;
  trace.considered = decision.considered;
  trace.failed_open = decision.failed_open;
}

// One model's replicas, and what a request may have of them, in the order in which scopes are tried.
class Picking {
 public:
  Picking(const Model& model, std::span<const Replica> replicas, const LoadView& load, const PickFacts& facts,
          std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng, PickTrace* trace)
      : model_(model),
        replicas_(replicas),
        load_(load),
        facts_(facts),
        tried_(tried),
        now_(now),
        rng_(rng),
        trace_(trace),
        roles_(RolesFor(facts.part, model.spec.handover)) {}

  Decision Run() {
    const AdapterHomes* const homes = load_.homes(model_.id);
    const bool lacked = homes != nullptr && homes->AnyLacks(now_);
    if (InTrouble(load_.cell(model_.id)) && TryOut()) return std::move(decision_);
    if ((lacked || InTrouble(load_.cell(model_.id))) && FromTracks(Leave::kTroubled))
      return std::move(decision_);
    if (FromTracks(Leave::kNobody)) return std::move(decision_);
    if (FromPrefill()) return std::move(decision_);
    const Candidates stable = Look({}, true);
    if (model_.spec.fail_open && tried_.empty() && AllDown(stable)) {
      decision_.failed_open = true;
      if (ChooseFrom(Look({}, false))) return std::move(decision_);
    }
    Explain(stable, now_, decision_);
    return std::move(decision_);
  }

 private:
  // Who is left alone, though he could be used.
  enum class Leave : uint8_t { kNobody, kTroubled };

  Candidates Look(Scope scope, bool ask_health) {
    scope.adapter.id = model_.adapter;
    scope.adapter.homes = load_.homes(model_.id);
    scope.roles = roles_;
    if (trace_ != nullptr) {
      trace_->track = scope.track;
      trace_->own_zone = scope.own_zone;
    }
    return {model_.spec, replicas_, load_, tried_, now_, ask_health, scope, trace_};
  }

  Candidates Look(TrackId track, bool own_zone, Leave leave, const PickFacts* room_for = nullptr) {
    Scope scope{.track = track, .own_zone = own_zone};
    if (leave == Leave::kTroubled) {
      scope.shunned = ShunnedOf(Look(scope, true), load_.cell(model_.id), now_);
      scope.adapter.shun_lacking = true;
    }
    scope.room_for = room_for;
    return Look(scope, true);
  }

  bool TryOut() {
    return tried_.empty() && Choose(Look({.track = facts_.track}, true), PickTrial, load_, facts_,
                                    load_.cell(model_.id), now_, rng_, decision_);
  }

  // Nobody who is there to answer can be used: better late prompts for others than no answer.
  bool FromPrefill() {
    if (!model_.spec.handover || !model_.spec.handover->decodes_whole || facts_.part != Part::kWhole)
      return false;
    roles_ = RolesFor(Part::kPrefill, model_.spec.handover);
    decision_.by_prefill = FromTracks(Leave::kNobody);
    if (decision_.by_prefill)
      decision_.reason = "a prefill replica, since nobody else can be used";
    else
      roles_ = RolesFor(facts_.part, model_.spec.handover);
    return decision_.by_prefill;
  }

  bool FromTracks(Leave leave) {
    return (facts_.track != kStable && From(facts_.track, leave)) || From(kStable, leave);
  }

  bool From(TrackId track, Leave leave) {
    const Candidates all = Look(track, false, leave);
    if (facts_.of_session && ChooseOfSession(all, load_, facts_, now_, decision_)) return true;
    const bool asks_for_room = facts_.prefer_room && model_.spec.room;
    return (asks_for_room && Within(track, leave, &facts_)) || Within(track, leave, nullptr);
  }

  bool Within(TrackId track, Leave leave, const PickFacts* room_for) {
    if (model_.zoned && model_.spec.policy != PolicyKind::kCost) {
      const Candidates own = Look(track, true, leave, room_for);
      if (OwnZoneSuffices(own) && ChooseFrom(own)) return true;
    }
    return ChooseFrom(Look(track, false, leave, room_for));
  }

  bool ChooseFrom(const Candidates& candidates) {
    if (trace_ != nullptr) {
      trace_->seen.clear();
      trace_->everybody = false;
    }
    const Policy policy = kPolicies[static_cast<size_t>(model_.spec.policy)];
    return Choose(candidates, policy, load_, facts_, load_.cell(model_.id), now_, rng_, decision_);
  }

  const Model& model_;
  const std::span<const Replica> replicas_;
  const LoadView& load_;
  const PickFacts& facts_;
  const std::span<const ReplicaId> tried_;
  const conf::TimePoint now_;
  scheduler::Rng& rng_;
  PickTrace* const trace_;
  Roles roles_;
  Decision decision_;
};

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
  const Shunned& shunned = scope_.shunned;
  if (shunned.suspected && s.standing.suspected()) return false;
  if (shunned.mean && !s.standing.HasRoom(s.load.requests(), *shunned.mean, now_)) return false;
  if (scope_.adapter.shun_lacking && s.adapters.IsLacking(scope_.adapter.id, now_)) return false;
  return InScope(place) && (!ask_health_ || s.health.Usable()) && s.breaker.Allows(now_) && !Tried(place) &&
         (scope_.room_for == nullptr || HasRoomFor(place, *scope_.room_for));
}

bool Candidates::HasRoomFor(uint32_t place, const PickFacts& facts) const {
  if (!spec_.room) return true;
  const SeenSignals seen = state(place).engine.ReadSeen(now_);
  const int64_t held = HeldAt(place, facts);
  return HasRoom(
      spec_, replicas_[place].spec, seen,
      {.held = static_cast<double>(held), .computed = static_cast<double>(facts.prompt_tokens - held)});
}

std::optional<uint32_t> Candidates::PlaceOf(ReplicaId id) const {
  if (replicas_.empty() || id < replicas_.front().id || id > replicas_.back().id) return std::nullopt;
  return static_cast<uint32_t>(id) - static_cast<uint32_t>(replicas_.front().id);
}

int64_t Candidates::CachedAt(uint32_t place, const PickFacts& facts) const {
  const int64_t held = HeldAt(place, facts);
  const bool handed_over = facts.handover_from > 0 && facts.prompt_tokens - held >= facts.handover_from;
  return handed_over ? facts.prompt_tokens : held;
}

int64_t Candidates::HeldAt(uint32_t place, const PickFacts& facts) const {
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
  const Model& of = table.model(model);
  PickTrace* const trace = NewTrace(facts, model, of.spec.policy, now);
  Decision decision = Picking(of, table.replicas(model), load, facts, tried, now, rng, trace).Run();
  if (AdapterHomes* const homes = load.homes(model); homes != nullptr && decision.replica)
    homes->Add(static_cast<uint32_t>(*decision.replica) - of.first_replica);
  if (trace != nullptr) Conclude(decision, *trace);
  return decision;
}

}  // namespace router
