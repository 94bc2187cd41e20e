#include "gateway/request/serve/prefill_transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/json_text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/request/serve/prefill_answer.h"
#include "gateway/request/serve/replica_failure.h"

namespace gateway {
namespace {

using router::Event;

constexpr std::string_view kDecodeElsewhere =
    R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null},)";
constexpr size_t kUsageTail = 4096;  // the last bytes of a dropped answer, which hold its usage
// How long an answer that is not needed may take to end. If it does, its connection can be used again.
constexpr conf::Duration kEndOfAnswer = std::chrono::milliseconds(250);

class CancelAfterPause final : public net::Alarm {
 public:
  CancelAfterPause(net::Watchdog& watchdog, CancelScope& cancel) : Alarm(watchdog), cancel_(cancel) {
    SetAfter(kEndOfAnswer);
  }

 private:
  void OnAlarm() override { cancel_.Cancel(); }
  CancelScope& cancel_;
};

// Whether every replica of the model gets requests of this API as chat completions.
bool AlwaysTranslated(const OutgoingRequest& request, config::Api api) {
  const Runtime& runtime = *request.runtime;
  return request.model().config->translate &&
         std::ranges::none_of(runtime.routes().replicas(request.model_id),
                              [&](const router::Replica& replica) {
                                return runtime.replica(replica.id).config->apis.Has(api);
                              });
}

}  // namespace

bool CanSplitPrefill(const OutgoingRequest& request) {
  const router::BodyFacts& facts = request.body.facts;
  if (request.body.form || facts.n != 1 || facts.inputs > 1 || facts.has_transfer_members) return false;
  switch (request.identity.spec->api) {
    case router::Api::kChatCompletions:
    case router::Api::kCompletions:
      return true;
    case router::Api::kMessages:
      return AlwaysTranslated(request, config::Api::kMessages);
    case router::Api::kResponses:
      return AlwaysTranslated(request, config::Api::kResponses);
    default:
      return false;
  }
}

PrefillTransfer::PrefillTransfer(const OutgoingRequest& request, const PromptPrefix& prefix,
                                 const Timeline& at)
    : request_(request), prefix_(prefix), at_(at) {
  request_.client.SetBeside(&cancel_);
}

PrefillTransfer::~PrefillTransfer() {
  request_.client.SetBeside(nullptr);
}

void PrefillTransfer::Forget() {
  members_.clear();
  computed_at_.reset();
  cached_.reset();
  params_missing_ = false;
  failure_.reset();
  answer_ = nullptr;
}

net::Task<void> PrefillTransfer::Restart() {
  if (beside_) {
    cancel_.Cancel();
    co_await Finish();
  }
  Forget();
  cancel_.Reset(request_.client.gone());
}

net::Task<Event> PrefillTransfer::Compute(const router::Step& step, const router::Attempt& attempt,
                                          conf::TimePoint now) {
  co_await Restart();
  const Event event = co_await Try(step, attempt, kDecodeElsewhere, true, now);
  time_ = net::Now() - now;
  Record(step, event, net::Now());
  co_return event;
}

net::Task<void> PrefillTransfer::Begin(const router::Step& step, router::Attempt& attempt,
                                       conf::TimePoint now) {
  co_await Restart();
  const config::Endpoint& prefill = *request_.runtime->replica(*step.prefill).config;
  const uint64_t room = request_.shard.rng.Next() >> 1;
  fmt::format_to(
      std::back_inserter(members_), R"("bootstrap_host":{},"bootstrap_port":{},"bootstrap_room":{},)",
      conf::Quoted(prefill.url.host), prefill.bootstrap_port.value_or(config::kBootstrapPort), room);
  // The answering replica cannot answer without this prefill replica, so no other one can have computed the prompt.
  computed_at_ = step.prefill;
  beside_ = true;
  ended_.Reset();
  request_.shard.loop.tasks.Spawn(RunBeside(step, attempt, now));
}

net::Task<void> PrefillTransfer::RunBeside(router::Step step, router::Attempt& attempt, conf::TimePoint now) {
  Event event = Event::Of(Event::Kind::kReusedClosed);
  while (event.kind == Event::Kind::kReusedClosed) {
    event = co_await Try(step, attempt, members_, false, now);
    step.fresh_connection = true;
  }
  time_ = net::Now() - now;
  Record(step, event, net::Now());
  if (event.kind == Event::Kind::kCompleted && !cancel_.cancelled()) {
    attempt.ResumePrefill(event, net::Now());
  } else if (!cancel_.cancelled()) {
    computed_at_.reset();
    failure_ = event;
    if (answer_) answer_->Abort();
  }
  beside_ = false;
  ended_.Set();
}

