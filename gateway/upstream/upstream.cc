#include "gateway/upstream/upstream.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "conf/text.h"
#include "gateway/answer.h"
#include "gateway/api/anthropic.h"
#include "gateway/api/responses.h"
#include "gateway/handover/hop.h"
#include "gateway/net/clock.h"
#include "gateway/net/connect_deadline.h"
#include "gateway/request_body.h"
#include "gateway/shard.h"
#include "gateway/upstream/hang_look.h"

namespace gateway {
namespace {

using net::AsBuffer;
using net::ConstBuffer;
using net::http::ClientConnection;
using net::http::Field;
using net::http::FieldId;
using router::Event;

constexpr size_t kHeadRoom = 512;  // what we add to a client's head
constexpr size_t kMaxRefusalBody = 64 * 1024;
constexpr conf::Duration kBetweenClientLooks = std::chrono::milliseconds(50);
constexpr net::http::HeadLimits kAnswerHead{64 * 1024, 200};

// Fields of a client's request that stop here: its connection's, its credentials, and what we say ourselves.
// Compressed answers could not be metered, so none are asked for.
bool IsDropped(const Field& field, std::string_view connection, bool traced) {
  switch (field.id) {
    case FieldId::host:
    case FieldId::content_length:
    case FieldId::authorization:
    case FieldId::cookie:
    case FieldId::accept_encoding:
    case FieldId::expect:
      return true;
    case FieldId::unknown:
      return conf::EqualsIgnoreCase(field.name, "x-api-key") ||
             conf::EqualsIgnoreCase(field.name, "api-key") ||
             conf::EqualsIgnoreCase(field.name, "x-request-id") ||
             (traced && (conf::EqualsIgnoreCase(field.name, "traceparent") ||
                         conf::EqualsIgnoreCase(field.name, "tracestate"))) ||
             (!connection.empty() && net::http::HasToken(connection, field.name));
    default:
      return net::http::IsHopByHop(field, connection);
  }
}

std::optional<conf::Duration> RetryAfterOf(const net::http::Head& head) {
  double value = 0;
  const auto read = [&](std::string_view text) {
    return !text.empty() &&
           std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{} && value >= 0 &&
           value < 1e6;
  };
  if (read(head.Find("retry-after-ms"))) return conf::Duration(static_cast<int64_t>(value * 1e6));
  if (read(head.Find(FieldId::retry_after))) return conf::Duration(static_cast<int64_t>(value * 1e9));
  return std::nullopt;
}

// A path that an engine does not serve is a 404 as well, which speaks of no model.
bool SaysModelUnknown(std::string_view body) {
  return body.find("model") != std::string_view::npos || body.find("adapter") != std::string_view::npos;
}

bool SaysContextExceeded(std::string_view body) {
  for (const std::string_view sign : {"context_length_exceeded", "maximum context length", "max_model_len"}) {
    if (body.find(sign) != std::string_view::npos) return true;
  }
  return false;
}

// Looks now and then whether the client is still there, while a form's bytes wait for the replica: what the
// client has sent meanwhile stands unread before its end, so that no read would tell.
class ClientLook final : public net::Alarm {
 public:
  explicit ClientLook(Exchange& x) : Alarm(x.shard.loop.watchdog), x_(x) { SetAfter(kBetweenClientLooks); }

