#include "router/sim/requests_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "conf/shown.h"
#include "scheduler/sim/page.h"
#include "scheduler/sim/plot.h"

namespace router::sim {
namespace {

using scheduler::sim::Line;
using scheduler::sim::TableText;
using Policies = std::span<const PolicyReport>;

constexpr size_t kMostPoints = 400;
constexpr double kLeastSeconds = 0.01;  // where axes of times begin

std::string CountCell(uint64_t value) {
  return fmt::format("{}", value);
}
std::string SecondsCell(double value) {
  return fmt::format("{:.2f}", value);
}
std::string MillisecondsCell(double seconds) {
  return fmt::format("{:.1f}", 1e3 * seconds);
}
std::string PercentCell(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string FirstFiguresOf(const PoolFacts& facts, Policies policies) {
  TableText table{.titles = {"policy", fmt::format("TTFT in {} (%)", conf::InWords(facts.slo)),
                             "TTFT p50 (s)", "TTFT p90 (s)", "TTFT p99 (s)", "token p50 (ms)",
                             "token p99 (ms)", "total mean (s)", "total p99 (s)", "cache hits (%)", "lost"},
                  .colored = true};
  for (const auto& [policy, r] : policies) {
    table.rows.push_back({std::string(policy), PercentCell(r.within_slo), SecondsCell(r.ttft.p50),
                          SecondsCell(r.ttft.p90), SecondsCell(r.ttft.p99),
                          MillisecondsCell(r.token_time.p50), MillisecondsCell(r.token_time.p99),
                          SecondsCell(r.total.mean), SecondsCell(r.total.p99), PercentCell(r.hit_ratio),
                          CountCell(r.lost.broken + r.lost.refused())});
  }
  return SortableTable(table);
}

std::string OtherTable(Policies policies) {
  TableText table{.titles = {"policy", "finished", "held at the gateway", "wait p50 (s)", "wait p99 (s)",
                             "retried", "busiest over mean", "predicted hits (%)", "best holder's (%)",
                             "preemptions", "adapter loads", "prefilled elsewhere"},
                  .colored = true};
  for (const auto& [policy, r] : policies) {
    table.rows.push_back({std::string(policy), CountCell(r.finished), CountCell(r.held),
                          SecondsCell(r.wait.p50), SecondsCell(r.wait.p99), CountCell(r.retried),
                          SecondsCell(r.spread), PercentCell(r.predicted_ratio), PercentCell(r.offered_ratio),
                          CountCell(r.preemptions), CountCell(r.adapter_loads), CountCell(r.remote_prefill)});
  }
  return SortableTable(table);
}

// Empty: nothing was lost.
std::string LostTable(Policies policies) {
  TableText table{.titles = {"why", "policy", "requests"}};
  for (const auto& [policy, r] : policies) {
    for (const auto& [why, count] : LostBecause(r.lost))
      table.rows.push_back({std::string(why), std::string(policy), CountCell(count)});
  }
  return table.rows.empty() ? "" : SortableTable(table);
}

double LongestTtft(Policies policies) {
  double longest = 1;
  for (const auto& [policy, r] : policies) {
    if (!r.ttft_cdf.empty()) longest = std::max(longest, r.ttft_cdf.back());
  }
  return scheduler::sim::RoundUp(longest);
}

std::string LegendOfPolicies(Policies policies) {
  std::vector<std::string> names;
  for (const PolicyReport& one : policies) names.emplace_back(one.policy);
  return scheduler::sim::Legend(names);
}

std::string TtftDistribution(Policies policies) {
  std::vector<Line> lines;
  std::string alt = "share of requests by time to first token";
  for (size_t i = 0; i < policies.size(); ++i) {
    const Report& r = policies[i].report;
    Line line{.name = std::string(policies[i].policy), .color = i, .points = {}};
    for (size_t k = 0; k < r.ttft_cdf.size(); ++k) {
      line.points.emplace_back(std::max(r.ttft_cdf[k], kLeastSeconds),
                               100 * static_cast<double>(k) / static_cast<double>(r.ttft_cdf.size() - 1));
    }
    alt += fmt::format("; {}: half within {:.2f} s, 99 % within {:.2f} s", policies[i].policy, r.ttft.p50,
                       r.ttft.p99);
    lines.push_back(std::move(line));
  }
  const scheduler::sim::Frame frame{
      .alt = std::move(alt),
      .x = {.label = "TTFT (s, log scale)", .from = kLeastSeconds, .to = LongestTtft(policies), .log = true},
      .y = {.label = "requests (%)", .from = 0, .to = 100}};
  return scheduler::sim::Figure("Time to first token", LegendOfPolicies(policies),
                                scheduler::sim::DrawLines(frame, lines));
}

// A step without a first token leaves a gap.
std::string TtftOverTime(Policies policies, std::string_view title, double FirstTokenStep::* field) {
  double seconds = 1;
  for (const auto& [policy, r] : policies) seconds = std::max(seconds, r.seconds);
  const double unit = seconds > 3 * 3600 ? 3600 : 60;
  std::vector<Line> lines;
  for (size_t i = 0; i < policies.size(); ++i) {
    Line line{.name = std::string(policies[i].policy), .color = i, .points = {}};
    for (const FirstTokenStep& step : policies[i].report.first_tokens) {
      line.points.emplace_back(step.second / unit, step.count == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                                   : std::max(step.*field, kLeastSeconds));
    }
    line.points = scheduler::sim::Thin(line.points, kMostPoints);
    lines.push_back(std::move(line));
  }
  const scheduler::sim::Frame frame{
      .alt = std::string(title),
      .x = {.label = unit > 60 ? "time (h)" : "time (min)", .from = 0, .to = seconds / unit},
      .y = {.label = "TTFT (s, log scale)", .from = kLeastSeconds, .to = LongestTtft(policies), .log = true}};
  return scheduler::sim::Figure(title, LegendOfPolicies(policies), scheduler::sim::DrawLines(frame, lines));
}

}  // namespace

std::vector<std::pair<std::string_view, uint64_t>> LostBecause(const LostRequests& lost) {
  std::vector<std::pair<std::string_view, uint64_t>> why = {
      {"the replica died or hung after the first token", lost.broken},
      {"the gateway's queue had no place left", lost.queue_full},
      {"the queue was too long for the request to go before its longest wait", lost.too_late},
      {"waited at the gateway for as long as a request may", lost.expired},
      {"no replica could take it, or every allowed try had failed", lost.no_replica},
      {"the engine refused it: prompt and answer do not fit, or too many wait there", lost.engine_refused}};
  std::erase_if(why, [](const auto& reason) { return reason.second == 0; });
  return why;
}

std::string AsHtml(const PoolFacts& facts, Policies policies) {
  using scheduler::sim::Fact;
  using scheduler::sim::Folded;
  const std::string title = fmt::format("Routing {}", facts.trace.substr(facts.trace.rfind('/') + 1));
  std::string head = Fact("traffic", fmt::format("{}, {} at {:.3g} times their rate", facts.trace,
                                                 conf::Counted(facts.requests, "request"), facts.speed_up));
  head += Fact("replicas",
               fmt::format("{} of {}{}", facts.replicas, facts.engine,
                           facts.prefill > 0 ? fmt::format(", {} for prompts alone", facts.prefill) : ""));
  head += Fact("queue at the gateway", facts.queue ? "yes" : "no: each request is sent at once");
  head += Fact("one cache as large as all would hit", PercentCell(facts.shared_cache_hit_ratio) + " %");
  std::string out = scheduler::sim::Heading(title, head);
  out +=
      scheduler::sim::Section("Figures",
                              "TTFT: time to the first token, the wait at the gateway included. Token: time "
                              "between tokens. Lost: requests without a whole answer.",
                              FirstFiguresOf(facts, policies));
  out += Folded("All other figures",
                "Predicted: what the prefix index promised of the chosen replica, and of the best holder.",
                OtherTable(policies));
  if (const std::string lost = LostTable(policies); !lost.empty())
    out += Folded("Lost requests", "Why requests got no whole answer.", lost);
  out += Folded(
      "First tokens",
      fmt::format("Times below {:g} s are drawn at the edge. A line has a gap where no first token came.",
                  kLeastSeconds),
      scheduler::sim::Beside(
          TtftDistribution(policies) +
          TtftOverTime(policies, "TTFT over time, half of the requests within", &FirstTokenStep::ttft_p50) +
          TtftOverTime(policies, "TTFT over time, 99 % of the requests within", &FirstTokenStep::ttft_p99)));
  return scheduler::sim::Page(title, out);
}

}  // namespace router::sim
