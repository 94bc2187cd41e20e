#include "gateway/answer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "conf/text.h"
#include "conf/time.h"
#include "gateway/handover/hop.h"
#include "gateway/net/clock.h"
#include "gateway/net/http/server.h"
#include "gateway/shard.h"
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

// Fields of an upstream's answer that are not passed on: those of its connection, and those that are ours.
bool IsDropped(const net::http::Field& field, std::string_view connection) {
  switch (field.id) {
    case FieldId::content_length:
    case FieldId::content_type:
    case FieldId::server:
    case FieldId::set_cookie:
      return true;
    case FieldId::unknown:
      if (field.name.size() > 2 && (field.name[0] | 0x20) == 'x' && field.name[1] == '-') {
        if (conf::EqualsIgnoreCase(field.name, "x-request-id") ||
            StartsWithIgnoreCase(field.name, "x-ratelimit-") ||
            StartsWithIgnoreCase(field.name, "x-tidegate-")) {
          return true;
        }
      }
      return conf::EqualsIgnoreCase(field.name, "request-id") || net::http::IsHopByHop(field, connection);
    default:
      return net::http::IsHopByHop(field, connection);
  }
}

void AppendRate(std::string& out, std::string_view what, const router::limits::RateStatus::One& rate) {
  out.append("x-ratelimit-limit-").append(what).append(": ");
  AppendNumber(out, rate.limit);
  out.append("\r\nx-ratelimit-remaining-").append(what).append(": ");
  AppendNumber(out, rate.remaining);
  out.append("\r\nx-ratelimit-reset-").append(what).append(": ");
  router::limits::ResetText reset;
  out.append(router::limits::FormatReset(rate.reset, reset)).append("\r\n");
}

// What every answer says of itself.
void AppendOurs(const Exchange& x, std::string& out) {
  AppendField(out, x.protocol() == api::Protocol::kAnthropic ? "request-id" : "x-request-id", x.id);
  if (x.rates.requests) AppendRate(out, "requests", *x.rates.requests);
  if (x.rates.tokens) AppendRate(out, "tokens", *x.rates.tokens);
  if (x.replica != kNoReplica) {
    AppendField(out, "x-tidegate-replica", x.runtime->replica(x.replica).name());
    if (x.hop && x.hop->computed_at())
      AppendField(out, "x-tidegate-prefill", x.runtime->replica(*x.hop->computed_at()).name());
    out += "x-tidegate-queue-ms: ";
    AppendNumber(out, conf::ToMillis(x.QueueTime()));
    out += "\r\nx-tidegate-overhead-us: ";
    AppendNumber(out, std::chrono::duration_cast<std::chrono::microseconds>(x.Overhead(net::Now())).count());
    out += "\r\n";
  }
}

void AppendEnd(const Exchange& x, BodyFraming framing, std::string& out) {
  if (framing.length) {
    out += "content-length: ";
    AppendNumber(out, static_cast<int64_t>(*framing.length));
    out += "\r\n";
  } else if (x.client_knows_chunks()) {
    out += "transfer-encoding: chunked\r\n";
  }
  out += x.keeps_client() ? "\r\n" : "connection: close\r\n\r\n";
}

}  // namespace

void RenderRelayedHead(const Exchange& x, const Head* upstream, int status, std::string_view content_type,
                       BodyFraming framing, std::string& out) {
  AppendStatusLine(out, status);
  AppendField(out, "content-type", content_type);
  if (upstream) {
    const std::string_view connection = upstream->Find(FieldId::connection);
    for (const net::http::Field& field : upstream->fields) {
      if (!IsDropped(field, connection)) AppendField(out, field.name, field.value);
    }
  }
  AppendOurs(x, out);
  AppendEnd(x, framing, out);
}

net::Task<bool> SendOwn(Exchange& x, int status, std::string_view content_type, std::string_view body) {
  std::string& head = x.answer_head;
  head.clear();
  AppendStatusLine(head, status);
  AppendField(head, "content-type", content_type);
  AppendOurs(x, head);
  if (x.error) {
    for (const api::ErrorHeader& field : api::ErrorHeaders(*x.error))
      AppendField(head, field.name, field.value);
  }
  AppendEnd(x, {body.size()}, head);
  x.status = status;
  x.head_sent = true;
  x.answer_whole = true;
  x.counts.bytes_out += body.size();
  const std::array<ConstBuffer, 2> parts{AsBuffer(head), AsBuffer(body)};
  const net::IoResult written = co_await x.client.Write(parts);
  co_return static_cast<bool>(written);
}

net::Task<void> SendError(Exchange& x) {
  const api::ApiError& error = *x.error;
  if (x.client_gone) co_return;
  if (!x.head_sent) {
    const std::string body = api::RenderError(x.protocol(), error, x.id);
    co_await SendOwn(x, error.status, kJson, body);
    co_return;
  }
  if (!x.stream_begun) {
    // Bytes of a whole answer are out already: only a cut connection says that the rest is missing.
    x.reuse_client = false;
    x.client.ResetOnClose();
    co_return;
  }
  // The message ends as HTTP wants it, so the client may send its next request on this connection.
  const std::string event = api::RenderStreamError(x.protocol(), error, x.id);
  x.answer_whole = co_await WriteStreamPiece(x, event, true);
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
  std::array<char, 18> size;
  std::array<ConstBuffer, 3> parts;
  size_t n = 0;
  x.counts.bytes_out += piece.size();
  if (!x.client_knows_chunks()) {
    parts[n++] = AsBuffer(piece);
  } else {
    if (!piece.empty()) {
      parts[n++] = ConstBuffer(size.data(), RenderChunkSize(piece.size(), size.data()));
      parts[n++] = AsBuffer(piece);
    }
    const std::string_view end = last ? "\r\n0\r\n\r\n" : "\r\n";
    parts[n++] = AsBuffer(piece.empty() ? end.substr(2) : end);
  }
  const net::IoResult written = co_await x.client.Write(std::span<const ConstBuffer>(parts.data(), n));
  co_return static_cast<bool>(written);
}

net::Task<bool> SendHeartbeat(Exchange& x) {
  if (!x.head_sent) {
    x.answer_head.clear();
    RenderRelayedHead(x, nullptr, 200, kEventStream, {}, x.answer_head);
    x.head_sent = x.stream_begun = true;
    x.status = 200;
    if (!co_await x.client.Write(AsBuffer(x.answer_head))) co_return false;
  }
  co_return co_await WriteStreamPiece(x, ": waiting\n\n", false);
}

size_t RenderChunkSize(size_t n, char* to) {
  char* end = std::to_chars(to, to + 16, n, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return static_cast<size_t>(end - to);
}

}  // namespace gateway
