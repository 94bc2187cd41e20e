#include "gateway/cli/simulate/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/fill_report.h"
#include "gateway/cli/simulate/input.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/system.h"
#include "scheduler/sim/until_allocated.h"

namespace gateway::cli {
namespace {

constexpr uint64_t kMostMembers = 5'000'000;

struct FillOptions {
  SimulateInput input;
  uint32_t seeds = 1;
  uint64_t seed = 1;
  std::string html;
  bool strict = false;
  bool json = false;
};

std::vector<scheduler::Ask> AsksOf(const SimulatedSystem& system, uint32_t times) {
  std::vector<scheduler::Ask> asks;
  for (uint32_t run = 0; run < times; ++run) {
    for (const sim::TraceJob& job : system.trace.jobs) {
      for (const scheduler::Role& role : job.job.roles) asks.insert(asks.end(), role.count, role.ask);
    }
  }
  return asks;
}

// After an interruption no more is added up.
sim::FilledCluster Fill(const std::vector<scheduler::Ask>& asks, const Scenario& scenario,
                        const FillOptions& options, const Interruption& interruption) {
  sim::FilledCluster filled{.name = scenario.is_what_if ? scenario.name : scenario.policy.placement,
                            .allocated = {}};
  for (uint32_t i = 0; i < options.seeds && !interruption.seen(); ++i) {
    sim::UntilAllocatedOptions fill;
    fill.placement = scenario.policy.placement;
    fill.seed = options.seed + i;
    const sim::UntilAllocated run = sim::FillUntilAllocated(scenario.cluster, asks, fill);
    filled.allocated.resize(std::max(filled.allocated.size(), run.allocated.size()), 0);
    for (size_t percent = 0; percent < filled.allocated.size(); ++percent)
      filled.allocated[percent] += run.At(percent) / options.seeds;
    filled.refused += static_cast<double>(run.refused) / options.seeds;
    filled.arrived += static_cast<double>(run.arrived) / options.seeds;
  }
  return filled;
}

// The reason why the trace cannot be offered member by member; empty: it can.
std::string WhyNotOffered(const SimulatedSystem& system, uint32_t times) {
  uint64_t members = 0;
  int64_t milli = 0;
  for (const sim::TraceJob& job : system.trace.jobs) {
    members += uint64_t{times} * scheduler::Members(job.job);
    milli = std::max(milli, scheduler::DeviceMilli(job.job));
  }
  if (system.trace.jobs.empty()) return "no job is left to simulate";
  if (milli == 0) return "no job asks for devices";
  if (members > kMostMembers) return fmt::format("{} members, at most {} are offered", members, kMostMembers);
  return {};
}

int SimulateFill(const FillOptions& options) {
  SimulatedSystem system;
  std::vector<conf::Problem> problems;
  CheckWritable("--html", options.html, problems);
  std::ranges::move(Load(options.input, system), std::back_inserter(problems));
  if (!problems.empty()) return PrintProblems(problems, options.json);
  if (!PrintLeftOut(system.trace.report, options.strict)) return kUsage;
  if (const std::string why = WhyNotOffered(system, options.input.repeat); !why.empty()) {
    fmt::print(stderr, "tidegate: {}: {}\n", options.input.trace, why);
    return kFailed;
  }
  const Interruption interruption;
  const std::vector<scheduler::Ask> asks = AsksOf(system, options.input.repeat);
  std::vector<sim::FilledCluster> filled;
  for (const Scenario& scenario : system.scenarios)
    filled.push_back(Fill(asks, scenario, options, interruption));
  if (interruption.seen()) {
    fmt::print(stderr, "tidegate: interrupted\n");
    interruption.Obey();
  }
  const scheduler::Cluster& cluster = system.scenarios.front().cluster;
  const sim::FillFacts facts{.trace = options.input.trace,
                             .members = asks.size(),
                             .nodes = cluster.nodes.size(),
                             .devices = Devices(cluster),
                             .seeds = options.seeds,
                             .what_if = system.what_if};
  absl::Status written;
  if (!options.html.empty()) written.Update(WriteWhole(options.html, sim::AsHtml(facts, filled)));
  written.Update(Print(options.json ? AsJson(facts, filled) : AsTable(facts, filled)));
  return written.ok() ? kOk : Fail(written);
}

}  // namespace

void AddSimulateFill(CLI::App& simulate, Run& run) {
  CLI::App* command = simulate.add_subcommand(
      "fill", "Jobs that arrive in random order and never end: how full a placement makes the cluster");
  auto options = std::make_shared<FillOptions>();
  AddTraceOptions(*command, options->input);
  AddClusterOptions(*command, options->input);
  AddPolicyOptions(*command, options->input);
  AddWhatIfOptions(*command, options->input, false);
  const auto output = [&](CLI::Option* option) { option->group("Runs and output"); };
  output(command->add_option("--seed", options->seed, "Seed of the order of arrival")
             ->check(CLI::NonNegativeNumber)
             ->capture_default_str());
  output(command->add_option("--seeds", options->seeds, "Number of runs; the figures are their means")
             ->check(CLI::Range(1, 1000))
             ->capture_default_str());
  output(command->add_option("--html", options->html, "Write a page with tables and plots"));
  output(command->add_flag("--strict", options->strict, "Fail when rows cannot be simulated"));
  output(command->add_flag("--json", options->json, "Print JSON"));
  command->footer(
      "Jobs arrive until they have asked for 130 % of the devices; one that fits nowhere is refused.\n\n"
      "Examples:\n"
      "  tidegate simulate fill conf/jobs/examples.jsonl --cluster conf/clusters/reference.yaml\n"
      "  tidegate simulate fill conf/jobs/examples.jsonl --cluster conf/clusters/reference.yaml \\\n"
      "    --placement fgd --seeds 10 --html fill.html");
  command->callback([options, &run] { run = [options] { return SimulateFill(*options); }; });
}

}  // namespace gateway::cli