 private:
  void OnAlarm() override {
    if (x_.client.HasPeerLeft()) {
      x_.OnClientGone();
    } else {
      SetAfter(kBetweenClientLooks);
    }
  }
  Exchange& x_;
};

}  // namespace

Upstream::Upstream(Exchange& x, const router::Replica& route, ModelId model, const UpstreamEdit& edit)
    : x_(x),
      model_(x.runtime->model(model)),
      name_(x.runtime->routes().NameAt(model, route)),
      replica_(x.runtime->replica(route.id)),
      edit_(edit) {}

Upstream::~Upstream() = default;

// What the client's leaving aborts; of a hop, what the hop's end does too.
void Upstream::SetWaiting(net::Abortable* what) {
  (edit_.hop ? edit_.hop->waiting_ : x_.waiting) = what;
}

bool Upstream::given_up() const {
  return x_.client_gone || (edit_.hop && edit_.hop->aborted_);
}

bool Upstream::Prepare() {
  const config::ApiSet& known = replica_.config->apis;
  const bool translate = model_.config->translate;
  if (!translate || x_.form) return true;
  const std::string model(name_.name);
  std::optional<api::Translated<api::ChatRequest>> made;
  const bool messages = x_.spec->api == router::Api::kMessages || x_.spec->api == router::Api::kCountTokens;
  if (messages && !known.Has(config::Api::kMessages)) {
    const bool count = x_.spec->api == router::Api::kCountTokens;
    carry_ = count ? Carry::kCountAsTokenize : Carry::kMessagesAsChat;
    made = count ? api::TokenizeFromMessages(x_.body, {.model = model})
                 : api::ChatFromMessages(x_.body, {.model = model});
  } else if (x_.spec->api == router::Api::kResponses && !known.Has(config::Api::kResponses)) {
    carry_ = Carry::kResponsesAsChat;
    made = api::ChatFromResponses(x_.body, model);
  }
  if (!made) return true;
  if (auto* fault = std::get_if<api::ApiError>(&*made)) {
    x_.Fail(std::move(*fault), ledger::EndReason::kBadRequest);
    return false;
  }
  chat_ = std::get<api::ChatRequest>(std::move(*made));
  const bool capped = x_.output_cap && carry_ == Carry::kResponsesAsChat;
  if (capped || !edit_.members.empty()) {
    router::SpliceRequest request{
        .ask_usage = false, .members = edit_.members, .only_prompt = edit_.only_prompt};
    if (capped) request.output_cap = x_.output_cap;
    router::BodyFacts facts;
    chat_.body.append(net::Buffer::kPadding, '\0');
    const std::string_view body(chat_.body.data(), chat_.body.size() - net::Buffer::kPadding);
    x_.shard.scanner.Scan(body, router::Api::kChatCompletions, facts);
    chat_.body = router::PlanSplices(router::Api::kChatCompletions, facts, request).Apply(body);
  }
  return true;
}

net::Task<Event> Upstream::Send(bool fresh, conf::TimePoint now) {
  Event event = co_await Connect(fresh, now);
  if (event.kind != Event::Kind::kStart) co_return event;
  event = co_await WriteRequest();
  if (event.kind == Event::Kind::kStart) event = co_await ReadAnswer();
  SetWaiting(nullptr);
  co_return event;
}

net::Task<Event> Upstream::Connect(bool fresh, conf::TimePoint now) {
  ShardCells& cells = x_.shard.metrics.cells;
  pool_ = x_.shard.PoolFor(replica_);
  if (!fresh) connection_ = pool_->TakeIdle(now);
  if (connection_) {
    cells.upstream_reuses.Add();
  } else {
    net::Connector connector(x_.shard.loop.io);
    net::ConnectDeadline deadline(x_.shard.loop.watchdog, connector);
    conf::Duration patience = model_.config->timeouts.connect;
    if (x_.deadline) patience = std::min(patience, *x_.deadline - now);
    deadline.SetAfter(std::max(patience, conf::Duration::zero()));
    SetWaiting(&connector);
    net::ConnectResult connected = co_await connector.Connect(replica_.remote);
    SetWaiting(nullptr);
    if (given_up()) co_return Event::Of(Event::Kind::kClientGone);
    if (connected.error) co_return Event::Of(Event::Kind::kConnectFailed);
    cells.upstream_connections.Add();
    connection_ = std::make_unique<ClientConnection>(x_.shard.loop, std::move(connected.stream));
  }
  connection_->BeginExchange();
  SetWaiting(connection_.get());
  co_return Event::Of(Event::Kind::kStart);
}

void Upstream::RenderHead(size_t body_size, bool chunked) {
  const net::http::Head& client = x_.client.head();
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
  }
  head_.clear();
  head_.reserve(kHeadRoom + x_.client.head_bytes());
  head_ += client.method_text;
  head_.append(" ")
      .append(replica_.config->url.path)
      .append(path)
      .append(" HTTP/1.1\r\n")
      .append(replica_.fields);
  const std::string_view connection = client.Find(FieldId::connection);
  for (const Field& field : client.fields) {
    if (!IsDropped(field, connection, x_.trace.has_value()))
      head_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  head_.append("x-request-id: ").append(x_.id).append("\r\n");
  if (x_.trace) {
    head_.append("traceparent: ").append(telemetry::RenderTraceparent(*x_.trace)).append("\r\n");
    if (!x_.trace->state.empty()) head_.append("tracestate: ").append(x_.trace->state).append("\r\n");
  }
  if (chunked) {
    head_ += "transfer-encoding: chunked\r\n\r\n";
  } else {
    fmt::format_to(std::back_inserter(head_), "content-length: {}\r\n\r\n", body_size);
  }
}

size_t Upstream::PlanJsonBody(std::span<ConstBuffer> pieces) {
  if (carry_ != Carry::kAsIs) {
    RenderHead(chat_.body.size(), false);
    pieces[0] = AsBuffer(chat_.body);
    return 1;
  }
  router::SpliceRequest request;
  if (x_.facts.model.view() != name_.name) request.upstream_model_json = name_.json;
  request.output_cap = x_.output_cap;
  request.members = edit_.members;
  request.only_prompt = edit_.only_prompt;
  splices_ = router::PlanSplices(x_.spec->api, x_.facts, request);
  RenderHead(splices_.ResultSize(x_.body.size()), false);
  std::array<std::string_view, router::kMaxPieces> views;
  const size_t n = splices_.Gather(x_.body, views);
  for (size_t i = 0; i < n; ++i) pieces[i] = AsBuffer(views[i]);
  return n;
}

conf::TimePoint Upstream::Patience() const {
  const conf::TimePoint until = net::Now() + model_.config->timeouts.first_byte;
  return x_.deadline ? std::min(until, *x_.deadline) : until;
}

net::Task<Event> Upstream::WriteRequest() {
  if (x_.form) co_return co_await StreamForm();
  connection_->SetTimeoutAt(Patience());
  std::array<ConstBuffer, 1 + router::kMaxPieces> pieces;
  const size_t n = 1 + PlanJsonBody(std::span(pieces).subspan(1));
  pieces[0] = AsBuffer(head_);
  const net::IoResult written = co_await connection_->Write(std::span(pieces).first(n));
  if (!edit_.hop) x_.at.sent = net::Now();
  co_return written ? Event::Of(Event::Kind::kStart) : Lost(written);
}

// A form goes on as it comes in. What has been sent is kept, within the body limit, so that it can be sent
// again. While the client is waited for, none of the replica's time runs.
net::Task<Event> Upstream::StreamForm() {
  const bool chunked = !x_.client.head().content_length;
  if (const net::IoResult written = co_await SendFormSoFar(chunked); !written) co_return Lost(written);
  while (!x_.body_whole) {
    std::string_view piece;
    connection_->ClearTimeout();
    // What is wrong with the form, or its client, is in x_.error.
    if (!co_await ReadFormPiece(x_, piece)) co_return Event::Of(Event::Kind::kClientGone);
    if (const net::IoResult written = co_await SendFormPiece(piece, chunked); !written)
      co_return Lost(written);
  }
  x_.counts.bytes_in = x_.client.request_bytes();
  x_.WatchClient();
  x_.at.sent = net::Now();
  connection_->SetTimeoutAt(Patience());
  co_return Event::Of(Event::Kind::kStart);
}

// With the head, and with the replica's name of the model in place of the client's.
net::Task<net::IoResult> Upstream::SendFormSoFar(bool chunked) {
  const std::string_view model = name_.name;
  const router::ByteRange range = x_.facts.model_range;
  RenderHead(chunked ? 0 : *x_.client.head().content_length - range.size + model.size(), chunked);
  const std::string_view sent = x_.form_head;
  const std::array<std::string_view, 3> parts{sent.substr(0, range.begin), model, sent.substr(range.end())};
  std::array<char, 18> size;
  std::array<ConstBuffer, 6> pieces;
  size_t n = 0;
  pieces[n++] = AsBuffer(head_);
  if (chunked) {
    const size_t total = parts[0].size() + parts[1].size() + parts[2].size();
    pieces[n++] = ConstBuffer(size.data(), RenderChunkSize(total, size.data()));
  }
  for (const std::string_view part : parts) pieces[n++] = AsBuffer(part);
  // Sent again, the whole form goes out at once.
  if (chunked) pieces[n++] = AsBuffer(x_.body_whole ? "\r\n0\r\n\r\n" : "\r\n");
  connection_->SetTimeoutAt(Patience());
  const ClientLook look(x_);
  co_return co_await connection_->Write(std::span(pieces).first(n));
}

// An empty piece is the form's end.
net::Task<net::IoResult> Upstream::SendFormPiece(std::string_view piece, bool chunked) {
  std::array<char, 18> size;
  std::array<ConstBuffer, 3> pieces;
  size_t n = 0;
  if (chunked && !piece.empty())
    pieces[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
  if (!piece.empty()) pieces[n++] = AsBuffer(piece);
  if (chunked) pieces[n++] = AsBuffer(piece.empty() ? "0\r\n\r\n" : "\r\n");
  if (n == 0) co_return net::IoResult{};
  connection_->SetTimeoutAt(Patience());
  const ClientLook look(x_);
  co_return co_await connection_->Write(std::span(pieces).first(n));
}

Event Upstream::Lost(ClientConnection::Status status) const {
  using Status = ClientConnection::Status;
  if (given_up()) return Event::Of(Event::Kind::kClientGone);
  if (status == Status::kTimedOut) return Event::Of(Event::Kind::kTimedOut);
  const bool stale = status == Status::kClosed && connection_->reused() && !connection_->answered();
  return Event::Of(stale ? Event::Kind::kReusedClosed : Event::Kind::kBroken);
}

net::Task<Event> Upstream::ReadAnswer() {
  using Status = ClientConnection::Status;
  std::optional<HangLook> look(std::in_place, x_, *connection_);
  Status status = co_await connection_->ReadHead(kAnswerHead);
  const bool left = look->left();
  look.reset();
  if (!edit_.hop) {
    x_.at.answered = net::Now();
    x_.at.upstream_wait += x_.at.answered - x_.at.sent;
  }
  if (left) co_return Event::Of(Event::Kind::kHung);
  if (status != Status::kOk) co_return Lost(status);
  const net::http::Head& head = connection_->head();
  const int code = head.status;
  if (code < 400) {
    connection_->ClearTimeout();
    co_return Event::Status(code);
  }
  const std::optional<conf::Duration> retry_after = RetryAfterOf(head);
  refusal_ = {code, std::string(head.Find(FieldId::content_type)), {}};
  while (true) {
    refusal_.body.append(connection_->payload().substr(0, kMaxRefusalBody - refusal_.body.size()));
    connection_->Take(connection_->payload().size());
    if (connection_->done() || refusal_.body.size() == kMaxRefusalBody) break;
    status = co_await connection_->ReadSome();
    if (status != Status::kOk) co_return Lost(status);
  }
  connection_->ClearTimeout();
  co_return Event::Status(code, retry_after, code == 400 && SaysContextExceeded(refusal_.body),
                          code == 404 && SaysModelUnknown(refusal_.body));
}

void Upstream::Release(conf::TimePoint now) {
  if (!connection_) return;
  SetWaiting(nullptr);
  if (connection_->EndExchange()) pool_->Return(std::move(connection_), now);
  connection_.reset();
}

}  // namespace gateway
