#include "gateway/routing/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/exchange.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/sse.h"
#include "gateway/routing/answer_text.h"
#include "gateway/shard.h"
#include "gateway/upstream/stream_tally.h"
#include "router/splice.h"

namespace gateway::routing {
namespace {

using net::AsBuffer;
using net::http::ClientConnection;
using Status = ClientConnection::Status;

constexpr net::http::HeadLimits kAnswerHead{64 * 1024, 200};

std::string_view WordFor(Status status) {
  switch (status) {
    case Status::kOk:
      return "";
    case Status::kClosed:
      return "broke off";
    case Status::kMalformed:
      return "answered with what is not HTTP";
    case Status::kTimedOut:
      return "did not answer in time";
    case Status::kAborted:
      return "was given up when the gateway stopped";
  }
  return "";
}

}  // namespace

void Shadow::Kept::Add(std::string_view piece, uint64_t most) {
  if (text.size() + piece.size() > most) whole = false;
  if (whole) text += piece;
}

Shadow::Shadow(const Exchange& x, const config::Shadow& config)
    : shard_(x.shard),
      cells_(x.shard.metrics.model(*x.runtime, x.model_id)),
      most_(config.bytes),
      stream_(x.facts.stream) {
  result_.runtime = x.runtime;
  result_.request = std::string(x.id);
  result_.model = x.model_id;
}

void Shadow::RequestEnded(const Exchange& x, const Outcome& outcome) {
  result_.answer = outcome;
  answer_whole_ = x.answer_whole;
  request_ended_ = true;
  if (copy_ended_) Compare();
}

void Shadow::CopyEnded() {
  copy_ended_ = true;
  if (request_ended_) Compare();
}

void Shadow::Compare() {
  ShadowCells& cells = cells_.shadow;
  result_.at = net::Now();
  if (!result_.error.empty()) {
    cells.failed.Add();
  } else if (!answer_whole_) {
    cells.unpaired.Add();
  } else {
    cells.compared.Add();
    const Outcome& answer = result_.answer;
    const Outcome& copy = result_.copy;
    if (answer.status != copy.status) cells.status_differs.Add();
    if (answer.finish != copy.finish) cells.finish_differs.Add();
    if (answer.output != copy.output) cells.output_tokens_differ.Add();
    if (copy.first_token > conf::Duration::zero()) cells.time_to_first_token.Observe(copy.first_token);
    cells.duration.Observe(copy.total);
    if (answer.status == 200 && copy.status == 200 && answer_.whole && copy_.whole) {
      const std::string text = AnswerText(answer_.text, stream_);
      if (!text.empty()) {
        result_.texts = text == AnswerText(copy_.text, stream_) ? Compared::kSame : Compared::kDiffer;
        if (result_.texts == Compared::kDiffer) cells.text_differs.Add();
      }
    }
  }
  if (result_.runtime->config().routing_log.sample > 0) shard_.shared.routing_log->Add(std::move(result_));
}

struct Shadows::Copy {
  std::shared_ptr<Shadow> shadow;
  router::Charge charge;
  ReplicaId replica{};
  std::string head;
  std::string body;
  router::Api api{};
  conf::TimePoint sent;
  conf::TimePoint until;
};

std::shared_ptr<Shadow> Shadows::Start(const Exchange& x, std::span<const config::Shadow> shadows,
                                       const router::PickFacts& facts, conf::TimePoint now) {
  double left = x.shard.rng.Double() * 100;
  const auto drawn =
      std::ranges::find_if(shadows, [&](const config::Shadow& one) { return (left -= one.percent) < 0; });
  if (drawn == shadows.end()) return nullptr;
  const config::Shadow& config = *drawn;
  ShadowCells& cells = shard_.metrics.model(*x.runtime, x.model_id).shadow;
  auto copy = std::make_shared<Copy>();
  const bool fits = !x.form && !x.facts.says_handover && x.body_whole && x.body.size() <= config.bytes;
  if (!fits || cells.active.value() >= config.in_flight || !Prepare(x, config, facts, now, *copy)) {
    cells.skipped.Add();
    return nullptr;
  }
  cells.active.Add();
  std::shared_ptr<Shadow> shadow = copy->shadow;
  // When the request itself is on its way.
  shard_.loop.Post([this, copy = std::move(copy)] { shard_.loop.tasks.Spawn(Send(copy)); });
  return shadow;
}

bool Shadows::Prepare(const Exchange& x, const config::Shadow& config, const router::PickFacts& facts,
                      conf::TimePoint now, Copy& copy) {
  const Runtime& runtime = *x.runtime;
  const router::RouteTable& routes = runtime.routes();
  const ModelId model = config.model.empty() ? x.model_id : *routes.Find(config.model);
  router::PickFacts wanted = facts;
  wanted.track = routes.TrackNamed(config.track);
  wanted.cached = {};
  wanted.of_session.reset();
  wanted.log = nullptr;
  router::Decision decision = router::Pick(routes, model, runtime.load(), wanted, {}, now, shard_.rng);
  if (!decision.replica) return false;
  const router::Replica& route = routes.replica(*decision.replica);
  const ReplicaRuntime& replica = runtime.replica(route.id);
  const std::optional<config::Api> family = config::FamilyOf(x.spec->api);
  // The stable ones have had the request itself, and nothing is translated for a copy.
  if (route.track != wanted.track || !family || !replica.config->apis.Has(*family)) return false;

  copy.shadow = std::make_shared<Shadow>(x, config);
  copy.shadow->result_.to_model = model;
  copy.shadow->result_.replica = replica.name();
  copy.charge = std::move(decision.charge);
  copy.replica = route.id;
  copy.api = x.spec->api;
  copy.until = now + config.timeout;
  router::SpliceRequest splice;
  const router::UpstreamName name = routes.NameAt(model, route);
  if (x.facts.model.view() != name.name) splice.upstream_model_json = name.json;
  splice.output_cap = x.output_cap;
  copy.body = router::PlanSplices(copy.api, x.facts, splice).Apply(x.body);
  // Nothing of the client's head but what is asked for: its fields are meant for the model that it named.
  copy.head = fmt::format(
      "POST {}{} HTTP/1.1\r\n{}content-type: application/json\r\nx-request-id: {}\r\nx-tidegate-shadow: "
      "1\r\ncontent-length: {}\r\n\r\n",
      replica.config->url.path, x.client.head().target, replica.fields, x.id, copy.body.size());
  return true;
}

net::Task<void> Shadows::Send(std::shared_ptr<Copy> copy) {
  net::AbortGroup::Member member(&under_way_);
  copy->sent = net::Now();
  co_await Carry(*copy, member);
  Shadow& shadow = *copy->shadow;
  const conf::TimePoint now = net::Now();
  Outcome& outcome = shadow.result_.copy;
  outcome.total = now - copy->sent;
  if (shadow.result_.error.empty()) {
    copy->charge.Report(router::OutcomeOf(outcome.status, false), now);
    if (outcome.status == 200) copy->charge.Answered(now);
    copy->charge.LastToken(static_cast<int64_t>(outcome.output), now);
  } else if (!member.aborted()) {
    copy->charge.Report(router::Outcome::kBad, now);
  }
  copy->charge.Release();
  shadow.cells_.shadow.active.Sub();
  shadow.CopyEnded();
}

net::Task<void> Shadows::Carry(Copy& copy, net::AbortGroup::Member& member) {
  Shadow& shadow = *copy.shadow;
  std::string& error = shadow.result_.error;
  const ReplicaRuntime& replica = shadow.result_.runtime->replica(copy.replica);
  const std::shared_ptr<net::http::Pool> pool = shard_.PoolFor(replica);
  std::unique_ptr<ClientConnection> connection = pool->TakeIdle(net::Now());
  if (!connection) {
    net::Connector connector(shard_.loop.io);
    net::ConnectDeadline deadline(shard_.loop.watchdog, connector);
    deadline.Set(copy.until);
    if (!member.Begin(connector)) {
      error = WordFor(Status::kAborted);
      co_return;
    }
    net::ConnectResult connected = co_await connector.Connect(replica.remote);
    deadline.Clear();
    if (connected.error) {
      error = "could not be reached";
      co_return;
    }
    connection = std::make_unique<ClientConnection>(shard_.loop, std::move(connected.stream));
  }
  connection->BeginExchange();
  connection->SetTimeoutAt(copy.until);
  if (!member.Begin(*connection)) {
    error = WordFor(Status::kAborted);
    co_return;
  }
  const std::array<net::ConstBuffer, 2> parts{AsBuffer(copy.head), AsBuffer(copy.body)};
  const net::IoResult written = co_await connection->Write(parts);
  Status status = written ? co_await connection->ReadHead(kAnswerHead) : connection->StatusOf(written.error);
  if (status != Status::kOk) {
    error = WordFor(status);
    co_return;
  }
  Outcome& outcome = shadow.result_.copy;
  outcome.status = connection->head().status;
  net::SseFramer framer;
  StreamTally tally(copy.api, false);
  while (true) {
    const bool events = shadow.stream_ && outcome.status == 200;
    const size_t taken = events ? framer.Whole(connection->payload()) : connection->payload().size();
    if (taken > 0) {
      shadow.copy_.Add(connection->payload().substr(0, taken), shadow.most_);
      if (events) tally.Pass(connection->payload_data(), taken);
      const conf::TimePoint now = net::Now();
      if (outcome.first_token > conf::Duration::zero()) {
        copy.charge.Token(now);
      } else if (!events || tally.events() > 0) {
        outcome.first_token = now - copy.sent;
        copy.charge.FirstToken(now);
      }
      connection->Take(taken);
      framer.Taken(taken);
    } else if (connection->payload().size() > shadow.most_) {
      error = "sent an event larger than is compared";
      co_return;
    }
    if (connection->done()) break;
    status = co_await connection->ReadSome();
    if (status == Status::kOk) continue;
    error = WordFor(status);
    co_return;
  }
  connection->ClearTimeout();
  if (connection->EndExchange()) pool->Return(std::move(connection), net::Now());
  if (shadow.stream_ && outcome.status == 200 && tally.needs_marker() && !tally.finished()) {
    error = "ended its stream before the answer was whole";
    co_return;
  }
  const std::optional<api::Usage> usage =
      shadow.stream_ ? tally.usage() : api::UsageFromJson(shadow.copy_.text);
  outcome.finish = shadow.stream_ ? tally.finish() : api::FinishFromJson(shadow.copy_.text);
  if (!usage) co_return;
  outcome.input = usage->input;
  outcome.cached = usage->cached_input;
  outcome.output = usage->output;
}

}  // namespace gateway::routing
