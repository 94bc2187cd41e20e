// tidegate policy: check validates policy files of models and prints every error in them; diff tells what one
// would have done with the last hour's traffic.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/policy_diff.h"
#include "gateway/cli/problems.h"
#include "gateway/config/model_policy.h"

namespace gateway::cli {
namespace {

int CheckPolicies(const std::vector<std::string>& files, bool json) {
  const conf::Sources sources = conf::SystemSources();
  std::vector<conf::Problem> problems;
  std::map<std::string, std::string> owners;  // model → file
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = sources.file(file);
    if (!text.ok()) {
      problems.push_back({.file = file,
                          .pointer = "",
                          .line = 0,
                          .value = "",
                          .message = std::string(conf::Std(text.status().message()))});
      continue;
    }
    auto loaded = config::ReadModelPolicy(*text, file, sources);
    problems.insert(problems.end(), loaded.problems.begin(), loaded.problems.end());
    if (!loaded.value) continue;
    const auto [first, added] = owners.try_emplace(loaded.value->model(), file);
    if (added) continue;
    problems.push_back({.file = file,
                        .pointer = "/model",
                        .line = 0,
                        .value = loaded.value->model(),
                        .message = fmt::format("{} has a policy already, {}: one model has one owner",
                                               loaded.value->model(), first->second)});
  }
  if (!problems.empty()) return PrintProblems(problems, json);
  if (json) {
    nlohmann::ordered_json out;
    out["valid"] = true;
    out["policies"] = nlohmann::ordered_json::array();
    for (const auto& [model, file] : owners) out["policies"].push_back({{"model", model}, {"file", file}});
    fmt::print("{}\n", out.dump());
  } else {
    for (const auto& [model, file] : owners) fmt::print("{}: valid; of {}\n", file, model);
  }
  return kOk;
}

}  // namespace

void AddPolicy(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("policy", "Scaling policies of models");
  command->require_subcommand(1);
  CLI::App* check = command->add_subcommand("check", "Validate policy files and print every error in them");
  auto files = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  check->add_option("files", *files, "Policy files, as in conf/policies/scaling")->required();
  check->add_flag("--json", *json, "Print JSON");
  check->callback([files, json, &run] { run = [files, json] { return CheckPolicies(*files, *json); }; });

  CLI::App* diff = command->add_subcommand(
      "diff", "What a changed policy would have done over the last hour, beside the one that runs");
  auto options = std::make_shared<PolicyDiffOptions>();
  diff->add_option("file", options->file, "The changed policy, of a model that a running gateway scales")
      ->required();
  AddAdminOptions(*diff, options->admin);
  diff->add_option("--cold-start", options->cold_start,
                   "How long a start takes; what nine of ten took when not given");
  diff->footer(
      "Both laws are run over what the gateway has recorded of the model, up to an hour, in virtual time; "
      "the\n"
      "first lines say what is simulated and how. Nothing is changed. Exit codes: 0 told, 1 the gateway does "
      "not\n"
      "answer or has recorded nothing yet, 2 the file is wrong or no policy runs for its model.");
  diff->callback([options, &run] { run = [options] { return DiffPolicies(*options); }; });
}

}  // namespace gateway::cli
