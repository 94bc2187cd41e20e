#include "gateway/request/admit.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/net/clock.h"
#include "gateway/request/claim.h"
#include "gateway/request/estimate_demand.h"
#include "gateway/request/heartbeat.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"
#include "router/admission/dispatch_plan.h"
#include "router/admission/headroom_search.h"

namespace gateway {
namespace {

using router::DispatchPlan;
using router::Event;
using router::QueueRefusal;
using router::Step;

// Bytes that a waiting request holds besides its body: frames, the exchange, the connection's buffers.
constexpr uint64_t kFootprint = 8 << 10;
// Keeps a client that obeys retry-after from retrying in a tight loop.
constexpr conf::Duration kShortestRetry = std::chrono::milliseconds(1);

// A request does not wait for a replica that asks for a longer pause: the client gets that pause as retry-after.
constexpr conf::Duration kLongestRest = std::chrono::seconds(2);

// How a wait in the model's queue ended.
struct Turn {
  enum class Outcome : uint8_t {
    kCame,           // the turn came, and a replica has room
    kRefused,        // on arrival, or later, when an answer in time was no longer possible
    kWaitedTooLong,  // the queue's max_wait has passed
    kOutOfTime,      // the request's own deadline has passed
    kClientGone,
  };
  Outcome outcome = Outcome::kCame;
  router::QueuePosition entered{};  // kRefused: why, and when to come back
};

router::HeadroomFound FindHeadroom(const Exchange& x, conf::TimePoint now) {
  return router::FindHeadroom(x.runtime->routes(), x.model_id, x.runtime->load(), 1, now);
}

// Whether no replica will have room in time. The attempt is then made at once, and says why it fails.
bool FailsAtOnce(const Exchange& x, const router::HeadroomFound& found, conf::TimePoint now) {
  if (!found.expected()) return !x.MayStartReplica();
  return found.rested_at &&
         *found.rested_at >=
             std::min(*x.at.deadline, now + std::min(x.model().queue->max_wait, kLongestRest));
}

conf::Duration Scale(double factor, conf::Duration duration) {
  return std::chrono::duration_cast<conf::Duration>(factor * duration);
}

api::Code CodeOf(QueueRefusal refusal) {
  switch (refusal) {
    case QueueRefusal::kTenantShare:
      return api::Code::kQueueShareExceeded;
    case QueueRefusal::kTooLate:
      return api::Code::kDeadlineUnreachable;
    case QueueRefusal::kNone:
    case QueueRefusal::kQueueFull:
      break;
  }
  return api::Code::kQueueFull;
}

std::string MessageOf(const Exchange& x, const router::QueuePosition& entered) {
  const std::string& model = x.model().config->name;
  switch (entered.refused) {
    case QueueRefusal::kTenantShare:
      return fmt::format("{} already holds its share of the places in the queue of {}",
                         x.identity.principal->tenant, model);
    case QueueRefusal::kTooLate:
      return fmt::format(
          "{} is busy: at the measured pace, this request cannot be answered before its deadline", model);
    case QueueRefusal::kNone:
    case QueueRefusal::kQueueFull:
      break;
  }
  return fmt::format("{} is busy, and its queue is full", model);
}

// A refused request uses nothing of any limit.
StageResult RefuseByQueue(Exchange& x, const router::QueuePosition& entered) {
  x.shard.metrics.model(x.runtime->names(), x.model_id)
      .queue_refusals[static_cast<size_t>(entered.refused)]
      .Add();
  x.delivery.demand.Refused();
  api::ApiError error = api::Make(CodeOf(entered.refused), MessageOf(x, entered));
  error.retry_after = std::max(entered.expected_wait, kShortestRetry);
  x.grant.reservation.Refund();
  error.limit = x.outcome.limit =
      fmt::format("model:{}/{}", x.model().config->name, CodeName(entered.refused));
  return x.Fail(std::move(error));
}

StageResult OutOfTime(Exchange& x) {
  x.grant.reservation.Refund();
  x.shard.metrics.model(x.runtime->names(), x.model_id).queue_refusals[0].Add();
  x.delivery.demand.Refused();
  return x.Fail(api::Make(api::Code::kDeadlineExceeded,
                          fmt::format("the deadline of this request passed while it waited for {}",
                                      x.model().config->name)),
                ledger::EndReason::kTimedOut);
}

StageResult WaitedTooLong(Exchange& x) {
  x.grant.reservation.Refund();
  x.shard.metrics.model(x.runtime->names(), x.model_id).queue_refusals[0].Add();
  x.delivery.demand.Refused();
  if (x.model().policy != nullptr && !FindHeadroom(x, x.at.dispatched).expected()) {
    const std::string why = x.model().hints->why_none();
    return x.Fail(api::Make(api::Code::kNoReplicaStarted,
                            fmt::format("no replica of {} could be started while the request waited{}{}",
                                        x.model().config->name, why.empty() ? "" : ": ", why)),
                  ledger::EndReason::kTimedOut);
  }
  if (x.model().policy == nullptr && x.model().awaits_discovery) {
    return x.Fail(api::Make(api::Code::kNoReplicaStarted,
                            fmt::format("no endpoint of {} was found while the request waited",
                                        x.model().config->name)),
                  ledger::EndReason::kTimedOut);
  }
  if (router::WaitsForAdapter(x.runtime->routes(), x.model_id, x.runtime->load(), x.at.dispatched)) {
    return x.Fail(api::Make(api::Code::kAdapterNotLoaded,
                            fmt::format("no engine loaded the adapter {} while the request waited",
                                        x.model().config->name)),
                  ledger::EndReason::kTimedOut);
  }
  api::ApiError error = api::Make(
      api::Code::kQueueTimeout,
      fmt::format("{} is busy: the request waited as long as its queue allows", x.model().config->name));
  const ModelQueue::View view = x.model().waits->Describe(x.at.dispatched, 0);
  if (view.expected_wait) error.retry_after = std::max(*view.expected_wait, kShortestRetry);
  return x.Fail(std::move(error), ledger::EndReason::kTimedOut);
}

// How long the answer took: a stream until its first byte, any other answer until its last.
std::optional<ModelQueue::Service> ServiceOf(const Exchange& x) {
  const bool ended = Happened(x.at.ended);
  const bool whole = !x.body.facts.stream;
  if (whole != ended || !Happened(x.at.sent) || !Happened(x.at.first_token)) return std::nullopt;
  if (whole && (!x.outcome.answer_whole || x.outcome.status != 200)) return std::nullopt;
  return ModelQueue::Service{.whole = whole,
                             .tokens = static_cast<int64_t>(x.outcome.counts.output),
                             .took = x.at.first_token - x.at.sent};
}

// Continues with the latest configuration, unless a reload removed the model.
void TakeLatestRuntime(Exchange& x) {
  std::shared_ptr<const Runtime> latest = x.shard.runtime();
  const std::optional<ModelId> model = latest->routes().Find(x.model().config->name);
  if (!model) return;
  x.runtime = std::move(latest);
  x.model_id = *model;
}

router::PickFacts PickFactsOf(const Exchange& x) {
  const int64_t output = x.ExpectedOutput();
  return {.tokens = x.body.prompt_tokens + output,
          .prompt_tokens = x.body.prompt_tokens,
          .output_tokens = output,
          .not_streamed = !x.body.facts.stream,
          .max_output = x.MaxOutput(),
          .affinity = x.delivery.prefix.affinity(),
          .cached = x.delivery.prefix.matches(),
          .may_split = x.delivery.transfer != nullptr,
          .caller = x.identity.principal->caller,
          .prefer_headroom = x.delivery.place != nullptr,
          .spare = x.identity.is_of_batch()};
}

void Wake(ModelQueue& queue, const Runtime& runtime, conf::TimePoint now) {
  queue.WakeNext(runtime.SupplyOf(queue.model()), now);
}

// Whether the best replica for the request, by what is known of its prompt, has room.
DispatchPlan::Advice AskPlan(Exchange& x, conf::TimePoint now) {
  x.delivery.prefix.Find(x.Outgoing(), now);
  return DispatchPlan(x.runtime->routes(), x.model_id, x.runtime->load(), now, x.shard.rng)
      .Consider(x.model_id, PickFactsOf(x));
}

// Whether the request may go to a replica now: no other request waits before it, and the best replica has room.
DispatchPlan::Advice AdviseOnArrival(Exchange& x, conf::TimePoint now) {
  const ModelRuntime& model = x.model();
  if (!model.queue) return {};
  const bool spare = x.identity.is_of_batch();
  const bool first = (spare ? model.waits->waiting() : model.waits->urgent()) == 0;
  const router::HeadroomFound found = first ? FindHeadroom(x, now) : router::HeadroomFound();
  if (router::WaitsForAdapter(x.runtime->routes(), x.model_id, x.runtime->load(), now)) return {.now = false};
  if (found.replicas > 0 && !spare &&
      router::AllHaveHeadroom(x.runtime->routes(), x.model_id, x.runtime->load(), now)) {
    return {};
  }
  DispatchPlan::Advice advice = AskPlan(x, now);
  if (found.replicas == 0) advice.now = first && FailsAtOnce(x, found, now);
  return advice;
}

// Tells the client why it got no turn.
StageResult Deny(Exchange& x, const Turn& turn) {
  switch (turn.outcome) {
    case Turn::Outcome::kCame:
      return StageResult::kContinue;
    case Turn::Outcome::kClientGone:
      return x.Gone();
    case Turn::Outcome::kRefused:
      return RefuseByQueue(x, turn.entered);
    case Turn::Outcome::kWaitedTooLong:
      return WaitedTooLong(x);
    case Turn::Outcome::kOutOfTime:
      break;
  }
  return OutOfTime(x);
}

// Whether a turn that came can be used: another request may have taken the room. Not inlined: its temporaries
// would be part of the frame of every waiting request.
[[gnu::noinline]] bool MayUseTurn(Exchange& x, conf::TimePoint now) {
  const router::HeadroomFound found = FindHeadroom(x, now);
  if (!found.expected() && !x.MayStartReplica()) return true;
  if (router::WaitsForAdapter(x.runtime->routes(), x.model_id, x.runtime->load(), now)) return false;
  return found.replicas > 0 && (!x.identity.is_of_batch() || AskPlan(x, now).now);
}

// A place in the model's queue. Not inlined, as above.
[[gnu::noinline]] std::unique_ptr<QueuePlace> PlaceOf(const Exchange& x, conf::TimePoint deadline,
                                                      conf::Duration order_delay, bool cold) {
  const bool spare = x.identity.is_of_batch();
  const QueueEntry entry{.request = x.identity.id,
                         .tenant = x.identity.principal->tenant,
                         .weight = static_cast<double>(x.identity.principal->weight),
                         .parent_weights = x.identity.principal->parent_weights,
                         .band = spare ? std::string_view("batch") : x.model().queue->bands[x.Band()].name,
                         .spare = spare,
                         .cost = QueueCost({.input = x.body.prompt_tokens, .output = x.ExpectedOutput()}),
                         .bytes = x.body.text.size() + kFootprint,
                         .deadline = deadline,
                         .order_delay = order_delay,
                         .replicas_start = cold,
                         .model = x.model().config->name,
                         .facts = PickFactsOf(x)};
  return std::make_unique<QueuePlace>(x.model().waits, x.shard.loop, entry, x.at.queued);
}

// Waits in the model's queue. `takes`: the time to the first token that the plan expects.
net::Task<Turn> AwaitTurn(Exchange& x, conf::Duration takes) {
  using Outcome = Turn::Outcome;
  conf::TimePoint now = x.at.queued;
  const config::Queue& queue = *x.model().queue;
  const std::shared_ptr<ModelQueue> waits = x.model().waits;
  const conf::Duration service =
      waits->LeastService({.whole = !x.body.facts.stream, .tokens = x.MaxOutput()}, now);
  const conf::TimePoint in_time = *x.at.deadline - service;
  const bool cold = x.MayStartReplica() && !FindHeadroom(x, now).expected();
  const conf::Duration max_wait = cold ? x.model().cold_wait() : queue.max_wait;
  x.delivery.place = PlaceOf(x, std::min(in_time, now + max_wait), Scale(queue.shorter_first, takes), cold);
  if (const router::QueuePosition entered = x.delivery.place->Enter(now);
      entered.refused != QueueRefusal::kNone) {
    x.delivery.place.reset();
    co_return Turn{Outcome::kRefused, entered};
  }
  Wake(*waits, *x.shard.runtime(), now);  // a request may have left since FindHeadroom()
  x.delivery.demand.Hold();
  Heartbeat heartbeat(x, cold ? x.model().cold_heartbeat() : conf::Duration());
  x.client.cancel().SetRunning(x.delivery.place.get());
  QueuePlace::Outcome outcome = co_await x.delivery.place->Wait();
  while (outcome == QueuePlace::Outcome::kTurn) {
    TakeLatestRuntime(x);
    now = net::Now();
    if (MayUseTurn(x, now)) break;
    x.delivery.place->PutBack(now);
    Wake(*waits, *x.runtime, now);
    outcome = co_await x.delivery.place->Wait();
  }
  x.client.cancel().SetRunning(nullptr);
  x.delivery.demand.LetGo();
  co_await heartbeat.Stop();
  x.at.dispatched = net::Now();
  if (outcome == QueuePlace::Outcome::kTurn && !x.client.gone()) co_return Turn{Outcome::kCame, {}};
  x.delivery.place.reset();
  Wake(*waits, *x.shard.runtime(), x.at.dispatched);
  if (x.client.gone()) co_return Turn{Outcome::kClientGone, {}};
  if (x.at.dispatched >= *x.at.deadline) co_return Turn{Outcome::kOutOfTime, {}};
  if (x.at.dispatched < in_time) co_return Turn{Outcome::kWaitedTooLong, {}};
  router::QueuePosition late{.refused = QueueRefusal::kTooLate};
  late.expected_wait = waits->Describe(x.at.dispatched, 0).expected_wait.value_or(kShortestRetry);
  co_return Turn{Outcome::kRefused, late};
}

// Whether another model may serve a request that the queue has refused.
bool MayFallBack(const Exchange& x, const Turn& turn) {
  return (turn.outcome == Turn::Outcome::kRefused || turn.outcome == Turn::Outcome::kWaitedTooLong) &&
         router::FallsBackOn(router::kOnOverloaded, x.runtime->routes().model(x.model_id).spec);
}

// Begins the attempt: chooses the first replica, by what is known of the prompt.
StageResult BeginAttempt(Exchange& x, const Turn& turn, conf::TimePoint start) {
  Delivery& delivery = x.delivery;
  const OutgoingRequest request = x.Outgoing();
  const bool came = turn.outcome == Turn::Outcome::kCame;
  if (request.route().spec.prefill_transfer && CanSplitPrefill(request))
    delivery.transfer = std::make_unique<PrefillTransfer>(request, delivery.prefix, x.at);
  delivery.prefix.Find(request, start);
  router::PickFacts facts = PickFactsOf(x);
  delivery.steering.Steer(request, facts, start);
  if (!request.route().fallbacks.empty()) delivery.fallback_gate = std::make_unique<FallbackClaims>(x);
  delivery.attempt.emplace(x.runtime->routes(), x.runtime->load(), x.model_id, facts, x.at.deadline,
                           x.shard.rng, delivery.fallback_gate.get());
  delivery.step =
      delivery.attempt->Resume(Event::Of(came ? Event::Kind::kStart : Event::Kind::kQueueRefused), start);
  if (!came && delivery.step->kind != Step::Kind::kTry) return Deny(x, turn);
  if (delivery.place) {
    delivery.place->UseTurn(start);
    Wake(delivery.place->queue(), *x.shard.runtime(), start);
  }
  return StageResult::kContinue;
}

}  // namespace

double QueueCost(const router::limits::Usage& usage) {
  return static_cast<double>(std::max<int64_t>(usage.input + 2 * usage.output, 1));
}

void WakeNext(const Exchange& x, conf::TimePoint now) {
  if (x.delivery.replica == kNoReplica) return;
  const router::Replica& replica = x.runtime->routes().replica(x.delivery.replica);
  ModelQueue& queue = *x.runtime->model(replica.model).waits;
  if (queue.waiting() == 0) return;
  if (const auto service = ServiceOf(x)) queue.RecordService(*service, now);
  const std::shared_ptr<const Runtime> latest = x.shard.runtime();
  queue.WakeNext(latest->SupplyOf(queue.model()), now,
                 latest == x.runtime ? std::optional(x.delivery.replica) : std::nullopt);
}

net::Task<StageResult> AdmitAgain(Exchange& x) {
  // Both refer to the routes that the request came with; it continues with the latest ones.
  x.delivery.upstream.reset();
  x.delivery.attempt.reset();
  x.delivery.replica = kNoReplica;
  const Turn turn = co_await AwaitTurn(x, AskPlan(x, net::Now()).takes);
  if (turn.outcome != Turn::Outcome::kCame) co_return Deny(x, turn);
  co_return BeginAttempt(x, turn, x.at.dispatched);
}

StageResult stages::AdmitAtOnce(Exchange& x) {
  const conf::TimePoint start = net::Now();
  x.at.queued = x.at.dispatched = start;
  x.at.until = x.at.started +
               std::min(x.model().config->timeouts.total, x.runtime->config().server.limits.total_timeout);
  x.at.deadline = std::min(x.at.deadline.value_or(x.at.until), x.at.until);
  if (x.body.whole) x.client.Watch();
  if (x.client.gone()) return x.Gone();  // it may have left during the wait for the ledger
  if (x.identity.is_of_batch()) {
    x.delivery.demand.BeginLine(x.shard.metrics.model(x.runtime->names(), x.model_id).demand);
  } else {
    x.delivery.demand.Begin(EstimateDemand(x));
  }
  const DispatchPlan::Advice advice = AdviseOnArrival(x, start);
  x.delivery.expected_wait = advice.takes;
  return advice.now ? BeginAttempt(x, {}, start) : StageResult::kWaits;
}

net::Task<StageResult> stages::Admit(Exchange& x) {
  const Turn turn = co_await AwaitTurn(x, x.delivery.expected_wait);
  if (turn.outcome != Turn::Outcome::kCame && !MayFallBack(x, turn)) co_return Deny(x, turn);
  co_return BeginAttempt(x, turn, x.at.dispatched);
}

}  // namespace gateway
