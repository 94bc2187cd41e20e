// admit: a request that finds replicas just full enough, or others before it, waits its turn here, where it
// can still leave, be refused, or go to whichever replica is free first.
#include <fmt/format.h>

#include <algorithm>

#include "gateway/heartbeat.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "router/admission/room.h"

namespace gateway::stages {
namespace {

using router::WaitRefusal;

// What a waiting request holds beside its body: its frames, its exchange, its connection's buffers.
constexpr uint64_t kFootprint = 8 << 10;
// So that a client that obeys cannot spin.
constexpr conf::Duration kShortestRetry = std::chrono::milliseconds(1);

bool HasRoom(const Runtime& runtime, ModelId model, conf::TimePoint now) {
  const router::RoomFound found = router::LookForRoom(runtime.routes(), model, runtime.load(), 1, now);
  return found.replicas > 0 || !found.usable;  // where nobody can be asked, the attempt says why
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
          "{} is busy: at the pace measured, the turn of this request would come {} too late", model,
          conf::FormatDuration(std::chrono::ceil<std::chrono::milliseconds>(entered.expected_wait)));
    case WaitRefusal::kNone:
    case WaitRefusal::kQueueFull:
      break;
  }
  return fmt::format("{} is busy, and its queue is full", model);
}

// A refusal burns nothing of any limit.
Verdict Refuse(Exchange& x, const router::Entered& entered) {
  const std::string_view limit = CodeName(entered.refused);
  x.shard.metrics.model(*x.runtime, x.model_id).queue_refusals[static_cast<size_t>(entered.refused)].Add();
  api::ApiError error = api::Make(CodeOf(entered.refused), MessageOf(x, entered));
  error.retry_after = std::max(entered.expected_wait, kShortestRetry);
  x.reservation.Refund();
  error.limit = x.limit = fmt::format("model:{}/{}", x.model().config->name, limit);
  return x.Fail(std::move(error));
}

Verdict Expired(Exchange& x) {
  x.reservation.Refund();
  x.shard.metrics.model(*x.runtime, x.model_id).queue_refusals[0].Add();
  const std::string& model = x.model().config->name;
  if (x.at.dispatched >= *x.deadline) {
    return x.Fail(
        api::Make(
            api::Code::kDeadlineExceeded,
            fmt::format("the time that this request may take has passed while it waited for {}", model)),
        ledger::EndReason::kTimedOut);
  }
  api::ApiError error = api::Make(api::Code::kQueueTimeout,
                                  fmt::format("{} is busy: the request has waited as long as it may", model));
  const ModelQueue::View view = x.model().waits->Look(x.at.dispatched, 0);
  if (view.expected_wait) error.retry_after = std::max(*view.expected_wait, kShortestRetry);
  return x.Fail(std::move(error), ledger::EndReason::kTimedOut);
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

bool GoesAtOnce(const Exchange& x, conf::TimePoint now) {
  const ModelRuntime& model = x.model();
  return !model.queue || (model.waits->waiting() == 0 && HasRoom(*x.runtime, x.model_id, now));
}

void CallNext(const Exchange& x, conf::TimePoint now) {
  if (x.replica == kNoReplica) return;
  const router::Replica& replica = x.runtime->routes().replica(x.replica);
  ModelQueue& queue = *x.runtime->model(replica.model).waits;
  if (queue.waiting() == 0) return;
  const std::shared_ptr<const Runtime> latest = x.shard.runtime();
  queue.Call(*latest, now, latest == x.runtime ? std::optional(x.replica) : std::nullopt);
}

net::Task<Verdict> AwaitTurn(Exchange& x) {
  conf::TimePoint now = x.at.queued;
  const config::Queue& queue = *x.model().queue;
  const std::shared_ptr<ModelQueue> waits = x.model().waits;
  const std::string_view priority = x.asked_priority.empty() ? x.principal->priority : x.asked_priority;
  x.place = std::make_unique<QueuePlace>(
      waits, x.shard.loop,
      QueueEntry{.request = x.id,
                 .tenant = x.principal->tenant,
                 .weight = static_cast<double>(x.principal->weight),
                 .band = queue.bands[queue.BandOf(priority)].name,
                 .cost = QueueCost({.input = x.prompt_tokens_est, .output = x.ExpectedOutput()}),
                 .bytes = x.body.size() + kFootprint,
                 .deadline = std::min(*x.deadline, now + queue.max_wait)},
      now);
  if (const router::Entered entered = x.place->Enter(now); entered.refused != WaitRefusal::kNone) {
    co_return Refuse(x, entered);
  }
  waits->Call(*x.shard.runtime(), now);  // somebody may have left since room was looked for
  Heartbeat heartbeat(x);
  x.waiting = x.place.get();
  QueuePlace::Outcome outcome = co_await x.place->Wait();
  while (outcome == QueuePlace::Outcome::kTurn) {
    TakeLatest(x);
    now = net::Now();
    if (HasRoom(*x.runtime, x.model_id, now)) break;
    x.place->PutBack(now);
    waits->Call(*x.runtime, now);
    outcome = co_await x.place->Wait();
  }
  x.waiting = nullptr;
  co_await heartbeat.Stop();
  x.at.dispatched = net::Now();
  if (outcome == QueuePlace::Outcome::kTurn && !x.client_gone) co_return Verdict::kGoOn;
  x.place.reset();
  waits->Call(*x.shard.runtime(), x.at.dispatched);
  co_return x.client_gone ? x.Gone() : Expired(x);
}

}  // namespace gateway::stages
