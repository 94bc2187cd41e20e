// The placeholders that a run's command and environment may name: {port}, {node}, {id}, {rank}, {size},
// {leader} and {leader_port}. Braces around anything else stay as they are. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// `port`: where the run itself listens.
std::string FillPlaceholders(std::string_view text, const RunSpec& run, uint16_t port);

}  // namespace plugins::launchers
