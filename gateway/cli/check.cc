// tidegate check: checks a configuration and prints every problem in it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/config/load.h"

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
    fmt::print("{}: valid; {}, {}, sha256 {}\n", path, Counted(loaded.config->models.size(), "model"),
               Counted(loaded.config->tenants.size(), "tenant"), hash);
  }
  return kOk;
}

}  // namespace

int PrintProblems(const std::vector<conf::Problem>& problems, bool json) {
  if (json) {
    fmt::print("{}\n", conf::ToJson(problems));
  } else {
    for (const conf::Problem& problem : problems) fmt::print(stderr, "{}\n", ToString(problem));
    fmt::print(stderr, "{}\n", Counted(problems.size(), "problem"));
  }
  return kUsage;
}

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("check", "Check a configuration file and print every problem in it");
  auto path = std::make_shared<std::string>("tidegate.yaml");
  auto json = std::make_shared<bool>(false);
  command->add_option("-c,--config,file", *path, "Configuration file")->capture_default_str();
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Examples:\n  tidegate check\n  tidegate check conf/minimal.yaml --json");
  command->callback([path, json, &run] { run = [path, json] { return Check(*path, *json); }; });
}

}  // namespace gateway::cli
