// Loads a configuration: reads every section and checks that the sections agree with each other.
//
// A load that fails returns every problem at once. Secrets are resolved at load. Relative paths are taken
// from the working directory and kept as written. Loading blocks on files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"
#include "conf/sources.h"
#include "gateway/config/config.h"
#include "gateway/config/machine_probe.h"
#include "gateway/config/sources.h"

namespace gateway {

struct LoadResult {
  std::optional<Config> config;  // present exactly when there are no problems
  std::vector<conf::Problem> problems;
  std::vector<std::string> defaulted;  // pointers of the options that the file does not give
};

LoadResult LoadConfig(const std::string& path, const conf::Sources& sources = SystemSources(),
                      const config::MachineProbe& probe = config::ProbeThisMachine);
// `file` is the name that problems show.
LoadResult ParseConfig(std::string_view text, const std::string& file,
                       const conf::Sources& sources = SystemSources(),
                       const config::MachineProbe& probe = config::ProbeNothing);

}  // namespace gateway
