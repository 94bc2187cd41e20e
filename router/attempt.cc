#include "router/attempt.h"

#include <algorithm>
#include <iterator>

#include "conf/words.h"
#include "router/admission/headroom_search.h"

namespace router {
namespace {

using conf::Duration;
using conf::TimePoint;

constexpr Duration kMinWait = std::chrono::milliseconds(1);  // a lost race must not spin
constexpr int kRefusals = 300;                               // this status and above
constexpr int kTooManyRequests = 429;
constexpr int kUnavailableStatus = 503;
constexpr int kOverloadedStatus = 529;  // Anthropic's

bool IsOverload(int status) {
  return status == kTooManyRequests || status == kUnavailableStatus || status == kOverloadedStatus;
}

// Whether the answering replica may have fetched the transferred prompt, so that the prefill replica no
// longer keeps it.
bool MayHaveFetched(const Event& event) {
  return event.kind == Event::Kind::kBroken || event.kind == Event::Kind::kTimedOut ||
         event.kind == Event::Kind::kHung ||
         (event.kind == Event::Kind::kStatus && event.status >= 500 && !IsOverload(event.status));
}

}  // namespace

constexpr conf::Word<Event::Kind> kEventKinds[] = {{"start", Event::Kind::kStart},
                                                   {"queue_refused", Event::Kind::kQueueRefused},
                                                   {"woke", Event::Kind::kWoke},
                                                   {"connect_failed", Event::Kind::kConnectFailed},
                                                   {"reused_closed", Event::Kind::kReusedClosed},
                                                   {"status", Event::Kind::kStatus},
                                                   {"timed_out", Event::Kind::kTimedOut},
                                                   {"hung", Event::Kind::kHung},
                                                   {"first_byte", Event::Kind::kFirstByte},
                                                   {"broken", Event::Kind::kBroken},
                                                   {"completed", Event::Kind::kCompleted},
                                                   {"client_gone", Event::Kind::kClientGone}};

std::string_view Event::NameOf(Kind kind) {
  return conf::WordOf(kEventKinds, kind);
}

constexpr conf::Word<AttemptError> kAttemptErrors[] = {{"none", AttemptError::kNone},
                                                       {"no_replica", AttemptError::kNoReplica},
                                                       {"unavailable", AttemptError::kUnavailable},
                                                       {"connect_failed", AttemptError::kConnectFailed},
                                                       {"upstream_broke", AttemptError::kUpstreamBroke},
                                                       {"timed_out", AttemptError::kTimedOut},
                                                       {"deadline", AttemptError::kDeadline},
                                                       {"broken_stream", AttemptError::kBrokenStream}};

std::string_view ErrorName(AttemptError error) {
  return conf::WordOf(kAttemptErrors, error);
}

Step Attempt::Resume(const Event& event, TimePoint now) {
  using Kind = Event::Kind;
  if (ended_) return {.kind = Step::Kind::kCancel};
  Charge& charge = decision_.charge;
  if (MayHaveFetched(event)) prefilled_ = false;
  switch (event.kind) {
    case Kind::kStart:
      load_.cell(primary_).budget.OnRequest();
      return First(now);
    case Kind::kQueueRefused:
      load_.cell(primary_).budget.OnRequest();
      if (!PastDeadline(now) && PickFallback(kOnOverloaded, now, Fallbacks::kWithHeadroom)) return Try(false);
      return Fail(AttemptError::kUnavailable);
    case Kind::kWoke:
      return charge ? Try(false) : First(now);
    case Kind::kReusedClosed:
      if (!fresh_ && !first_byte_ && !PastDeadline(now)) return Try(true);
      [[fallthrough]];
    case Kind::kConnectFailed:
      load_[*decision_.replica].adapters.Forget(now);  // a restarted engine has no adapter loaded
      charge.Report(Outcome::kBad, now);
      return Again(kOnUnavailable, AttemptError::kConnectFailed, now);
    case Kind::kStatus:
      return OnStatus(event, now);
    case Kind::kTimedOut:
      // When the client's own deadline has passed, the replica is not at fault.
      if (!PastDeadline(now)) charge.Report(Outcome::kBad, now, facts_.caller);
      return Again(kOnTimeout, AttemptError::kTimedOut, now);
    case Kind::kHung:
      left_hung_ = true;  // the outlier status already keeps new requests away; the breaker is not told
      return Again(kOnTimeout, AttemptError::kTimedOut, now);
    case Kind::kFirstByte:
      first_byte_ = true;
      return {.kind = Step::Kind::kRelay};
    case Kind::kBroken:
      charge.Report(Outcome::kBad, now, facts_.caller);
      return Again(kOnUnavailable, AttemptError::kUpstreamBroke, now);
    case Kind::kCompleted:
      return End({.kind = Step::Kind::kDone});
    case Kind::kClientGone:
      break;
  }
  return End({.kind = Step::Kind::kCancel});
}

Step Attempt::ResumePrefill(const Event& event, TimePoint now) {
  using Kind = Event::Kind;
  if (ended_ || !prefilling()) return {.kind = Step::Kind::kCancel};
  Charge& charge = prefill_.charge;
  switch (event.kind) {
    case Kind::kCompleted:
      charge.FirstToken(now);
      charge.Report(Outcome::kGood, now);
      prefill_ = {};
      prefilled_ = true;
      decision_.charge.PrefillArrived(now);
      return Try(false);
    case Kind::kReusedClosed:
      if (!fresh_ && !PastDeadline(now)) return Try(true);
      [[fallthrough]];
    case Kind::kConnectFailed:
      charge.Report(Outcome::kBad, now);
      return PrefillElsewhere(true, now);
    case Kind::kBroken:
      charge.Report(Outcome::kBad, now, facts_.caller);
      return PrefillElsewhere(true, now);
    case Kind::kTimedOut:
      if (!PastDeadline(now)) charge.Report(Outcome::kBad, now, facts_.caller);
      return PrefillElsewhere(true, now);
    case Kind::kHung:
      left_hung_ = true;
      return PrefillElsewhere(true, now);
    case Kind::kStatus: {
      const bool overload = IsOverload(event.status);
      if (overload && (event.retry_after || event.status != kUnavailableStatus))
        charge.Rest(event.retry_after, now, facts_.caller);
      const Outcome outcome = OutcomeOf(event.status, event.retry_after.has_value());
      charge.Report(outcome, now, facts_.caller);
      // A fault of the request itself is reported by the answering replica.
      return PrefillElsewhere(overload || outcome == Outcome::kBad, now);
    }
    case Kind::kClientGone:
    default:
      prefill_ = {};
      return End({.kind = Step::Kind::kCancel});
  }
}

Step Attempt::PrefillElsewhere(bool again, TimePoint now) {
  prefills_failed_.push_back(*prefill_.replica);
  prefill_ = {};
  if (first_byte_) return Fail(AttemptError::kBrokenStream);
  if (PastDeadline(now)) return Fail(AttemptError::kDeadline);
  if (again && prefills_failed_.size() <= retry().max_retries) {
    RetryBudget& budget = load_.cell(primary_).budget;
    if (budget.Withdraw(now)) {
      TakePrefill(PickPrefill(table_, model_, load_, facts_, prefills_failed_, now, rng_));
      if (prefilling()) {
        ++retries_;
        return Try(false);
      }
      budget.Refund();
    }
  }
  return ComputeHere(now);
}

Step Attempt::ComputeHere(TimePoint now) {
  fell_back_ = true;
  if (table_.model(model_).spec.prefill_transfer->decodes_whole) {
    const Candidates all(table_.model(model_).spec, table_.replicas(model_), load_, {}, now, false);
    decision_.cached = all.HeldAt(*all.PlaceOf(*decision_.replica), facts_);
    decision_.remote_prefill = false;
    Work work = decision_.charge.work();
    work.uncached = facts_.prompt_tokens - decision_.cached;
    work.remote_prefill = false;
    decision_.charge.ChangeWork(work, now);
    return Try(false);
  }
  Decision whole = Pick(table_, model_, load_, facts_, tried_, now, rng_);
  if (!whole.replica) return Fail(AttemptError::kUpstreamBroke);
  tried_.push_back(*whole.replica);
  ++tries_;
  decision_ = std::move(whole);
  return Try(false);
}

bool Attempt::MayLeave(TimePoint now) const {
  const ReplicaState* const state = (prefilling() ? prefill_ : decision_).charge.state();
  if (ended_ || first_byte_ || left_hung_ || state == nullptr) return false;
  if (state->outlier.state() != OutlierStatus::State::kHung) return false;
  const ModelSpec& spec = table_.model(model_).spec;
  const TimePoint began = (prefilling() ? prefill_ : decision_).charge.began();
  if (began > state->outlier.since() && now - began < spec.outliers.hung_after) return false;
  if (retries_ >= retry().max_retries || load_.cell(primary_).budget.available() < 1) return false;
  if (prefilling() && spec.prefill_transfer->decodes_whole) return true;
  const Roles roles = prefilling() ? RolesFor(Part::kPrefill, spec.prefill_transfer) : kAnswerers;
  for (const TrackId track : {facts_.track, kStable}) {
    const Candidates others(spec, table_.replicas(model_), load_, tried_, now, true,
                            {.track = track, .roles = roles, .avoid = {.suspected = true}});
    for (uint32_t place = 0; place < others.size(); ++place) {
      if (others.Usable(place)) return true;
    }
  }
  return false;
}

Step Attempt::First(TimePoint now) {
  if (PastDeadline(now)) return Fail(AttemptError::kDeadline);
  if (PickFrom(primary_, now)) return Try(false);
  const NoneBecause none = none_;
  const std::optional<TimePoint> retry_at = retry_at_;
  if (PickFallback(none == NoneBecause::kAllResting ? kOnOverloaded : kOnUnavailable, now)) return Try(false);
  if (retry_at) {
    if (!give_up_waiting_) give_up_waiting_ = now + retry().max_wait;
    const TimePoint until = std::max(*retry_at, now + kMinWait);
    if (until <= *give_up_waiting_ && !PastDeadline(until)) {
      next_fallback_ = 0;
      return {.kind = Step::Kind::kWait, .model = primary_, .until = until, .why = ReasonText(none)};
    }
  }
  const AttemptError error =
      none == NoneBecause::kNoReplicas ? AttemptError::kNoReplica : AttemptError::kUnavailable;
  return End({.kind = Step::Kind::kFail,
              .model = primary_,
              .until = retry_at.value_or(TimePoint()),
              .error = error,
              .why = ReasonText(none)});
}

Step Attempt::OnStatus(const Event& event, TimePoint now) {
  Charge& charge = decision_.charge;
  const bool overload = IsOverload(event.status);
  if (overload && (event.retry_after || event.status != kUnavailableStatus))
    charge.Rest(event.retry_after, now, facts_.caller);
  const Outcome outcome = OutcomeOf(event.status, event.retry_after.has_value());
  charge.Report(outcome, now, facts_.caller);
  if (event.status >= kRefusals) charge.LeaveAdapter();
  if (event.model_unknown && table_.model(model_).adapter != AdapterId::kNone) {
    NoteMissing(now);
    return Again(kOnUnavailable, AttemptError::kNone, now);
  }
  if (event.context_exceeded) return Again(kOnContext, AttemptError::kNone, now);
  if (overload) return Again(kOnOverloaded, AttemptError::kNone, now);
  if (outcome == Outcome::kBad) return Again(kOnUnavailable, AttemptError::kNone, now);
  return {.kind = Step::Kind::kRelay};
}

void Attempt::NoteMissing(TimePoint now) {
  load_[*decision_.replica].adapters.NoteMissing(table_.model(model_).adapter, now);
  load_.placements(model_)->NoteMissing(now + kMissingFor);
  missing_.push_back(*decision_.replica);
}

Step Attempt::Again(FallbackOn condition, AttemptError error, TimePoint now) {
  const bool has_answer = error == AttemptError::kNone;
  if (first_byte_) return Fail(AttemptError::kBrokenStream);
  if (PastDeadline(now)) return has_answer ? Step{.kind = Step::Kind::kRelay} : Fail(AttemptError::kDeadline);
  RetryBudget& budget = load_.cell(primary_).budget;
  if (budget.Withdraw(now)) {
    const bool same_model = condition != kOnContext && retries_ < retry().max_retries;
    if (same_model && PickFrom(model_, now)) {
      ++retries_;
      return BackOff(now);
    }
    if (PickFallback(condition, now)) return Try(false);
    if (same_model && PickTriedAgain(condition, error, now)) {
      ++retries_;
      return BackOff(now);
    }
    budget.Refund();
  }
  return has_answer ? Step{.kind = Step::Kind::kRelay} : Fail(error);
}

// The replica is chosen and charged before the pause, so that the upstream's own answer is dropped only when
// there will be another try.
Step Attempt::BackOff(TimePoint now) {
  const uint32_t doublings = std::min<uint32_t>(retries_ - 1, 20);
  const Duration longest = std::min(retry().backoff * (int64_t{1} << doublings), retry().max_backoff);
  const Duration pause =
      longest / 2 + Duration(static_cast<int64_t>(
                        rng_.Uniform(static_cast<uint64_t>(std::max<int64_t>(longest.count() / 2, 1)))));
  if (longest <= Duration::zero() || PastDeadline(now + pause)) return Try(false);
  return {.kind = Step::Kind::kWait,
          .replica = *decision_.replica,
          .model = model_,
          .until = now + pause,
          .why = "pause before a retry"};
}

// A fallback model may share replicas with this one. Prefixes cached there belong to this model, and a
// replica that only misses this model's adapter can be used.
ReplicaPair Attempt::PickOther(ModelId model, TimePoint now) {
  PickFacts facts = facts_;
  facts.cached = {};
  absl::InlinedVector<ReplicaId, 8> tried;
  std::ranges::copy_if(tried_, std::back_inserter(tried),
                       [&](ReplicaId id) { return std::ranges::find(missing_, id) == missing_.end(); });
  return PickReplicaPair(table_, model, load_, facts, tried, prefills_failed_, now, rng_);
}

bool Attempt::PickFrom(ModelId model, TimePoint now) {
  const std::optional<PrefillTransferSpec>& transfer = table_.model(model).spec.prefill_transfer;
  if (model != primary_ || model != model_ || !transfer || transfer->at_once) prefilled_ = false;
  const auto pick = [&]() -> ReplicaPair {
    if (prefilled_) {
      if (Decision decode = PickDecode(table_, model, load_, facts_, tried_, now, rng_); decode.replica)
        return {.answer = std::move(decode), .prefill = {}};
      prefilled_ = false;
    }
    return model == primary_
               ? PickReplicaPair(table_, model, load_, facts_, tried_, prefills_failed_, now, rng_)
               : PickOther(model, now);
  };
  ReplicaPair pair = pick();
  if (!pair.answer.replica) {
    none_ = pair.answer.none;
    retry_at_ = pair.answer.retry_at;
    return false;
  }
  tried_.push_back(*pair.answer.replica);
  ++tries_;
  decision_ = std::move(pair.answer);
  if (prefilled_) decision_.charge.PrefillArrived(now);
  model_ = model;
  TakePrefill(std::move(pair.prefill));
  return true;
}

bool Attempt::PickTriedAgain(FallbackOn condition, AttemptError error, TimePoint now) {
  const bool undone =
      error == AttemptError::kConnectFailed || (error == AttemptError::kNone && condition == kOnOverloaded);
  if (!undone || table_.model(model_).spec.prefill_transfer) return false;
  const absl::InlinedVector<ReplicaId, 8> before = tried_;
  tried_.assign(missing_.begin(), missing_.end());
  if (PickFrom(model_, now)) return true;
  tried_ = before;
  return false;
}

void Attempt::TakePrefill(Decision decision) {
  prefill_ = std::move(decision);
  if (prefilling()) prefill_cached_ = prefill_.cached;
}

bool Attempt::PickFallback(FallbackOn condition, TimePoint now, Fallbacks which) {
  const std::vector<Fallback>& fallbacks = table_.model(primary_).fallbacks;
  bool entered = false;
  while (next_fallback_ < fallbacks.size()) {
    const Fallback& fallback = fallbacks[next_fallback_++];
    if ((fallback.on & condition) == 0) continue;
    const bool usable =
        which == Fallbacks::kAny || FindHeadroom(table_, fallback.model, load_, 1, now).replicas > 0;
    if (!usable || (gate_ != nullptr && !gate_->Enter(fallback.model, now))) continue;
    entered = gate_ != nullptr;
    if (PickFrom(fallback.model, now)) return true;
  }
  if (entered) gate_->Leave(now);
  return false;
}

Step Attempt::Try(bool fresh) {
  fresh_ = fresh;
  return {.kind = Step::Kind::kTry,
          .replica = *decision_.replica,
          .model = model_,
          .prefill = prefill_.replica,
          .fresh_connection = fresh,
          .why = decision_.reason};
}

Step Attempt::End(Step step) {
  ended_ = true;
  prefill_.charge.Release();
  decision_.charge.Release();
  return step;
}

}  // namespace router
