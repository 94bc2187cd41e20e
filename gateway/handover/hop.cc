#include "gateway/handover/hop.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/exchange.h"
#include "gateway/handover/prefill_answer.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/upstream/replica_failure.h"
#include "gateway/upstream/upstream.h"

namespace gateway::handover {
namespace {

using router::Event;
using Status = net::http::ClientConnection::Status;

constexpr std::string_view kForSomebodyElse =
    R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null},)";
constexpr size_t kTail = 4096;  // of an answer that is dropped: where its usage stands
// How long an answer that nobody needs may take to end, so that its connection can be used again.
constexpr conf::Duration kEndOfAnswer = std::chrono::milliseconds(250);

class GiveUp final : public net::Alarm {
 public:
  GiveUp(net::Watchdog& watchdog, Hop& hop) : Alarm(watchdog), hop_(hop) { SetAfter(kEndOfAnswer); }

 private:
  void OnAlarm() override { hop_.Abort(); }
  Hop& hop_;
};

// Whether every replica of the model gets this API as a chat.
bool AlwaysTranslated(const Exchange& x, config::Api api) {
  return x.model().config->translate &&
         std::ranges::none_of(x.runtime->routes().replicas(x.model_id), [&](const router::Replica& replica) {
           return x.runtime->replica(replica.id).config->apis.Has(api);
         });
}

}  // namespace

bool CanBeSplit(const Exchange& x) {
  if (x.form || x.facts.n != 1 || x.facts.inputs > 1 || x.facts.says_handover) return false;
  switch (x.spec->api) {
    case router::Api::kChatCompletions:
    case router::Api::kCompletions:
      return true;
    case router::Api::kMessages:
      return AlwaysTranslated(x, config::Api::kMessages);
    case router::Api::kResponses:
      return AlwaysTranslated(x, config::Api::kResponses);
    default:
      return false;
  }
}

Hop::Hop(Exchange& x) : x_(x) {}
Hop::~Hop() = default;

void Hop::Forget() {
  members_.clear();
  computed_at_.reset();
  cached_.reset();
  in_vain_ = false;
  failure_.reset();
}

net::Task<Event> Hop::Compute(const router::Step& step, conf::TimePoint now) {
  Forget();
  const Event event = co_await Try(step, kForSomebodyElse, true, now);
  time_ = net::Now() - now;
  x_.at.prefill += time_;
  Tell(step, event, net::Now());
  co_return event;
}

net::Task<void> Hop::Begin(const router::Step& step, conf::TimePoint now) {
  if (beside_) {
    Abort();
    co_await Finish();
  }
  Forget();
  aborted_ = x_.client_gone;
  const config::Endpoint& prefill = *x_.runtime->replica(*step.prefill).config;
  const uint64_t room = x_.shard.rng.Next() >> 1;
  fmt::format_to(
      std::back_inserter(members_), R"("bootstrap_host":{},"bootstrap_port":{},"bootstrap_room":{},)",
      router::QuoteJson(prefill.url.host), prefill.bootstrap_port.value_or(config::kBootstrapPort), room);
  // Without it nobody would answer.
  computed_at_ = step.prefill;
  beside_ = true;
  ended_.Reset();
  x_.shard.loop.tasks.Spawn(RunBeside(step, now));
}

net::Task<void> Hop::RunBeside(router::Step step, conf::TimePoint now) {
  Event event = Event::Of(Event::Kind::kReusedClosed);
  while (event.kind == Event::Kind::kReusedClosed) {
    event = co_await Try(step, members_, false, now);
    step.fresh_connection = true;
  }
  time_ = net::Now() - now;
  Tell(step, event, net::Now());
  if (event.kind == Event::Kind::kCompleted && !aborted_) {
    x_.attempt->ResumePrefill(event, net::Now());
  } else if (!aborted_) {
    computed_at_.reset();
    failure_ = event;
    if (x_.upstream) x_.upstream->Abort();
  }
  beside_ = false;
  ended_.Set();
}

