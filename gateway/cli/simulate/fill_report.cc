#include "gateway/cli/simulate/fill_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "gateway/cli/output.h"

namespace gateway::cli {

namespace sim = scheduler::sim;

std::string AsTable(const sim::FillFacts& facts, std::span<const sim::FilledCluster> filled) {
  std::vector<Table::Column> columns = {{"LOAD (%)", true}};
  for (const sim::FilledCluster& one : filled) columns.push_back({"ALLOCATED (%), " + one.name, true});
  Table table(std::move(columns));
  for (const uint32_t load : sim::kLoadsShown) {
    std::vector<std::string> row = {std::to_string(load)};
    for (const sim::FilledCluster& one : filled)
      row.push_back(fmt::format("{:.2f}", sim::AllocatedAt(one, load)));
    table.Add(std::move(row));
  }
  const std::string what_if = facts.what_if.empty() ? "" : fmt::format("What if: {}\n\n", facts.what_if);
  return fmt::format("{}; members in random order, none ends; means of {}\n\n{}{}",
                     Counted(facts.devices, "device"), Counted(facts.seeds, "seed"), what_if, table.Render());
}

std::string AsJson(const sim::FillFacts& facts, std::span<const sim::FilledCluster> filled) {
  nlohmann::ordered_json json{{"devices", facts.devices}, {"seeds", facts.seeds}};
  if (!facts.what_if.empty()) json["what_if"] = facts.what_if;
  json["policies"] = nlohmann::ordered_json::array();
  for (const sim::FilledCluster& one : filled) {
    json["policies"].push_back({{"placement", one.name},
                                {"allocated_percent_by_load_percent", one.allocated},
                                {"arrived", one.arrived},
                                {"refused", one.refused}});
  }
  return AsText(json) + '\n';
}

}  // namespace gateway::cli
