#include "gateway/request/answer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "conf/text.h"
#include "conf/time.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/server.h"
#include "gateway/request/chunk_size.h"
#include "gateway/shard/shard.h"
#include "router/limits/rate_status.h"

namespace gateway {
namespace {

using net::AsBuffer;
using net::ConstBuffer;
using net::http::FieldId;
using net::http::Head;

constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
constexpr std::string_view kJson = "application/json";

void AppendNumber(std::string& out, int64_t n) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
  out.append(digits.data(), end);
}

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void AppendStatusLine(std::string& out, int status) {
  if (status == 200) {
    out += "HTTP/1.1 200 OK\r\n";
    return;
  }
  out += "HTTP/1.1 ";
  AppendNumber(out, status);
  out.append(" ").append(net::http::ReasonPhrase(status)).append("\r\n");
}

bool StartsWithIgnoreCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && conf::EqualsIgnoreCase(text.substr(0, prefix.size()), prefix);
}

// Names without a FieldId, by their first character. They describe the engine's host, its provider's edge or
// the gateway's account there, not this gateway; or the gateway writes them itself.
bool IsNotForClients(std::string_view name) {
  const auto is = [name](std::string_view other) { return conf::EqualsIgnoreCase(name, other); };
  switch (name.front() | 0x20) {
    case 'a':
      return is("anthropic-organization-id") || StartsWithIgnoreCase(name, "anthropic-ratelimit-");
    case 'c':
      return StartsWithIgnoreCase(name, "cf-");
    case 'n':
      return is("nel");
    case 'o':
      return is("openai-organization") || is("openai-project");
    case 'r':
      return is("request-id") || is("report-to") || is("reporting-endpoints");
    case 'x':
      return is("x-request-id") || StartsWithIgnoreCase(name, "x-ratelimit-") ||
             StartsWithIgnoreCase(name, "x-tidegate-") || is("x-powered-by");
    default:
      return false;
  }
}

// Fields of an upstream's answer that are not passed on: the fields of its connection, and those that are not
// meant for clients.
bool IsDroppedFromAnswer(const net::http::Field& field, std::string_view connection) {
  switch (field.id) {
    case FieldId::alt_svc:
    case FieldId::content_encoding:  // the gateway has decoded the body
    case FieldId::content_length:
    case FieldId::content_type:
    case FieldId::server:
    case FieldId::set_cookie:
    case FieldId::set_cookie2:
    case FieldId::strict_transport_security:
      return true;
    case FieldId::unknown:
      return IsNotForClients(field.name) || net::http::IsHopByHop(field, connection);
    default:
      return net::http::IsHopByHop(field, connection);
  }
}

// Appends many short pieces to a string, which grows only once.
class Pieces {
 public:
  Pieces(std::string& out, size_t most) : out_(out) {
    const size_t begin = out.size();
    out.resize(begin + most);
    at_ = out.data() + begin;
    end_ = at_ + most;
  }
  ~Pieces() { out_.resize(static_cast<size_t>(at_ - out_.data())); }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  Pieces& Text(std::string_view text) {
    if (text.size() > static_cast<size_t>(end_ - at_)) std::abort();  // `most` was too small
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
    return *this;
  }
  Pieces& Number(int64_t n) {
    const std::to_chars_result written = std::to_chars(at_, end_, n);
    if (written.ec != std::errc()) std::abort();
    at_ = written.ptr;
    return *this;
  }

 private:
  std::string& out_;
  char* at_;
  char* end_;
};

void AppendRate(Pieces& out, std::string_view what, const router::limits::RateStatus::One& rate) {
  out.Text("x-ratelimit-limit-").Text(what).Text(": ").Number(rate.limit);
  out.Text("\r\nx-ratelimit-remaining-").Text(what).Text(": ").Number(rate.remaining);
  router::limits::ResetText reset;
  out.Text("\r\nx-ratelimit-reset-").Text(what).Text(": ");
  out.Text(router::limits::FormatReset(rate.reset, reset)).Text("\r\n");
}

// Appends the gateway's own fields.
void AppendOwnFields(const Exchange& x, std::string& text) {
  constexpr size_t kMost = 768;  // without the names
  const auto name = [&x](ReplicaId id) -> std::string_view { return x.runtime->replica(id).name(); };
  std::string_view replica;
  std::string_view prefill;
  if (x.delivery.replica != kNoReplica) {
    replica = name(x.delivery.replica);
    if (const auto& transfer = x.delivery.transfer; transfer && transfer->computed_at())
      prefill = name(*transfer->computed_at());
  }
  Pieces out(text, kMost + replica.size() + prefill.size());
  out.Text(x.identity.protocol() == api::Protocol::kAnthropic ? "request-id: " : "x-request-id: ");
  out.Text(x.identity.id).Text("\r\n");
  if (x.runtime->config().server.version_header) out.Text("x-tidegate-version: " TIDEGATE_VERSION "\r\n");
  if (x.grant.rates.requests) AppendRate(out, "requests", *x.grant.rates.requests);
  if (x.grant.rates.tokens) AppendRate(out, "tokens", *x.grant.rates.tokens);
  if (x.delivery.replica == kNoReplica) return;
  out.Text("x-tidegate-replica: ").Text(replica).Text("\r\n");
  if (!prefill.empty()) out.Text("x-tidegate-prefill: ").Text(prefill).Text("\r\n");
  out.Text("x-tidegate-queue-ms: ").Number(conf::ToMillis(x.at.QueueTime()));
  out.Text("\r\nx-tidegate-overhead-us: ").Number(ToMicros(x.at.Overhead(net::Now()))).Text("\r\n");
}

