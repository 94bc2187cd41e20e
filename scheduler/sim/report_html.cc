#include "scheduler/sim/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "scheduler/metrics.h"
#include "scheduler/sim/heat_image.h"
#include "scheduler/sim/page.h"
#include "scheduler/sim/plot.h"

namespace scheduler::sim {
namespace {

using Runs = std::span<const PolicyRuns>;

constexpr size_t kPoints = 400;  // of a line
constexpr size_t kQueuesShown = 8;
constexpr size_t kQueueRows = 100;        // of each policy
constexpr double kShortestWaitH = 0.01;   // where the axis of waits begins
constexpr double kHoursInDays = 24 * 14;  // from here on, axes of time are in days

const Report& First(const PolicyRuns& run) {
  return run.reports.front();
}

// The axis of time that all plots share.
struct TimeScale {
  double hours = 1;  // in a unit
  Axis axis{};
};

TimeScale TimeOf(Runs runs) {
  double hours = 0;
  for (const PolicyRuns& run : runs) hours = std::max(hours, First(run).hours);
  TimeScale time;
  time.hours = hours >= kHoursInDays ? 24 : 1;
  time.axis = {
      .label = time.hours > 1 ? "time since the first submission (d)" : "time since the first submission (h)",
      .from = 0,
      .to = hours > 0 ? hours / time.hours : 1};
  return time;
}

std::string LegendOf(Runs runs) {
  std::vector<std::string> names;
  names.reserve(runs.size());
  for (const PolicyRuns& run : runs) names.push_back(run.name);
  return Legend(names);
}

// One line for each policy, of a field of the samples; the axis starts at 0.
std::string OverTime(Runs runs, const TimeScale& time, std::string_view title, std::string_view label,
                     const std::function<double(const Sample&)>& of, double at_least) {
  std::vector<Line> lines;
  double most = at_least;
  std::string means;
  for (size_t i = 0; i < runs.size(); ++i) {
    Line line{.name = runs[i].name, .color = i};
    double sum = 0;
    for (const Sample& sample : First(runs[i]).samples) {
      line.points.emplace_back(sample.hour / time.hours, of(sample));
      sum += of(sample);
    }
    means += fmt::format("; {}: mean {:.1f}", runs[i].name,
                         line.points.empty() ? 0 : sum / static_cast<double>(line.points.size()));
    line.points = Thin(line.points, kPoints);
    for (const auto& [x, y] : line.points) most = std::max(most, y);
    lines.push_back(std::move(line));
  }
  const Frame frame{
      .alt = fmt::format("{}, {}{}", title, label, means),
      .x = time.axis,
      .y = {.label = std::string(label), .from = 0, .to = most > at_least ? RoundUp(most) : at_least}};
  return Figure(title, LegendOf(runs), DrawLines(frame, lines));
}

// In points where the metric is a share already.
std::string Difference(const Spread& from, const Spread& to, const Metric& metric) {
  if (from.seeds == 0 || to.seeds == 0) return "-";
  const double by = to.mean - from.mean;
  if (std::abs(by) < 0.5 * std::pow(10, -metric.digits)) return "0";
  std::string out = fmt::format("{:+.{}f}", by, metric.digits);
  if (metric.unit != "%" && from.mean != 0)
    out += fmt::format(" ({:+.1f} %)", 100 * by / std::abs(from.mean));
  return out;
}

// The figures that answer most questions, in this order; all others are folded.
constexpr std::array<std::string_view, 10> kFirstFigures = {
    "gar_mean_pct", "wait_mean_h",   "wait_p50_h",  "wait_p99_h", "wait_large_mean_h",
    "jct_mean_h",   "slowdown_mean", "goodput_pct", "jain_index", "jobs_finished"};

std::vector<Metric> FirstFigures() {
  std::vector<Metric> first;
  for (const std::string_view key : kFirstFigures)
    first.push_back(*std::ranges::find(Metrics(), key, &Metric::key));
  return first;
}

std::vector<Metric> OtherFigures() {
  std::vector<Metric> other;
  for (const Metric& metric : Metrics()) {
    if (std::ranges::find(kFirstFigures, metric.key) == kFirstFigures.end()) other.push_back(metric);
  }
  return other;
}

std::string MetricsTable(Runs runs, const std::vector<Metric>& metrics) {
  TableText table{.titles = {"figure"}};
  for (const PolicyRuns& run : runs) table.titles.push_back(run.name);
  if (runs.size() == 2) table.titles.emplace_back("difference");
  for (const Metric& metric : metrics) {
    std::vector<std::string> cells = {
        metric.unit.empty() ? std::string(metric.title) : fmt::format("{} ({})", metric.title, metric.unit)};
    std::vector<Spread> spreads;
    for (const PolicyRuns& run : runs) {
      spreads.push_back(Over(run.reports, metric));
      cells.push_back(InTable(spreads.back(), metric));
    }
    if (runs.size() == 2) cells.push_back(Difference(spreads[0], spreads[1], metric));
    table.rows.push_back(std::move(cells));
  }
  return SortableTable(table);
}

std::string WaitsTable(Runs runs) {
  TableText table{
      .titles = {"GPUs", "policy", "jobs", "mean (h)", "p50 (h)", "p90 (h)", "p99 (h)", "max (h)"}};
  const auto hours = [](double value) { return fmt::format("{:.2f}", value); };
  for (size_t size = 0; size < kSizeClasses; ++size) {
    for (const PolicyRuns& run : runs) {
      const WaitsOfClass& waits = First(run).waits_by_size[size];
      if (waits.jobs == 0) continue;
      table.rows.push_back({std::string(kSizeClassNames[size]), run.name, fmt::format("{}", waits.jobs),
                            hours(waits.mean_h), hours(waits.p50_h), hours(waits.p90_h), hours(waits.p99_h),
                            hours(waits.max_h)});
    }
  }
  return SortableTable(table);
}

std::string QueuesTable(Runs runs) {
  TableText table{.titles = {"queue", "policy", "GPU-hours", "of its due (%)"}};
  for (const PolicyRuns& run : runs) {
    const std::vector<QueueUse>& queues = First(run).queues;
    for (size_t i = 0; i < std::min(queues.size(), kQueueRows); ++i) {
      table.rows.push_back({queues[i].name, run.name, fmt::format("{:.0f}", queues[i].device_hours),
                            fmt::format("{:.1f}", 100 * queues[i].satisfaction)});
    }
  }
  return SortableTable(table);
}

// The share of jobs that waited at most so many hours.
std::string WaitsPlot(Runs runs, size_t size, double longest_h) {
  std::vector<Line> lines;
  std::string alt = fmt::format("waits of jobs of {} GPUs", kSizeClassNames[size]);
  for (size_t i = 0; i < runs.size(); ++i) {
    const WaitsOfClass& waits = First(runs[i]).waits_by_size[size];
    Line line{.name = runs[i].name, .color = i};
    const size_t steps = waits.cdf_h.empty() ? 0 : waits.cdf_h.size() - 1;
    for (size_t k = 0; k <= steps && steps > 0; ++k) {
      line.points.emplace_back(std::max(waits.cdf_h[k], kShortestWaitH),
                               100 * static_cast<double>(k) / static_cast<double>(steps));
    }
    alt += fmt::format("; {}: {} jobs, half within {:.2f} h, 99 % within {:.2f} h", runs[i].name, waits.jobs,
                       waits.p50_h, waits.p99_h);
    lines.push_back(std::move(line));
  }
  const Frame frame{
      .alt = alt,
      .x = {.label = "wait (h, log scale)", .from = kShortestWaitH, .to = longest_h, .log = true},
      .y = {.label = "jobs (%)", .from = 0, .to = 100}};
  return Figure(fmt::format("{} GPUs", kSizeClassNames[size]), "", DrawLines(frame, lines));
}

std::string Waits(Runs runs) {
  double longest_h = 1;
  for (const PolicyRuns& run : runs) longest_h = std::max(longest_h, First(run).waits.max_h);
  longest_h = RoundUp(longest_h);
  std::string plots;
  for (size_t size = 0; size < kSizeClasses; ++size) {
    if (std::ranges::any_of(runs,
                            [&](const PolicyRuns& run) { return First(run).waits_by_size[size].jobs > 0; })) {
      plots += WaitsPlot(runs, size, longest_h);
    }
  }
  return Folded(
      "Waits by size",
      fmt::format("Of the jobs of each size that started, how many had done so within a time. Shorter "
                  "waits than {} h stand at the left edge. Further left and up is better.",
                  kShortestWaitH),
      WaitsTable(runs) + LegendOf(runs) + Beside(plots));
}

const QueueUse* FindQueue(const Report& report, std::string_view name) {
  const auto found = std::ranges::find(report.queues, name, &QueueUse::name);
  return found == report.queues.end() ? nullptr : &*found;
}

std::string QueuePlot(Runs runs, const TimeScale& time, const std::string& name, double most) {
  std::vector<Line> lines;
  std::string alt = "GPUs held by queue " + name;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Report& report = First(runs[i]);
    const QueueUse* queue = FindQueue(report, name);
    if (queue == nullptr) continue;
    Line line{.name = runs[i].name, .color = i};
    for (size_t s = 0; s < std::min(queue->devices.size(), report.samples.size()); ++s) {
      line.points.emplace_back(report.samples[s].hour / time.hours, static_cast<double>(queue->devices[s]));
    }
    line.points = Thin(line.points, kPoints);
    alt += fmt::format("; {}: {:.0f} GPU-hours, {:.1f} % of its fair share", runs[i].name,
                       queue->device_hours, 100 * queue->satisfaction);
    lines.push_back(std::move(line));
  }
  const Frame frame{.alt = alt, .x = time.axis, .y = {.label = "GPUs held", .from = 0, .to = RoundUp(most)}};
  return Figure(name, "", DrawLines(frame, lines));
}

// Empty where there is only one queue.
std::string Queues(Runs runs, const TimeScale& time) {
  std::vector<const QueueUse*> queues;
  for (const QueueUse& queue : First(runs.front()).queues) queues.push_back(&queue);
  if (queues.size() < 2) return {};
  std::ranges::sort(queues, [](const QueueUse* a, const QueueUse* b) {
    return std::pair(-a->device_hours, a) < std::pair(-b->device_hours, b);  // ties as they were
  });
  const size_t shown = std::min(queues.size(), kQueuesShown);
  double most = 0;
  for (size_t q = 0; q < shown; ++q) {
    for (const PolicyRuns& run : runs) {
      const QueueUse* queue = FindQueue(First(run), queues[q]->name);
      if (queue == nullptr) continue;
      for (const float devices : queue->devices) most = std::max(most, static_cast<double>(devices));
    }
  }
  std::string plots;
  for (size_t q = 0; q < shown; ++q) plots += QueuePlot(runs, time, queues[q]->name, most);
  const std::string note =
      shown < queues.size()
          ? fmt::format("The {} of {} queues that held the most GPU-hours; one scale for all.", shown,
                        queues.size())
          : "GPUs held by the jobs of each queue; one scale for all.";
  return Folded("Share by queue", note, QueuesTable(runs) + LegendOf(runs) + Beside(plots));
}

std::string HeatPlot(const PolicyRuns& run, const TimeScale& time) {
  const Report& report = First(run);
  const HeatMap& heat = report.heat;
  const std::string image = HeatImage(heat);
  if (image.empty()) return {};
  const auto nodes = static_cast<double>(heat.rows * heat.nodes_per_row);
  const double columns = static_cast<double>(heat.cells.size()) / static_cast<double>(heat.rows);
  const Frame frame{
      .alt = fmt::format("share of each node's GPUs that jobs held over time under {}; mean {:.1f} %",
                         run.name, 100 * report.gar_mean),
      .height = 260,
      .x = time.axis,
      .y = {.label = "node", .from = nodes, .to = 0}};
  const double end = std::min(columns * heat.hours_per_column, report.hours) / time.hours;
  const std::string content = fmt::format(
      R"(<image class="heat" href="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" preserveAspectRatio="none"/>)",
      image, frame.left(), frame.top(), frame.AtX(end) - frame.left(), frame.bottom() - frame.top());
  return Figure(run.name, "", Draw(frame, content));
}

std::string Heat(Runs runs, const TimeScale& time) {
  std::string plots;
  for (const PolicyRuns& run : runs) plots += HeatPlot(run, time);
  std::string scale = R"(<p class="legend">0 % <span class="shades heat">)";
  for (const uint32_t shade : Shades()) scale += fmt::format(R"(<b style="background:#{:06x}"></b>)", shade);
  scale += "</span> 100 % of the node's GPUs held</p>";
  return Folded("Nodes over time", "Rows are nodes in the cluster's order, neighbours together.",
                scale + Beside(plots));
}

std::string HeadingOf(const RunFacts& facts, Runs runs, const std::string& title) {
  std::string policies;
  for (const PolicyRuns& run : runs) policies += (policies.empty() ? "" : ", ") + run.name;
  std::string seeds;
  for (const Report& report : runs.front().reports) {
    if (seeds.size() > 60) {
      seeds += fmt::format(" … {}", runs.front().reports.back().seed);
      break;
    }
    seeds += fmt::format("{}{}", seeds.empty() ? "" : ", ", report.seed);
  }
  std::string out =
      Fact("trace", fmt::format("{}, {} rows, {} left out", facts.trace, facts.rows, facts.left_out));
  out += Fact("cluster",
              fmt::format("{}, {}", conf::Counted(facts.nodes, "node"), conf::Counted(facts.devices, "GPU")));
  out += Fact(runs.size() > 1 ? "policies" : "policy", policies);
  if (!facts.what_if.empty()) out += Fact("what if", facts.what_if);
  out += Fact("run-time estimates", facts.estimates);
  out += Fact(runs.front().reports.size() > 1 ? "seeds" : "seed", seeds);
  return Heading(title, out);
}

}  // namespace

std::string AsHtml(const RunFacts& facts, std::span<const PolicyRuns> runs) {
  const std::string title = fmt::format("Simulation of {}", facts.trace.substr(facts.trace.rfind('/') + 1));
  const TimeScale time = TimeOf(runs);
  const bool spread = runs.front().reports.size() > 1;
  const auto percent = [](double Sample::* field) {
    return [field](const Sample& sample) { return 100 * (sample.*field); };
  };

  std::string out = HeadingOf(facts, runs, title);
  out += Section("Figures",
                 spread ? "Mean ± standard deviation over the seeds. Plots are of the first seed."
                        : "GAR: GPUs allocated, of those of healthy nodes.",
                 MetricsTable(runs, FirstFigures()));
  out += Folded("All other figures",
                "Saturation: a job waited all through the hour; where none is, medians are of all hours.",
                MetricsTable(runs, OtherFigures()));
  out +=
      Folded("Use over time",
             fmt::format("Long series are thinned to {} points, each the mean of its neighbours.", kPoints),
             Beside(OverTime(runs, time, "GAR: GPUs allocated, of those of healthy nodes", "GAR (%)",
                             percent(&Sample::gar), 100) +
                    OverTime(runs, time, "SOR: GPU time held, of all there is", "SOR (%)",
                             percent(&Sample::sor), 100)));
  out += Folded("Queue over time", "Jobs that could start if there were room, and the GPUs that they want.",
                Beside(OverTime(
                           runs, time, "Queue length", "jobs waiting",
                           [](const Sample& s) { return double(s.waiting); }, 1) +
                       OverTime(
                           runs, time, "GPUs waited for", "GPUs",
                           [](const Sample& s) { return s.waiting_devices; }, 1)));
  out += Waits(runs);
  out += Folded(
      "Fragmentation over time",
      "GFR: nodes partly taken, of all. FGD: idle GPUs that the workload's own mix could not use where "
      "they are, of all GPUs.",
      Beside(OverTime(runs, time, "GFR", "GFR (%)", percent(&Sample::gfr), 10) +
             OverTime(runs, time, "FGD fragmentation", "of GPUs (%)", percent(&Sample::fragmentation), 1)));
  out += Queues(runs, time);
  out += Heat(runs, time);
  return Page(title, out);
}

}  // namespace scheduler::sim
