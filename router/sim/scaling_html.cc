#include "router/sim/scaling_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "conf/shown.h"
#include "scheduler/sim/page.h"
#include "scheduler/sim/plot.h"

namespace router::sim {
namespace {

using scheduler::sim::Axis;
using scheduler::sim::Frame;
using scheduler::sim::Line;
using Ways = std::span<const SizedBy>;
using Of = std::function<double(const ElasticSample&)>;

constexpr size_t kPoints = 400;
constexpr double kLongInMinutes = 180;  // from here on the axis of time is in hours
constexpr double kShortestTtft = 0.05;  // seconds, where the axis begins
constexpr std::string_view kOracle = "oracle";
constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct TimeScale {
  double seconds = 60;  // in a unit
  Axis axis{};
};

TimeScale TimeOf(Ways ways) {
  double seconds = 0;
  for (const SizedBy& way : ways) seconds = std::max(seconds, way.report.seconds);
  TimeScale time;
  time.seconds = seconds > 60 * kLongInMinutes ? 3600 : 60;
  time.axis = {.label = time.seconds > 60 ? "time (h)" : "time (min)",
               .from = 0,
               .to = seconds > 0 ? seconds / time.seconds : 1};
  return time;
}

Line LineOf(const SizedBy& way, std::string name, size_t color, const TimeScale& time, const Of& of) {
  Line line{.name = std::move(name), .color = color, .points = {}};
  line.points.reserve(way.report.samples.size());
  for (const ElasticSample& sample : way.report.samples) {
    line.points.emplace_back(sample.second / time.seconds, of(sample));
  }
  line.points = scheduler::sim::Thin(line.points, kPoints);
  return line;
}

std::string Plot(std::string_view title, std::string_view label, const TimeScale& time,
                 const std::vector<Line>& lines) {
  std::vector<std::string> names;
  names.reserve(lines.size());
  double most = 0;
  std::string alt = fmt::format("{}, {}", title, label);
  for (const Line& line : lines) {
    names.push_back(line.name);
    double sum = 0;
    double measured = 0;
    for (const auto& [x, y] : line.points) {
      if (std::isnan(y)) continue;
      most = std::max(most, y);
      sum += y;
      ++measured;
    }
    alt += fmt::format("; {}: mean {:.2f}", line.name, measured == 0 ? 0 : sum / measured);
  }
  const Frame frame{.alt = std::move(alt),
                    .x = time.axis,
                    .y = {.label = std::string(label), .from = 0, .to = scheduler::sim::RoundUp(most)}};
  return scheduler::sim::Figure(title, scheduler::sim::Legend(names),
                                scheduler::sim::DrawLines(frame, lines));
}

// One line for each way.
std::string ForEach(Ways ways, std::string_view title, std::string_view label, const TimeScale& time,
                    const Of& of) {
  std::vector<Line> lines;
  lines.reserve(ways.size());
  for (size_t i = 0; i < ways.size(); ++i) lines.push_back(LineOf(ways[i], ways[i].name, i, time, of));
  return Plot(title, label, time, lines);
}

std::string DemandAndCapacity(const SizedBy& way, const TimeScale& time) {
  const auto line = [&](const char* name, size_t color, const Of& of) {
    return LineOf(way, name, color, time, of);
  };
  return Plot("Demand and capacity", "replicas", time,
              {line("paid for", 0, [](const ElasticSample& s) { return double(s.replicas()); }),
               line("ready", 1, [](const ElasticSample& s) { return double(s.ready); }),
               line("estimated demand", 2, [](const ElasticSample& s) { return s.demand; }),
               line("work that arrived", 3, [](const ElasticSample& s) { return s.work; })});
}

// Seconds on a log scale, with a line at the objective.
std::string FirstTokenPlot(Ways ways, const StudyFacts& facts, const TimeScale& time, std::string_view title,
                           double ElasticSample::* field) {
  std::vector<Line> lines;
  std::vector<std::string> names;
  double most = conf::ToSeconds(facts.ttft);
  std::string alt(title);
  for (size_t i = 0; i < ways.size(); ++i) {
    Line line{.name = ways[i].name, .color = i, .points = {}};
    for (const ElasticSample& sample : ways[i].report.samples) {
      line.points.emplace_back(sample.second / time.seconds, sample.first_tokens == 0
                                                                 ? kNotMeasured
                                                                 : std::max(sample.*field, kShortestTtft));
    }
    line.points = scheduler::sim::Thin(line.points, kPoints);
    for (const auto& [x, y] : line.points) most = std::fmax(most, y);
    alt += fmt::format("; {}: p50 {:.2f} s, p99 {:.2f} s of all", ways[i].name, ways[i].report.ttft.p50,
                       ways[i].report.ttft.p99);
    names.push_back(ways[i].name);
    lines.push_back(std::move(line));
  }
  const double objective = conf::ToSeconds(facts.ttft);
  lines.push_back({.name = "objective",
                   .color = scheduler::sim::kPlotColors - 1,
                   .points = {{time.axis.from, objective}, {time.axis.to, objective}}});
  const Frame frame{.alt = std::move(alt),
                    .x = time.axis,
                    .y = {.label = "seconds (log scale)",
                          .from = kShortestTtft,
                          .to = scheduler::sim::RoundUp(most),
                          .log = true}};
  return scheduler::sim::Figure(fmt::format("{}; grey: the objective, {:g} s", title, objective),
                                scheduler::sim::Legend(names), scheduler::sim::DrawLines(frame, lines));
}

std::string FirstFigures(const StudyFacts& facts, Ways ways) {
  const auto oracle = std::ranges::find(ways, kOracle, &SizedBy::name);
  scheduler::sim::TableText table{
      .titles = {"sized by", "TTFT met (%)", "tokens met (%)", "both (%)", "GPU-hours", "of oracle's",
                 "replicas, mean", "most", "TTFT p50 (s)", "TTFT p99 (s)", "refused"},
      .colored = true};
  for (const auto& [name, r] : ways) {
    table.rows.push_back(
        {name, fmt::format("{:.2f}", 100 * r.ttft_attained), fmt::format("{:.2f}", 100 * r.tokens_attained),
         fmt::format("{:.2f}", 100 * r.attained),
         fmt::format("{:.1f}", r.replica_seconds / 3600 * facts.gpus),
         oracle == ways.end() ? "–"
                              : fmt::format("{:.2f}", r.replica_seconds / oracle->report.replica_seconds),
         fmt::format("{:.2f}", r.mean_replicas), fmt::format("{}", r.most_replicas),
         fmt::format("{:.2f}", r.ttft.p50), fmt::format("{:.2f}", r.ttft.p99), fmt::format("{}", r.refused)});
  }
  return scheduler::sim::SortableTable(table);
}

std::string OtherFigures(Ways ways) {
  scheduler::sim::TableText table{.titles = {"sized by", "ups", "downs", "flaps", "launches", "taken back",
                                             "held", "wait p50 (s)", "wait p99 (s)", "longest wait (s)",
                                             "TTFT p90 (s)", "token p50 (ms)", "token p99 (ms)", "finished"},
                                  .colored = true};
  for (const auto& [name, r] : ways) {
    table.rows.push_back({name, fmt::format("{}", r.ups), fmt::format("{}", r.downs),
                          fmt::format("{}", r.flaps), fmt::format("{}", r.launches),
                          fmt::format("{}", r.taken_back), fmt::format("{}", r.held),
                          fmt::format("{:.1f}", r.wait.p50), fmt::format("{:.1f}", r.wait.p99),
                          fmt::format("{:.1f}", r.longest_wait), fmt::format("{:.2f}", r.ttft.p90),
                          fmt::format("{:.1f}", 1e3 * r.token_time.p50),
                          fmt::format("{:.1f}", 1e3 * r.token_time.p99), fmt::format("{}", r.finished)});
  }
  return scheduler::sim::SortableTable(table);
}

double LateShare(const ElasticSample& sample) {
  return sample.first_tokens == 0 ? kNotMeasured : 100.0 * sample.late / sample.first_tokens;
}

}  // namespace

std::string AsHtml(const StudyFacts& facts, Ways ways) {
  using scheduler::sim::Beside;
  using scheduler::sim::Fact;
  using scheduler::sim::Folded;
  using scheduler::sim::Section;
  const std::string title =
      fmt::format("Sizing {} for {}", facts.model, facts.trace.substr(facts.trace.rfind('/') + 1));
  const TimeScale time = TimeOf(ways);
  std::string head =
      Fact("traffic", fmt::format("{}, {} in {:.1f} h", facts.trace, conf::Counted(facts.requests, "request"),
                                  ways.front().report.seconds / 3600));
  head += Fact("replicas",
               fmt::format("{}, {:g} GPU{} each", facts.engine, facts.gpus, facts.gpus == 1 ? "" : "s"));
  head += Fact("to start one", conf::InWords(facts.cold_start));
  head += Fact("objective", fmt::format("{:g} % of first tokens within {}", 100 * facts.attainment,
                                        conf::InWords(facts.ttft)));
  std::string out = scheduler::sim::Heading(title, head);
  out += Section(
      "Figures",
      "GPU-hours: from the launch of a replica until it has drained. The oracle knows the trace, and its "
      "replicas start at once. Met: share of requests within the objective.",
      FirstFigures(facts, ways));
  out += Folded("All other figures",
                "Ups: increases of the number of replicas; a flap is an increase within five minutes after a "
                "decrease. Held: requests that waited at the gateway.",
                OtherFigures(ways));
  out += Folded(
      fmt::format("Demand and capacity: {}", ways.front().name),
      "Work: the replicas that the arriving requests keep busy. Replicas that are paid for and not ready are "
      "starting or draining.",
      Beside(DemandAndCapacity(ways.front(), time)));
  out += Folded("Replicas", "Replicas that are paid for, by way to size the pool.",
                Beside(ForEach(ways, "Replicas over time", "replicas", time,
                               [](const ElasticSample& s) { return double(s.replicas()); })));
  out += Folded(
      "First tokens",
      fmt::format(
          "Quantiles of each step; a step without a first token has none. Times below {:g} s are drawn "
          "at the bottom. Long series are thinned to {} points, each the mean of its neighbours.",
          kShortestTtft, kPoints),
      Beside(
          FirstTokenPlot(ways, facts, time, "TTFT, half of the requests within", &ElasticSample::ttft_p50) +
          FirstTokenPlot(ways, facts, time, "TTFT, 99 % of the requests within", &ElasticSample::ttft_p99) +
          ForEach(ways, "First tokens that came late", "late (%)", time, LateShare)));
  out += Folded("Waiting at the gateway", "Requests that wait because no replica has headroom.",
                Beside(ForEach(ways, "Held requests", "requests", time,
                               [](const ElasticSample& s) { return double(s.held); })));
  return scheduler::sim::Page(title, out);
}

}  // namespace router::sim
