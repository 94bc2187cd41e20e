#include "gateway/cli/simulate/jobs.h"

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
#include "gateway/cli/simulate/input.h"
#include "gateway/cli/simulate/jobs_report.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/progress.h"
#include "gateway/cli/simulate/system.h"
#include "scheduler/io/snapshot_json.h"
#include "scheduler/sim/report_html.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {
namespace {

struct JobsOptions {
  SimulateInput input;
  std::string csv;
  std::string html;
  std::string dump;
  std::string dump_at = "0s";
  uint32_t seeds = 1;
  uint64_t seed = 1;
  std::string estimates = "trace";
  bool strict = false;
  bool json = false;
};

// The state from which the first run plans at --dump-at.
struct Dump {
  conf::Duration at{};
  std::optional<std::string> text{};
};

// Problems that Load() does not find: files that cannot be written, names, times.
std::vector<conf::Problem> CheckOptions(const JobsOptions& options, Dump& dump,
                                        std::optional<sim::Estimates>& estimates) {
  std::vector<conf::Problem> problems;
  estimates = sim::ParseEstimates(options.estimates);
  if (!estimates) {
    Refuse(problems, "--estimates", options.estimates,
           fmt::format("\"{}\" must be trace, user, exact, noisy, or noisy:SIGMA with a SIGMA up to 10",
                       options.estimates));
  }
  ReadTime("--dump-at", options.dump_at, dump.at, problems);
  std::set<std::string> paths;
  for (const auto& [option, path] : {std::pair("--csv", &options.csv), std::pair("--html", &options.html),
                                     std::pair("--dump", &options.dump)}) {
    CheckWritable(option, *path, problems);
    if (!path->empty() && !paths.insert(*path).second)
      Refuse(problems, option, *path, fmt::format("{} is given for two outputs", *path));
  }
  return problems;
}

// One scenario's reports, one for each seed that was not interrupted.
PolicyRuns RunScenario(const SimulatedSystem& system, const Scenario& scenario, const JobsOptions& options,
                       const sim::Estimates& estimates, Dump* dump, const Interruption& interruption) {
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
    world.estimates = estimates;
    bar.Begin(options.seeds == 1 ? scenario.name : fmt::format("{}, seed {}", scenario.name, world.seed));
    sim::World simulated(scenario.cluster, scenario.queues, scenario.policy, system.trace.jobs,
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
absl::Status Write(const JobsOptions& options, const Dump& dump, const RunFacts& facts,
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

// "trace (own for 12 of 40 jobs, exact for the others)".
std::string EstimatesInWords(const std::string& word, const std::vector<sim::TraceJob>& jobs, size_t times) {
  const size_t own = times * static_cast<size_t>(std::ranges::count_if(jobs, [](const sim::TraceJob& job) {
                       return job.job.estimate.has_value();
                     }));
  const size_t all = times * jobs.size();
  if (word == "trace")
    return own == all ? "trace"
                      : fmt::format("trace (own for {} of {} jobs, exact for the others)", own, all);
  if (word == "user" && own < all) return fmt::format("user (of {} of {} jobs)", own, all);
  return word;
}

int RunAll(const SimulatedSystem& system, const JobsOptions& options, const sim::Estimates& estimates,
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
  const RunFacts facts{
      .trace = options.input.trace,
      .rows = system.trace.report.lines,
      .left_out = system.trace.report.left_out,
      .nodes = cluster.nodes.size(),
      .devices = Devices(cluster),
      .estimates = EstimatesInWords(options.estimates, system.trace.jobs, options.input.repeat),
      .what_if = system.what_if};
  const absl::Status written = Write(options, dump, facts, runs);
  return written.ok() ? kOk : Fail(written);
}

int SimulateJobs(const JobsOptions& options) {
  Dump dump;
  std::optional<sim::Estimates> estimates;
  SimulatedSystem system;
  std::vector<conf::Problem> problems = CheckOptions(options, dump, estimates);
  std::ranges::move(Load(options.input, system), std::back_inserter(problems));
  if (!problems.empty()) return PrintProblems(problems, options.json);
  if (!PrintLeftOut(system.trace.report, options.strict)) return kUsage;
  if (system.trace.jobs.empty()) {
    fmt::print(stderr, "tidegate: {}: no job is left to simulate\n", options.input.trace);
    return kFailed;
  }
  return RunAll(system, options, *estimates, dump);
}

}  // namespace

void AddSimulateJobs(CLI::App& simulate, Run& run) {
  CLI::App* command = simulate.add_subcommand(
      "jobs", "Recorded jobs under the planner: waits, use and fairness of policies and clusters");
  auto options = std::make_shared<JobsOptions>();
  SimulateInput& input = options->input;
  AddTraceOptions(*command, input);
  command
      ->add_option("--estimates", options->estimates,
                   "Known run times: trace (its own, else exact), user, exact, noisy")
      ->capture_default_str()
      ->group("Workload");
  AddClusterOptions(*command, input);
  AddPolicyOptions(*command, input);
  AddTimeOptions(*command, input);
  AddWhatIfOptions(*command, input, true);
  AddFaultOptions(*command, input);
  const auto output = [&](CLI::Option* option) { option->group("Runs and output"); };
  output(command->add_option("--seed", options->seed, "Seed of everything random")
             ->check(CLI::NonNegativeNumber)
             ->capture_default_str());
  output(command->add_option("--seeds", options->seeds, "Number of runs, each with its own seed")
             ->check(CLI::Range(1, 1000))
             ->capture_default_str());
  output(command->add_option("--html", options->html, "Write a page with tables and plots"));
  output(command->add_option("--csv", options->csv, "Write the time series"));
  output(command->add_option("--dump", options->dump, "Write a snapshot, for tidegate policy replay"));
  output(command->add_option("--dump-at", options->dump_at, "Time of the snapshot")->capture_default_str());
  output(command->add_flag("--strict", options->strict, "Fail when rows cannot be simulated"));
  output(command->add_flag("--json", options->json, "Print JSON"));
  command->footer(
      "Examples:\n"
      "  tidegate simulate jobs conf/jobs/examples.jsonl --cluster conf/clusters/reference.yaml\n"
      "  tidegate simulate jobs conf/jobs/examples.jsonl --cluster conf/clusters/reference.yaml \\\n"
      "    --compare conf/policies/fifo-spread.yaml conf/policies/default.yaml --html report.html");
  command->callback([options, &run] { run = [options] { return SimulateJobs(*options); }; });
}

}  // namespace gateway::cli
