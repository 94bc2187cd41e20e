// The placeholders that a run's command and environment may name: {host}, {port}, {node}, {id},
// {rank}, {size}, {leader} and {leader_port}. Braces around anything else stay as they are. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// Where the run itself listens, if it serves: the address that it should bind, and no other.
struct ListenAt {
  std::string host{};
  uint16_t port = 0;
};

std::string FillPlaceholders(std::string_view text, const RunSpec& run, const ListenAt& at);

}  // namespace plugins::launchers
