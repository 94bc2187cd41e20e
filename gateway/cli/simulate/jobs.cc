// tidegate simulate: runs a workload in virtual time, under one policy or several beside each other.
#include <absl/status/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "conf/text.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/fill.h"
#include "gateway/cli/simulate/input.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/output.h"
#include "gateway/cli/simulate/progress.h"
#include "gateway/cli/simulate/requests.h"
#include "gateway/cli/simulate/snapshot.h"
#include "gateway/cli/simulate/system.h"
#include "gateway/cli/simulate/traffic.h"
#include "scheduler/io/snapshot_json.h"
#include "scheduler/sim/report_html.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {
namespace {

struct SimulateOptions {
  SimulateInput input;
  SnapshotReplay replay;
  RequestsOptions requests;
  TrafficOptions traffic;
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

// The state from which the first run plans at --dump-at.
struct Dump {
  conf::Duration at{};
  std::optional<std::string> text{};
};

// Problems that Load() does not find: files that cannot be written, names, times.
std::vector<conf::Problem> CheckOptions(const SimulateOptions& options, Dump& dump,
                                        std::optional<sim::Estimates>& estimates) {
  std::vector<conf::Problem> problems;
  estimates = sim::ParseEstimates(options.estimates);
  if (!estimates) {
    Refuse(problems, "--estimates", options.estimates,
           fmt::format("\"{}\" must be exact, noisy, noisy:SIGMA with a SIGMA up to 10, or user",
                       options.estimates));
  }
  ReadTime("--dump-at", options.dump_at, dump.at, problems);
  std::set<std::string> paths;
  for (const auto& [option, path] : {std::pair("--csv", &options.csv), std::pair("--html", &options.html),
                                     std::pair("--dump", &options.dump)}) {
    if (path->empty()) continue;
    if (const std::string why = WhyNotWritable(*path); !why.empty()) {
      Refuse(problems, option, *path, fmt::format("{} cannot be written: {}", *path, why));
    } else if (!paths.insert(*path).second) {
      Refuse(problems, option, *path, fmt::format("{} is given for two outputs", *path));
    }
  }
  return problems;
}

// One scenario's reports, one for each seed that was not interrupted.
PolicyRuns RunScenario(const SimulatedSystem& system, const Scenario& scenario,
                       const SimulateOptions& options, const sim::Estimates& estimates, Dump* dump,
                       const Interruption& interruption) {
  ProgressBar bar;
  PolicyRuns runs{.name = scenario.name, .reports = {}};
  for (uint32_t i = 0; i < options.seeds && !interruption.seen(); ++i) {
    sim::WorldOptions world = scenario.world;
    world.seed = options.seed + i;
    if (dump != nullptr && i == 0) {
      world.snapshot_at = dump->at;
      world.on_snapshot = [dump](const scheduler::Snapshot& snapshot) {
        dump->text = scheduler::io::WriteSnapshot(snapshot);
      };
    }
    std::vector<sim::TraceJob> jobs = system.trace.jobs;
    scheduler::Rng rng(world.seed);
    sim::SetEstimates(jobs, estimates, rng);
    bar.Begin(options.seeds == 1 ? scenario.name : fmt::format("{}, seed {}", scenario.name, world.seed));
    sim::World simulated(scenario.cluster, scenario.queues, scenario.policy, std::move(jobs),
                         std::move(world));
    runs.reports.push_back(simulated.Run([&](const sim::Progress& progress) {
      bar.Show({.over = progress.over,
                .all = progress.jobs,
                .moment = fmt::format("day {}", progress.simulated / std::chrono::hours(24))});
      return !interruption.seen();
    }));
    runs.reports.back().name = scenario.name;
  }
  bar.End();
  return runs;
}

// Writes the requested files; returns the first one that could not be written.
absl::Status Write(const SimulateOptions& options, const Dump& dump, const RunFacts& facts,
                   const std::vector<PolicyRuns>& runs) {
  absl::Status written;
  if (!options.dump.empty() && dump.text) written.Update(WriteWhole(options.dump, *dump.text));
  if (!options.csv.empty()) written.Update(WriteWhole(options.csv, AsCsv(runs)));
  if (!options.html.empty()) written.Update(WriteWhole(options.html, sim::AsHtml(facts, runs)));
  written.Update(Print(options.json ? AsJson(facts, runs) : AsTables(facts, runs)));
  if (written.ok() && !options.dump.empty() && !dump.text) {
    return absl::FailedPreconditionError(conf::Abseil(fmt::format(
        "--dump: nothing was decided at {} or later, so {} was not written", options.dump_at, options.dump)));
  }
  return written;
}

int RunAll(const SimulatedSystem& system, const SimulateOptions& options, const sim::Estimates& estimates,
           Dump& dump) {
  const Interruption interruption;
  std::vector<PolicyRuns> runs;
  for (const Scenario& scenario : system.scenarios) {
    Dump* const first = runs.empty() && !options.dump.empty() ? &dump : nullptr;
    runs.push_back(RunScenario(system, scenario, options, estimates, first, interruption));
    if (interruption.seen()) {
      fmt::print(stderr, "tidegate: interrupted; nothing was written\n");
      interruption.Obey();
    }
  }
  const scheduler::Cluster& cluster = system.scenarios.front().cluster;
  const RunFacts facts{.trace = options.input.trace,
                       .rows = system.trace.report.lines,
                       .left_out = system.trace.report.left_out,
                       .nodes = cluster.nodes.size(),
                       .devices = Devices(cluster),
                       .estimates = options.estimates,
                       .what_if = system.what_if};
  const absl::Status written = Write(options, dump, facts, runs);
  return written.ok() ? kOk : Fail(written);
}

int Simulate(const SimulateOptions& options) {
  if (!options.replay.snapshot.empty()) {
    SnapshotReplay replay = options.replay;
    replay.seed = options.seed;
    replay.json = options.json;
    return ReplaySnapshot(options.input, replay);
  }
  const auto as_asked = [&options](TrafficSource& source) {
    source.seed = options.seed;
    source.strict = options.strict;
    source.json = options.json;
  };
  if (!options.requests.source.path.empty()) {
    RequestsOptions requests = options.requests;
    as_asked(requests.source);
    return SimulateRequests(requests);
  }
  if (!options.traffic.source.path.empty()) {
    TrafficOptions traffic = options.traffic;
    traffic.source.clients = options.requests.source.clients;
    traffic.source.from = options.requests.source.from;
    traffic.source.window = options.requests.source.window;
    as_asked(traffic.source);
    traffic.engine = options.requests.engine;
    traffic.speed_up = options.requests.speed_up.value_or(1);
    traffic.policy = options.input.policy;
    traffic.html = options.html;
    return SimulateTraffic(traffic);
  }
  if (options.input.trace.empty()) {
    fmt::print(stderr, "tidegate: --trace, --requests, --traffic or --snapshot is needed; see --help\n");
    return kUsage;
  }
  Dump dump;
  std::optional<sim::Estimates> estimates;
  SimulatedSystem system;
  std::vector<conf::Problem> problems = CheckOptions(options, dump, estimates);
  std::ranges::move(Load(options.input, system), std::back_inserter(problems));
  if (!problems.empty()) return PrintProblems(problems, options.json);
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
  if (!options.until_allocated) return RunAll(system, options, *estimates, dump);
  const FillRequest request{
      .trace = options.input.trace, .seeds = options.seeds, .first_seed = options.seed, .json = options.json};
  return FillUntilAllocated(system, request);
}

// Refuses an option that the mode would ignore.
void ExcludeAllBut(CLI::App& command, CLI::Option* mode, const std::set<std::string>& heeded) {
  for (CLI::Option* option : command.get_options()) {
    if (option != mode && !heeded.contains(option->get_name())) mode->excludes(option);
  }
}

}  // namespace

void AddSimulate(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Replay recorded jobs or requests in virtual time, with the planner and the policies of production");
  auto options = std::make_shared<SimulateOptions>();
  AddInputOptions(*command, options->input);
  command
      ->add_option(
          "--estimates", options->estimates,
          "What the planner knows of run times: exact, noisy:SIGMA (log-normal) or user (the trace's)")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of everything random")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--seeds", options->seeds,
                   "Number of runs, each with its own seed; the tables show mean and spread")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--csv", options->csv, "Write the time series to this file");
  command->add_option("--html", options->html, "Write a page with tables and plots to this file");
  command->add_option("--dump", options->dump, "Write a snapshot of the first run to this file");
  command
      ->add_option("--dump-at", options->dump_at,
                   "When --dump is taken: at the first planning cycle after this time")
      ->capture_default_str();
  CLI::Option* snapshot = command->add_option("--snapshot", options->replay.snapshot,
                                              "Plan once from this snapshot and print the plan");
  command->add_option("--explain", options->replay.explain, "With --snapshot: say why this job waits")
      ->needs(snapshot);
  CLI::Option* fill = command->add_flag(
      "--until-allocated", options->until_allocated,
      "Without time: jobs arrive in random order until they have asked for 130 % of the devices");
  command->add_flag("--strict", options->strict, "Fail when rows of the trace cannot be simulated");
  command->add_flag("--json", options->json, "Print JSON");
  std::vector<std::string> routing = {"--help", "--seed", "--strict", "--json"};
  CLI::Option* requests = AddRequestsOptions(*command, options->requests, routing);
  std::vector<std::string> scaling = {"--help", "--policy", "--html", "--seed", "--strict", "--json"};
  CLI::Option* traffic = AddTrafficOptions(*command, options->traffic, scaling);
  // --requests and --traffic share these; jobs do not take them.
  for (const char* const shared : {"--clients", "--from", "--window", "--engine", "--speed-up"}) {
    command->get_option(shared)->remove_needs(requests);
    command->get_option(shared)->excludes(command->get_option("--trace"));
    command->get_option(shared)->group("With --requests or --traffic");
  }
  ExcludeAllBut(*command, requests, {routing.begin(), routing.end()});
  ExcludeAllBut(*command, traffic, {scaling.begin(), scaling.end()});
  ExcludeAllBut(
      *command, snapshot,
      {"--help", "--policy", "--placement", "--backfill", "--defragment", "--seed", "--explain", "--json"});
  ExcludeAllBut(*command, fill,
                {"--help", "--trace", "--format", "--cluster", "--node-list", "--nodes", "--devices",
                 "--nodes-per-leaf", "--leaves-per-spine", "--add-nodes", "--remove-nodes", "--without-base",
                 "--policy", "--compare", "--placement", "--seed", "--seeds", "--strict", "--json"});
  command->footer(
      "Examples:\n"
      "  tidegate simulate --trace philly.csv --format philly --nodes 56 --devices 8 --nodes-per-leaf 8\n"
      "  tidegate simulate --trace jobs.jsonl --cluster cluster.yaml --compare "
      "conf/policies/fifo-spread.yaml "
      "conf/policies/default.yaml\n"
      "  tidegate simulate --trace jobs.jsonl --cluster cluster.yaml --policy teams.yaml --quota nlp=64\n"
      "  tidegate simulate --trace jobs.jsonl --cluster cluster.yaml --add-nodes 8 --html report.html\n"
      "  tidegate simulate --trace philly.csv --format philly --dump day.json --dump-at 24h\n"
      "  tidegate simulate --snapshot day.json --explain philly-812\n"
      "  tidegate simulate --trace pods.csv --format openb --node-list nodes.csv --until-allocated --seeds "
      "10\n"
      "  tidegate simulate --requests conversation_trace.jsonl --replicas 16 --utilization 0.85 --policies "
      "cost,epp\n"
      "  tidegate simulate --traffic conversations.csv --policy conf/policies/scaling/demand.yaml --copies 4 "
      "--loop 4h\n"
      "  tidegate simulate --traffic servegen --clients 1:60,5:30@6h --window 4h --policy "
      "conf/policies/scaling/demand.yaml\n"
      "  tidegate simulate --trace log.swf --format swf --nodes 64 --mtbf 90d --checkpoint 1h --seeds 5 "
      "--json");
  command->callback([options, &run] { run = [options] { return Simulate(*options); }; });
}

}  // namespace gateway::cli
