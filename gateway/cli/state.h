// The first step of a command on a gateway's state folder: reads the configuration, for the folder and the
// known names.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

#include "conf/sources.h"
#include "gateway/config/config.h"

namespace gateway::cli {

// The configuration, without the secrets that only a serving gateway needs: an environment variable that is
// not set stands for itself. Nothing, after printing every problem, if it is not valid.
std::optional<Config> LoadForState(const std::string& path, bool json);

// The sources that it uses.
conf::Sources SourcesForState();

// Declares -c, --config.
std::shared_ptr<std::string> AddConfigOption(CLI::App& command);

}  // namespace gateway::cli
