#include "gateway/cli/state.h"

#include "gateway/cli/problems.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"

namespace gateway::cli {

std::optional<Config> LoadForState(const std::string& path, bool json) {
  LoadResult loaded = LoadConfig(path, SourcesForCommands());
  if (!loaded.config) PrintProblems(loaded.problems, json);
  return std::move(loaded.config);
}

std::shared_ptr<std::string> AddConfigOption(CLI::App& command) {
  auto path = std::make_shared<std::string>("tidegate.yaml");
  command.add_option("-c,--config", *path, "Configuration file")->capture_default_str();
  return path;
}

}  // namespace gateway::cli
