#include "gateway/cli/simulate/traffic_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conf/shown.h"
#include "gateway/cli/output.h"
#include "router/sim/requests_html.h"

namespace gateway::cli {
namespace {

namespace serving = router::sim;

double GpuHours(const TrafficFacts& facts, const serving::ElasticReport& report) {
  return report.replica_seconds / 3600 * facts.study.gpus;
}

nlohmann::ordered_json QuantilesAsJson(const serving::Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}};
}

// "2 members, 16 GPUs; the engine's speed is that of 4"; empty: nothing is to be said of it.
std::string SizeOf(const TrafficFacts& facts) {
  std::string text;
  if (facts.members > 1) text = fmt::format("{} members, {:g} GPUs", facts.members, facts.study.gpus);
  const double gpus = facts.study.gpus;
  const uint32_t modelled = facts.engine_gpus;
  if (gpus == modelled) return text;
  if (text.empty()) text = fmt::format("{:g} GPU{}", gpus, gpus == 1 ? "" : "s");
  return fmt::format("{}; the engine's speed is that of {}", text, modelled);
}

// "demand refused 10 requests: 7: waited at the gateway for as long as a request may; 3: …", a line for each row.
std::string LostInWords(const std::vector<serving::SizedBy>& rows) {
  std::string out;
  for (const auto& [name, r] : rows) {
    if (r.refused == 0) continue;
    std::string parts;
    for (const auto& [why, count] : router::sim::LostBecause(r.lost))
      parts += fmt::format("{}{}: {}", parts.empty() ? "" : "; ", count, why);
    out += fmt::format("{}{} refused {}: {}\n", out.empty() ? "\n" : "", name, Counted(r.refused, "request"),
                       parts);
  }
  return out;
}

}  // namespace

std::string AsTable(const TrafficFacts& facts, const std::vector<serving::SizedBy>& rows) {
  Table table({{"SIZED BY"},
               {"TTFT MET (%)", true},
               {"TOKENS MET (%)", true},
               {"BOTH (%)", true},
               {"GPU-HOURS", true},
               {"REPLICAS MEAN", true},
               {"MOST", true},
               {"UPS", true},
               {"DOWNS", true},
               {"FLAPS", true},
               {"HELD", true},
               {"LONGEST WAIT (s)", true},
               {"REFUSED", true},
               {"TTFT P50 (s)", true},
               {"P99", true}});
  for (const auto& [name, r] : rows) {
    table.Add({name, fmt::format("{:.2f}", 100 * r.ttft_attained),
               fmt::format("{:.2f}", 100 * r.tokens_attained), fmt::format("{:.2f}", 100 * r.attained),
               fmt::format("{:.1f}", GpuHours(facts, r)), fmt::format("{:.2f}", r.mean_replicas),
               std::to_string(r.most_replicas), std::to_string(r.ups), std::to_string(r.downs),
               std::to_string(r.flaps), std::to_string(r.held), fmt::format("{:.1f}", r.longest_wait),
               std::to_string(r.refused), fmt::format("{:.2f}", r.ttft.p50),
               fmt::format("{:.2f}", r.ttft.p99)});
  }
  const std::string size = SizeOf(facts);
  return fmt::format(
             "{}: {} in {:.1f} h; replicas of {}{}, {} to start one; first tokens within {}, the next "
             "within "
             "{}\n\n{}",
             facts.study.trace, Counted(facts.study.requests, "request"), rows.front().report.seconds / 3600,
             facts.study.engine, size.empty() ? "" : fmt::format(" ({})", size),
             conf::InWords(facts.study.cold_start), conf::InWords(facts.study.ttft),
             conf::InWords(facts.inter_token), table.Render()) +
         LostInWords(rows);
}

std::string AsJson(const TrafficFacts& facts, const std::vector<serving::SizedBy>& rows) {
  nlohmann::ordered_json json{{"trace", facts.study.trace},
                              {"rows", facts.rows},
                              {"left_out", facts.left_out},
                              {"requests", facts.study.requests},
                              {"model", facts.study.model},
                              {"engine", facts.study.engine},
                              {"members", facts.members},
                              {"gpus_per_replica", facts.study.gpus},
                              {"engine_gpus", facts.engine_gpus},
                              {"cold_start_s", conf::ToSeconds(facts.study.cold_start)},
                              {"ttft_slo_s", conf::ToSeconds(facts.study.ttft)},
                              {"inter_token_slo_s", conf::ToSeconds(facts.inter_token)},
                              {"sized_by", nlohmann::ordered_json::array()}};
  for (const auto& [name, r] : rows) {
    json["sized_by"].push_back({{"name", name},
                                {"ttft_attained", r.ttft_attained},
                                {"inter_token_attained", r.tokens_attained},
                                {"attained", r.attained},
                                {"gpu_hours", GpuHours(facts, r)},
                                {"mean_replicas", r.mean_replicas},
                                {"most_replicas", r.most_replicas},
                                {"launches", r.launches},
                                {"scale_ups", r.ups},
                                {"scale_downs", r.downs},
                                {"flaps", r.flaps},
                                {"taken_back", r.taken_back},
                                {"finished", r.finished},
                                {"held", r.held},
                                {"refused", r.refused},
                                {"lost",
                                 {{"too_late", r.lost.too_late},
                                  {"expired", r.lost.expired},
                                  {"engine_refused", r.lost.engine_refused}}},
                                {"wait_s", QuantilesAsJson(r.wait)},
                                {"longest_wait_s", r.longest_wait},
                                {"ttft_s", QuantilesAsJson(r.ttft)},
                                {"token_time_s", QuantilesAsJson(r.token_time)},
                                {"seconds", r.seconds}});
  }
  return AsText(json) + '\n';
}

}  // namespace gateway::cli
