#include "gateway/cli/simulate/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "scheduler/sim/until_allocated.h"

namespace gateway::cli {
namespace {

constexpr uint64_t kMostMembers = 5'000'000;

struct Filled {
  std::string name;
  std::vector<double> allocated;  // percent, by percent of load; means over the seeds
  double refused = 0;             // members, mean
  double arrived = 0;
};

std::vector<scheduler::Ask> AsksOf(const SimulatedSystem& system) {
  std::vector<scheduler::Ask> asks;
  for (const sim::TraceJob& job : system.trace.jobs) {
    for (const scheduler::Role& role : job.job.roles) asks.insert(asks.end(), role.count, role.ask);
  }
  return asks;
}

// After an interruption no more is added up.
Filled Fill(const std::vector<scheduler::Ask>& asks, const Scenario& scenario, const FillRequest& request,
            const Interruption& interruption) {
  Filled filled{.name = scenario.policy.placement, .allocated = {}};
  for (uint32_t i = 0; i < request.seeds && !interruption.seen(); ++i) {
    sim::UntilAllocatedOptions options;
    options.placement = scenario.policy.placement;
    options.seed = request.first_seed + i;
    const sim::UntilAllocated run = sim::FillUntilAllocated(scenario.cluster, asks, options);
    filled.allocated.resize(std::max(filled.allocated.size(), run.allocated.size()), 0);
    for (size_t percent = 0; percent < filled.allocated.size(); ++percent) {
      filled.allocated[percent] += run.At(percent) / request.seeds;
    }
    filled.refused += static_cast<double>(run.refused) / request.seeds;
    filled.arrived += static_cast<double>(run.arrived) / request.seeds;
  }
  return filled;
}

int Done(const absl::Status& status) {
  return status.ok() ? kOk : Fail(status);
}

// The reason why the trace cannot be offered member by member; empty: it can.
std::string WhyNotOffered(const SimulatedSystem& system) {
  uint64_t members = 0;
  int64_t milli = 0;
  for (const sim::TraceJob& job : system.trace.jobs) {
    members += scheduler::Members(job.job);
    milli = std::max(milli, scheduler::DeviceMilli(job.job));
  }
  if (milli == 0) return "no job asks for devices";
  if (members > kMostMembers) return fmt::format("{} members, at most {} are offered", members, kMostMembers);
  return {};
}

}  // namespace

int FillUntilAllocated(const SimulatedSystem& system, const FillRequest& request) {
  const Interruption interruption;
  if (const std::string why = WhyNotOffered(system); !why.empty()) {
    fmt::print(stderr, "tidegate: --until-allocated: {}: {}\n", request.trace, why);
    return kFailed;
  }
  const std::vector<scheduler::Ask> asks = AsksOf(system);
  std::vector<Filled> all;
  for (const Scenario& scenario : system.scenarios) {
    all.push_back(Fill(asks, scenario, request, interruption));
    if (scenario.is_what_if) all.back().name = scenario.name;
  }
  if (interruption.seen()) {
    fmt::print(stderr, "tidegate: interrupted\n");
    interruption.Obey();
  }
  const size_t devices = Devices(system.scenarios.front().cluster);
  if (request.json) {
    nlohmann::ordered_json json{{"devices", devices}, {"seeds", request.seeds}};
    if (!system.what_if.empty()) json["what_if"] = system.what_if;
    json["policies"] = nlohmann::ordered_json::array();
    for (const Filled& filled : all) {
      json["policies"].push_back({{"placement", filled.name},
                                  {"allocated_percent_by_load_percent", filled.allocated},
                                  {"arrived", filled.arrived},
                                  {"refused", filled.refused}});
    }
    return Done(Print(AsText(json) + '\n'));
  }
  std::vector<Table::Column> columns = {{"LOAD (%)", true}};
  for (const Filled& filled : all) columns.push_back({"ALLOCATED (%), " + filled.name, true});
  Table table(std::move(columns));
  for (const size_t percent : std::to_array<size_t>({50, 80, 90, 95, 100, 105, 110, 120, 130})) {
    std::vector<std::string> row = {std::to_string(percent)};
    for (const Filled& filled : all) {
      row.push_back(fmt::format("{:.2f}", filled.allocated[std::min(percent, filled.allocated.size() - 1)]));
    }
    table.Add(std::move(row));
  }
  const std::string what_if = system.what_if.empty() ? "" : fmt::format("What if: {}\n\n", system.what_if);
  return Done(Print(fmt::format("{}; members in random order, none ends; means of {}\n\n{}{}",
                                Counted(devices, "device"), Counted(request.seeds, "seed"), what_if,
                                table.Render())));
}

}  // namespace gateway::cli
