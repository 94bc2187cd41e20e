// Answers to the client: heads of relayed answers, our own answers, and errors in the client's protocol.
//
// Thread: the exchange's shard.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/exchange.h"
#include "gateway/net/http/head.h"
#include "gateway/net/task.h"

namespace gateway {

// How the body of an answer is delimited towards this client. HTTP/1.0 knows no chunks.
struct BodyFraming {
  std::optional<size_t> length;  // none: a stream
};

// Appends the head of a relayed answer: the upstream's fields without the connection's and without what is
// ours to say, then ours. `upstream` is null when the stream began before the upstream answered.
void RenderRelayedHead(const Exchange& x, const net::http::Head* upstream, int status,
                       std::string_view content_type, BodyFraming framing, std::string& out);

// A whole answer of our own.
net::Task<bool> SendOwn(Exchange& x, int status, std::string_view content_type, std::string_view body);

// Tells x.error: as an answer while no head was sent, as the protocol's error event on a stream that has
// begun, and by cutting the connection where neither can be told.
net::Task<void> SendError(Exchange& x);

// The head of a refusal to a request that has no exchange: its own head could not be read.
std::string RenderRefusalHead(const api::ApiError& error, std::string_view request_id, size_t length);

// One piece of a stream that has begun, whole events; `last` ends the body.
net::Task<bool> WriteStreamPiece(Exchange& x, std::string_view piece, bool last);

// Starts a stream before the upstream has answered, with a comment that keeps proxies and clients waiting.
net::Task<bool> SendHeartbeat(Exchange& x);

// "1a2b\r\n" into `to`, which has room for 18 bytes; the number of bytes.
size_t RenderChunkSize(size_t n, char* to);

}  // namespace gateway
