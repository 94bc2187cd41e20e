#include "scheduler/sim/report.h"

#include <fmt/format.h>

#include <cmath>

namespace scheduler::sim {
namespace {

double Percent(double share) {
  return 100 * share;
}

size_t Started(const Report& report) {
  return report.waits.jobs;
}

size_t StartedLarge(const Report& report) {
  return report.waits_of_large.jobs;
}

size_t Finished(const Report& report) {
  return report.finished;
}

size_t Gangs(const Report& report) {
  return report.gangs.size();
}

constexpr Metric kMetrics[] = {
    {"gar_pct", "GAR, median at saturation", "%", 2, [](const Report& r) { return Percent(r.gar); }},
    {"sor_pct", "SOR, median at saturation", "%", 2, [](const Report& r) { return Percent(r.sor); }},
    {"gfr_pct", "GFR, median at saturation", "%", 2, [](const Report& r) { return Percent(r.gfr); }},
    {"fragmentation_pct", "FGD fragmentation, likewise", "%", 2,
     [](const Report& r) { return Percent(r.fragmentation); }},
    {"gar_mean_pct", "GAR, mean", "%", 2, [](const Report& r) { return Percent(r.gar_mean); }},
    {"sor_mean_pct", "SOR, mean", "%", 2, [](const Report& r) { return Percent(r.sor_mean); }},
    {"wait_mean_h", "wait, mean", "h", 2, [](const Report& r) { return r.waits.mean_h; }, Started},
    {"wait_p50_h", "wait, p50", "h", 2, [](const Report& r) { return r.waits.p50_h; }, Started},
    {"wait_p99_h", "wait, p99", "h", 2, [](const Report& r) { return r.waits.p99_h; }, Started},
    {"wait_large_mean_h", "wait of 8 GPUs and more, mean", "h", 2,
     [](const Report& r) { return r.waits_of_large.mean_h; }, StartedLarge},
    {"wait_large_p99_h", "wait of 8 GPUs and more, p99", "h", 2,
     [](const Report& r) { return r.waits_of_large.p99_h; }, StartedLarge},
    {"jct_mean_h", "completion time, mean", "h", 2, [](const Report& r) { return r.jct_mean_h; }, Finished},
    {"jct_p50_h", "completion time, p50", "h", 2, [](const Report& r) { return r.jct_p50_h; }, Finished},
    {"jct_p99_h", "completion time, p99", "h", 2, [](const Report& r) { return r.jct_p99_h; }, Finished},
    {"slowdown_mean", "bounded slowdown, mean", "x", 2, [](const Report& r) { return r.slowdown_mean; },
     Finished},
    {"slowdown_p50", "bounded slowdown, p50", "x", 2, [](const Report& r) { return r.slowdown_p50; },
     Finished},
    {"jtted_p50", "JTTED, p50", "x", 3, [](const Report& r) { return r.jtted_p50; }, Gangs},
    {"jtted_mean", "JTTED, mean", "x", 3, [](const Report& r) { return r.jtted_mean; }, Gangs},
    {"jtted_p99", "JTTED, p99", "x", 3, [](const Report& r) { return r.jtted_p99; }, Gangs},
    {"node_deviation", "nodes used over fewest", "x", 3, [](const Report& r) { return r.node_deviation; },
     Gangs},
    {"leaf_deviation", "leaf groups used over fewest", "x", 3,
     [](const Report& r) { return r.leaf_deviation; }, Gangs},
    {"useful_gpu_h", "useful", "GPU-h", 0, [](const Report& r) { return r.useful_h; }},
    {"lost_gpu_h", "lost by stops", "GPU-h", 0, [](const Report& r) { return r.lost_h; }},
    {"restarted_gpu_h", "spent on restarts", "GPU-h", 0, [](const Report& r) { return r.restarted_h; }},
    {"saved_gpu_h", "spent on checkpoints", "GPU-h", 0, [](const Report& r) { return r.saved_h; }},
    {"idle_gpu_h", "held by idle notebooks", "GPU-h", 0, [](const Report& r) { return r.idle_h; }},
    {"open_gpu_h", "of jobs not ended", "GPU-h", 0, [](const Report& r) { return r.open_h; }},
    {"goodput_pct", "goodput: useful of what was held", "%", 2,
     [](const Report& r) { return Percent(r.goodput); }},
    {"energy_kwh", "energy", "kWh", 0, [](const Report& r) { return r.energy_kwh; }},
    {"jain_index", "Jain index by queue", "", 3, [](const Report& r) { return r.jain; }},
    {"jobs_submitted", "jobs submitted", "", 0, [](const Report& r) { return double(r.submitted); }},
    {"jobs_started", "started", "", 0, [](const Report& r) { return double(r.started); }},
    {"jobs_finished", "finished", "", 0, [](const Report& r) { return double(r.finished); }},
    {"jobs_failed", "failed", "", 0, [](const Report& r) { return double(r.failed); }},
    {"jobs_unfinished", "unfinished", "", 0, [](const Report& r) { return double(r.unfinished); }},
    {"preemptions", "preemptions", "", 0, [](const Report& r) { return double(r.preemptions); }},
    {"moves", "moves", "", 0, [](const Report& r) { return double(r.moves); }},
    {"node_faults", "node faults", "", 0, [](const Report& r) { return double(r.faults); }},
    {"node_quarantines", "nodes quarantined", "", 0, [](const Report& r) { return double(r.quarantined); }},
    {"restarts", "restarts after faults", "", 0, [](const Report& r) { return double(r.restarts); }},
    {"planning_cycles", "planning cycles", "", 0, [](const Report& r) { return double(r.cycles); }},
    {"hours", "simulated", "h", 0, [](const Report& r) { return r.hours; }},
    {"saturated_hours", "saturated", "h", 0, [](const Report& r) { return r.saturated_hours; }},
};

}  // namespace

std::span<const Metric> Metrics() {
  return kMetrics;
}

Spread Over(std::span<const Report> reports, const Metric& metric) {
  std::vector<double> values;
  for (const Report& report : reports) {
    if (metric.over == nullptr || metric.over(report) > 0) values.push_back(metric.of(report));
  }
  Spread spread{.seeds = values.size()};
  if (values.empty()) return spread;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / n;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - spread.mean, 2);
  spread.deviation = std::sqrt(squares / (n - 1));
  return spread;
}

std::string InTable(const Spread& spread, const Metric& metric) {
  if (spread.seeds == 0) return "-";
  if (spread.seeds == 1) return fmt::format("{:.{}f}", spread.mean, metric.digits);
  return fmt::format("{:.{}f} ± {:.{}f}", spread.mean, metric.digits, spread.deviation, metric.digits);
}

}  // namespace scheduler::sim
