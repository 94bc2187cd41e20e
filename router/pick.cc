#include "router/pick.h"

#include <algorithm>
#include <array>

#include "conf/words.h"
#include "router/policies/cache_aware.h"
#include "router/policies/consistent_hash.h"
#include "router/policies/cost.h"
#include "router/policies/epp.h"
#include "router/policies/kv_cost.h"
#include "router/policies/simple.h"

namespace router {
namespace {

// In the order of PolicyKind.
constexpr std::array<Policy, kPolicyKinds> kPolicies = {
    PickLeastLoad,      PickRoundRobin, PickPowerOfTwo, PickWeighted, PickRandom, PickLeastRequests,
    PickConsistentHash, PickCacheAware, PickEpp,        PickKvCost,   PickCost};

// Choices that one pick may make: another shard may take a half-open replica's only trial between the choice
// and the claim.
constexpr int kMaxClaims = 4;

// Says why no replica is usable: of several reasons the one that ends soonest.
void Explain(const Candidates& candidates, conf::TimePoint now, Decision& decision) {
  bool any = false;
  bool tried = false;
  bool down = false;
  bool broken = false;
  bool resting = false;
  bool lacking = false;
  for (uint32_t place = 0; place < candidates.size(); ++place) {
    if (!candidates.InScope(place)) continue;
    any = true;
    const ReplicaState& state = candidates.state(place);
    if (candidates.LacksAdapter(place)) {
      lacking = true;
    } else if (candidates.Tried(place)) {
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
                  : lacking ? NoneBecause::kNoAdapter
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
         cell.in_slow_start.load(std::memory_order_relaxed) > 0;
}

// What to avoid at first, while some replicas of this pool are suspected or in slow start.
Avoidance AvoidanceFor(const Candidates& all, const ModelCell& cell, conf::TimePoint now) {
  Avoidance avoid{.suspected = cell.suspected.load(std::memory_order_relaxed) > 0};
  if (cell.in_slow_start.load(std::memory_order_relaxed) == 0) return avoid;
  int64_t requests = 0;
  int64_t others = 0;
  for (uint32_t place = 0; place < all.size(); ++place) {
    if (all.state(place).outlier.InSlowStart(now) || all.state(place).outlier.suspected()) continue;
    if (!all.Usable(place)) continue;
    requests += all.state(place).load.requests();
    ++others;
  }
  if (others > 0) avoid.mean_requests = static_cast<double>(requests) / static_cast<double>(others);
  return avoid;
}

// A policy that chooses a suspected replica whose trial is due: this request becomes the trial.
std::optional<Choice> PickTrial(const Candidates& all, const PickFacts&, ModelCell&, scheduler::Rng&) {
  for (uint32_t place = 0; place < all.size(); ++place) {
    OutlierStatus& standing = all.state(place).outlier;
    if (!standing.suspected() || !all.Usable(place) || !standing.ClaimTrial(all.now())) continue;
    const bool hung = standing.state() == OutlierStatus::State::kHung;
    return Choice{.place = place,
                  .score = 0,
                  .considered = place + 1,
                  .reason = hung ? "trial of a replica that hung" : "trial of a replica that was slow"};
  }
  return std::nullopt;
}

// Whether some replica of the gateway's zone is usable and not saturated.
bool OwnZoneSuffices(const Candidates& own) {
  for (uint32_t place = 0; place < own.size(); ++place) {
    if (own.Usable(place) && !Vetoed(own.Read(place))) return true;
  }
  return false;
}

// Makes a choice a decision: claims its replica at the breaker and charges it. False when the breaker
// refuses.
bool Claim(const Candidates& candidates, const Choice& choice, const LoadView& load, const PickFacts& facts,
           conf::TimePoint now, Decision& decision) {
  const ReplicaId id = candidates.replica(choice.place).id;
  const Admission admission = load[id].breaker.Admit(now);
  if (admission == Admission::kRefused) return false;
  decision.replica = id;
  decision.cached = candidates.CachedAt(choice.place, facts);
  const int64_t uncached = facts.prompt_tokens - decision.cached;
  const int64_t held = candidates.HeldAt(choice.place, facts);
  decision.remote_prefill = decision.cached > held;
  const Work work{.tokens = facts.tokens,
                  .uncached = uncached,
                  .context = facts.prompt_tokens - held + facts.output_tokens,
                  .unseen = facts.not_streamed,
                  .output = facts.max_output,
                  .remote_prefill = decision.remote_prefill,
                  .spare = facts.spare};
  const AdapterId adapter = candidates.adapter().id;
  std::optional<double> expected;
  if (adapter != AdapterId::kNone) {
    const ReplicaSignals before = candidates.Read(choice.place);
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

// Takes the replica that the session used last, if it is usable.
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
  trace.remote_prefill_seconds = facts.remote_prefill_seconds;
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

// One pick: tries one scope after the other until a replica is chosen and claimed.
class PickRun {
 public:
  PickRun(const Model& model, std::span<const Replica> replicas, const LoadView& load, const PickFacts& facts,
          std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng, PickTrace* trace)
      : model_(model),
        replicas_(replicas),
        load_(load),
        facts_(facts),
        tried_(tried),
        now_(now),
        rng_(rng),
        trace_(trace),
        roles_(RolesFor(facts.part, model.spec.prefill_transfer)) {}

  Decision Run() {
    const AdapterPlacements* const placements = load_.placements(model_.id);
    const bool any_missing = placements != nullptr && placements->AnyMissing(now_);
    if (InTrouble(load_.cell(model_.id)) && TryOut()) return std::move(decision_);
    if ((any_missing || InTrouble(load_.cell(model_.id))) && FromTracks(Avoid::kTroubled))
      return std::move(decision_);
    if (FromTracks(Avoid::kNone)) return std::move(decision_);
    if (FromPrefill()) return std::move(decision_);
    const Candidates stable = CandidatesIn({}, true);
    if (model_.spec.fail_open && tried_.empty() && AllDown(stable)) {
      decision_.failed_open = true;
      if (ChooseFrom(CandidatesIn({}, false))) return std::move(decision_);
    }
    Explain(stable, now_, decision_);
    return std::move(decision_);
  }

 private:
  // Which usable replicas to avoid.
  enum class Avoid : uint8_t { kNone, kTroubled };

  Candidates CandidatesIn(Scope scope, bool ask_health) {
    const bool avoid_missing = scope.adapter.avoid_missing;
    scope.adapter = WantedBy(model_, load_);
    scope.adapter.avoid_missing = avoid_missing;
    scope.roles = roles_;
    if (trace_ != nullptr) {
      trace_->track = scope.track;
      trace_->own_zone = scope.own_zone;
    }
    return {model_.spec, replicas_, load_, tried_, now_, ask_health, scope, trace_};
  }

  Candidates CandidatesIn(TrackId track, bool own_zone, Avoid avoid,
                          const PickFacts* headroom_for = nullptr) {
    Scope scope{.track = track, .own_zone = own_zone};
    if (avoid == Avoid::kTroubled) {
      scope.avoid = AvoidanceFor(CandidatesIn(scope, true), load_.cell(model_.id), now_);
      scope.adapter.avoid_missing = true;
    }
    scope.headroom_for = headroom_for;
    return CandidatesIn(scope, true);
  }

  bool TryOut() {
    return tried_.empty() && Choose(CandidatesIn({.track = facts_.track}, true), PickTrial, load_, facts_,
                                    load_.cell(model_.id), now_, rng_, decision_);
  }

  // No replica that answers can be used. A prefill replica then serves the whole request: that delays prompts
  // of others, which is better than no answer.
  bool FromPrefill() {
    if (!model_.spec.prefill_transfer || !model_.spec.prefill_transfer->decodes_whole ||
        facts_.part != Part::kWhole)
      return false;
    roles_ = RolesFor(Part::kPrefill, model_.spec.prefill_transfer);
    decision_.by_prefill = FromTracks(Avoid::kNone);
    if (decision_.by_prefill)
      decision_.reason = "prefill replica, because no other can be used";
    else
      roles_ = RolesFor(facts_.part, model_.spec.prefill_transfer);
    return decision_.by_prefill;
  }

  bool FromTracks(Avoid avoid) {
    return (facts_.track != kStable && From(facts_.track, avoid)) || From(kStable, avoid);
  }

  bool From(TrackId track, Avoid avoid) {
    const Candidates all = CandidatesIn(track, false, avoid);
    if (facts_.of_session && ChooseOfSession(all, load_, facts_, now_, decision_)) return true;
    const bool asks_for_headroom = (facts_.prefer_headroom || facts_.spare) && model_.spec.headroom;
    return (asks_for_headroom && Within(track, avoid, &facts_)) || Within(track, avoid, nullptr);
  }

  bool Within(TrackId track, Avoid avoid, const PickFacts* headroom_for) {
    if (model_.zoned && model_.spec.policy != PolicyKind::kCost) {
      const Candidates own = CandidatesIn(track, true, avoid, headroom_for);
      if (OwnZoneSuffices(own) && ChooseFrom(own)) return true;
    }
    return ChooseFrom(CandidatesIn(track, false, avoid, headroom_for));
  }

  bool ChooseFrom(const Candidates& candidates) {
    if (trace_ != nullptr) {
      trace_->scored.clear();
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

constexpr conf::Word<NoneBecause> kNoneReasons[] = {
    {"picked", NoneBecause::kPicked},
    {"the model has no replica that takes requests", NoneBecause::kNoReplicas},
    {"every usable replica has been tried", NoneBecause::kAllTried},
    {"every replica is down", NoneBecause::kAllDown},
    {"the circuit breakers of all usable replicas are open", NoneBecause::kAllBroken},
    {"all usable replicas asked for a pause", NoneBecause::kAllResting},
    {"no replica holds the adapter", NoneBecause::kNoAdapter}};

std::string_view ReasonText(NoneBecause because) {
  return conf::WordOf(kNoneReasons, because);
}

Decision Pick(const RouteTable& table, ModelId model, const LoadView& load, const PickFacts& facts,
              std::span<const ReplicaId> tried, conf::TimePoint now, scheduler::Rng& rng) {
  const Model& of = table.model(model);
  PickTrace* const trace = NewTrace(facts, model, of.spec.policy, now);
  Decision decision = PickRun(of, table.replicas(model), load, facts, tried, now, rng, trace).Run();
  if (AdapterPlacements* const placements = load.placements(model); placements != nullptr && decision.replica)
    placements->Add(static_cast<uint32_t>(*decision.replica) - of.first_replica);
  if (trace != nullptr) Conclude(decision, *trace);
  return decision;
}

}  // namespace router