net::Task<Event> Hop::Try(const router::Step& step, std::string_view members, bool only_prompt,
                          conf::TimePoint now) {
  const router::Replica& route = x_.runtime->routes().replica(*step.prefill);
  x_.shard.metrics.replica(*x_.runtime, route.id).attempts.Add();
  x_.prefix.Sent(x_, route.id, now);
  x_.reservation.MarkForwarded();
  Upstream upstream(x_, route, step.model, {.members = members, .only_prompt = only_prompt, .hop = this});
  if (!upstream.Prepare()) co_return Event::Of(Event::Kind::kClientGone);
  Event event = co_await upstream.Send(step.fresh_connection, now);
  if (event.kind == Event::Kind::kStatus && event.status < 400) {
    const config::Timeouts& timeouts = x_.runtime->model(route.model).config->timeouts;
    event = co_await ReadAnswer(upstream, only_prompt, std::min(now + timeouts.first_byte, x_.until));
  }
  if (upstream.refusal().status > 0) refusal_ = upstream.refusal();
  upstream.Release(net::Now());
  co_return event;
}

net::Task<Event> Hop::ReadAnswer(Upstream& upstream, bool only_prompt, conf::TimePoint until) {
  net::http::ClientConnection& connection = upstream.connection();
  std::string tail;
  Status status = Status::kOk;
  waiting_ = &connection;
  while (!connection.done() && status == Status::kOk) {
    status = aborted_ ? Status::kAborted : co_await connection.ReadSome(until);
    if (only_prompt) {
      if (connection.payload().size() > kMaxAnswer) status = Status::kMalformed;
    } else {
      tail.append(connection.payload());
      if (tail.size() > kTail) tail.erase(0, tail.size() - kTail);
      connection.Take(connection.payload().size());
    }
  }
  waiting_ = nullptr;
  if (x_.client_gone || status == Status::kAborted) co_return Event::Of(Event::Kind::kClientGone);
  if (status != Status::kOk)
    co_return Event::Of(status == Status::kTimedOut ? Event::Kind::kTimedOut : Event::Kind::kBroken);
  std::optional<api::Usage> usage;
  if (only_prompt) {
    const std::optional<PrefillAnswer> answer = ReadPrefillAnswer(connection.payload());
    if (!answer) co_return Event::Of(Event::Kind::kBroken);
    in_vain_ = answer->params.empty();
    if (!in_vain_) members_.append(R"("kv_transfer_params":)").append(answer->params).append(",");
    usage = answer->usage;
  } else {
    usage = api::UsageFromJson(tail);
  }
  if (usage) cached_ = usage->cached_input;
  co_return Event::Of(Event::Kind::kCompleted);
}

void Hop::Tell(const router::Step& step, const Event& event, conf::TimePoint now) {
  ModelCells& cells = x_.shard.metrics.model(*x_.runtime, step.model);
  if (event.kind != Event::Kind::kCompleted) {
    NoteFailure(x_, *step.prefill, "prefill failed", event);
    return;
  }
  if (in_vain_) {
    log::Warn("prefill without kv_transfer_params",
              {{"request_id", x_.id}, {"replica", x_.runtime->replica(*step.prefill).name()}});
  } else {
    computed_at_ = step.prefill;
  }
  cells.prefill_time.Observe(time_);
  x_.prefix.Computed(x_, *step.prefill, now);
}

uint64_t Hop::CachedOf(const api::Usage& answer) const {
  // To whoever answers, all that it was handed seems to come from a cache.
  return computed_at_ ? std::min(cached_.value_or(0), answer.input) : answer.cached_input;
}

void Hop::Abort() {
  aborted_ = true;
  if (waiting_) waiting_->Abort();
}

net::Task<void> Hop::Finish() {
  if (!beside_) co_return;
  if (aborted_ || x_.client_gone) Abort();
  const GiveUp alarm(x_.shard.loop.watchdog, *this);
  co_await ended_.Wait();
}

}  // namespace gateway::handover
