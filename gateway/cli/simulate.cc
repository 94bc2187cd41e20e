// tidegate simulate: what a cluster would have made of a workload, under one policy or beside another.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate_fill.h"
#include "gateway/cli/simulate_input.h"
#include "gateway/cli/simulate_output.h"
#include "gateway/cli/simulate_progress.h"
#include "gateway/cli/simulate_snapshot.h"
#include "scheduler/io/snapshot_json.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {
namespace {

namespace sim = scheduler::sim;

struct Options {
  SimulateInput input;
  SnapshotReplay replay;
  std::string csv;
  std::string html;
  std::string dump;
  std::string dump_at = "0s";
  uint32_t seeds = 1;
  uint64_t seed = 1;
  std::string estimates = "exact";
  bool until_allocated = false;
  bool strict = false;
  bool json = false;
};

int RefuseCall(std::string_view message) {
  fmt::print(stderr, "tidegate: {}\n", message);
  return kUsage;
}

// Has the first run write what it decides from at --dump-at.
std::optional<std::string> DumpSnapshot(const Options& options, sim::WorldOptions& world,
                                        absl::Status& written) {
  world.snapshot_at = conf::ParseDuration(options.dump_at);
  if (!world.snapshot_at) {
    return fmt::format("--dump-at: \"{}\" is not a time, such as 90m or 12h", options.dump_at);
  }
  world.on_snapshot = [&](const scheduler::Snapshot& snapshot) {
    written = WriteText(options.dump, scheduler::io::WriteSnapshot(snapshot));
  };
  return std::nullopt;
}

// One policy's reports, one for each seed.
PolicyRuns RunPolicy(SimulatedSystem& system, const NamedPolicy& policy, const Options& options,
                     const sim::Estimates& estimates, ProgressBar& bar) {
  PolicyRuns runs{.name = policy.name, .reports = {}};
  for (uint32_t i = 0; i < options.seeds; ++i) {
    sim::WorldOptions world = system.world;
    world.seed = options.seed + i;
    std::vector<sim::TraceJob> jobs = system.trace.jobs;
    scheduler::Rng rng(world.seed);
    sim::SetEstimates(jobs, estimates, rng);
    bar.Begin(options.seeds == 1 ? policy.name : fmt::format("{}, seed {}", policy.name, world.seed));
    sim::World simulated(system.cluster, policy.queues, policy.policy, std::move(jobs), std::move(world));
    runs.reports.push_back(simulated.Run([&](const sim::Progress& progress) { bar.Show(progress); }));
    runs.reports.back().name = policy.name;
    system.world.on_snapshot = {};
    system.world.snapshot_at.reset();
  }
  bar.End();
  return runs;
}

int Simulate(const Options& options) {
  if (!options.replay.snapshot.empty()) {
    SnapshotReplay replay = options.replay;
    replay.policy = options.input.policy;
    replay.seed = options.seed;
    replay.json = options.json;
    return ReplaySnapshot(replay);
  }
  if (options.input.trace.empty()) return RefuseCall("--trace or --snapshot is needed; see --help");
  const auto estimates = sim::ParseEstimates(options.estimates);
  if (!estimates) {
    fmt::print(stderr, "tidegate: --estimates: \"{}\" must be exact, noisy, noisy:SIGMA or user\n",
               options.estimates);
    return kUsage;
  }
  SimulatedSystem system;
  if (const std::vector<conf::Problem> problems = Load(options.input, system); !problems.empty()) {
    return PrintProblems(problems, options.json);
  }
  const scheduler::io::LineReport& rows = system.trace.report;
  if (rows.left_out > 0) {
    PrintLeftOut(rows);
    if (options.strict) {
      fmt::print(stderr, "tidegate: --strict: {} of {} rows cannot be simulated\n", rows.left_out,
                 rows.lines);
      return kUsage;
    }
  }
  if (system.trace.jobs.empty()) {
    fmt::print(stderr, "tidegate: {}: no job is left to simulate\n", options.input.trace);
    return kFailed;
  }

  if (options.until_allocated) {
    const FillRequest request{.seeds = options.seeds, .first_seed = options.seed, .json = options.json};
    return FillUntilAllocated(system, request);
  }
  absl::Status dumped;
  if (!options.dump.empty()) {
    if (const auto wrong = DumpSnapshot(options, system.world, dumped)) return RefuseCall(*wrong);
  }
  ProgressBar bar;
  std::vector<PolicyRuns> runs;
  for (const NamedPolicy& policy : system.policies) {
    runs.push_back(RunPolicy(system, policy, options, *estimates, bar));
  }
  if (!dumped.ok()) return Fail(dumped);
  if (!options.csv.empty()) {
    if (const absl::Status written = WriteSeries(options.csv, runs); !written.ok()) return Fail(written);
  }
  const RunFacts facts{.trace = options.input.trace,
                       .rows = rows.lines,
                       .left_out = rows.left_out,
                       .nodes = system.cluster.nodes.size(),
                       .devices = Devices(system.cluster),
                       .estimates = options.estimates};
  if (!options.html.empty()) {
    if (const absl::Status written = WriteHtml(options.html, facts, runs); !written.ok())
      return Fail(written);
  }
  fmt::print("{}", options.json ? AsJson(facts, runs) : AsTables(facts, runs));
  return kOk;
}

}  // namespace

void AddSimulate(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Replay a workload on a cluster in virtual time, under the planner that production runs");
  auto options = std::make_shared<Options>();
  AddInputOptions(*command, options->input);
  command
      ->add_option("--estimates", options->estimates,
                   "What the planner knows of run times: exact, noisy:SIGMA (log-normal) or user")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of all that is random")->capture_default_str();
  command->add_option("--seeds", options->seeds, "Runs with as many seeds; shows mean and spread")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--csv", options->csv, "Write the time series to this file");
  command->add_option("--html", options->html, "Write a page with tables and plots to this file");
  command->add_option("--dump", options->dump, "Write a snapshot of the first run to this file");
  command->add_option("--dump-at", options->dump_at, "What the first cycle after so long decides from")
      ->capture_default_str();
  CLI::Option* snapshot = command->add_option("--snapshot", options->replay.snapshot,
                                              "Make the decision of this snapshot again, and print it");
  snapshot->excludes("--trace");
  command->add_option("--explain", options->replay.explain, "Of --snapshot: why this job waits")
      ->needs(snapshot);
  command->add_flag("--until-allocated", options->until_allocated,
                    "Instead of time: jobs arrive in random order until 130 % of the devices were asked for");
  command->add_flag("--strict", options->strict, "Refuse a trace with rows that cannot be simulated");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  tidegate simulate --trace philly.csv --format philly --nodes 56 --devices 8 --nodes-per-leaf 8\n"
      "  tidegate simulate --trace jobs.jsonl --cluster cluster.yaml --compare conf/policies/fifo.yaml "
      "conf/policies/default.yaml\n"
      "  tidegate simulate --trace philly.csv --format philly --dump day.json --dump-at 24h\n"
      "  tidegate simulate --snapshot day.json --explain philly-812\n"
      "  tidegate simulate --trace pods.csv --format openb --node-list nodes.csv --until-allocated --seeds "
      "10\n"
      "  tidegate simulate --trace log.swf --format swf --nodes 64 --mtbf 90d --checkpoint 1h --seeds 5 "
      "--json");
  command->callback([options, &run] { run = [options] { return Simulate(*options); }; });
}

}  // namespace gateway::cli
