#include "gateway/request/serve/upstream.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "conf/text.h"
#include "gateway/api/anthropic.h"
#include "gateway/api/responses.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/net/off_loop.h"
#include "gateway/request/chunk_size.h"
#include "gateway/request/serve/hang_watch.h"
#include "gateway/thread.h"

namespace gateway {
namespace {

using net::AsBuffer;
using net::ConstBuffer;
using net::http::ClientConnection;
using net::http::Field;
using net::http::FieldId;
using router::Event;

constexpr size_t kHeadRoom = 512;  // for the fields that the gateway adds to a client's head
constexpr size_t kMaxRefusalBody = 64 * 1024;
// A larger body is translated on a thread of its own: it can take seconds, and others wait for the shard.
constexpr size_t kTranslatedOnLoop = 1024 * 1024;
constexpr int kNiceOfTranslations = 5;
constexpr net::http::HeadLimits kAnswerHeadLimits{64 * 1024, 200};
// After this time an engine is asked for usage again: it may have been updated and know stream_options now.
constexpr conf::Duration kAskUsageAgain = std::chrono::minutes(10);

// None if no client would wait that long.
std::optional<conf::Duration> WaitOf(double seconds) {
  constexpr double kMostSeconds = 1e6;
  if (!(seconds >= 0 && seconds < kMostSeconds)) return std::nullopt;
  return conf::Duration(static_cast<int64_t>(seconds * 1e9));
}

// Reads a date like "Wed, 21 Oct 2015 07:28:00 GMT", the current form of HTTP. Unix seconds.
std::optional<int64_t> DateOf(std::string_view text) {
  absl::Time time;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", conf::Abseil(text), &time, nullptr)) return std::nullopt;
  return absl::ToUnixSeconds(time);
}

std::optional<conf::Duration> RetryAfterOf(const net::http::Head& head, conf::TimePoint now) {
  const auto number = [](std::string_view text) { return conf::ReadNumber<double>(text).value_or(-1); };
  if (const auto wait = WaitOf(number(head.Find("retry-after-ms")) / 1e3)) return wait;
  const std::string_view text = head.Find(FieldId::retry_after);
  if (const auto wait = WaitOf(number(text))) return wait;
  const std::optional<int64_t> until = DateOf(text);
  if (!until) return std::nullopt;
  // Compared with the upstream's own clock, if the answer has a date.
  const int64_t from = DateOf(head.Find("date")).value_or(conf::ToUnixMicros(now) / 1'000'000);
  return WaitOf(std::max(0.0, static_cast<double>(*until) - static_cast<double>(from)));
}

api::Tokenizer TokenizerOf(config::Engine engine) {
  switch (engine) {
    case config::Engine::kSglang:
      return api::Tokenizer::kPrompt;
    case config::Engine::kLlamacpp:
      return api::Tokenizer::kContent;
    case config::Engine::kTgi:
      return api::Tokenizer::kInputs;
    default:
      return api::Tokenizer::kMessages;
  }
}

// OpenAI refuses top_k; all engines that an operator runs know it.
bool KnowsTopK(const ReplicaRuntime& replica) {
  return replica.config->engine != config::Engine::kOpenai;
}

// OpenAI's reasoning models refuse max_tokens; other providers may not know its successor.
std::string_view BoundOf(const ReplicaRuntime& replica) {
  const std::string_view host = replica.config->url.host;
  const bool openai = replica.config->engine == config::Engine::kOpenai &&
                      (host == "api.openai.com" || host.ends_with(".openai.azure.com"));
  return openai ? "max_completion_tokens" : "max_tokens";
}

}  // namespace

Upstream::Upstream(const OutgoingRequest& request, const UpstreamTry& which)
    : request_(request),
      try_(which),
      model_(request.runtime->model(which.model)),
      name_(request.runtime->routes().NameAt(which.model, which.replica)),
      replica_(request.runtime->replica(which.replica.id)),
      head_(request.shard.texts.Take()) {
  carry_ = ChooseCarry();
}

Upstream::~Upstream() {
  request_.shard.texts.Give(std::move(head_));
}

// Of the engines that have the Responses API, only OpenAI's own count tokens for it.
bool Upstream::CountsItself(router::Api asked) const {
  const config::ApiSet& known = replica_.config->apis;
  return asked == router::Api::kCountTokens
             ? known.Has(config::Api::kMessages)
             : known.Has(config::Api::kResponses) && replica_.config->engine == config::Engine::kOpenai;
}

Carry Upstream::ChooseCarry() const {
  const config::ApiSet& known = replica_.config->apis;
  if (!model_.config->translate || request_.body.form) return Carry::kAsIs;
  const router::Api asked = request_.identity.spec->api;
  if (router::CountsTokens(asked) && !CountsItself(asked)) {
    return known.Has(config::Api::kTokenize) ? Carry::kCountAsTokenize : Carry::kCountHere;
  }
  if (asked == router::Api::kMessages && !known.Has(config::Api::kMessages)) return Carry::kMessagesAsChat;
  const bool responses = asked == router::Api::kResponses && !known.Has(config::Api::kResponses);
  return responses ? Carry::kResponsesAsChat : Carry::kAsIs;
}

api::Translated<api::ChatRequest> Upstream::Translate() const {
  const std::string_view body = request_.body.text;
  const std::string model(name_.name);
  switch (carry_) {
    case Carry::kResponsesAsChat:
      return api::ChatFromResponses(body, model, true);
    case Carry::kMessagesAsChat:
      return api::ChatFromMessages(
          body,
          {.model = model, .padded = true, .knows_top_k = KnowsTopK(replica_), .bound = BoundOf(replica_)});
    default:
      const api::Tokenizer tokenizer = TokenizerOf(replica_.config->engine);
      if (request_.identity.spec->api == router::Api::kInputTokens)
        return api::TokenizeFromResponses(body, model, tokenizer, true);
      return api::TokenizeFromMessages(body, {.model = model, .padded = true}, tokenizer);
  }
}

net::Task<std::optional<Failure>> Upstream::TranslateBody() {
  std::optional<api::Translated<api::ChatRequest>> made;
  if (request_.body.text.size() > kTranslatedOnLoop) {
    made = co_await net::OffLoop(request_.shard.loop, [this] {
      YieldToShards(kNiceOfTranslations);
      return Translate();
    });
  } else {
    made = Translate();
  }
  co_return TakeChat(*std::move(made));
}

std::optional<Failure> Upstream::TakeChat(api::Translated<api::ChatRequest> made) {
  if (auto* fault = std::get_if<api::ApiError>(&made))
    return Failure{std::move(*fault), ledger::EndReason::kBadRequest};
  chat_ = std::get<api::ChatRequest>(std::move(made));
  const bool count = router::CountsTokens(request_.identity.spec->api);
  const bool capped =
      request_.output_cap && (carry_ == Carry::kResponsesAsChat || carry_ == Carry::kMessagesAsChat);
  const std::string_view salt = CacheSalt(router::Api::kChatCompletions);
  if (capped || !try_.members.empty() || (!salt.empty() && !count)) {
    router::SpliceRequest splice{
        .ask_usage = false, .members = try_.members, .cache_salt = salt, .only_prompt = try_.only_prompt};
    if (capped) splice.output_cap = request_.output_cap;
    splice.bound_key = BoundOf(replica_);
    router::BodyFacts facts;
    chat_.body.append(net::Buffer::kPadding, '\0');
    const std::string_view text(chat_.body.data(), chat_.body.size() - net::Buffer::kPadding);
    request_.shard.scanner.Scan(text, router::Api::kChatCompletions, facts);
    chat_.body = router::PlanSplices(router::Api::kChatCompletions, facts, splice).Apply(text);
  }
  return std::nullopt;
}

std::string_view Upstream::CacheSalt(router::Api api) const {
  if (!config::KnowsCacheSalt(replica_.config->engine, api)) return {};
  return request_.identity.cache_salt();
}

bool Upstream::AddsUsageOption(conf::TimePoint now) const {
  const router::Api api = request_.identity.spec->api;
  const bool has_option = carry_ == Carry::kMessagesAsChat || carry_ == Carry::kResponsesAsChat ||
                          api == router::Api::kChatCompletions || api == router::Api::kCompletions;
  return has_option && request_.body.facts.stream && !request_.body.facts.usage_asked && !try_.only_prompt &&
         state().no_usage_until.load(std::memory_order_relaxed) <= now.time_since_epoch().count();
}

bool Upstream::RefusesUsageOption(const Event& event) const {
  const bool refused = event.kind == Event::Kind::kStatus && (event.status == 400 || event.status == 422);
  return refused && asks_usage_ && refusal_.body.find("stream_options") != std::string::npos;
}

net::Task<Event> Upstream::Send(bool fresh, conf::TimePoint now, FormReader* form) {
  if (carry_ == Carry::kCountHere) {
    sent_ = answered_ = now;
    co_return Event::Status(200);
  }
  if (try_.cancel.cancelled()) co_return Event::Of(Event::Kind::kClientGone);  // during the translation
  asks_usage_ = AddsUsageOption(now);
  for (bool again = false;; again = true) {
    Event event = Event::Of(Event::Kind::kStart);
    pool_ = request_.shard.PoolFor(replica_);
    if (!fresh) TakeIdle(now);
    if (!connection_) {
      event = co_await Connect(now);
      now = net::Now();
    }
    if (event.kind != Event::Kind::kStart) co_return event;
    connection_->BeginExchange();
    try_.cancel.SetRunning(connection_.get());
    if (form) {
      event = co_await StreamForm(*form);
    } else {
      connection_->SetTimeoutAt(ReplyDeadline(now));
      std::array<ConstBuffer, 1 + router::kMaxPieces> pieces;
      const size_t n = 1 + PlanJsonBody(std::span(pieces).subspan(1));
      pieces[0] = AsBuffer(head_);
      co_await connection_->stream().AwaitBatch();
      const net::IoResult written = co_await connection_->Write(std::span(pieces).first(n));
      sent_ = net::Now();
      if (!written) event = co_await ReadEarlyRefusal(written);
    }
    if (event.kind == Event::Kind::kStart) event = co_await ReadAnswer();
    try_.cancel.SetRunning(nullptr);
    if (again) {
      NoteUsageRefused(event);
      co_return event;
    }
    if (!RefusesUsageOption(event)) co_return event;
    // An older engine does not know this option. The gateway counts the text of its stream instead.
    asks_usage_ = false;
    Release(now);
    refusal_ = {};
    fresh = false;
    now = net::Now();
  }
}

void Upstream::NoteUsageRefused(const Event& again) {
  // If the engine refuses the request without the option as well, the request is at fault, not the option.
  if (again.kind != Event::Kind::kStatus || again.status >= 400) return;
  state().no_usage_until.store((net::Now() + kAskUsageAgain).time_since_epoch().count(),
                               std::memory_order_relaxed);
  log::Warn("a replica refuses stream_options: the gateway leaves them out for 10 minutes",
            {{"request_id", request_.identity.id}, {"replica", replica_.name()}});
}

void Upstream::TakeIdle(conf::TimePoint now) {
  connection_ = pool_->TakeIdle(now);
  if (connection_) request_.shard.metrics.cells.upstream_reuses.Add();
}

net::Task<Event> Upstream::Connect(conf::TimePoint now) {
  net::Connector connector(request_.shard.loop.io);
  net::ConnectDeadline deadline(request_.shard.loop.watchdog, connector);
  conf::Duration time = model_.config->timeouts.connect;
  if (try_.deadline) time = std::min(time, *try_.deadline - now);
  deadline.SetAfter(std::max(time, conf::Duration::zero()));
  try_.cancel.SetRunning(&connector);
  net::ConnectResult connected = co_await connector.Connect(replica_.remote);
  try_.cancel.SetRunning(nullptr);
  if (try_.cancel.cancelled()) co_return Event::Of(Event::Kind::kClientGone);
  if (connected.error) co_return Event::Of(Event::Kind::kConnectFailed);
  request_.shard.metrics.cells.upstream_connections.Add();
  connection_ = std::make_unique<ClientConnection>(request_.shard.loop, std::move(connected.stream));
  co_return Event::Of(Event::Kind::kStart);
}

void Upstream::RenderHead(size_t body_size, bool chunked) {
  const net::http::Head& client = request_.client.head();
  std::string_view path;
  switch (carry_) {
    case Carry::kAsIs:
      path = client.target;
      break;
    case Carry::kMessagesAsChat:
    case Carry::kResponsesAsChat:
      path = "/v1/chat/completions";
      break;
    case Carry::kCountAsTokenize:
      path = "/tokenize";
      break;
    case Carry::kCountHere:
      break;
  }
  head_.clear();
  head_.reserve(kHeadRoom + request_.client.head_bytes());
  head_ += client.method_text;
  head_.append(" ")
      .append(replica_.config->url.path)
      .append(config::TargetBehind(replica_.config->url, path))
      .append(" HTTP/1.1\r\n")
      .append(replica_.fields);
  // The gateway writes the type that it has parsed: from several types, or odd parameters, the engine might read
  // something else.
  if (request_.body.form) {
    head_.append("content-type: multipart/form-data; boundary=")
        .append(request_.body.form->quoted_boundary())
        .append("\r\n");
  } else {
    head_ += "content-type: application/json\r\n";
  }
  const std::optional<telemetry::TraceContext>& trace = request_.identity.trace;
  const std::string_view connection = client.Find(FieldId::connection);
  for (const Field& field : client.fields) {
    if (replica_.passed.Passes(field, connection, trace.has_value()))
      head_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  head_ += "accept-encoding: identity\r\n";
  if (replica_.passed.writes_request_id())
    head_.append("x-request-id: ").append(request_.identity.id).append("\r\n");
  if (trace && replica_.passed.writes_trace()) {
    head_.append("traceparent: ").append(telemetry::RenderTraceparent(*trace)).append("\r\n");
    if (!trace->state.empty()) head_.append("tracestate: ").append(trace->state).append("\r\n");
  }
  if (chunked) {
    head_ += "transfer-encoding: chunked\r\n\r\n";
  } else {
    std::array<char, 20> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), body_size).ptr;
    head_.append("content-length: ").append(digits.data(), end).append("\r\n\r\n");
  }
}

