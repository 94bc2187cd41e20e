#include "gateway/request/shadow_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/net/abort_group.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/sse.h"
#include "gateway/request/stream_tally.h"
#include "gateway/routing/answer_text.h"
#include "router/facts/splice.h"

namespace gateway::routing {
namespace {

using net::AsBuffer;
using net::http::ClientConnection;

constexpr net::http::HeadLimits kCopyHeadLimits{64 * 1024, 200};

std::string_view Describe(ClientConnection::Status status) {
  using Status = ClientConnection::Status;
  switch (status) {
    case Status::kOk:
      return "";
    case Status::kClosed:
      return "the replica broke off";
    case Status::kMalformed:
      return "the replica's answer is not HTTP";
    case Status::kTimedOut:
      return "the replica did not answer in time";
    case Status::kAborted:
      return "the gateway stopped before the copy ended";
  }
  return "";
}

}  // namespace

Routes RoutesOf(const std::shared_ptr<const Runtime>& runtime) {
  return {std::shared_ptr<const router::RouteTable>(runtime, &runtime->routes()), &runtime->names()};
}

void KeptAnswer::Add(std::string_view piece, uint64_t most) {
  if (text.size() + piece.size() > most) whole = false;
  if (whole) text += piece;
}

ShadowComparison::ShadowComparison(const OutgoingRequest& request, ModelId to_model, std::string to_replica,
                                   uint64_t most)
    : shard_(request.shard),
      cells_(request.shard.metrics.model(request.runtime->names(), request.model_id).shadow),
      most_(most),
      stream_(request.body.facts.stream),
      runtime_(request.runtime) {
  result_.routes = RoutesOf(request.runtime);
  result_.request = std::string(request.identity.id);
  result_.model = request.model_id;
  result_.to_model = to_model;
  result_.replica = std::move(to_replica);
}

void ShadowComparison::RequestEnded(const Outcome& outcome, bool answer_whole) {
  result_.answer = outcome;
  answer_whole_ = answer_whole;
  request_ended_ = true;
  if (copy_ended_) Compare();
}

void ShadowComparison::CopyEnded(CopyResult copy) {
  result_.error = std::move(copy.error);
  result_.copy = copy.outcome;
  copy_ = std::move(copy.answer);
  copy_ended_ = true;
  if (request_ended_) Compare();
}

void ShadowComparison::Compare() {
  result_.at = net::Now();
  if (!result_.error.empty()) {
    cells_.failed.Add();
  } else if (!answer_whole_) {
    cells_.unpaired.Add();
  } else {
    cells_.compared.Add();
    const Outcome& answer = result_.answer;
    const Outcome& copy = result_.copy;
    if (answer.status != copy.status) cells_.status_differs.Add();
    if (answer.finish != copy.finish) cells_.finish_differs.Add();
    if (answer.output != copy.output) cells_.output_tokens_differ.Add();
    if (copy.first_token > conf::Duration::zero()) cells_.time_to_first_token.Observe(copy.first_token);
    cells_.duration.Observe(copy.total);
    if (answer.status == 200 && copy.status == 200 && answer_.whole && copy_.whole) {
      const std::string text = AnswerText(answer_.text, stream_);
      if (!text.empty()) {
        result_.texts = text == AnswerText(copy_.text, stream_) ? Compared::kSame : Compared::kDiffer;
        if (result_.texts == Compared::kDiffer) cells_.text_differs.Add();
      }
    }
  }
  if (runtime_->config().routing_log.sample > 0) shard_.shared.routing_log->Add(std::move(result_));
}

namespace {

// One running copy. It owns its text, because the request may end first.
struct ShadowCopy {
  // False: no replica can take the copy.
  bool Prepare(const OutgoingRequest& request, const config::Shadow& config, const router::PickFacts& facts,
               conf::TimePoint now);
  net::Task<void> Send(net::AbortGroup::Member& member);
  net::Task<void> Execute(net::AbortGroup::Member& member);
  net::Task<std::unique_ptr<ClientConnection>> Connect(net::http::Pool& pool, const net::Remote& remote,
                                                       net::AbortGroup::Member& member);

