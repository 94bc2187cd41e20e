// What a command that works on a gateway's state folder opens first: the configuration, for where the folder
// is and which names there are.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

#include "gateway/config/config.h"

namespace gateway::cli {

// The configuration, without the secrets that only a serving gateway needs: an environment variable that is
// not set here stands for itself. Nothing, and every problem printed, when it is not valid.
std::optional<Config> LoadForState(const std::string& path, bool json);

// Declares -c, --config.
std::shared_ptr<std::string> AddConfigOption(CLI::App& command);

}  // namespace gateway::cli
