// tidegate upgrade-check: what an upgrade to this version changes, before the new version runs.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/state.h"
#include "gateway/config/load.h"
#include "gateway/config/retired_options.h"
#include "gateway/process/upgrade_check.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

struct UpgradeOptions {
  std::string config = "tidegate.yaml";
  bool json = false;
};

// Problems of options that an earlier version had say what replaces them.
std::vector<conf::Problem> NameRetiredOptions(std::vector<conf::Problem> problems) {
  for (conf::Problem& problem : problems) {
    if (const config::RetiredOption* const retired = config::FindRetiredOption(problem.pointer)) {
      problem.message =
          fmt::format("version {} was the last with this option: {}", retired->last, retired->instead);
    }
  }
  return problems;
}

ordered_json ReportAsJson(const UpgradeReport& report) {
  ordered_json findings = ordered_json::array();
  for (const UpgradeFinding& finding : report.findings) {
    findings.push_back(
        {{"part", finding.part}, {"effect", Name(finding.effect)}, {"message", finding.message}});
  }
  return {{"from", report.from.empty() ? ordered_json() : ordered_json(report.from)},
          {"to", TIDEGATE_VERSION},
          {"process", report.process == 0 ? ordered_json() : ordered_json(report.process)},
          {"refused", report.Has(UpgradeFinding::Effect::kRefused)},
          {"findings", std::move(findings)}};
}

void PrintUpgrade(const UpgradeReport& report) {
  fmt::print("From {} to {}{}\n\n", report.from.empty() ? "an unknown version" : report.from,
             TIDEGATE_VERSION, report.process == 0 ? "" : fmt::format("; process {} runs", report.process));
  Table table({{"PART"}, {"EFFECT"}, {"WHAT"}});
  for (const UpgradeFinding& finding : report.findings)
    table.Add({finding.part, std::string(Name(finding.effect)), finding.message});
  fmt::print("{}", table.Render());
}

int CheckTheUpgrade(const UpgradeOptions& options) {
  const conf::Sources sources = SourcesForCommands();
  const LoadResult loaded = LoadConfig(options.config, sources);
  if (!loaded.config) return PrintProblems(NameRetiredOptions(loaded.problems), options.json);
  const UpgradeReport report = CheckUpgrade(*loaded.config, sources);
  if (options.json) {
    fmt::print("{}\n", AsText(ReportAsJson(report)));
  } else {
    PrintUpgrade(report);
  }
  const bool refused = report.Has(UpgradeFinding::Effect::kRefused);
  const bool unread = report.Has(UpgradeFinding::Effect::kUnread);
  if (!options.json) {
    fmt::print("\n{}\n", refused  ? "This version refuses the option, or would lose a part of its value."
                         : unread ? "Not all could be read: run the command as the user of the gateway."
                                  : "Nothing keeps this version from starting.");
  }
  return refused || unread ? kFailed : kOk;
}

}  // namespace

void AddUpgradeCheck(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "upgrade-check", "Show what an upgrade to this version changes, before this version runs");
  auto options = std::make_shared<UpgradeOptions>();
  command->add_option("-c,--config,file", options->config, "Configuration file")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Run the new binary with it, as the user of the gateway; the old version may still run. It reads "
      "the\n"
      "configuration, the store, the ledger and the other files of state_dir, and changes nothing.\n"
      "Exit code 1: this version refuses something, or something could not be read. 2: the configuration "
      "is\n"
      "refused; for options of an earlier version, the message names the replacement.\n\n"
      "Examples:\n"
      "  tidegate upgrade-check /etc/tidegate/tidegate.yaml\n"
      "  tidegate upgrade-check --json");
  command->callback([options, &run] { run = [options] { return CheckTheUpgrade(*options); }; });
}

}  // namespace gateway::cli
