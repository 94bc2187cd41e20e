// Answers to the client: heads of relayed answers, the gateway's own answers, and errors in the client's
// protocol.
//
// Thread: the exchange's shard.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/net/http/head.h"
#include "gateway/net/task.h"
#include "gateway/request/exchange.h"

namespace gateway {

// How the body of an answer is delimited.
struct BodyFraming {
  std::optional<size_t> length;  // none: a stream
};

// Appends the head of a relayed answer: the upstream's fields, without those of its connection and those that
// the gateway writes itself, then the gateway's. `upstream` is null when the stream began before the upstream
// answered.
// `retry_after`: of a refusal.
void RenderRelayedHead(const Exchange& x, const net::http::Head* upstream, int status,
                       std::string_view content_type, BodyFraming framing, std::string& out,
                       std::optional<conf::Duration> retry_after = std::nullopt);

// Sends a whole answer of the gateway's own.
net::Task<bool> SendOwn(Exchange& x, int status, std::string_view content_type, std::string_view body);

// Sends x.outcome.error: as an answer while no head was sent, and as the protocol's error event on a stream
// that has begun. A whole answer that has begun can hold no error: its connection is cut.
net::Task<void> SendError(Exchange& x);

// The head of a refusal to a request without an exchange: its own head could not be read.
std::string RenderRefusalHead(const api::ApiError& error, std::string_view request_id, size_t length);

// Sends one piece, of whole events, of a stream that has begun; `last` ends the body.
net::Task<bool> WriteStreamPiece(Exchange& x, std::string_view piece, bool last);

// Sends a comment on the stream, which begins with it if it has not begun: proxies and clients keep waiting.
net::Task<bool> SendHeartbeat(Exchange& x);

}  // namespace gateway
