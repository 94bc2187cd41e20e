// tidegate policy: `check` prints every problem in policy files of models; `diff` shows what a changed policy
// would have done with the last hour's traffic; `replay` repeats a decision of the planner.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "conf/document.h"
#include "conf/file_problem.h"
#include "conf/reader.h"
#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/policy_diff.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/snapshot.h"
#include "gateway/config/model_policy.h"
#include "gateway/config/sources.h"

namespace gateway::cli {
namespace {

// The planner's policies have other keys: as a model's, each of them would be a problem of its own.
bool IsOfPlanner(std::string_view text, const conf::Sources& sources) {
  conf::Document document(text, "", sources);
  const conf::Value root = document.root();
  if (root.kind() != conf::Kind::kMapping || root.Find("model")) return false;
  return root.Find("order") || root.Find("queues") || root.Find("backfill");
}

int CheckPolicies(const std::vector<std::string>& files, bool json) {
  const conf::Sources sources = SystemSources();
  std::vector<conf::Problem> problems;
  std::map<std::string, std::string> owners;  // model → file
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = sources.file(file);
    if (!text.ok()) {
      problems.push_back(conf::FileProblem(file, conf::Std(text.status().message())));
      continue;
    }
    if (IsOfPlanner(*text, sources)) {
      problems.push_back({.file = file,
                          .pointer = {},
                          .line = 0,
                          .value = {},
                          .message =
                              "is a policy of the planner, not of a model: name it as scaling.planner in a "
                              "configuration, which tidegate check reads with it"});
      continue;
    }
    auto loaded = config::ReadModelPolicy(*text, file, sources);
    problems.insert(problems.end(), loaded.problems.begin(), loaded.problems.end());
    if (!loaded.value) continue;
    const auto [first, added] = owners.try_emplace(loaded.value->model(), file);
    if (added) continue;
    problems.push_back(
        {.file = file,
         .pointer = "/model",
         .line = 0,
         .value = loaded.value->model(),
         .message = fmt::format("the model {} already has a policy, {}; give each model one policy",
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
    for (const auto& [model, file] : owners)
      fmt::print("{}: valid; the policy of the model {}\n", file, model);
  }
  return kOk;
}

}  // namespace

void AddPolicy(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "policy",
      "Check scaling policies, try a changed one on recorded traffic, and repeat a decision of the planner");
  command->require_subcommand(1);
  CLI::App* check = command->add_subcommand("check", "Check policy files and print every problem in them");
  auto files = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  check->add_option("files", *files, "Policy files, as in conf/policies/scaling")->required();
  check->add_flag("--json", *json, "Print JSON");
  check->footer("Example:\n  tidegate policy check conf/policies/scaling/chat-small.yaml");
  check->callback([files, json, &run] { run = [files, json] { return CheckPolicies(*files, *json); }; });

  CLI::App* diff = command->add_subcommand(
      "diff", "Show what a changed policy would have done with the last hour's traffic");
  auto options = std::make_shared<PolicyDiffOptions>();
  diff->add_option("file", options->file, "The changed policy file; a running gateway must scale its model")
      ->required();
  AddAdminOptions(*diff, options->admin);
  diff->add_option("--cold-start", options->cold_start,
                   "How long a replica takes to start; default: the 90th percentile that was measured");
  diff->footer(
      "Runs both policies in virtual time over the traffic of up to an hour that the gateway has recorded.\n"
      "Changes nothing. Exit codes: 0 done, 1 the gateway does not answer or has recorded nothing yet, 2 "
      "the\n"
      "file is wrong or the gateway has no policy for its model.\n\n"
      "Example:\n  tidegate policy diff chat-large.yaml");
  diff->callback([options, &run] { run = [options] { return DiffPolicies(*options); }; });

  AddPolicyReplay(*command, run);
}

}  // namespace gateway::cli
