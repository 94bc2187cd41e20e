// The process's environment and file system, for references in a configuration.
#pragma once

#include <optional>
#include <string_view>

#include "conf/sources.h"

namespace gateway {

// Reads only regular files of at most 4 MiB, so that a FIFO or a device cannot block or fill the process.
conf::Sources SystemSources();

// For commands, which need few of the secrets that a serving gateway needs: a variable that is not set stands
// for itself, and MissingVariable() names it again.
conf::Sources SourcesForCommands();

// The variable that a secret of SourcesForCommands() lacks; nothing: the secret is there.
std::optional<std::string_view> MissingVariable(std::string_view secret);

}  // namespace gateway
