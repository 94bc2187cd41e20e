// The first step of a command on a gateway's state folder: reads the configuration, for the folder and the
// known names.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

#include "gateway/config/config.h"

namespace gateway::cli {

// The configuration, whose secrets may be missing (SourcesForCommands). Nothing, after printing every problem, if it is not valid.
std::optional<Config> LoadForState(const std::string& path, bool json);

// Declares -c, --config.
std::shared_ptr<std::string> AddConfigOption(CLI::App& command);

}  // namespace gateway::cli
