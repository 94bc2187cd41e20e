// bench_scaling: the autoscaler's laws over Azure's conversations, in virtual time; see bench/README.md.
//
// For each size of pool and cold start: our law with its defaults; kpa and hpa, each with the one target that
// holds the objective everywhere at the least cost, or, when none does, that attains most; an oracle.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/replay/traffic_file.h"
#include "conf/text.h"
#include "router/sim/offered_load.h"
#include "router/sim/scaling_study.h"
#include "scheduler/engine/presets.h"

namespace {

using router::sim::ElasticOptions;
using router::sim::ElasticReport;
using router::sim::Request;
using scheduler::autoscale::Law;

constexpr const char* kEngine = "llama-3.3-70b-4xa100";
constexpr uint32_t kMostReplicas = 64;
constexpr double kObjective = 0.99;
constexpr conf::Duration kSpread = std::chrono::minutes(1);

struct Case {
  std::string name;
  std::vector<Request> requests;
  std::chrono::seconds cold_start;
  double hours = 0;  // the oracle's, of replicas
};

struct Run {
  std::string name;
  std::vector<ElasticReport> of;  // by case
};

ElasticReport Simulate(const Case& c, const scheduler::autoscale::ScalingPolicy& policy) {
  ElasticOptions options;
  options.engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
  options.policy = policy;
  options.cold_start = c.cold_start;
  options.initial = router::sim::InitialFor(c.requests, options.engine, 0, policy);
  return router::sim::SimulateElastic(options, c.requests);
}

scheduler::autoscale::ScalingPolicy PolicyOf(Law law, double target = 0) {
  scheduler::autoscale::ScalingPolicy policy;
  policy.model = "m";
  policy.min = 1;
  policy.max = kMostReplicas;
  policy.law = law;
  policy.kpa.target = policy.hpa.target = target;
  return policy;
}

double Worst(const Run& run) {
  return std::ranges::min_element(run.of, {}, &ElasticReport::ttft_attained)->ttft_attained;
}
double Cost(const Run& run) {
  double seconds = 0;
  for (const ElasticReport& report : run.of) seconds += report.replica_seconds;
  return seconds;
}

// The one target for all cases.
Run BestTarget(Law law, std::string_view name, const std::vector<Case>& cases, bool quick) {
  std::optional<Run> best;
  const std::vector<double> targets =
      quick ? std::vector<double>{12, 24} : std::vector<double>{8, 12, 16, 20, 24};
  for (const double target : targets) {
    Run run{fmt::format("{}, {:g} each", name, target), {}};
    for (const Case& c : cases) run.of.push_back(Simulate(c, PolicyOf(law, target)));
    const bool holds = Worst(run) >= kObjective;
    if (!best || (holds && Worst(*best) < kObjective) || (holds && Cost(run) < Cost(*best)) ||
        (!holds && Worst(*best) < kObjective && Worst(run) > Worst(*best))) {
      best = std::move(run);
    }
  }
  return *std::move(best);
}

nlohmann::json ToJson(const ElasticReport& r, double of_oracle) {
  return {{"ttft_attained", r.ttft_attained},
          {"replica_hours", r.replica_seconds / 3600},
          {"of_oracle", of_oracle},
          {"flaps", r.flaps},
          {"scale_ups", r.ups},
          {"scale_downs", r.downs},
          {"longest_wait_s", r.longest_wait},
          {"refused", r.refused},
          {"ttft_p99_s", r.ttft.p99}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The autoscaler's laws over a recorded trace, in virtual time"};
  const char* const folder = std::getenv("TIDEGATE_TRACES");
  std::string traces = folder != nullptr ? folder : "../shared/traces";
  std::string json_file;
  bool quick = false;
  app.add_option("--json", json_file, "write all figures to this file");
  app.add_option("--traces", traces, "folder of the recorded traces, also as TIDEGATE_TRACES")
      ->capture_default_str();
  app.add_flag("--quick", quick, "one hour and few targets: does it work");
  CLI11_PARSE(app, argc, argv);

  const auto calls = bench::ReadTrafficFile(traces + "/azure_llm/AzureLLMInferenceTrace_conv.csv",
                                            router::sim::TrafficFormat::kAzure, {});
  if (!calls.ok()) {
    fmt::print(stderr, "{}\n", conf::Std(calls.status().message()));
    return 1;
  }
  const std::vector<Request> hour = router::sim::RequestsOf(*calls);
  const auto length = quick ? std::chrono::hours(1) : std::chrono::hours(4);
  nlohmann::json out = {{"engine", kEngine}, {"objective", kObjective}};
  for (const int cold : {30, 90, 300}) {
    std::vector<Case> cases;
    for (const uint32_t copies : {2u, 4u}) {
      cases.push_back({.name = fmt::format("azure x{}", copies),
                       .requests = router::sim::Copied(router::sim::Looped(hour, length), copies, kSpread, 1),
                       .cold_start = std::chrono::seconds(cold)});
    }
    std::vector<Run> runs = {{"oracle", {}}, {"demand", {}}};
    for (Case& c : cases) {
      ElasticOptions options;
      options.engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
      options.policy = PolicyOf(Law::kDemand);
      runs[0].of.push_back(router::sim::FindOracle(options, c.requests, 0)->report);
      runs[1].of.push_back(Simulate(c, options.policy));
      c.hours = runs[0].of.back().replica_seconds / 3600;
    }
    runs.push_back(BestTarget(Law::kKpa, "kpa", cases, quick));
    runs.push_back(BestTarget(Law::kHpa, "hpa", cases, quick));

    fmt::print("\n{} s to start a replica; first tokens within 2 s\n  {:<16}", cold, "");
    for (const Case& c : cases) fmt::print("{:>34}", c.name);
    fmt::print("\n  {:<16}", "");
    for (size_t i = 0; i < cases.size(); ++i) {
      fmt::print("{:>9} {:>7} {:>7} {:>8}", "met %", "oracle", "flaps", "wait s");
    }
    fmt::print("\n");
    for (const Run& run : runs) {
      fmt::print("  {:<16}", run.name);
      nlohmann::json& row = out["cold_start_s"][std::to_string(cold)][run.name];
      for (size_t i = 0; i < cases.size(); ++i) {
        const ElasticReport& r = run.of[i];
        const double of_oracle = r.replica_seconds / 3600 / cases[i].hours;
        fmt::print("{:>9.2f} {:>7.2f} {:>7} {:>8.0f}", 100 * r.ttft_attained, of_oracle, r.flaps,
                   r.longest_wait);
        row[cases[i].name] = ToJson(r, of_oracle);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  if (json_file.empty()) return 0;
  std::ofstream file(json_file);
  file << out.dump(2) << '\n';
  if (!file.flush()) {
    fmt::print(stderr, "{}: cannot be written\n", json_file);
    return 1;
  }
  return 0;
}
