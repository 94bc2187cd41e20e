#include "bench/autoscaling/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "bench/replay/study.h"
#include "router/sim/offered_load.h"
#include "router/sim/scaling_study.h"
#include "router/sim/servegen.h"
#include "scheduler/engine/presets.h"

namespace bench::autoscaling {
namespace {

using router::sim::ElasticOptions;
using router::sim::ElasticReport;
using router::sim::Request;
using scheduler::autoscale::Law;
using std::chrono::hours;
using std::chrono::seconds;

constexpr uint32_t kMostReplicas = 128;
constexpr conf::Duration kSpread = std::chrono::minutes(1);
constexpr int kColdStart = 90;  // seconds, at which laws are compared
constexpr int kQuick = 30;
constexpr std::array<int, 3> kColdStarts = {kQuick, kColdStart, 300};
constexpr uint32_t kClients = 8;
constexpr std::array<double, 8> kTargets = {8, 12, 16, 24, 32, 64, 96, 128};

struct Mix {
  std::string_view name;
  std::vector<std::string_view> parts;
  conf::Duration from;
};
const std::vector<Mix> kMixes = {
    {"chat and reason", {"1:60", "5:15"}, hours(0)},
    {"four clients", {"0:20", "1:20", "3:1", "5:10"}, hours(0)},
    {"seven, at other times",
     {"1:20", "1:20@6h", "1:20@12h", "5:10@3h", "5:10@9h", "0:10@2h", "3:0.5@1h"},
     hours(12)},
};

std::vector<Request> Mixed(const std::vector<router::sim::ServegenClient>& clients, const Mix& mix,
                           conf::Duration length) {
  std::vector<router::sim::MixPart> parts;
  parts.reserve(mix.parts.size());
  for (const std::string_view part : mix.parts) parts.push_back(*router::sim::ParseMixPart(part));
  const auto calls =
      router::sim::Mixed(clients, parts, {.from = mix.from, .length = length, .max_calls = 0}, 1);
  std::vector<Request> requests = router::sim::RequestsOf(*calls);
  for (Request& request : requests) request.at -= mix.from;
  return requests;
}

ElasticOptions OptionsFor(const Case& c, Law law, double target, int cold_start) {
  ElasticOptions options;
  options.engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
  options.policy.model = "m";
  options.policy.min = 1;
  options.policy.max = kMostReplicas;
  options.policy.attainment = cold_start == kQuick ? kQuickObjective : kObjective;
  options.policy.law = law;
  options.policy.kpa.target = options.policy.hpa.target = target;
  options.cold_start = seconds(cold_start);
  options.initial = router::sim::InitialFor(c.requests, options.engine, 0, options.policy);
  return options;
}

Run RunLaw(const std::vector<Case>& cases, Law law, std::string name, double target, int cold_start) {
  Run run{std::move(name), {}};
  run.of.reserve(cases.size());
  for (const Case& c : cases) {
    run.of.push_back(router::sim::SimulateElastic(OptionsFor(c, law, target, cold_start), c.requests));
    fmt::print(stderr, ".");
  }
  return run;
}

// Holding the objective for less is better; then, attaining more.
bool Better(double attained, double cost, double than_attained, double than_cost) {
  const bool holds = attained >= kObjective;
  if (holds != (than_attained >= kObjective)) return holds;
  return holds ? cost < than_cost : attained > than_attained;
}

// The one target for all, and the best of each case.
std::pair<Run, Run> BestTargets(const std::vector<Case>& cases, Law law, std::string_view name, bool quick) {
  const std::span<const double> targets = quick ? std::span(kTargets).subspan(2, 2) : std::span(kTargets);
  std::optional<Run> one;
  Run each{fmt::format("{}, best target of each", name), {}};
  for (const double target : targets) {
    Run run = RunLaw(cases, law, fmt::format("{}, {:g} each", name, target), target, kColdStart);
    for (size_t i = 0; i < cases.size(); ++i) {
      if (each.of.size() == i) {
        each.of.push_back(run.of[i]);
      } else if (Better(run.of[i].ttft_attained, run.of[i].replica_seconds, each.of[i].ttft_attained,
                        each.of[i].replica_seconds)) {
        each.of[i] = run.of[i];
      }
    }
    if (!one || Better(run.Worst(), run.Cost(), one->Worst(), one->Cost())) one = std::move(run);
  }
  return {*std::move(one), std::move(each)};
}

double Ratio(const ElasticReport& ours, const ElasticReport& other) {
  return other.replica_seconds > 0 ? ours.replica_seconds / other.replica_seconds : 0;
}

nlohmann::json RunJson(const std::vector<Case>& cases, const Study& study, const Run& run) {
  nlohmann::json out = {{"name", run.name}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const ElasticReport& r = run.of[i];
    out["cases"][cases[i].name] = {{"ttft_attained", r.ttft_attained},
                                   {"replica_hours", r.replica_seconds / 3600},
                                   {"of_oracle", Ratio(r, study.oracle[i])},
                                   {"flaps", r.flaps},
                                   {"scale_ups", r.ups},
                                   {"scale_downs", r.downs},
                                   {"longest_wait_s", r.longest_wait},
                                   {"held", r.held},
                                   {"refused", r.refused},
                                   {"ttft_p99_s", r.ttft.p99}};
  }
  return out;
}

void PrintRun(const Study& study, const Run& run, std::string_view name) {
  fmt::print("  {:<28}", name);
  for (size_t i = 0; i < run.of.size(); ++i) {
    const ElasticReport& r = run.of[i];
    fmt::print(" {:>8.2f} {:>5.2f} {:>5} {:>5.0f}", 100 * r.ttft_attained, Ratio(r, study.oracle[i]), r.flaps,
               r.longest_wait);
  }
  fmt::print("\n");
}

// The worst of ours, of theirs, in cases in which they hold the objective; 0 where they hold it in none.
double WorstRatio(const Run& ours, const Run& theirs) {
  double worst = 0;
  for (size_t i = 0; i < ours.of.size(); ++i) {
    if (theirs.of[i].ttft_attained >= kObjective) worst = std::max(worst, Ratio(ours.of[i], theirs.of[i]));
  }
  return worst;
}

}  // namespace

double Run::Worst() const {
  return std::ranges::min_element(of, {}, &ElasticReport::ttft_attained)->ttft_attained;
}

double Run::Cost() const {
  double seconds = 0;
  for (const ElasticReport& report : of) seconds += report.replica_seconds;
  return seconds;
}

std::optional<std::vector<Case>> LoadCases(const std::string& traces, bool quick) {
  const auto hour =
      LoadRequests(traces + "/azure_llm/AzureLLMInferenceTrace_conv.csv", router::sim::TrafficFormat::kAzure);
  const auto clients = LoadServegen(traces + "/servegen", kClients);
  if (!hour || !clients) return std::nullopt;
  const conf::Duration length = quick ? hours(1) : hours(4);
  std::vector<Case> cases;
  for (const uint32_t copies : {4u, 2u}) {
    cases.push_back(
        {.name = fmt::format("azure x{}", copies),
         .requests = router::sim::Copied(router::sim::Looped(*hour, length), copies, kSpread, 1)});
  }
  for (const Mix& mix : kMixes) {
    cases.push_back({.name = std::string(mix.name), .requests = Mixed(*clients, mix, length)});
  }
  return cases;
}

Study RunStudy(const std::vector<Case>& cases, bool quick) {
  Study study;
  study.oracle.reserve(cases.size());
  for (const Case& c : cases) {
    const ElasticOptions options = OptionsFor(c, Law::kDemand, 0, kColdStart);
    study.oracle.push_back(router::sim::FindOracle(options, c.requests, 0)->report);
    fmt::print(stderr, ".");
  }
  for (const int cold : kColdStarts) {
    study.demand[cold] = RunLaw(cases, Law::kDemand, fmt::format("demand, {} s", cold), 0, cold);
  }
  std::tie(study.kpa, study.best_kpa) = BestTargets(cases, Law::kKpa, "kpa", quick);
  std::tie(study.hpa, study.best_hpa) = BestTargets(cases, Law::kHpa, "hpa", quick);
  fmt::print(stderr, "\n");
  return study;
}

void PrintTables(const std::vector<Case>& cases, const Study& study) {
  fmt::print("replicas of {}; first tokens within 2 s\n  {:<28}", kEngine, "");
  for (const Case& c : cases) fmt::print(" {:>26}", c.name);
  fmt::print("\n  {:<28}", "");
  for (size_t i = 0; i < cases.size(); ++i) {
    fmt::print(" {:>8} {:>5} {:>5} {:>5}", "met %", "of or", "flaps", "wait");
  }
  fmt::print("\n");
  PrintRun(study, {.name = {}, .of = study.oracle}, "oracle, no cold start");
  for (const auto& [cold, run] : study.demand) PrintRun(study, run, run.name);
  for (const Run* run : {&study.kpa, &study.best_kpa, &study.hpa, &study.best_hpa}) {
    PrintRun(study, *run, run->name + fmt::format(", {} s", kColdStart));
  }
}

nlohmann::json ToJson(const std::vector<Case>& cases, const Study& study) {
  nlohmann::json out = {
      {"engine", kEngine}, {"objective", kObjective}, {"objective_at_30_s", kQuickObjective}};
  for (const Case& c : cases) out["requests"][c.name] = c.requests.size();
  out["oracle"] = RunJson(cases, study, {.name = "oracle", .of = study.oracle});
  for (const auto& [cold, run] : study.demand) {
    out["demand_by_cold_start_s"][std::to_string(cold)] = RunJson(cases, study, run);
  }
  for (const auto& [key, run] :
       {std::pair("kpa", &study.kpa), std::pair("kpa_best_of_each", &study.best_kpa),
        std::pair("hpa", &study.hpa), std::pair("hpa_best_of_each", &study.best_hpa)}) {
    out[key] = RunJson(cases, study, *run);
  }
  return out;
}

std::vector<Aim> AimsOf(const Study& study) {
  const auto ratios = [&](const Run& run) {
    std::vector<double> all;
    all.reserve(run.of.size());
    for (size_t i = 0; i < run.of.size(); ++i) all.push_back(Ratio(run.of[i], study.oracle[i]));
    return all;
  };
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const Run& ours = study.demand.at(kColdStart);
  const Run& soon = study.demand.at(30);
  return {
      {"90 s: least first tokens in time, %", 99, false, 100 * ours.Worst()},
      {"90 s: GPU-hours of the oracle's, mean", 1.3, true, mean(ratios(ours))},
      {"90 s: GPU-hours of the oracle's, most", 1.45, true, std::ranges::max(ratios(ours))},
      {"90 s: of hpa's with one target, where it holds, most", 0.75, true, WorstRatio(ours, study.hpa)},
      {"90 s: of kpa's with one target, where it holds, most", 1, true, WorstRatio(ours, study.kpa)},
      {"30 s: least first tokens in time, %", 100 * kQuickObjective, false, 100 * soon.Worst()},
      {"30 s: GPU-hours of the oracle's, most", 1.35, true, std::ranges::max(ratios(soon))},
  };
}

}  // namespace bench::autoscaling
