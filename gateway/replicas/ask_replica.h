// Requests of the gateway's own to a replica, outside the request path: its health, its metrics, the tokens
// of a prompt.
#pragma once

#include <string_view>

#include "conf/time.h"
#include "gateway/net/http/fetch.h"
#include "gateway/shard/runtime.h"

namespace gateway {

// A GET with the replica's key and headers, as the requests of callers have them. The caller completes it and
// sends it by net::http::Fetch.
net::http::FetchRequest AskReplica(const ReplicaRuntime& replica, std::string_view path,
                                   conf::Duration timeout);

}  // namespace gateway
