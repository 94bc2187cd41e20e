// admit: a request that finds replicas just full enough, or others before it, waits its turn here, where it
// can still leave, be refused, or go to whichever replica is free first.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/heartbeat.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "router/admission/room.h"
#include "router/admission/turn_plan.h"

namespace gateway::stages {
namespace {

using router::TurnPlan;
using router::WaitRefusal;

// What a waiting request holds beside its body: its frames, its exchange, its connection's buffers.
constexpr uint64_t kFootprint = 8 << 10;
// So that a client that obeys cannot spin.
constexpr conf::Duration kShortestRetry = std::chrono::milliseconds(1);

router::RoomFound LookForRoom(const Exchange& x, conf::TimePoint now) {
  return router::LookForRoom(x.runtime->routes(), x.model_id, x.runtime->load(), 1, now);
}

// No replica has room, nor will one in time: the attempt says why.
bool HearsWhyAtOnce(const Exchange& x, const router::RoomFound& found, conf::TimePoint now) {
  if (!found.expected()) return !x.runtime->MayStart(x.model_id);
  return found.rested_at && *found.rested_at >= std::min(*x.deadline, now + x.model().queue->max_wait);
}

conf::Duration Times(double factor, conf::Duration duration) {
  return std::chrono::duration_cast<conf::Duration>(factor * duration);
}

api::Code CodeOf(WaitRefusal refusal) {
  switch (refusal) {
    case WaitRefusal::kTenantShare:
      return api::Code::kQueueShareExceeded;
    case WaitRefusal::kTooLate:
      return api::Code::kDeadlineUnreachable;
    case WaitRefusal::kNone:
    case WaitRefusal::kQueueFull:
      break;
  }
  return api::Code::kQueueFull;
}

std::string MessageOf(const Exchange& x, const router::Entered& entered) {
  const std::string& model = x.model().config->name;
  switch (entered.refused) {
    case WaitRefusal::kTenantShare:
      return fmt::format("{} holds its share of the places in the queue of {} already", x.principal->tenant,
                         model);
    case WaitRefusal::kTooLate:
      return fmt::format(
          "{} is busy: at the pace measured, this request could not be answered in the time that it has",
          model);
    case WaitRefusal::kNone:
    case WaitRefusal::kQueueFull:
      break;
  }
  return fmt::format("{} is busy, and its queue is full", model);
}

// A refusal burns nothing of any limit.
Verdict Refuse(Exchange& x, const router::Entered& entered) {
  x.shard.metrics.model(*x.runtime, x.model_id).queue_refusals[static_cast<size_t>(entered.refused)].Add();
  x.demand.Refused();
  api::ApiError error = api::Make(CodeOf(entered.refused), MessageOf(x, entered));
  error.retry_after = std::max(entered.expected_wait, kShortestRetry);
  x.reservation.Refund();
  error.limit = x.limit = fmt::format("model:{}/{}", x.model().config->name, CodeName(entered.refused));
  return x.Fail(std::move(error));
}

Verdict OutOfTime(Exchange& x) {
  x.reservation.Refund();
  x.shard.metrics.model(*x.runtime, x.model_id).queue_refusals[0].Add();
  x.demand.Refused();
  return x.Fail(api::Make(api::Code::kDeadlineExceeded,
                          fmt::format("the time that this request may take has passed while it waited for {}",
                                      x.model().config->name)),
                ledger::EndReason::kTimedOut);
}

Verdict WaitedTooLong(Exchange& x) {
  x.reservation.Refund();
  x.shard.metrics.model(*x.runtime, x.model_id).queue_refusals[0].Add();
  x.demand.Refused();
  if (x.model().policy != nullptr && !LookForRoom(x, x.at.dispatched).expected()) {
    const std::string why = x.model().outlook->why_none();
    return x.Fail(api::Make(api::Code::kNoReplicaStarted,
                            fmt::format("no replica of {} could be started while the request waited{}{}",
                                        x.model().config->name, why.empty() ? "" : ": ", why)),
                  ledger::EndReason::kTimedOut);
  }
  api::ApiError error =
      api::Make(api::Code::kQueueTimeout,
                fmt::format("{} is busy: the request has waited as long as it may", x.model().config->name));
  const ModelQueue::View view = x.model().waits->Look(x.at.dispatched, 0);
  if (view.expected_wait) error.retry_after = std::max(*view.expected_wait, kShortestRetry);
  return x.Fail(std::move(error), ledger::EndReason::kTimedOut);
}

bool Happened(conf::TimePoint t) {
  return t != conf::TimePoint();
}

// Of an answer whose first byte, or whose last if it comes whole, has just come: how long that took.
std::optional<ModelQueue::Service> ServiceOf(const Exchange& x) {
  const bool ended = Happened(x.at.ended);
  const bool whole = !x.facts.stream;
  if (whole != ended || !Happened(x.at.sent) || !Happened(x.at.first_token)) return std::nullopt;
  if (whole && (!x.answer_whole || x.status != 200)) return std::nullopt;
  return ModelQueue::Service{
      .whole = whole, .tokens = static_cast<int64_t>(x.counts.output), .took = x.at.first_token - x.at.sent};
}

// A reload has come meanwhile: on with what is configured now, where the model still is.
void TakeLatest(Exchange& x) {
  std::shared_ptr<const Runtime> latest = x.shard.runtime();
  const std::optional<ModelId> model = latest->routes().Find(x.model().config->name);
  if (!model) return;
  x.runtime = std::move(latest);
  x.model_id = *model;
}

}  // namespace

double QueueCost(const router::limits::Usage& usage) {
  return static_cast<double>(std::max<int64_t>(usage.input + 2 * usage.output, 1));
}

TurnPlan::Going AskPlan(Exchange& x, conf::TimePoint now) {
  x.prefix.Find(x, now);
  return TurnPlan(x.runtime->routes(), x.model_id, x.runtime->load(), now, x.shard.rng)
      .Ask(x.model_id, x.prefix.Facts(x));
}

TurnPlan::Going GoesAtOnce(Exchange& x, conf::TimePoint now) {
  const ModelRuntime& model = x.model();
  if (!model.queue) return {};
  const bool first = model.waits->waiting() == 0;
  const router::RoomFound found = first ? LookForRoom(x, now) : router::RoomFound();
  if (found.replicas > 0 && router::AllHaveRoom(x.runtime->routes(), x.model_id, x.runtime->load(), now))
    return {};
  TurnPlan::Going going = AskPlan(x, now);
  if (found.replicas == 0) going.now = first && HearsWhyAtOnce(x, found, now);
  return going;
}

void CallNext(const Exchange& x, conf::TimePoint now) {
  if (x.replica == kNoReplica) return;
  const router::Replica& replica = x.runtime->routes().replica(x.replica);
  ModelQueue& queue = *x.runtime->model(replica.model).waits;
  if (queue.waiting() == 0) return;
  if (const auto service = ServiceOf(x)) queue.Learn(*service, now);
  const std::shared_ptr<const Runtime> latest = x.shard.runtime();
  queue.Call(*latest, now, latest == x.runtime ? std::optional(x.replica) : std::nullopt);
}

Verdict Denied(Exchange& x, const Turn& turn) {
  switch (turn.outcome) {
    case Turn::Outcome::kCome:
      return Verdict::kGoOn;
    case Turn::Outcome::kClientGone:
      return x.Gone();
    case Turn::Outcome::kRefused:
      return Refuse(x, turn.entered);
    case Turn::Outcome::kWaitedTooLong:
      return WaitedTooLong(x);
    case Turn::Outcome::kOutOfTime:
      break;
  }
  return OutOfTime(x);
}

net::Task<Turn> AwaitTurn(Exchange& x, conf::Duration takes) {
  using Outcome = Turn::Outcome;
  conf::TimePoint now = x.at.queued;
  const config::Queue& queue = *x.model().queue;
  const std::shared_ptr<ModelQueue> waits = x.model().waits;
  const conf::Duration service =
      waits->LeastService({.whole = !x.facts.stream, .tokens = x.MaxOutput()}, now);
  const conf::TimePoint in_time = *x.deadline - service;
  const bool cold = x.runtime->MayStart(x.model_id) && !LookForRoom(x, now).expected();
  const conf::Duration max_wait = cold ? x.model().policy->scaling.hold : queue.max_wait;
  x.place = std::make_unique<QueuePlace>(
      waits, x.shard.loop,
      QueueEntry{.request = x.id,
                 .tenant = x.principal->tenant,
                 .weight = static_cast<double>(x.principal->weight),
                 .band = queue.bands[queue.BandOf(x.Priority())].name,
                 .cost = QueueCost({.input = x.prompt_tokens_est, .output = x.ExpectedOutput()}),
                 .bytes = x.body.size() + kFootprint,
                 .deadline = std::min(in_time, now + max_wait),
                 .yields = Times(queue.shorter_first, takes),
                 .model = x.model().config->name,
                 .facts = x.prefix.Facts(x)},
      now);
  if (const router::Entered entered = x.place->Enter(now); entered.refused != WaitRefusal::kNone) {
    x.place.reset();
    co_return Turn{Outcome::kRefused, entered};
  }
  waits->Call(*x.shard.runtime(), now);  // somebody may have left since room was looked for
  x.demand.Hold();
  Heartbeat heartbeat(x, cold ? x.model().policy->scaling.heartbeat : conf::Duration());
  x.waiting = x.place.get();
  QueuePlace::Outcome outcome = co_await x.place->Wait();
  while (outcome == QueuePlace::Outcome::kTurn) {
    TakeLatest(x);
    now = net::Now();
    const router::RoomFound found = LookForRoom(x, now);
    if (found.replicas > 0 || (!found.expected() && !x.runtime->MayStart(x.model_id))) break;
    x.place->PutBack(now);
    waits->Call(*x.runtime, now);
    outcome = co_await x.place->Wait();
  }
  x.waiting = nullptr;
  x.demand.LetGo();
  co_await heartbeat.Stop();
  x.at.dispatched = net::Now();
  if (outcome == QueuePlace::Outcome::kTurn && !x.client_gone) co_return Turn{Outcome::kCome, {}};
  x.place.reset();
  waits->Call(*x.shard.runtime(), x.at.dispatched);
  if (x.client_gone) co_return Turn{Outcome::kClientGone, {}};
  if (x.at.dispatched >= *x.deadline) co_return Turn{Outcome::kOutOfTime, {}};
  if (x.at.dispatched < in_time) co_return Turn{Outcome::kWaitedTooLong, {}};
  router::Entered late{.refused = WaitRefusal::kTooLate};
  late.expected_wait = waits->Look(x.at.dispatched, 0).expected_wait.value_or(kShortestRetry);
  co_return Turn{Outcome::kRefused, late};
}

}  // namespace gateway::stages
