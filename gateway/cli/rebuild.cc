// tidegate state rebuild: puts the store of a state folder together again after it was damaged or lost.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/state.h"
#include "gateway/log.h"
#include "gateway/net/loop.h"
#include "gateway/process/rebuild_state.h"

namespace gateway::cli {
namespace {

using nlohmann::ordered_json;

struct RebuildOptions {
  std::shared_ptr<std::string> config;
  bool json = false;
};

ordered_json StateAsJson(const RebuiltState& state) {
  const control::WorkloadHistory::Rebuilt& workloads = state.workloads;
  ordered_json lost_keys = ordered_json::array();
  for (const KeyHistory::Key& key : state.lost_keys)
    lost_keys.push_back({{"id", key.id}, {"tenant", key.tenant}, {"name", key.name}});
  return {{"damage", state.damage},
          {"kept_as", state.kept_as.empty() ? ordered_json() : ordered_json(state.kept_as)},
          {"read_whole", state.read_whole},
          {"ledger_records", state.ledger_records},
          {"number", state.number},
          {"replicas", workloads.replicas},
          {"jobs",
           {{"running", workloads.running},
            {"waiting", workloads.waiting},
            {"over", workloads.over},
            {"without_file", workloads.without_file},
            {"lost", workloads.lost}}},
          {"runs_left", workloads.left},
          {"keys", state.keys},
          {"lost_keys", std::move(lost_keys)},
          {"cordons", state.cordons},
          {"learned", state.learned},
          {"learned_anew", state.learned_anew},
          {"had_admin", state.had_admin},
          {"bootstrap_key_works", state.bootstrap_works},
          {"positions", state.positions},
          {"sinks_from_the_beginning", state.sinks_anew}};
}

void PrintState(const RebuiltState& state) {
  const control::WorkloadHistory::Rebuilt& workloads = state.workloads;
  fmt::print("What was wrong: {}\n", state.damage);
  if (!state.kept_as.empty()) fmt::print("The damaged file is kept as {}\n", state.kept_as);
  fmt::print("Read {} of the ledger\n\n", Counted(state.ledger_records, "record"));
  Table table({{"REBUILT"}, {"COUNT", true}});
  for (const auto& [what, count] :
       {std::pair<const char*, uint64_t>{"running replicas", workloads.replicas.size()},
        {"running jobs", workloads.running.size()},
        {"waiting jobs", workloads.waiting.size()},
        {"jobs that are over", workloads.over},
        {"API keys", state.keys},
        {"cordons", state.cordons},
        {"models of which scaling keeps what it has learned", state.learned.size()},
        {"positions of readers of the ledger", state.positions}})
    table.Add({what, std::to_string(count)});
  fmt::print("{}", table.Render());

  if (!state.lost_keys.empty()) {
    fmt::print("\nLost: {}. The ledger does not have their hashes; create new ones:\n",
               Counted(state.lost_keys.size(), "API key"));
    for (const KeyHistory::Key& key : state.lost_keys) {
      fmt::print("  {}  {}  {}\n", key.id, key.tenant.empty() ? "(admin)" : key.tenant,
                 key.name.empty() ? "-" : key.name);
    }
  }
  if (!workloads.lost.empty())
    fmt::print("\nLost: waiting jobs whose job file is gone; submit them again: {}\n",
               fmt::join(workloads.lost, ", "));
  if (!workloads.without_file.empty())
    fmt::print("\nJobs that keep running but cannot be started again, since their job file is gone: {}\n",
               fmt::join(workloads.without_file, ", "));
  if (!workloads.left.empty())
    fmt::print("\nRuns of no known workload; the gateway ends them when it starts: {}\n",
               fmt::join(workloads.left, ", "));
  if (!state.sinks_anew.empty())
    fmt::print("\nSinks that get the ledger from its beginning, since their position is lost: {}\n",
               fmt::join(state.sinks_anew, ", "));
  if (!state.learned_anew.empty())
    fmt::print("\nModels of which scaling learns anew, since what it had learned cannot be read: {}\n",
               fmt::join(state.learned_anew, ", "));
  if (state.had_admin) {
    fmt::print(
        "\nThere was an admin, so admin.bootstrap_key stays off; tidegate keys create --admin admin makes an "
        "admin "
        "key.\n");
  } else if (state.bootstrap_works) {
    fmt::print(
        "\nNothing that could be read shows an admin, so admin.bootstrap_key works until there is one: "
        "remove it "
        "from\nthe configuration if others may know it, and make an admin key with tidegate keys create "
        "--admin "
        "admin.\n");
  }
  fmt::print("\nThe gateway can start.\n");
}

int Rebuild(const RebuildOptions& options) {
  const std::optional<Config> config = LoadForState(*options.config, options.json);
  if (!config) return kUsage;
  net::Loop loop([](const std::exception_ptr& error) { log::Exception("state rebuild", error); });
  const absl::StatusOr<RebuiltState> state = RebuildState(loop, *config);
  loop.Stop();
  loop.Run();
  if (!state.ok()) return Fail(state.status());
  if (options.json) {
    fmt::print("{}\n", AsText(StateAsJson(*state)));
  } else {
    PrintState(*state);
  }
  return kOk;
}

}  // namespace

void AddState(CLI::App& app, Run& run) {
  CLI::App* state = app.add_subcommand("state", "Show, move and repair the state of a gateway");
  state->require_subcommand(1);
  auto options = std::make_shared<RebuildOptions>();
  CLI::App* rebuild = state->add_subcommand(
      "rebuild", "Rebuild the store after it was damaged or lost, while no gateway runs");
  options->config = AddConfigOption(*rebuild);
  rebuild->add_flag("--json", options->json, "Print JSON");
  rebuild->footer(
      "Uses the ledger, the running processes and what can be read of the damaged file. The damaged file "
      "stays, under another name. Exit code 1: a gateway runs, or there is nothing to rebuild.\n\n"
      "Examples:\n  tidegate state rebuild --config tidegate.yaml\n  tidegate state rebuild --json");
  rebuild->callback([options, &run] { run = [options] { return Rebuild(*options); }; });
  AddStateCopies(*state, run);
}

}  // namespace gateway::cli
