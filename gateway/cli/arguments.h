// What the parser of the command line does not check or name itself.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace gateway::cli {

// Lets options that are counts take digits only, in all commands: the parser reads -1 as 2^64 - 1, and 010 as 8.
void CheckCounts(CLI::App& app);

// A sentence about the first argument that the called command does not know, or about the command that is missing.
// Empty: there is no such argument.
std::string DescribeUnknown(const CLI::App& app);

}  // namespace gateway::cli
