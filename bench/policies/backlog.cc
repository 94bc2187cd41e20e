#include "bench/policies/backlog.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "bench/policies/parallel.h"
#include "router/sim/offered_load.h"
#include "router/sim/report_json.h"
#include "scheduler/rng.h"

namespace bench::policies {
namespace {

using router::sim::Options;
using router::sim::Report;
using router::sim::Request;
using scheduler::engine::Profile;

constexpr size_t kLines = 100'000;
constexpr uint32_t kInFlight = 128;  // lines, for each replica
constexpr conf::Duration kAlone = std::chrono::minutes(10);

uint64_t TokensOf(const Report::Spare& lines) {
  return lines.prompt_tokens + lines.output_tokens;
}

std::vector<Request> LinesOf(const std::vector<Request>& trace) {
  scheduler::Rng rng(7);
  std::vector<Request> lines(kLines);
  for (Request& line : lines) {
    const Request& as = trace[rng.Uniform(trace.size())];
    line.prompt_tokens = as.prompt_tokens;
    line.output_tokens = as.output_tokens;
  }
  return lines;
}

Options PoolOf(uint32_t replicas, const Profile& profile) {
  Options options;
  options.replicas.assign(replicas, profile);
  options.queue.emplace();
  return options;
}

}  // namespace

double BacklogResult::UsedOfIdle(const Report& report) const {
  const double left = (1 - load) * lines_alone * report.seconds;
  return left > 0 ? static_cast<double>(TokensOf(report.spare)) / left : 0;
}

std::vector<BacklogResult> RunBacklog(const std::vector<Request>& trace, const Profile& profile,
                                      conf::Duration token_time, bool quick, unsigned threads) {
  const std::vector<Request> lines = LinesOf(trace);
  std::vector<BacklogResult> results;
  std::vector<std::vector<Request>> workloads;
  for (const double load : {0.3, 0.6, 0.85}) {
    if (quick && load != 0.6) continue;
    results.push_back({.load = load, .replicas = 8, .without = {}, .beside = {}, .in_a_band = {}});
    workloads.push_back(router::sim::Faster(trace, router::sim::SpeedUpFor(load, 8, trace, profile, 0)));
  }
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < results.size(); ++i) {
    BacklogResult& result = results[i];
    const std::vector<Request>& others = workloads[i];
    const auto run = [&, replicas = result.replicas](Report& into, bool with_lines, bool only_spare) {
      Options options = PoolOf(replicas, profile);
      if (with_lines)
        options.spare = {.lines = lines, .in_flight = kInFlight * replicas, .only_spare = only_spare};
      options.queue->headroom.spare_token_time = token_time;
      into = Simulate(options, others);
    };
    runs.push_back([run, &result] { run(result.without, false, false); });
    runs.push_back([run, &result] { run(result.beside, true, true); });
    runs.push_back([run, &result] { run(result.in_a_band, true, false); });
    runs.push_back([&] {
      Options options = PoolOf(result.replicas, profile);
      options.spare = {.lines = lines, .in_flight = 256 * result.replicas, .only_spare = false};
      const std::vector<Request> end = {{.at = kAlone, .prompt_tokens = 1, .output_tokens = 1, .blocks = {}}};
      result.lines_alone =
          static_cast<double>(TokensOf(Simulate(options, end).spare)) / conf::ToSeconds(kAlone);
    });
  }
  RunOnThreads(runs, threads);
  return results;
}

void PrintBacklog(std::span<const BacklogResult> results) {
  fmt::print("{:44} {:>8} {:>8} {:>8} {:>8} {:>8} {:>12} {:>7}\n", "", "TTFT p50", "p99", "ITL p50", "p99",
             "in 2 s%", "line tokens/s", "of idle");
  for (const BacklogResult& result : results) {
    for (const auto& [name, report] : {std::pair("alone", &result.without),
                                       {"beside a backlog", &result.beside},
                                       {"beside it as a less urgent band", &result.in_a_band}}) {
      fmt::print("{:44} {:8.3f} {:8.3f} {:8.4f} {:8.4f} {:8.1f} {:12.0f} {:6.0f} %\n",
                 fmt::format("{:.0f} % load, {}", 100 * result.load, name), report->ttft.p50,
                 report->ttft.p99, report->token_time.p50, report->token_time.p99, 100 * report->within_slo,
                 static_cast<double>(TokensOf(report->spare)) / report->seconds,
                 100 * result.UsedOfIdle(*report));
    }
  }
}

nlohmann::json ToJson(const BacklogResult& result) {
  const auto with_lines = [&](const Report& report) {
    nlohmann::json out = router::sim::AsJson(report);
    out["lines"] = {{"finished", report.spare.finished},
                    {"prompt_tokens", report.spare.prompt_tokens},
                    {"output_tokens", report.spare.output_tokens},
                    {"used_of_idle", result.UsedOfIdle(report)}};
    return out;
  };
  return {{"load", result.load},
          {"replicas", result.replicas},
          {"lines_alone_tokens_per_second", result.lines_alone},
          {"without", router::sim::AsJson(result.without)},
          {"beside", with_lines(result.beside)},
          {"in_a_band", with_lines(result.in_a_band)}};
}

}  // namespace bench::policies
