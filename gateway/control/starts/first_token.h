// The first token of a replica, requested by the gateway: the engine then builds what it still lacks, and no caller
// waits for that.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>

#include "gateway/control/workloads/context.h"
#include "gateway/net/abort_group.h"
#include "gateway/net/loop.h"

namespace gateway::control {

// Requests one token of a completion, or an embedding where the engine has no completions. `run`: the run of the
// replica's leader. `key` is null where the engine demands none. An error: the engine has given no good answer.
net::Task<absl::Status> AskForFirstToken(net::Loop& loop, const Context& context, std::string run,
                                         std::shared_ptr<const config::Endpoint> endpoint,
                                         std::shared_ptr<const conf::Secret> key, conf::Duration timeout,
                                         net::AbortGroup* group);

}  // namespace gateway::control
