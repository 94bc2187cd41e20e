// The first token of a replica, asked for by the gateway: what its engine still has to build is built then, and not
// while a caller waits.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>

#include "gateway/control/workloads/context.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"

namespace gateway::control {

// Of the replica whose leader is `run`. One token of a completion, or an embedding where the engine has no
// completions. `key` is null where the engine demands none. An error: it has not answered well.
net::Task<absl::Status> AskForFirstToken(net::Loop& loop, const Context& context, std::string run,
                                         std::shared_ptr<const config::Endpoint> endpoint,
                                         std::shared_ptr<const conf::Secret> key, conf::Duration timeout,
                                         net::AbortGroup* group);

}  // namespace gateway::control
