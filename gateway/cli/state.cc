#include "gateway/cli/state.h"

#include "gateway/cli/problems.h"
#include "gateway/config/load.h"

namespace gateway::cli {

conf::Sources SourcesForState() {
  conf::Sources sources = SystemSources();
  sources.environment = [system =
                             sources.environment](const std::string& name) -> std::optional<std::string> {
    if (std::optional<std::string> value = system(name)) return value;
    return "not-set-for-this-command-and-not-needed-by-it:" + name;
  };
  return sources;
}

std::optional<Config> LoadForState(const std::string& path, bool json) {
  LoadResult loaded = LoadConfig(path, SourcesForState());
  if (!loaded.config) PrintProblems(loaded.problems, json);
  return std::move(loaded.config);
}

std::shared_ptr<std::string> AddConfigOption(CLI::App& command) {
  auto path = std::make_shared<std::string>("tidegate.yaml");
  command.add_option("-c,--config", *path, "Configuration file")->capture_default_str();
  return path;
}

}  // namespace gateway::cli
