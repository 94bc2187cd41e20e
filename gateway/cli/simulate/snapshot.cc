#include "gateway/cli/simulate/snapshot.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/input.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/scenarios.h"
#include "scheduler/io/explanation_text.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/io/snapshot_json.h"
#include "scheduler/planner.h"

namespace gateway::cli {
namespace {

struct SnapshotReplay {
  SimulateInput input;
  std::string snapshot;  // a file
  uint64_t seed = 1;
  std::string explain;  // the id of a job that waits
  bool json = false;
};

using scheduler::Action;
using scheduler::MemberAt;
using scheduler::Plan;
using scheduler::Snapshot;

std::string NodesOf(const Snapshot& snapshot, const Action& action) {
  std::string nodes;
  for (size_t i = 0; i < action.members.size(); ++i) {
    if (i == 4) return nodes + fmt::format(", and {} more", action.members.size() - i);
    nodes += (i == 0 ? "" : ", ") + snapshot.cluster.nodes[action.members[i].holding.node].name;
  }
  return nodes.empty() ? "-" : nodes;
}

std::string PlanAsTables(const Snapshot& snapshot, const Plan& plan) {
  std::string text =
      fmt::format("version {} at {}: {}, {}; {}\n\n", snapshot.version, conf::FormatTime(snapshot.as_of),
                  Counted(snapshot.cluster.nodes.size(), "node"), Counted(snapshot.jobs.size(), "job"),
                  Counted(plan.actions.size(), "action"));
  Table actions({{"ACTION"}, {"JOB"}, {"NODES"}, {"WHY"}});
  for (const Action& action : plan.actions) {
    actions.Add({std::string(Name(action.kind)), action.job, NodesOf(snapshot, action), action.why.text});
  }
  if (!plan.actions.empty()) text += actions.Render() + "\n";
  Table waiting({{"WAITS"}, {"CODE"}, {"WHY"}});
  for (const auto& [job, why] : plan.waiting) waiting.Add({job, why.code, why.text});
  if (!plan.waiting.empty()) text += waiting.Render();
  return text;
}

nlohmann::ordered_json PlanAsJson(const Snapshot& snapshot, const MemberAt& member) {
  return {{"role", member.role},
          {"rank", member.rank},
          {"node", snapshot.cluster.nodes[member.holding.node].name},
          {"devices", member.holding.devices},
          {"milli", member.holding.milli}};
}

nlohmann::ordered_json PlanAsJson(const Snapshot& snapshot, const Plan& plan) {
  nlohmann::ordered_json json{{"based_on", snapshot.version}, {"as_of", conf::FormatTime(snapshot.as_of)}};
  json["actions"] = nlohmann::ordered_json::array();
  for (const Action& action : plan.actions) {
    nlohmann::ordered_json one{{"action", Name(action.kind)}, {"job", action.job}};
    one["members"] = nlohmann::ordered_json::array();
    for (const MemberAt& member : action.members) one["members"].push_back(PlanAsJson(snapshot, member));
    one["grace_s"] = conf::ToSeconds(action.grace);
    one["code"] = action.why.code;
    one["why"] = action.why.text;
    json["actions"].push_back(std::move(one));
  }
  json["waiting"] = nlohmann::ordered_json::array();
  for (const auto& [job, why] : plan.waiting) {
    json["waiting"].push_back({{"job", job}, {"code", why.code}, {"why", why.text}});
  }
  json["reserved"] = nlohmann::ordered_json::array();
  for (const scheduler::Reserved& reserved : plan.reserved) {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const scheduler::NodeId node : reserved.nodes) nodes.push_back(snapshot.cluster.nodes[node].name);
    json["reserved"].push_back(
        {{"job", reserved.job}, {"start", conf::FormatTime(reserved.start)}, {"nodes", std::move(nodes)}});
  }
  return json;
}

std::string ExplanationText(const scheduler::Explanation& why, bool json) {
  if (json) return scheduler::io::WriteExplanation(why) + '\n';
  std::string text;
  for (const std::string& sentence : scheduler::io::InWords(why)) text += sentence + '\n';
  return text;
}

// Prints the plan under the input's policy, or why the job waits; the exit code.
int ReplaySnapshot(const SnapshotReplay& replay) {
  std::vector<conf::Problem> problems;
  const std::optional<std::string> text = ReadFile(replay.snapshot, problems);
  if (!text) return PrintProblems(problems, replay.json);
  scheduler::io::Loaded<Snapshot> loaded = scheduler::io::ReadSnapshot(*text, replay.snapshot);
  if (!loaded.value) return PrintProblems(loaded.problems, replay.json);
  const Snapshot& snapshot = *loaded.value;

  std::optional<scheduler::io::PolicyFile> policy =
      LoadPolicy(replay.input, replay.input.policy, snapshot.cluster, problems);
  if (!policy) return PrintProblems(problems, replay.json);
  scheduler::Planner planner(snapshot, std::move(policy->policy));
  scheduler::Rng rng = scheduler::CycleRng(replay.seed, snapshot.version);
  const Plan plan = planner.Run(snapshot.as_of, rng);
  absl::Status printed;
  if (!replay.explain.empty()) {
    const scheduler::JobIndex job = planner.jobs().Find(replay.explain);
    if (job == scheduler::kNone) {
      fmt::print(stderr, "tidegate: {}: no job \"{}\" is in it after this cycle\n", replay.snapshot,
                 replay.explain);
      return kFailed;
    }
    printed = Print(ExplanationText(planner.Explain(job, snapshot.as_of), replay.json));
  } else {
    printed = Print(replay.json ? AsText(PlanAsJson(snapshot, plan)) + "\n" : PlanAsTables(snapshot, plan));
  }
  return printed.ok() ? kOk : Fail(printed);
}

}  // namespace

void AddPolicyReplay(CLI::App& policy, Run& run) {
  CLI::App* command = policy.add_subcommand(
      "replay", "Plan once from a snapshot of the planner, and print the plan or why a job waits");
  auto replay = std::make_shared<SnapshotReplay>();
  command->add_option("SNAPSHOT", replay->snapshot, "A file, as tidegate simulate jobs --dump writes it")
      ->required()
      ->type_name("");
  AddDecisionOptions(*command, replay->input);
  command->add_option("--explain", replay->explain, "Say why this job waits");
  command->add_option("--seed", replay->seed, "Seed of everything random")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", replay->json, "Print JSON");
  command->footer(
      "Example:\n"
      "  tidegate simulate jobs conf/jobs/examples.jsonl --cluster conf/clusters/reference.yaml \\\n"
      "    --dump day.json --dump-at 2h\n"
      "  tidegate policy replay day.json --explain report");
  command->callback([replay, &run] { run = [replay] { return ReplaySnapshot(*replay); }; });
}

}  // namespace gateway::cli
