#include "gateway/cli/simulate_fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "scheduler/sim/until_allocated.h"

namespace gateway::cli {
namespace {

namespace sim = scheduler::sim;

struct Filled {
  std::string policy;
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

Filled Fill(const SimulatedSystem& system, const NamedPolicy& policy, const FillRequest& request) {
  const std::vector<scheduler::Ask> asks = AsksOf(system);
  Filled filled{.policy = policy.policy.placement, .allocated = {}};
  for (uint32_t i = 0; i < request.seeds; ++i) {
    sim::UntilAllocatedOptions options;
    options.placement = policy.policy.placement;
    options.seed = request.first_seed + i;
    const sim::UntilAllocated run = sim::FillUntilAllocated(system.cluster, asks, options);
    filled.allocated.resize(std::max(filled.allocated.size(), run.allocated.size()), 0);
    for (size_t percent = 0; percent < filled.allocated.size(); ++percent) {
      filled.allocated[percent] += run.At(percent) / request.seeds;
    }
    filled.refused += static_cast<double>(run.refused) / request.seeds;
    filled.arrived += static_cast<double>(run.arrived) / request.seeds;
  }
  return filled;
}

}  // namespace

int FillUntilAllocated(const SimulatedSystem& system, const FillRequest& request) {
  std::vector<Filled> all;
  for (const NamedPolicy& policy : system.policies) all.push_back(Fill(system, policy, request));
  if (request.json) {
    nlohmann::ordered_json json{{"devices", Devices(system.cluster)}, {"seeds", request.seeds}};
    json["policies"] = nlohmann::ordered_json::array();
    for (const Filled& filled : all) {
      json["policies"].push_back({{"placement", filled.policy},
                                  {"allocated_percent_by_load_percent", filled.allocated},
                                  {"arrived", filled.arrived},
                                  {"refused", filled.refused}});
    }
    fmt::print("{}\n", json.dump(2));
    return kOk;
  }
  std::vector<Table::Column> columns = {{"LOAD (%)", true}};
  for (const Filled& filled : all) columns.push_back({"ALLOCATED (%), " + filled.policy, true});
  Table table(std::move(columns));
  for (const size_t percent : std::to_array<size_t>({50, 80, 90, 95, 100, 105, 110, 120, 130})) {
    std::vector<std::string> row = {std::to_string(percent)};
    for (const Filled& filled : all) {
      row.push_back(fmt::format("{:.2f}", filled.allocated[std::min(percent, filled.allocated.size() - 1)]));
    }
    table.Add(std::move(row));
  }
  fmt::print("{} devices; members in random order, none ends; means of {} seeds\n\n{}",
             Devices(system.cluster), request.seeds, table.Render());
  return kOk;
}

}  // namespace gateway::cli