size_t Upstream::PlanJsonBody(std::span<ConstBuffer> pieces) {
  if (carry_ != Carry::kAsIs) {
    constexpr std::string_view kOption = ",\"stream_options\":{\"include_usage\":true}";
    const bool without = request_.body.facts.stream && !asks_usage_;
    const size_t option = without ? chat_.body.find(kOption) : std::string::npos;
    if (option != std::string::npos) chat_.body.erase(option, kOption.size());
    RenderHead(chat_.body.size(), false);
    pieces[0] = AsBuffer(chat_.body);
    return 1;
  }
  const RequestBody& body = request_.body;
  router::SpliceRequest splice;
  if (body.facts.model.view() != name_.name) splice.upstream_model_json = name_.json;
  splice.ask_usage = asks_usage_;
  splice.output_cap = request_.output_cap;
  if (request_.identity.spec->api == router::Api::kChatCompletions) splice.bound_key = BoundOf(replica_);
  splice.members = try_.members;
  splice.only_prompt = try_.only_prompt;
  splice.cache_salt = CacheSalt(request_.identity.spec->api);
  splices_ = router::PlanSplices(request_.identity.spec->api, body.facts, splice);
  RenderHead(splices_.ResultSize(body.text.size()), false);
  std::array<std::string_view, router::kMaxPieces> views;
  const size_t n = splices_.Gather(body.text, views);
  for (size_t i = 0; i < n; ++i) pieces[i] = AsBuffer(views[i]);
  return n;
}

