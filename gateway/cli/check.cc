// tidegate check: validate a configuration and print every error in it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"
#include "gateway/cli/problems.h"
#include "gateway/config.h"

namespace gateway::cli {
namespace {

int Check(const std::string& path, bool json) {
  const LoadResult loaded = LoadConfig(path);
  if (!loaded.config) return PrintProblems(loaded.problems, json);
  const std::string hash = Hash(*loaded.config);
  if (json) {
    nlohmann::ordered_json out;
    out["valid"] = true;
    out["sha256"] = hash;
    out["models"] = loaded.config->models.size();
    out["tenants"] = loaded.config->tenants.size();
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: valid; {} models, {} tenants, sha256 {}\n", path, loaded.config->models.size(),
               loaded.config->tenants.size(), hash);
  }
  return kOk;
}

}  // namespace

int PrintProblems(const std::vector<conf::Problem>& problems, bool json) {
  if (json) {
    fmt::print("{}\n", conf::ToJson(problems));
  } else {
    for (const conf::Problem& problem : problems) fmt::print(stderr, "{}\n", ToString(problem));
    fmt::print(stderr, "{} problem{}\n", problems.size(), problems.size() == 1 ? "" : "s");
  }
  return kUsage;
}

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("check", "Validate a configuration file and print every error in it");
  auto path = std::make_shared<std::string>("tidegate.yaml");
  auto json = std::make_shared<bool>(false);
  command->add_option("-c,--config,file", *path, "Configuration file")->capture_default_str();
  command->add_flag("--json", *json, "Print JSON");
  command->callback([path, json, &run] { run = [path, json] { return Check(*path, *json); }; });
}

}  // namespace gateway::cli
