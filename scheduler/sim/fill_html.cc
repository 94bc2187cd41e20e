#include "scheduler/sim/fill_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/shown.h"
#include "scheduler/sim/page.h"
#include "scheduler/sim/plot.h"

namespace scheduler::sim {
namespace {

constexpr double kMostLoad = 130;

std::string AllocationTable(std::span<const FilledCluster> filled) {
  TableText table{.titles = {"placement"}, .colored = true};
  for (const uint32_t load : kLoadsShown) table.titles.push_back(fmt::format("at {} %", load));
  for (const FilledCluster& one : filled) {
    std::vector<std::string> cells = {one.name};
    for (const uint32_t load : kLoadsShown) cells.push_back(fmt::format("{:.2f}", AllocatedAt(one, load)));
    table.rows.push_back(std::move(cells));
  }
  return SortableTable(table);
}

std::string CountsTable(std::span<const FilledCluster> filled) {
  TableText table{.titles = {"placement", "arrived", "refused", "refused (%)"}, .colored = true};
  for (const FilledCluster& one : filled) {
    table.rows.push_back({one.name, fmt::format("{:.0f}", one.arrived), fmt::format("{:.0f}", one.refused),
                          fmt::format("{:.2f}", one.arrived > 0 ? 100 * one.refused / one.arrived : 0)});
  }
  return SortableTable(table);
}

std::string AllocationPlot(std::span<const FilledCluster> filled) {
  std::vector<Line> lines;
  std::vector<std::string> names;
  std::string alt = "devices allocated by load";
  for (size_t i = 0; i < filled.size(); ++i) {
    Line line{.name = filled[i].name, .color = i, .points = {}};
    for (size_t percent = 0; percent < filled[i].allocated.size(); ++percent)
      line.points.emplace_back(static_cast<double>(percent), filled[i].allocated[percent]);
    alt += fmt::format("; {}: {:.1f} % at a load of 100 %", filled[i].name, AllocatedAt(filled[i], 100));
    names.push_back(filled[i].name);
    lines.push_back(std::move(line));
  }
  const Frame frame{.alt = std::move(alt),
                    .x = {.label = "arrived, of all devices (%)", .from = 0, .to = kMostLoad},
                    .y = {.label = "allocated (%)", .from = 0, .to = 100}};
  return Figure("Allocated devices by load", Legend(names), DrawLines(frame, lines));
}

}  // namespace

double AllocatedAt(const FilledCluster& filled, uint32_t load_percent) {
  if (filled.allocated.empty()) return 0;
  return filled.allocated[std::min<size_t>(load_percent, filled.allocated.size() - 1)];
}

std::string AsHtml(const FillFacts& facts, std::span<const FilledCluster> filled) {
  const std::string title =
      fmt::format("Filling a cluster with {}", facts.trace.substr(facts.trace.rfind('/') + 1));
  std::string head =
      Fact("trace", fmt::format("{}, {}", facts.trace, conf::Counted(facts.members, "member")));
  head += Fact("cluster", fmt::format("{}, {}", conf::Counted(facts.nodes, "node"),
                                      conf::Counted(facts.devices, "device")));
  head += Fact("seeds", fmt::format("{}", facts.seeds));
  if (!facts.what_if.empty()) head += Fact("what if", facts.what_if);
  std::string out = Heading(title, head);
  out += Section(
      "Figures",
      "Devices allocated, in percent of all, when members that ask for so many percent of all devices "
      "have arrived. Members come in random order, and none ends. Means over the seeds.",
      AllocationTable(filled));
  out += Folded("All other figures", "Members that arrived, and those that fitted nowhere.",
                CountsTable(filled));
  out += Folded("Allocation by load", "A placement that wastes nothing follows the diagonal to 100 %.",
                Beside(AllocationPlot(filled)));
  return Page(title, out);
}

}  // namespace scheduler::sim