conf::TimePoint Upstream::ReplyDeadline(conf::TimePoint now) const {
  const conf::TimePoint until = now + model_.config->timeouts.first_byte;
  return try_.deadline ? std::min(until, *try_.deadline) : until;
}

// Passes a form on while it arrives. Keeps it, within the body limit, so that it can be sent again. The replica's
// timeout does not run while the gateway waits for the client.
net::Task<Event> Upstream::StreamForm(FormReader& form) {
  const bool chunked = !request_.client.head().content_length;
  if (const net::IoResult written = co_await SendFormSoFar(form.client(), chunked); !written)
    co_return co_await ReadEarlyRefusal(written);
  while (!request_.body.whole) {
    std::string_view piece;
    connection_->ClearTimeout();
    if (!co_await form.Next(piece)) co_return Event::Of(Event::Kind::kClientGone);
    if (const net::IoResult written = co_await SendFormPiece(form.client(), piece, chunked); !written)
      co_return co_await ReadEarlyRefusal(written);
  }
  form.client().Watch();
  sent_ = net::Now();
  connection_->SetTimeoutAt(ReplyDeadline(*sent_));
  co_return Event::Of(Event::Kind::kStart);
}

// Sends the head and the form that was read so far, with the replica's name of the model instead of the client's.
net::Task<net::IoResult> Upstream::SendFormSoFar(Client& client, bool chunked) {
  const std::string_view model = name_.name;
  const router::ByteRange range = request_.body.facts.model_range;
  RenderHead(chunked ? 0 : *client.head().content_length - range.size + model.size(), chunked);
  const std::string_view sent = request_.body.form_text;
  const std::array<std::string_view, 3> parts{sent.substr(0, range.begin), model, sent.substr(range.end())};
  std::array<char, kChunkSizeRoom> size;
  std::array<ConstBuffer, 6> pieces;
  size_t n = 0;
  pieces[n++] = AsBuffer(head_);
  if (chunked) {
    const size_t total = parts[0].size() + parts[1].size() + parts[2].size();
    pieces[n++] = ConstBuffer(size.data(), RenderChunkSize(total, size.data()));
  }
  for (const std::string_view part : parts) pieces[n++] = AsBuffer(part);
  // A form that is sent again is complete.
  if (chunked) pieces[n++] = AsBuffer(request_.body.whole ? "\r\n0\r\n\r\n" : "\r\n");
  connection_->SetTimeoutAt(ReplyDeadline(net::Now()));
  const ClientPoll poll(request_.shard.loop.watchdog, client);
  co_return co_await connection_->Write(std::span(pieces).first(n));
}

