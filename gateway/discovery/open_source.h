// The source that a configuration asks for.
#pragma once

#include <memory>

#include "gateway/config/discovery.h"
#include "gateway/discovery/source.h"
#include "gateway/net/loop.h"

namespace gateway::discovery {

std::shared_ptr<Source> OpenSource(net::Loop& loop, const config::Discovery& of, Source::Listener listener);

}  // namespace gateway::discovery
