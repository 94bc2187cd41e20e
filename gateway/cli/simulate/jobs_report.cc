#include "gateway/cli/simulate/jobs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gateway/cli/output.h"
#include "scheduler/metrics.h"

namespace gateway::cli {
namespace {

namespace sim = scheduler::sim;
using Json = nlohmann::ordered_json;

constexpr size_t kQueuesShown = 20;

// Without a sign where nothing is left of it.
std::string Difference(const sim::Spread& from, const sim::Spread& to, int digits) {
  if (from.seeds == 0 || to.seeds == 0) return "-";
  const double by = to.mean - from.mean;
  return std::abs(by) < 0.5 * std::pow(10, -digits) ? "0" : fmt::format("{:+.{}f}", by, digits);
}

std::string MetricsTable(const std::vector<PolicyRuns>& runs) {
  std::vector<Table::Column> columns = {{"METRIC"}};
  for (const PolicyRuns& run : runs) columns.push_back({run.name, true});
  if (runs.size() == 2) columns.push_back({"DIFFERENCE", true});
  columns.push_back({"UNIT"});
  Table table(std::move(columns));
  for (const sim::Metric& metric : sim::Metrics()) {
    std::vector<std::string> cells = {std::string(metric.title)};
    std::vector<sim::Spread> spreads;
    for (const PolicyRuns& run : runs) {
      spreads.push_back(sim::Over(run.reports, metric));
      cells.push_back(sim::InTable(spreads.back(), metric));
    }
    if (spreads.size() == 2) cells.push_back(Difference(spreads[0], spreads[1], metric.digits));
    cells.emplace_back(metric.unit);
    table.Add(std::move(cells));
  }
  return table.Render();
}

std::string WaitsTable(const std::vector<PolicyRuns>& runs) {
  Table table({{"WAIT BY GPUS"},
               {"POLICY"},
               {"JOBS", true},
               {"MEAN (h)", true},
               {"P50 (h)", true},
               {"P90 (h)", true},
               {"P99 (h)", true},
               {"MAX (h)", true}});
  for (size_t size = 0; size < scheduler::kSizeClasses; ++size) {
    for (const PolicyRuns& run : runs) {
      const sim::WaitsOfClass& waits = run.reports.front().waits_by_size[size];
      if (waits.jobs == 0) continue;
      const auto hours = [](double value) { return fmt::format("{:.2f}", value); };
      table.Add({std::string(scheduler::kSizeClassNames[size]), run.name, fmt::format("{}", waits.jobs),
                 hours(waits.mean_h), hours(waits.p50_h), hours(waits.p90_h), hours(waits.p99_h),
                 hours(waits.max_h)});
    }
  }
  return table.Render();
}

std::string QueuesTable(const std::vector<PolicyRuns>& runs) {
  Table table({{"QUEUE"}, {"POLICY"}, {"GPU-HOURS", true}, {"OF ITS DUE (%)", true}});
  for (const PolicyRuns& run : runs) {
    const std::vector<sim::QueueUse>& queues = run.reports.front().queues;
    for (size_t i = 0; i < std::min(queues.size(), kQueuesShown); ++i) {
      table.Add({queues[i].name, run.name, fmt::format("{:.0f}", queues[i].device_hours),
                 fmt::format("{:.1f}", 100 * queues[i].satisfaction)});
    }
  }
  return table.Render();
}

Json JsonOf(const sim::WaitsOfClass& waits) {
  return {{"jobs", waits.jobs},   {"mean_h", waits.mean_h}, {"p50_h", waits.p50_h},
          {"p90_h", waits.p90_h}, {"p99_h", waits.p99_h},   {"max_h", waits.max_h}};
}

Json JsonOf(const sim::Report& report) {
  Json out;
  out["seed"] = report.seed;
  for (const sim::Metric& metric : sim::Metrics()) {
    const sim::Spread spread = sim::Over({&report, 1}, metric);
    out["metrics"][std::string(metric.key)] = spread.seeds == 0 ? Json() : Json(spread.mean);
  }
  for (size_t size = 0; size < scheduler::kSizeClasses; ++size) {
    out["waits_by_gpus"][std::string(scheduler::kSizeClassNames[size])] = JsonOf(report.waits_by_size[size]);
  }
  out["queues"] = Json::array();
  for (const sim::QueueUse& queue : report.queues) {
    out["queues"].push_back(
        {{"name", queue.name}, {"gpu_h", queue.device_hours}, {"satisfaction", queue.satisfaction}});
  }
  return out;
}

// As RFC 4180 writes it.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace

std::string AsTables(const RunFacts& facts, const std::vector<PolicyRuns>& runs) {
  std::string out = fmt::format("{}: {}, {} left out; {}, {}; estimates {}\n\n", facts.trace,
                                Counted(facts.rows, "row"), facts.left_out, Counted(facts.nodes, "node"),
                                Counted(facts.devices, "GPU"), facts.estimates);
  if (!facts.what_if.empty()) out += fmt::format("What if: {}\n\n", facts.what_if);
  out += MetricsTable(runs);
  out += '\n' + WaitsTable(runs);
  if (runs.front().reports.front().queues.size() > 1) out += '\n' + QueuesTable(runs);
  const auto never_full = [](const PolicyRuns& run) { return run.reports.front().saturated_hours == 0; };
  if (std::ranges::any_of(runs, never_full)) {
    out += "\nWhere no hour is saturated (a job waiting all through it), medians are of all hours.\n";
  }
  if (runs.front().reports.size() > 1) out += "\nWaits by size and queues are of the first seed.\n";
  return out;
}

std::string AsJson(const RunFacts& facts, const std::vector<PolicyRuns>& runs) {
  Json out;
  out["trace"] = {{"file", facts.trace}, {"rows", facts.rows}, {"left_out", facts.left_out}};
  out["cluster"] = {{"nodes", facts.nodes}, {"gpus", facts.devices}};
  out["estimates"] = facts.estimates;
  if (!facts.what_if.empty()) out["what_if"] = facts.what_if;
  out["policies"] = Json::array();
  for (const PolicyRuns& run : runs) {
    Json policy;
    policy["name"] = run.name;
    for (const sim::Metric& metric : sim::Metrics()) {
      const sim::Spread spread = sim::Over(run.reports, metric);
      policy["mean"][std::string(metric.key)] = spread.seeds == 0 ? Json() : Json(spread.mean);
      policy["spread"][std::string(metric.key)] = spread.seeds == 0 ? Json() : Json(spread.deviation);
    }
    for (const sim::Report& report : run.reports) policy["runs"].push_back(JsonOf(report));
    out["policies"].push_back(std::move(policy));
  }
  return AsText(out) + '\n';
}

std::string AsCsv(const std::vector<PolicyRuns>& runs) {
  std::string out =
      "policy,seed,hour,gar_pct,sor_pct,gfr_pct,fragmentation_pct,running_jobs,waiting_jobs,waiting_gpus,"
      "kilowatts,saturated\n";
  for (const PolicyRuns& run : runs) {
    const std::string name = CsvField(run.name);
    for (const sim::Report& report : run.reports) {
      for (const sim::Sample& s : report.samples) {
        fmt::format_to(std::back_inserter(out),
                       "{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{},{},{:.3f},{:.3f},{}\n", name, report.seed,
                       s.hour, 100 * s.gar, 100 * s.sor, 100 * s.gfr, 100 * s.fragmentation, s.running,
                       s.waiting, s.waiting_devices, s.kilowatts, s.saturated ? 1 : 0);
      }
    }
  }
  return out;
}

}  // namespace gateway::cli