void AppendEnd(const Exchange& x, BodyFraming framing, std::string& out) {
  if (framing.length) {
    out += "content-length: ";
    AppendNumber(out, static_cast<int64_t>(*framing.length));
    out += "\r\n";
  } else if (x.client.knows_chunks()) {
    out += "transfer-encoding: chunked\r\n";
  }
  out += x.keeps_client() ? "\r\n" : "connection: close\r\n\r\n";
}

}  // namespace

void RenderRelayedHead(const Exchange& x, const Head* upstream, int status, std::string_view content_type,
                       BodyFraming framing, std::string& out, std::optional<conf::Duration> retry_after) {
  AppendStatusLine(out, status);
  AppendField(out, "content-type", content_type);
  if (upstream) {
    const std::string_view connection = upstream->Find(FieldId::connection);
    for (const net::http::Field& field : upstream->fields) {
      if (!IsDroppedFromAnswer(field, connection)) AppendField(out, field.name, field.value);
    }
  }
  if (retry_after) {
    api::ApiError error;
    error.retry_after = retry_after;
    for (const api::ErrorHeader& field : api::ErrorHeaders(error)) AppendField(out, field.name, field.value);
  }
  AppendOwnFields(x, out);
  AppendEnd(x, framing, out);
}

net::Task<bool> SendOwn(Exchange& x, int status, std::string_view content_type, std::string_view body) {
  std::string& head = x.answer_head;
  head.clear();
  AppendStatusLine(head, status);
  AppendField(head, "content-type", content_type);
  AppendOwnFields(x, head);
  if (x.outcome.error) {
    for (const api::ErrorHeader& field : api::ErrorHeaders(*x.outcome.error))
      AppendField(head, field.name, field.value);
  }
  AppendEnd(x, {body.size()}, head);
  x.outcome.status = status;
  x.delivery.head_sent = true;
  x.outcome.answer_whole = true;
  // A client of HEAD would take a body for the beginning of the next answer.
  if (x.client.connection().is_head_request()) body = {};
  x.outcome.counts.bytes_out += body.size();
  const std::array<ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(body)};
  const net::IoResult written = co_await x.client.connection().Write(parts);
  co_return static_cast<bool>(written);
}

net::Task<void> SendError(Exchange& x) {
  const api::ApiError& error = *x.outcome.error;
  if (x.client.gone()) co_return;
  if (!x.delivery.head_sent) {
    const std::string body = api::RenderError(x.identity.protocol(), error, x.identity.id);
    co_await SendOwn(x, error.status, kJson, body);
    co_return;
  }
  if (!x.delivery.stream_begun) {
    // The client has a part of a whole answer: only a closed connection shows that the rest is missing.
    x.client.SetReusable(false);
    x.client.connection().ResetOnClose();
    co_return;
  }
  // The message ends properly, so that the client may send its next request on this connection.
  const std::string event = api::RenderStreamError(x.identity.protocol(), error, x.identity.id);
  x.outcome.answer_whole = co_await WriteStreamPiece(x, event, true);
}

std::string RenderRefusalHead(const api::ApiError& error, std::string_view request_id, size_t length) {
  std::string head;
  AppendStatusLine(head, error.status);
  AppendField(head, "content-type", kJson);
  AppendField(head, "x-request-id", request_id);
  for (const api::ErrorHeader& field : api::ErrorHeaders(error)) AppendField(head, field.name, field.value);
  head += "content-length: ";
  AppendNumber(head, static_cast<int64_t>(length));
  return head += "\r\nconnection: close\r\n\r\n";
}

net::Task<bool> WriteStreamPiece(Exchange& x, std::string_view piece, bool last) {
  std::array<char, kChunkSizeRoom> size;
  std::array<ConstBuffer, 3> parts;
  size_t n = 0;
  x.outcome.counts.bytes_out += piece.size();
  if (!x.client.knows_chunks()) {
    parts[n++] = AsBuffer(piece);
  } else {
    if (!piece.empty()) {
      parts[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
      parts[n++] = AsBuffer(piece);
    }
    const std::string_view end = last ? "\r\n0\r\n\r\n" : "\r\n";
    parts[n++] = AsBuffer(piece.empty() ? end.substr(2) : end);
  }
  const net::IoResult written =
      co_await x.client.connection().Write(std::span<const ConstBuffer>(parts.data(), n));
  co_return static_cast<bool>(written);
}

net::Task<bool> SendHeartbeat(Exchange& x) {
  if (!x.delivery.head_sent) {
    x.answer_head.clear();
    RenderRelayedHead(x, nullptr, 200, kEventStream, {}, x.answer_head);
    x.delivery.head_sent = x.delivery.stream_begun = true;
    x.outcome.status = 200;
    if (!co_await x.client.connection().Write(AsBuffer(x.answer_head))) co_return false;
  }
  co_return co_await WriteStreamPiece(x, ": waiting\n\n", false);
}

}  // namespace gateway
