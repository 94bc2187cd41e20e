// URLs that an operator gives once for all nodes.
#pragma once

#include <string_view>

namespace gateway::config {

// Stands for the name of the node.
inline constexpr std::string_view kNodeInUrl = "{node}";

}  // namespace gateway::config