// An empty piece ends the form.
net::Task<net::IoResult> Upstream::SendFormPiece(Client& client, std::string_view piece, bool chunked) {
  std::array<char, kChunkSizeRoom> size;
  std::array<ConstBuffer, 3> pieces;
  size_t n = 0;
  if (chunked && !piece.empty())
    pieces[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
  if (!piece.empty()) pieces[n++] = AsBuffer(piece);
  if (chunked) pieces[n++] = AsBuffer(piece.empty() ? "0\r\n\r\n" : "\r\n");
  if (n == 0) co_return net::IoResult{};
  connection_->SetTimeoutAt(ReplyDeadline(net::Now()));
  const ClientPoll poll(request_.shard.loop.watchdog, client);
  co_return co_await connection_->Write(std::span(pieces).first(n));
}

Event Upstream::Lost(ClientConnection::Status status) {
  using Status = ClientConnection::Status;
  not_http_ = status == Status::kMalformed;
  if (try_.cancel.cancelled()) return Event::Of(Event::Kind::kClientGone);
  if (status == Status::kTimedOut) return Event::Of(Event::Kind::kTimedOut);
  const bool stale = status == Status::kClosed && connection_->reused() && !connection_->answered();
  return Event::Of(stale ? Event::Kind::kReusedClosed : Event::Kind::kBroken);
}

net::Task<Event> Upstream::ReadAnswer() {
  using Status = ClientConnection::Status;
  std::optional<HangWatch> watch(std::in_place, request_.shard.loop.watchdog, try_.attempt, try_.cancel,
                                 *connection_);
  Status status = co_await connection_->ReadHead(kAnswerHeadLimits);
  const bool left = watch->left();
  watch.reset();
  answered_ = net::Now();
  if (left) co_return Event::Of(Event::Kind::kHung);
  if (status != Status::kOk) co_return Lost(status);
  const net::http::Head& head = connection_->head();
  const int code = head.status;
  if (code < 300) {
    connection_->ClearTimeout();
    co_return Event::Status(code);
  }
  const std::optional<conf::Duration> retry_after = RetryAfterOf(head, *answered_);
  refusal_ = {code, std::string(head.Find(FieldId::content_type)), {}, retry_after};
  while (true) {
    refusal_.body.append(connection_->payload().substr(0, kMaxRefusalBody - refusal_.body.size()));
    connection_->Take(connection_->payload().size());
    if (connection_->done() || refusal_.body.size() == kMaxRefusalBody) break;
    status = co_await connection_->ReadSome();
    if (status != Status::kOk) co_return Lost(status);
  }
  connection_->ClearTimeout();
  co_return Event::Status(code, retry_after, code == 400 && api::SaysContextExceeded(refusal_.body),
                          code == 404 && api::SaysModelUnknown(refusal_.body, name_.name));
}

net::Task<Event> Upstream::ReadEarlyRefusal(net::IoResult write) {
  const Event lost = Lost(write);
  if (lost.kind != Event::Kind::kBroken && lost.kind != Event::Kind::kReusedClosed) co_return lost;
  Event answer = co_await ReadAnswer();
  const bool refused = answer.kind == Event::Kind::kStatus && refusal_.status > 0;
  connection_->Abort();  // the request is not whole: it carries no other
  co_return refused ? answer : lost;
}

void Upstream::Release(conf::TimePoint now) {
  if (!connection_) return;
  try_.cancel.SetRunning(nullptr);
  if (connection_->EndExchange()) pool_->Return(std::move(connection_), now);
  connection_.reset();
}

}  // namespace gateway
