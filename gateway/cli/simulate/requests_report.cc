#include "gateway/cli/simulate/requests_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "gateway/cli/output.h"
#include "router/sim/report_json.h"

namespace gateway::cli {
namespace {

using router::sim::PolicyReport;

// "cost lost 10 requests: 7 waited at the gateway for as long as a request may; 3 …", a line for each policy.
std::string LostInWords(const std::vector<PolicyReport>& runs) {
  std::string out;
  for (const auto& [policy, r] : runs) {
    const uint64_t lost = r.lost.broken + r.lost.refused();
    if (lost == 0) continue;
    out += fmt::format("{} lost {}: ", policy, Counted(lost, "request"));
    std::string parts;
    for (const auto& [why, count] : router::sim::LostBecause(r.lost))
      parts += fmt::format("{}{}: {}", parts.empty() ? "" : "; ", count, why);
    out += parts + '\n';
  }
  return out;
}

}  // namespace

std::string AsTable(const RequestsFacts& facts, const std::vector<PolicyReport>& runs) {
  const router::sim::PoolFacts& pool = facts.pool;
  Table table({{"POLICY"},
               {"HITS (%)", true},
               {"TTFT P50 (s)", true},
               {"P90", true},
               {"P99", true},
               {"TOKEN P50 (ms)", true},
               {"P99", true},
               {"TOTAL MEAN (s)", true},
               {"P99", true},
               {fmt::format("IN {} (%)", conf::InWords(pool.slo)), true},
               {"SPREAD", true},
               {"RETRIED", true},
               {"LOST", true},
               {"LOADS", true},
               {"HELD", true}});
  for (const auto& [policy, r] : runs) {
    table.Add({std::string(policy), fmt::format("{:.1f}", 100 * r.hit_ratio),
               fmt::format("{:.2f}", r.ttft.p50), fmt::format("{:.2f}", r.ttft.p90),
               fmt::format("{:.2f}", r.ttft.p99), fmt::format("{:.1f}", 1e3 * r.token_time.p50),
               fmt::format("{:.1f}", 1e3 * r.token_time.p99), fmt::format("{:.2f}", r.total.mean),
               fmt::format("{:.2f}", r.total.p99), fmt::format("{:.1f}", 100 * r.within_slo),
               fmt::format("{:.2f}", r.spread), std::to_string(r.retried),
               std::to_string(r.broken + r.refused),
               facts.adapters > 0 ? std::to_string(r.adapter_loads) : "-",
               pool.queue ? std::to_string(r.held) : "-"});
  }
  const std::string lost = LostInWords(runs);
  return fmt::format(
      "{}: {} at {:.3g} times their rate; {} of {}{}; one cache as large as all would hit "
      "{:.1f} %\n\n{}{}{}",
      pool.trace, Counted(pool.requests, "request"), pool.speed_up, Counted(pool.replicas, "replica"),
      pool.engine, pool.prefill > 0 ? fmt::format(", {} for prompts alone", pool.prefill) : "",
      100 * pool.shared_cache_hit_ratio, table.Render(), lost.empty() ? "" : "\n", lost);
}

std::string AsJson(const RequestsFacts& facts, const std::vector<PolicyReport>& runs) {
  const router::sim::PoolFacts& pool = facts.pool;
  nlohmann::ordered_json json{{"trace", pool.trace},
                              {"rows", facts.rows},
                              {"left_out", facts.left_out},
                              {"requests", pool.requests},
                              {"replicas", pool.replicas},
                              {"prefill", pool.prefill},
                              {"queue", pool.queue},
                              {"engine", pool.engine},
                              {"speed_up", pool.speed_up},
                              {"shared_cache_hit_ratio", pool.shared_cache_hit_ratio},
                              {"policies", nlohmann::ordered_json::array()}};
  if (facts.utilization) json["utilization"] = *facts.utilization;
  for (const auto& [policy, report] : runs) {
    nlohmann::ordered_json row{{"policy", policy}};
    row.update(router::sim::AsJson(report));
    json["policies"].push_back(std::move(row));
  }
  return AsText(json) + '\n';
}

}  // namespace gateway::cli
