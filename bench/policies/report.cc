#include "bench/policies/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "router/sim/report_json.h"

namespace bench::policies {
namespace {

using router::sim::Report;

// The gateway's default. Its peers send every request at once.
constexpr std::string_view kOurs = "cost+queue";

const Report& Of(const Result& result, std::string_view policy) {
  const auto all = ComparedPolicies();
  return result.reports[static_cast<size_t>(std::ranges::find(all, policy) - all.begin())];
}

double Ratio(double ours, double theirs) {
  return theirs > 0 ? ours / theirs : 0;
}

const Result* Find(std::span<const Result> results, uint32_t replicas, double load, conf::Duration age) {
  for (const Result& result : results) {
    const Scenario& s = result.scenario;
    if (s.replicas == replicas && s.load == load && s.telemetry_age == age && !s.mixed && s.faults.empty() &&
        s.adapters == 0)
      return &result;
  }
  return nullptr;
}

}  // namespace

void PrintTable(const Result& result) {
  fmt::print("\n{}; one cache as large as all: {:.1f} % hits\n", result.scenario.name, 100 * result.bound);
  const bool adapters = result.scenario.adapters > 0;
  fmt::print("{:17} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7}{}\n", "",
             "hits %", "TTFT p50", "p90", "p99", "ITL p50", "p99", "total", "p99", "in 2 s%", "spread",
             "retried", "lost", adapters ? "   loads" : "");
  for (size_t i = 0; i < result.reports.size(); ++i) {
    const Report& r = result.reports[i];
    fmt::print(
        "{:17} {:6.1f} {:8.2f} {:8.2f} {:8.2f} {:8.3f} {:8.3f} {:8.2f} {:8.2f} {:7.1f} {:7.2f} {:7} {:7}{}\n",
        ComparedPolicies()[i], 100 * r.hit_ratio, r.ttft.p50, r.ttft.p90, r.ttft.p99, r.token_time.p50,
        r.token_time.p99, r.total.mean, r.total.p99, 100 * r.within_slo, r.spread, r.retried,
        r.broken + r.refused, adapters ? fmt::format(" {:7}", r.adapter_loads) : "");
  }
}

nlohmann::json ToJson(const Result& result) {
  nlohmann::json policies;
  for (size_t i = 0; i < result.reports.size(); ++i)
    policies[std::string(ComparedPolicies()[i])] = router::sim::AsJson(result.reports[i]);
  const Scenario& s = result.scenario;
  return {{"name", s.name},
          {"replicas", s.replicas},
          {"load", s.load},
          {"telemetry_age_s", conf::ToSeconds(s.telemetry_age)},
          {"mixed", s.mixed},
          {"faults", s.faults.size()},
          {"adapters", s.adapters},
          {"speed_up", result.speed_up},
          {"shared_cache_hit_ratio", result.bound},
          {"policies", std::move(policies)}};
}

std::vector<Target> TargetsOf(std::span<const Result> results) {
  std::vector<Target> targets;
  for (const uint32_t replicas : {8u, 16u}) {
    if (const Result* at = Find(results, replicas, 0.85, conf::Duration::zero())) {
      const Report& cost = Of(*at, kOurs);
      const Report& epp = Of(*at, "epp");
      const std::string where = fmt::format("{} replicas, 85 %: ", replicas);
      targets.push_back({where + "TTFT p50 of epp's", 0.75, true, Ratio(cost.ttft.p50, epp.ttft.p50)});
      targets.push_back({where + "mean total of epp's", 0.9, true, Ratio(cost.total.mean, epp.total.mean)});
      targets.push_back(
          {where + "requests within 2 s of epp's", 1.12, false, Ratio(cost.within_slo, epp.within_slo)});
      targets.push_back(
          {where + "hits of one shared cache's", 0.88, false, Ratio(cost.hit_ratio, at->bound)});
      if (const Result* old = Find(results, replicas, 0.85, std::chrono::seconds(1))) {
        targets.push_back({where + "TTFT p50 with telemetry 1 s old of fresh", 1.25, true,
                           Ratio(Of(*old, kOurs).ttft.p50, cost.ttft.p50)});
      }
    }
    if (const Result* at = Find(results, replicas, 0.97, conf::Duration::zero())) {
      targets.push_back({fmt::format("{} replicas, 97 %: TTFT p50 of epp's", replicas), 0.6, true,
                         Ratio(Of(*at, kOurs).ttft.p50, Of(*at, "epp").ttft.p50)});
    }
  }
  return targets;
}

}  // namespace bench::policies
