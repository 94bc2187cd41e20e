// What the gateway asks of a replica for itself, off every request's path: its health, its metrics, the
// tokens of a prompt.
#pragma once

#include <string_view>

#include "conf/time.h"
#include "gateway/net/http/fetch.h"
#include "gateway/runtime.h"

namespace gateway {

// A GET with the replica's key; to be completed, and sent by net::http::Fetch.
net::http::FetchRequest AskReplica(const ReplicaRuntime& replica, std::string_view path,
                                   conf::Duration timeout);

}  // namespace gateway