  Shard& shard;
  std::shared_ptr<const Runtime> runtime{};
  std::shared_ptr<ShadowComparison> comparison{};
  ShadowCells* cells = nullptr;  // of the request's model
  uint64_t most = 0;             // bytes of the answer that are kept
  bool stream = false;
  router::Charge charge{};
  ReplicaId replica{};
  router::CallerId caller = router::kAnyCaller;
  std::string head{};
  std::string body{};
  router::Api api{};
  conf::TimePoint sent{};
  conf::TimePoint until{};
  CopyResult result{};
};

net::Task<void> Run(std::shared_ptr<ShadowCopy> copy) {
  net::AbortGroup::Member member(&copy->shard.shadow_copies);
  co_await copy->Send(member);
}

bool ShadowCopy::Prepare(const OutgoingRequest& request, const config::Shadow& config,
                         const router::PickFacts& facts, conf::TimePoint now) {
  runtime = request.runtime;
  const router::RouteTable& routes = runtime->routes();
  const ModelId model = config.model.empty() ? request.model_id : *routes.Find(config.model);
  router::PickFacts wanted = facts;
  wanted.track = routes.TrackNamed(config.track);
  wanted.cached = {};
  wanted.of_session.reset();
  wanted.log = nullptr;
  router::Decision decision = router::Pick(routes, model, runtime->load(), wanted, {}, now, shard.rng);
  if (!decision.replica) return false;
  const router::Replica& route = routes.replica(*decision.replica);
  const ReplicaRuntime& to = runtime->replica(route.id);
  const std::optional<config::Api> family = config::FamilyOf(request.identity.spec->api);
  // Stable replicas serve the request itself, and copies are not translated.
  if (route.track != wanted.track || !family || !to.config->apis.Has(*family)) return false;

  most = config.bytes;
  stream = request.body.facts.stream;
  comparison = std::make_shared<ShadowComparison>(request, model, to.name(), most);
  charge = std::move(decision.charge);
  replica = route.id;
  caller = facts.caller;
  api = request.identity.spec->api;
  until = now + config.timeout;
  router::SpliceRequest splice;
  const router::UpstreamName name = routes.NameAt(model, route);
  if (request.body.facts.model.view() != name.name) splice.upstream_model_json = name.json;
  splice.output_cap = request.output_cap;
  if (config::KnowsCacheSalt(to.config->engine, api)) splice.cache_salt = request.identity.cache_salt();
  body = router::PlanSplices(api, request.body.facts, splice).Apply(request.body.text);
  // The copy gets only the path of the client's head: the fields are meant for the model that the client named.
  head = fmt::format(
      "POST {}{} HTTP/1.1\r\n{}content-type: application/json\r\nx-request-id: {}\r\nx-tidegate-shadow: "
      "1\r\ncontent-length: {}\r\n\r\n",
      to.config->url.path, config::TargetBehind(to.config->url, request.client.head().target), to.fields,
      request.identity.id, body.size());
  return true;
}

net::Task<void> ShadowCopy::Send(net::AbortGroup::Member& member) {
  sent = net::Now();
  co_await Execute(member);
  const conf::TimePoint now = net::Now();
  Outcome& outcome = result.outcome;
  outcome.total = now - sent;
  if (result.error.empty()) {
    charge.Report(router::OutcomeOf(outcome.status, false), now, caller);
    if (outcome.status == 200) charge.Answered(now);
    charge.LastToken(static_cast<int64_t>(outcome.output), now);
  } else if (!member.aborted()) {
    charge.Report(router::Outcome::kBad, now, caller);
  }
  charge.Release();
  cells->active.Sub();
  comparison->CopyEnded(std::move(result));
}

// Null: result.error says why.
net::Task<std::unique_ptr<ClientConnection>> ShadowCopy::Connect(net::http::Pool& pool,
                                                                 const net::Remote& remote,
                                                                 net::AbortGroup::Member& member) {
  std::unique_ptr<ClientConnection> connection = pool.TakeIdle(net::Now());
  if (connection) co_return connection;
  net::Connector connector(shard.loop.io);
  net::ConnectDeadline deadline(shard.loop.watchdog, connector);
  deadline.Set(until);
  if (!member.Begin(connector)) {
    result.error = Describe(ClientConnection::Status::kAborted);
    co_return nullptr;
  }
  net::ConnectResult connected = co_await connector.Connect(remote);
  deadline.Clear();
  if (connected.error) {
    result.error = "the replica could not be reached";
    co_return nullptr;
  }
  co_return std::make_unique<ClientConnection>(shard.loop, std::move(connected.stream));
}

net::Task<void> ShadowCopy::Execute(net::AbortGroup::Member& member) {
  using Status = ClientConnection::Status;
  std::string& error = result.error;
  const ReplicaRuntime& to = runtime->replica(replica);
  const std::shared_ptr<net::http::Pool> pool = shard.PoolFor(to);
  std::unique_ptr<ClientConnection> connection = co_await Connect(*pool, to.remote, member);
  if (!connection) co_return;
  connection->BeginExchange();
  connection->SetTimeoutAt(until);
  if (!member.Begin(*connection)) {
    error = Describe(Status::kAborted);
    co_return;
  }
  const std::array<net::ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(body)};
  const net::IoResult written = co_await connection->Write(parts);
  Status status =
      written ? co_await connection->ReadHead(kCopyHeadLimits) : connection->StatusOf(written.error);
  if (status != Status::kOk) {
    error = Describe(status);
    co_return;
  }
  Outcome& outcome = result.outcome;
  outcome.status = connection->head().status;
  net::SseFramer framer;
  StreamTally tally(api, false);
  const bool events = stream && outcome.status == 200;
  while (true) {
    const size_t taken = events ? framer.Whole(connection->payload()) : connection->payload().size();
    if (taken > 0) {
      result.answer.Add(connection->payload().substr(0, taken), most);
      if (events) tally.Pass(connection->payload_data(), taken);
      const conf::TimePoint now = net::Now();
      if (outcome.first_token > conf::Duration::zero()) {
        charge.Token(now);
      } else if (!events || tally.events() > 0) {
        outcome.first_token = now - sent;
        charge.FirstToken(now);
      }
      connection->Take(taken);
      framer.Taken(taken);
    } else if (connection->payload().size() > most) {
      error = "the replica sent an event that is too large to compare";
      co_return;
    }
    if (connection->done()) break;
    status = co_await connection->ReadSome();
    if (status == Status::kOk) continue;
    error = Describe(status);
    co_return;
  }
  connection->ClearTimeout();
  if (connection->EndExchange()) pool->Return(std::move(connection), net::Now());
  if (events && tally.needs_marker() && !tally.finished()) {
    error = "the replica ended its stream before the answer was whole";
    co_return;
  }
  const std::optional<api::Usage> usage = stream ? tally.usage() : api::UsageFromJson(result.answer.text);
  outcome.finish = stream ? tally.finish() : api::FinishFromJson(result.answer.text);
  if (!usage) co_return;
  outcome.input = usage->input;
  outcome.cached = usage->cached_input;
  outcome.output = usage->output;
}

}  // namespace

