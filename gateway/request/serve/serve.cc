// serve: sends the request to the chosen replica; retries on others while the client has no byte of an answer and a
// retry may help; relays the answer. router::Attempt decides what to do next, and this stage does it.
#include <fmt/format.h>

#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/request/admit.h"
#include "gateway/request/heartbeat.h"
#include "gateway/request/serve/relay.h"
#include "gateway/request/serve/replica_failure.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway {
namespace {

using router::AttemptError;
using router::Event;
using router::Step;

// The pause between two waits for a replica that may be started.
constexpr conf::Duration kPauseBeforeNextReplica = std::chrono::milliseconds(100);

// The result of a step of the attempt.
struct StepEnd {
  Event event;
  bool of_prefill = false;  // the event concerns the prompt's computation, not the answer
};

// A sleep that ends early when the client leaves.
class Pause final : public net::Abortable {
 public:
  Pause(net::Watchdog& watchdog, CancelScope& cancel) : sleep_(watchdog), cancel_(cancel) {
    cancel_.SetRunning(this);
  }
  ~Pause() { cancel_.SetRunning(nullptr); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  auto Until(conf::TimePoint t) { return sleep_.Until(t); }
  void Abort() override { sleep_.Cancel(); }

 private:
  net::Sleep sleep_;
  CancelScope& cancel_;
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
      return api::Make(api::Code::kDeadlineExceeded, "the deadline of this request has passed");
    case AttemptError::kConnectFailed:
      return api::Make(api::Code::kUpstreamUnavailable,
                       fmt::format("no replica of {} could be reached", model));
    case AttemptError::kNone:
    case AttemptError::kUpstreamBroke:
    case AttemptError::kBrokenStream:
      break;
  }
  const bool not_http = x.delivery.upstream && x.delivery.upstream->not_http();
  return api::Make(api::Code::kUpstreamError, fmt::format("the replica of {} {}", model,
                                                          not_http ? "sent an answer that is not valid HTTP"
                                                                   : "broke off before it answered"));
}

ledger::EndReason ReasonOf(AttemptError error) {
  return error == AttemptError::kTimedOut || error == AttemptError::kDeadline
             ? ledger::EndReason::kTimedOut
             : ledger::EndReason::kUpstreamFailed;
}

// No replica took the request.
bool WasNotReached(AttemptError error) {
  return error == AttemptError::kNoReplica || error == AttemptError::kUnavailable ||
         error == AttemptError::kConnectFailed;
}

// A replica went away while it worked on the request.
bool BrokeOff(AttemptError error) {
  return error == AttemptError::kNone || error == AttemptError::kUpstreamBroke ||
         error == AttemptError::kBrokenStream;
}

// Logs an error for the operator when a replica begins to refuse the gateway's credentials: no retry can help.
void NoteCredentials(const Exchange& x, const Step& step, const Event& event) {
  if (event.kind != Event::Kind::kStatus) return;
  const bool refused = event.status == 401 || event.status == 403;
  std::atomic<int>& noted = x.runtime->load()[step.replica].refused_credentials;
  const int before = noted.load(std::memory_order_relaxed);
  if (before == (refused ? event.status : 0) || (!refused && event.status >= 400)) return;
  noted.store(refused ? event.status : 0, std::memory_order_relaxed);
  if (!refused) return;
  log::Error("a replica refuses the gateway's credentials: correct api_key or secret_headers of its endpoint",
             {{"request_id", x.identity.id},
              {"replica", x.runtime->replica(step.replica).name()},
              {"status", event.status}});
}

net::Task<Event> SendTry(Exchange& x, const Step& step, conf::TimePoint now) {
  Delivery& delivery = x.delivery;
  const OutgoingRequest request = x.Outgoing();
  delivery.replica = step.replica;
  x.outcome.counts.attempts = delivery.attempt->tries();
  x.shard.metrics.replica(x.runtime->names(), step.replica).attempts.Add();
  x.grant.ticket.SetReplica(x.runtime->replica(step.replica).name());
  delivery.prefix.Sent(request, step.replica, delivery.attempt->model(), now);
  delivery.steering.Sent(request, step.replica, now);
  if (delivery.upstream) delivery.upstream->Release(now);
  if (step.prefill) {
    x.grant.reservation.MarkForwarded();
    co_await delivery.transfer->Begin(step, *delivery.attempt, now);
    now = net::Now();
  } else if (delivery.transfer && !delivery.attempt->prefilled()) {
    delivery.transfer->Forget();
  }
  delivery.upstream.emplace(
      request, UpstreamTry{.replica = x.runtime->routes().replica(step.replica),
                           .model = step.model,
                           .attempt = *delivery.attempt,
                           .cancel = x.client.cancel(),
                           .deadline = x.at.deadline,
                           .members = delivery.transfer ? delivery.transfer->members() : std::string_view()});
  Upstream& upstream = *delivery.upstream;
  if (step.prefill) delivery.transfer->SetAnswer(&upstream);
  if (upstream.translates()) {
    if (std::optional<Failure> failure = co_await upstream.TranslateBody()) {
      x.Fail(*std::move(failure));
      co_return Event::Of(Event::Kind::kClientGone);
    }
  }
  x.grant.reservation.MarkForwarded();
  std::optional<FormReader> form;
  if (x.body.form) {
    form.emplace(x.client, x.body, x.at, x.shard.metrics.cells, x.runtime->config().server.limits.body_bytes);
  }
  const Event event = co_await upstream.Send(step.fresh_connection, net::Now(), form ? &*form : nullptr);
  if (form && form->failure()) x.Fail(*form->failure());
  if (form && x.body.whole) x.outcome.counts.bytes_in = x.client.connection().request_bytes();
  if (upstream.sent()) x.at.sent = *upstream.sent();
  if (upstream.answered()) {
    x.at.answered = *upstream.answered();
    x.at.upstream_wait += x.at.answered - x.at.sent;
  }
  NoteCredentials(x, step, event);
  if (!delivery.transfer || !delivery.transfer->failure()) {
    RecordReplicaFailure(
        x.shard, *x.runtime, x.identity.id, step.replica,
        upstream.not_http() ? "replica failed: its answer is not valid HTTP" : "replica failed", event);
  }
  co_return event;
}

// Computes the prompt on a prefill replica, before the try.
net::Task<StepEnd> ComputePrompt(Exchange& x, const Step& step, conf::TimePoint now) {
  PrefillTransfer& transfer = *x.delivery.transfer;
  x.grant.reservation.MarkForwarded();
  const Event event = co_await transfer.Compute(step, *x.delivery.attempt, now);
  x.at.prefill += transfer.time();
  if (transfer.request_failure()) x.Fail(*transfer.request_failure());
  co_return StepEnd{event, true};
}

// Whether the step is one try at one replica, without a prefill replica.
bool IsTryAlone(const Exchange& x, const Step& step) {
  return step.kind == Step::Kind::kTry && !step.prefill && !x.delivery.transfer;
}

net::Task<StepEnd> RunStep(Exchange& x, const Step& step, conf::TimePoint now) {
  const std::unique_ptr<PrefillTransfer>& transfer = x.delivery.transfer;
  if (step.kind == Step::Kind::kWait) {
    if (x.delivery.upstream) x.delivery.upstream->Release(now);
    Pause pause(x.shard.loop.watchdog, x.client.cancel());
    co_await pause.Until(step.until);
    co_return StepEnd{Event::Of(x.client.gone() ? Event::Kind::kClientGone : Event::Kind::kWoke)};
  }
  if (step.prefill && !x.runtime->routes().model(step.model).spec.prefill_transfer->at_once)
    co_return co_await ComputePrompt(x, step, now);
  const Event event = co_await SendTry(x, step, now);
  if (!transfer) co_return StepEnd{event};
  if (transfer->failure()) {
    // The answering replica is not at fault if its prompt does not arrive.
    const Event failure = *transfer->failure();
    const bool request_at_fault =
        failure.kind == Event::Kind::kStatus && failure.status < 500 && failure.status != 429;
    if (!request_at_fault) co_return StepEnd{failure, true};
    x.delivery.upstream->SetRefusal(transfer->refusal());
    co_return StepEnd{failure};
  }
  if (event.kind != Event::Kind::kStatus || event.status >= 400) transfer->Drop();
  co_return StepEnd{event, event.kind == Event::Kind::kHung && x.delivery.attempt->prefilling()};
}

// Reports the end of a step, or of the relay, to the attempt. Its next step is then x.delivery.step.
void Report(Exchange& x, const StepEnd& end, conf::TimePoint now) {
  router::Attempt& attempt = *x.delivery.attempt;
  Step& step = x.delivery.step.emplace(end.of_prefill ? attempt.ResumePrefill(end.event, now)
                                                      : attempt.Resume(end.event, now));
  const bool computes_here = end.of_prefill && step.kind == Step::Kind::kTry && !step.prefill;
  if (computes_here && end.event.kind != Event::Kind::kCompleted) {
    log::Warn("the prompt was not transferred: the answering replica computes it",
              {{"request_id", x.identity.id},
               {"replica", x.runtime->replica(step.replica).name()},
               {"how", Event::NameOf(end.event.kind)}});
  }
}

bool WantsTry(const Step& step) {
  return step.kind == Step::Kind::kTry || step.kind == Step::Kind::kWait;
}

// Runs the attempt's steps until a replica answers (true) or nothing more can be tried (false).
net::Task<bool> RunSteps(Exchange& x, conf::TimePoint now) {
  Heartbeat heartbeat(x);
  while (WantsTry(*x.delivery.step)) {
    const Step step = *x.delivery.step;
    StepEnd end;
    if (IsTryAlone(x, step)) {
      end.event = co_await SendTry(x, step, now);
    } else {
      end = co_await RunStep(x, step, now);
    }
    now = net::Now();
    Report(x, end, now);
  }
  co_await heartbeat.Stop();
  if (x.delivery.step->kind == Step::Kind::kRelay && !x.client.gone()) co_return true;
  if (x.delivery.upstream) {
    x.delivery.upstream->Abort();
    x.delivery.upstream->Release(now);
  }
  co_return false;
}

void CountTries(Exchange& x) {
  const router::Attempt& attempt = *x.delivery.attempt;
  ModelCells& cells = x.shard.metrics.model(x.runtime->names(), x.model_id);
  if (attempt.retries() > 0) cells.retries.Add(attempt.retries());
  if (attempt.model() != x.model_id) cells.fallbacks.Add();
}

// Fails the request after the last try, and says why.
StageResult FailTries(Exchange& x) {
  const Step& step = *x.delivery.step;
  if (x.outcome.error) return StageResult::kFailed;  // the request itself is at fault
  if (step.kind != Step::Kind::kFail || x.client.gone()) return x.Gone();
  return x.Fail(ErrorOf(x, step, net::Now()), ReasonOf(step.error));
}

// Whether the request may wait for another replica to start: no replica was reached; or, but only once, a replica
// went away while it worked on the request. Models that transfer prompts have no scaling policy.
bool MayWaitForAnother(const Exchange& x, bool broke_before, conf::TimePoint now) {
  const Step& step = *x.delivery.step;
  if (x.outcome.error || x.client.gone() || step.kind != Step::Kind::kFail) return false;
  if (!x.MayStartReplica()) return false;
  if (!WasNotReached(step.error) && (broke_before || !BrokeOff(step.error))) return false;
  return now < std::min(*x.at.deadline, x.at.queued + x.model().cold_wait());
}

// Handles the end of the relay. Returns the stage's result; none: another replica is tried.
std::optional<StageResult> Conclude(Exchange& x, const RelayEnd& end) {
  using Kind = RelayEnd::Kind;
  Delivery& delivery = x.delivery;
  const bool broke = end.kind == Kind::kBroken || end.kind == Kind::kReported;
  const bool client_left = end.kind == Kind::kClientLeft || (broke && x.client.gone());
  const conf::TimePoint now = net::Now();
  ReplicaCells& cells = x.shard.metrics.replica(x.runtime->names(), delivery.replica);
  if (client_left) {
    delivery.upstream->Abort();
    Report(x, {Event::Of(Event::Kind::kClientGone)}, now);
    cells.cancelled.Add();
    return x.Gone();
  }
  if (end.kind == Kind::kWhole) {
    router::Charge& charge = delivery.attempt->charge();
    charge.Answered(x.at.last_token);
    charge.LastToken(static_cast<int64_t>(x.outcome.counts.output), x.at.last_token);
    Report(x, {end.event}, now);
    delivery.upstream->Release(now);
    x.outcome.answer_whole = true;
    return x.outcome.error ? StageResult::kFailed : StageResult::kAnswered;
  }
  delivery.upstream->Abort();
  if (!broke) {
    Report(x, {end.event}, now);
    return StageResult::kFailed;
  }
  if (delivery.transfer) delivery.transfer->Drop();
  const bool late = end.event.kind == Event::Kind::kTimedOut;
  if (delivery.transfer && delivery.transfer->failure()) {
    // The try was aborted because its prompt will not arrive.
    Report(x, {*delivery.transfer->failure(), true}, now);
  } else {
    (end.event.kind == Event::Kind::kHung ? cells.hung : late ? cells.timeouts : cells.broken).Add();
    Report(x, {end.event}, now);
  }
  if (WantsTry(*delivery.step)) return std::nullopt;
  const api::Code code = delivery.stream_begun ? api::Code::kStreamInterrupted
                         : late                ? api::Code::kUpstreamTimeout
                                               : api::Code::kUpstreamError;
  x.Fail(api::Make(code, std::string(end.message)),
         late ? ledger::EndReason::kTimedOut : ledger::EndReason::kUpstreamFailed);
  if (end.kind != Kind::kReported) return StageResult::kFailed;
  x.outcome.answer_whole = true;
  return StageResult::kAnswered;
}

// Waits for another replica to start, if one may be started, and sends the request again.
net::Task<StageResult> WaitForAnother(Exchange& x) {
  bool broke = false;
  while (true) {
    if (!MayWaitForAnother(x, broke, net::Now())) co_return FailTries(x);
    broke = broke || BrokeOff(x.delivery.step->error);
    {
      Pause pause(x.shard.loop.watchdog, x.client.cancel());
      co_await pause.Until(net::Now() + kPauseBeforeNextReplica);
    }
    if (x.client.gone()) co_return x.Gone();
    if (const StageResult result = co_await AdmitAgain(x); result != StageResult::kContinue) co_return result;
    const bool found = co_await RunSteps(x, x.at.dispatched);
    CountTries(x);
    if (found) co_return StageResult::kContinue;
  }
}

}  // namespace

net::Task<StageResult> stages::Serve(Exchange& x) {
  const bool found = co_await RunSteps(x, x.at.dispatched);
  CountTries(x);
  if (!found) {
    if (const StageResult result = co_await WaitForAnother(x); result != StageResult::kContinue)
      co_return result;
  }
  while (true) {
    const RelayEnd end = co_await Relay(x);
    x.client.cancel().SetRunning(nullptr);
    if (const auto result = Conclude(x, end)) co_return *result;
    if (!co_await RunSteps(x, net::Now())) co_return FailTries(x);
  }
}

}  // namespace gateway