net::Task<Event> PrefillTransfer::Try(const router::Step& step, const router::Attempt& attempt,
                                      std::string_view members, bool only_prompt, conf::TimePoint now) {
  const Runtime& runtime = *request_.runtime;
  const router::Replica& replica = runtime.routes().replica(*step.prefill);
  request_.shard.metrics.replica(runtime.names(), replica.id).attempts.Add();
  prefix_.Sent(request_, replica.id, attempt.model(), now);
  Upstream upstream(request_, {.replica = replica,
                               .model = step.model,
                               .attempt = attempt,
                               .cancel = cancel_,
                               .deadline = at_.deadline,
                               .members = members,
                               .only_prompt = only_prompt});
  if (upstream.translates()) request_failure_ = co_await upstream.TranslateBody();
  if (request_failure_) co_return Event::Of(Event::Kind::kClientGone);
  Event event = co_await upstream.Send(step.fresh_connection, net::Now());
  if (event.kind == Event::Kind::kStatus && event.status < 300) {
    const config::Timeouts& timeouts = runtime.model(replica.model).config->timeouts;
    event = co_await ReadAnswer(upstream, only_prompt, std::min(now + timeouts.first_byte, at_.until));
  }
  if (upstream.refusal().status > 0) refusal_ = upstream.refusal();
  upstream.Release(net::Now());
  co_return event;
}

net::Task<Event> PrefillTransfer::ReadAnswer(Upstream& upstream, bool only_prompt, conf::TimePoint until) {
  using Status = net::http::ClientConnection::Status;
  net::http::ClientConnection& connection = upstream.connection();
  std::string tail;
  Status status = Status::kOk;
  cancel_.SetRunning(&connection);
  while (!connection.done() && status == Status::kOk) {
    status = cancel_.cancelled() ? Status::kAborted : co_await connection.ReadSome(until);
    if (only_prompt) {
      if (connection.payload().size() > kMaxPrefillAnswer) status = Status::kMalformed;
    } else {
      tail.append(connection.payload());
      if (tail.size() > kUsageTail) tail.erase(0, tail.size() - kUsageTail);
      connection.Take(connection.payload().size());
    }
  }
  cancel_.SetRunning(nullptr);
  if (request_.client.gone() || status == Status::kAborted) co_return Event::Of(Event::Kind::kClientGone);
  if (status != Status::kOk)
    co_return Event::Of(status == Status::kTimedOut ? Event::Kind::kTimedOut : Event::Kind::kBroken);
  std::optional<api::Usage> usage;
  if (only_prompt) {
    const std::optional<PrefillAnswer> answer = ReadPrefillAnswer(connection.payload());
    if (!answer) co_return Event::Of(Event::Kind::kBroken);
    params_missing_ = answer->params.empty();
    if (!params_missing_) members_.append(R"("kv_transfer_params":)").append(answer->params).append(",");
    usage = answer->usage;
  } else {
    usage = api::UsageFromJson(tail);
  }
  if (usage) cached_ = usage->cached_input;
  co_return Event::Of(Event::Kind::kCompleted);
}

void PrefillTransfer::Record(const router::Step& step, const Event& event, conf::TimePoint now) {
  const Runtime& runtime = *request_.runtime;
  if (event.kind != Event::Kind::kCompleted) {
    RecordReplicaFailure(request_.shard, runtime, request_.identity.id, *step.prefill, "prefill failed",
                         event);
    return;
  }
  if (params_missing_) {
    log::Warn(
        "the prefill replica's answer has no kv_transfer_params: the answering replica computes the prompt",
        {{"request_id", request_.identity.id}, {"replica", runtime.replica(*step.prefill).name()}});
  } else {
    computed_at_ = step.prefill;
  }
  request_.shard.metrics.model(runtime.names(), step.model).prefill_time.Observe(time_);
  // The prefill replica serves the asked model or a fallback, like the try.
  prefix_.Computed(request_, *step.prefill, step.model, now);
}

uint64_t PrefillTransfer::CachedOf(const api::Usage& answer) const {
  // The answering replica reports the whole transferred prompt as cached.
  return computed_at_ ? std::min(cached_.value_or(0), answer.input) : answer.cached_input;
}

net::Task<void> PrefillTransfer::Finish() {
  if (!beside_) co_return;
  if (cancel_.cancelled() || request_.client.gone()) cancel_.Cancel();
  const CancelAfterPause alarm(request_.shard.loop.watchdog, cancel_);
  co_await ended_.Wait();
}

}  // namespace gateway