std::shared_ptr<ShadowComparison> StartShadowCopy(const OutgoingRequest& request,
                                                  std::span<const config::Shadow> shadows,
                                                  const router::PickFacts& facts, conf::TimePoint now) {
  double left = request.shard.rng.Double() * 100;
  const auto drawn =
      std::ranges::find_if(shadows, [&](const config::Shadow& one) { return (left -= one.percent) < 0; });
  if (drawn == shadows.end()) return nullptr;
  const config::Shadow& config = *drawn;
  ShadowCells& cells = request.shard.metrics.model(request.runtime->names(), request.model_id).shadow;
  auto copy = std::make_shared<ShadowCopy>(request.shard);
  copy->cells = &cells;
  const RequestBody& body = request.body;
  const bool fits =
      !body.form && !body.facts.has_transfer_members && body.whole && body.text.size() <= config.bytes;
  if (!fits || cells.active.value() >= config.in_flight || !copy->Prepare(request, config, facts, now)) {
    cells.skipped.Add();
    return nullptr;
  }
  cells.active.Add();
  std::shared_ptr<ShadowComparison> comparison = copy->comparison;
  // After the request itself has been sent.
  request.shard.loop.Post([copy = std::move(copy)] { copy->shard.loop.tasks.Spawn(Run(copy)); });
  return comparison;
}

}  // namespace gateway::routing
