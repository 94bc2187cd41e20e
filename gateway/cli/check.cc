// tidegate check: checks a configuration and prints every problem in it.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "conf/document.h"
#include "conf/shown.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/process/start_check.h"

namespace gateway::cli {
namespace {

std::vector<conf::Problem> ProblemsOf(const std::vector<StartFinding>& findings, const std::string& path,
                                      bool stop) {
  std::vector<conf::Problem> out;
  for (const StartFinding& finding : findings) {
    if (finding.stops != stop) continue;
    out.push_back({.file = path,
                   .pointer = finding.pointer,
                   .line = 0,
                   .value = finding.value,
                   .message = finding.message});
  }
  if (const auto text = SystemSources().file(path); text.ok()) conf::AddLines(*text, out);
  return out;
}

int Check(const std::string& path, bool json) {
  const LoadResult loaded = LoadConfig(path);
  if (!loaded.config) return PrintProblems(loaded.problems, json);
  const std::vector<StartFinding> findings = CheckStart(*loaded.config);
  if (const auto problems = ProblemsOf(findings, path, true); !problems.empty())
    return PrintProblems(problems, json);
  const std::vector<conf::Problem> warnings = ProblemsOf(findings, path, false);
  const std::string hash = Hash(*loaded.config);
  if (json) {
    nlohmann::ordered_json out;
    out["valid"] = true;
    out["sha256"] = hash;
    out["models"] = loaded.config->models.size();
    out["tenants"] = loaded.config->tenants.size();
    out["warnings"] = nlohmann::ordered_json::parse(conf::ToJson(warnings));
    fmt::print("{}\n", out.dump());
  } else {
    for (const conf::Problem& warning : warnings) fmt::print(stderr, "warning: {}\n", ToString(warning));
    fmt::print("{}: valid; {}, {}{}, sha256 {}\n", path, Counted(loaded.config->models.size(), "model"),
               Counted(loaded.config->tenants.size(), "tenant"),
               warnings.empty() ? "" : ", " + Counted(warnings.size(), "warning"), hash);
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

int PrintOptionProblems(const std::vector<FieldProblem>& problems) {
  for (const FieldProblem& problem : problems) {
    const std::string option = problem.field.empty() ? "" : fmt::format("--{}: ", problem.field);
    fmt::print(stderr, "tidegate: {}\n", conf::Visible(option + problem.message));
  }
  return problems.empty() ? kOk : kUsage;
}

void AddCheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("check", "Check a configuration file and print every problem in it");
  auto path = std::make_shared<std::string>("tidegate.yaml");
  auto json = std::make_shared<bool>(false);
  command->add_option("-c,--config,file", *path, "Configuration file")->capture_default_str();
  command->add_flag("--json", *json, "Print JSON");
  command->footer(
      "Warnings name problems of this machine: a port that is in use, a folder to which this user may not "
      "write,\n"
      "missing rights for tenants' jobs. They do not change the exit code.\n\n"
      "Examples:\n"
      "  tidegate check\n"
      "  tidegate check conf/minimal.yaml --json");
  command->callback([path, json, &run] { run = [path, json] { return Check(*path, *json); }; });
}

}  // namespace gateway::cli
