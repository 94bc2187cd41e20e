// Answers to the client: heads of relayed answers, the gateway's own answers, and errors in the protocol that
// the client uses.
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

// Appends the head of a relayed answer: first the upstream's fields, except those of its connection and those
// that the gateway writes itself, then the gateway's fields. `upstream` is null when the stream began before
// the upstream answered. `retry_after` belongs to a refusal.
void RenderRelayedHead(const Exchange& x, const net::http::Head* upstream, int status,
                       std::string_view content_type, BodyFraming framing, std::string& out,
                       std::optional<conf::Duration> retry_after = std::nullopt);

// Sends a whole answer that the gateway wrote itself.
net::Task<bool> SendOwn(Exchange& x, int status, std::string_view content_type, std::string_view body);

// Sends x.outcome.error: as an answer if no head was sent yet, and as the protocol's error event on a stream
// that has begun. A whole answer that has begun has no place for an error: its connection is closed.
net::Task<void> SendError(Exchange& x);

// The head of a refusal to a request that has no exchange because its head could not be read.
std::string RenderRefusalHead(const api::ApiError& error, std::string_view request_id, size_t length);

// Sends one piece of a stream that has begun. The piece consists of whole events; `last` ends the body.
net::Task<bool> WriteStreamPiece(Exchange& x, std::string_view piece, bool last);

// Sends a comment on the stream, so that proxies and clients keep waiting. Begins the stream if necessary.
net::Task<bool> SendHeartbeat(Exchange& x);

}  // namespace gateway
