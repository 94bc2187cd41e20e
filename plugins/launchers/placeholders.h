// The placeholders that a run's command and environment may name: {host}, {port}, {node}, {id},
// {rank}, {size}, {leader} and {leader_port}; with weights also {weights} and {compile_cache}, their folders on
// the node. Braces around anything else stay as they are; {{id}} stands for the text {id} (conf/placeholders.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/launchers/launcher.h"

namespace plugins::launchers {

// Where the run itself listens, if it serves: the address that it should bind, and no other.
struct ListenAt {
  std::string host{};
  uint16_t port = 0;
};

std::string FillPlaceholders(std::string_view text, const RunSpec& run, const ListenAt& at);

bool IsPlaceholder(std::string_view name);
// For a value that a program has to get as it is, such as a secret.
std::string EscapePlaceholders(std::string_view text);

// The command as it is run: behind the step for weights, where the run has one. `program`: tidegate, where the
// step names none.
std::vector<std::string> CommandWithStep(const RunSpec& run, const ListenAt& at, const std::string& program);

}  // namespace plugins::launchers
