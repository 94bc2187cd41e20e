// dispatch: wait for a turn where replicas are full, pick a replica, send the request, and while no byte of
// an answer has gone to the client, try elsewhere when that may help. What to do is router::Attempt's to say;
// here it is done.
#include <fmt/format.h>

#include "gateway/answer.h"
#include "gateway/handover/hop.h"
#include "gateway/heartbeat.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "gateway/upstream/replica_failure.h"
#include "gateway/upstream/upstream.h"

namespace gateway::stages {
namespace {

using router::AttemptError;
using router::Event;
using router::Step;

// A wait that the client's leaving ends.
class Pause final : public net::Abortable {
 public:
  explicit Pause(net::Watchdog& watchdog) : sleep_(watchdog) {}
  auto Until(conf::TimePoint t) { return sleep_.Until(t); }
  void Abort() override { sleep_.Cancel(); }

 private:
  net::Sleep sleep_;
};

api::ApiError ErrorOf(const Exchange& x, const Step& step, conf::TimePoint now) {
  const std::string& model = x.runtime->routes().model(x.model_id).spec.name;
  switch (step.error) {
    case AttemptError::kNoReplica:
    case AttemptError::kUnavailable: {
      api::ApiError error =
          api::Make(api::Code::kUpstreamUnavailable,
                    fmt::format("no replica of {} can take the request: {}", model, step.why));
      if (step.until > now) error.retry_after = step.until - now;
      return error;
    }
    case AttemptError::kTimedOut:
      return api::Make(api::Code::kUpstreamTimeout, fmt::format("no replica of {} answered in time", model));
    case AttemptError::kDeadline:
      return api::Make(api::Code::kDeadlineExceeded, "the time that this request may take has passed");
    case AttemptError::kConnectFailed:
      return api::Make(api::Code::kUpstreamUnavailable,
                       fmt::format("no replica of {} could be reached", model));
    case AttemptError::kNone:
    case AttemptError::kUpstreamBroke:
    case AttemptError::kBrokenStream:
      break;
  }
  return api::Make(api::Code::kUpstreamError,
                   fmt::format("the replica of {} broke off before it answered", model));
}

ledger::EndReason ReasonOf(AttemptError error) {
  return error == AttemptError::kTimedOut || error == AttemptError::kDeadline
             ? ledger::EndReason::kTimedOut
             : ledger::EndReason::kUpstreamFailed;
}

net::Task<Event> Try(Exchange& x, const Step& step, conf::TimePoint now) {
  const router::Replica& route = x.runtime->routes().replica(step.replica);
  x.replica = step.replica;
  x.counts.attempts = x.attempt->tries();
  x.shard.metrics.replica(*x.runtime, step.replica).attempts.Add();
  x.ticket.SetReplica(x.runtime->replica(step.replica).name());
  x.prefix.Sent(x, step.replica, now);
  x.traffic.Sent(x, now);
  if (x.upstream) x.upstream->Release(now);
  if (step.prefill) {
    co_await x.hop->Begin(step, now);
  } else if (x.hop && !x.attempt->prefilled()) {
    x.hop->Forget();
  }
  x.upstream = std::make_unique<Upstream>(
      x, route, step.model, UpstreamEdit{.members = x.hop ? x.hop->members() : std::string_view()});
  if (!x.upstream->Prepare()) co_return Event::Of(Event::Kind::kClientGone);
  x.reservation.MarkForwarded();
  const Event event = co_await x.upstream->Send(step.fresh_connection, now);
  if (!x.hop || !x.hop->failure()) NoteFailure(x, step.replica, "replica failed", event);
  co_return event;
}

net::Task<Event> Wait(Exchange& x, const Step& step, conf::TimePoint now) {
  if (x.upstream) x.upstream->Release(now);
  Pause pause(x.shard.loop.watchdog);
  x.waiting = &pause;
  co_await pause.Until(step.until);
  x.waiting = nullptr;
  co_return Event::Of(x.client_gone ? Event::Kind::kClientGone : Event::Kind::kWoke);
}

// Whom the queue has refused another model may serve.
bool MayFallBack(const Exchange& x, const Turn& turn) {
  return (turn.outcome == Turn::Outcome::kRefused || turn.outcome == Turn::Outcome::kWaitedTooLong) &&
         router::FallsBackOn(router::kOnOverloaded, x.runtime->routes().model(x.model_id).spec);
}

// A prompt that is computed apart is so before the try, or, where the pool hands over so, beside it.
net::Task<Step> Do(Exchange& x, const Step& step, conf::TimePoint now) {
  if (step.kind == Step::Kind::kWait) {
    const Event event = co_await Wait(x, step, now);
    co_return x.attempt->Resume(event, net::Now());
  }
  if (step.prefill && !x.runtime->routes().model(step.model).spec.handover->at_once) {
    const Event event = co_await x.hop->Compute(step, now);
    const Step next = x.attempt->ResumePrefill(event, net::Now());
    if (next.kind == Step::Kind::kTry && !next.prefill && event.kind != Event::Kind::kCompleted) {
      log::Warn("prompt not handed over", {{"request_id", x.id},
                                           {"replica", x.runtime->replica(next.replica).name()},
                                           {"how", Event::NameOf(event.kind)}});
    }
    co_return next;
  }
  const Event event = co_await Try(x, step, now);
  if (x.hop && x.hop->failure()) {
    // Whose prompt does not come can do nothing about it.
    const Event failure = *x.hop->failure();
    const bool own_fault =
        failure.kind == Event::Kind::kStatus && failure.status < 500 && failure.status != 429;
    if (!own_fault) co_return x.attempt->ResumePrefill(failure, net::Now());
    x.upstream->Refuse(x.hop->refusal());
    co_return x.attempt->Resume(failure, net::Now());
  }
  if (x.hop && (event.kind != Event::Kind::kStatus || event.status >= 400)) x.hop->Drop();
  if (event.kind == Event::Kind::kHung && x.attempt->prefilling())
    co_return x.attempt->ResumePrefill(event, net::Now());
  co_return x.attempt->Resume(event, net::Now());
}

// One attempt: with what is known of the prompt, at whichever replicas there are.
net::Task<Verdict> Serve(Exchange& x, Turn turn, conf::TimePoint start) {
  const bool come = turn.outcome == Turn::Outcome::kCome;
  if (x.runtime->routes().model(x.model_id).spec.handover && handover::CanBeSplit(x))
    x.hop = std::make_unique<handover::Hop>(x);
  x.prefix.Find(x, start);
  router::PickFacts facts = x.prefix.Facts(x);
  x.traffic.Steer(x, facts, start);
  x.attempt.emplace(x.runtime->routes(), x.runtime->load(), x.model_id, facts, x.deadline, x.shard.rng);
  const Step step = x.attempt->Resume(Event::Of(come ? Event::Kind::kStart : Event::Kind::kNoTurn), start);
  if (!come && step.kind != Step::Kind::kTry) co_return Denied(x, turn);
  if (x.place) {
    x.place->Use(start);
    x.place->queue().Call(*x.shard.runtime(), start);
  }
  const Verdict verdict = co_await Pursue(x, step, start);
  if (x.attempt->retries() > 0)
    x.shard.metrics.model(*x.runtime, x.model_id).retries.Add(x.attempt->retries());
  if (x.attempt->model() != x.model_id) x.shard.metrics.model(*x.runtime, x.model_id).fallbacks.Add();
  co_return verdict;
}

// Between tries at replicas that are just going.
constexpr conf::Duration kPause = std::chrono::milliseconds(100);

// Nobody could be reached, or, once, the replica went away while it worked on the request: another one may be
// started for it. No model that hands prompts over has a policy, so that there is no hop.
bool MayWaitForAnother(const Exchange& x, bool broke, conf::TimePoint now) {
  if (!x.error || x.client_gone || !x.runtime->MayStart(x.model_id)) return false;
  const bool unreached = x.error->code == api::Info(api::Code::kUpstreamUnavailable).name;
  const bool broken = !broke && x.error->code == api::Info(api::Code::kUpstreamError).name;
  return (unreached || broken) && now < std::min(*x.deadline, x.at.queued + x.model().policy->scaling.hold);
}

net::Task<Verdict> ServeWhatMayCome(Exchange& x, Turn turn, conf::TimePoint start) {
  Verdict verdict = co_await Serve(x, turn, start);
  bool broke = false;
  while (verdict == Verdict::kFailed && MayWaitForAnother(x, broke, net::Now())) {
    broke = broke || x.error->code == api::Info(api::Code::kUpstreamError).name;
    Pause pause(x.shard.loop.watchdog);
    x.waiting = &pause;
    co_await pause.Until(net::Now() + kPause);
    x.waiting = nullptr;
    if (x.client_gone) co_return x.Gone();
    x.error.reset();
    x.reason = ledger::EndReason::kDone;
    // They know the routes that it came with, and it goes on with the latest.
    x.upstream.reset();
    x.attempt.reset();
    x.replica = kNoReplica;
    turn = co_await AwaitTurn(x, AskPlan(x, net::Now()).takes);
    if (turn.outcome != Turn::Outcome::kCome) co_return Denied(x, turn);
    verdict = co_await Serve(x, turn, x.at.dispatched);
  }
  co_return verdict;
}

}  // namespace

net::Task<Verdict> Dispatch(Exchange& x) {
  conf::TimePoint start = net::Now();
  x.at.queued = x.at.dispatched = start;
  x.until = x.at.started +
            std::min(x.model().config->timeouts.total, x.runtime->config().server.limits.total_timeout);
  x.deadline = std::min(x.deadline.value_or(x.until), x.until);
  if (x.body_whole) x.WatchClient();
  if (x.client_gone) co_return x.Gone();  // by now, or while the ledger was waited for
  x.demand.Begin(control::AskOf(x));
  Turn turn{Turn::Outcome::kCome, {}};
  if (const router::TurnPlan::Going going = GoesAtOnce(x, start); !going.now) {
    turn = co_await AwaitTurn(x, going.takes);
    if (turn.outcome != Turn::Outcome::kCome && !MayFallBack(x, turn)) co_return Denied(x, turn);
    start = x.at.dispatched;
  }
  co_return co_await ServeWhatMayCome(x, turn, start);
}

net::Task<Verdict> Pursue(Exchange& x, Step step, conf::TimePoint now) {
  Heartbeat heartbeat(x);
  while (step.kind == Step::Kind::kTry || step.kind == Step::Kind::kWait) {
    step = co_await Do(x, step, now);
    now = net::Now();
  }
  co_await heartbeat.Stop();
  if (step.kind == Step::Kind::kRelay && !x.client_gone) co_return Verdict::kGoOn;

  if (x.upstream) {
    x.upstream->Abort();
    x.upstream->Release(now);
  }
  if (x.error) co_return Verdict::kFailed;  // what the client asked, or how
  if (step.kind != Step::Kind::kFail || x.client_gone) co_return x.Gone();
  co_return x.Fail(ErrorOf(x, step, now), ReasonOf(step.error));
}

}  // namespace gateway::stages
