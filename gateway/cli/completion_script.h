// The completion scripts of shells, made from the tree of commands: commands, options, the words of enumerations, and
// for the rest names that a gateway knows (asked for by `tidegate completion-words`) or files. Pure.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace gateway::cli {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

// What names a gateway is asked for an option ("--model") or a positional ("jobs logs id"); empty: none.
std::string_view NamesFor(std::string_view command, std::string_view parameter);

}  // namespace gateway::cli
