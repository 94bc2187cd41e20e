// SendBatchLine: sends a line of a batch into the gateway, as a request of the batch's key, and reads the whole
// answer.
//
// The line reaches a shard through a pair of sockets inside the process, like a request of the playground
// (on_behalf.h). So it passes the whole pipeline, and no client can send one. Thread: the control loop's.
#pragma once

#include <functional>

#include "gateway/batches/line_call.h"
#include "gateway/net/fd.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"
#include "gateway/request/on_behalf.h"

namespace gateway {

// Larger answers are not kept.
inline constexpr size_t kMaxBatchAnswer = 16u << 20;

// Lets a shard serve the request that arrives on this socket.
using ServeOwnRequest = std::function<void(net::Fd, OnBehalf)>;

net::Task<batches::LineAnswer> SendBatchLine(net::Loop& loop, ServeOwnRequest serve, batches::LineCall call);

}  // namespace gateway
