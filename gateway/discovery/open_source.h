// The source that a configuration asks for.
#pragma once

#include <memory>

#include "gateway/config/discovery.h"
#include "gateway/discovery/source.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/access.h"

namespace gateway::discovery {

// `place`: where the API server of Kubernetes is.
std::shared_ptr<Source> OpenSource(net::Loop& loop, const config::Discovery& of,
                                   const plugins::kubernetes::Place& place, Source::Listener listener);

}  // namespace gateway::discovery
