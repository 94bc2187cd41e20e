#include "bench/autoscaling/cross.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "router/sim/elastic.h"
#include "router/sim/plan_knowing.h"
#include "router/sim/scaling_study.h"
#include "scheduler/autoscale/policy.h"

namespace bench::autoscaling {
namespace {

using router::sim::ElasticOptions;
using router::sim::ElasticReport;
using scheduler::autoscale::Law;

constexpr uint32_t kMostOfCross = 64;  // replicas
constexpr double kCrossObjective = 0.99;
constexpr int kComparedAt = 90;  // seconds to start a replica
constexpr std::array<int, 4> kAllColdStarts = {15, 30, kComparedAt, 300};
constexpr std::array<int, 2> kFewColdStarts = {30, kComparedAt};
constexpr std::array<double, 5> kInFlight = {4, 12, 32, 64, 96};
constexpr std::array<double, 2> kFewInFlight = {12, 32};
constexpr std::array<double, 4> kAttainments = {kCrossObjective, 0.9, 0.97, 0.999};
constexpr std::array<uint32_t, 2> kOracleBuckets = {30, 120};  // seconds
constexpr int kOracleSteps = 4;
constexpr int kFixedSteps = 5;
// How much of the oracle's cost one part in time is worth that is short of the objective.
constexpr double kShort = 100;

ElasticOptions Options(const CrossCase& c, int cold_start) {
  ElasticOptions options;
  options.engine = c.engine;
  options.policy.model = "m";
  options.policy.min = 1;
  options.policy.max = kMostOfCross;
  options.policy.attainment = kCrossObjective;
  options.cold_start = std::chrono::seconds(cold_start);
  options.initial = router::sim::InitialFor(c.requests, c.engine, c.hits, options.policy);
  return options;
}

CrossCell CellOf(const ElasticReport& report, double oracle) {
  return {.met = report.ttft_attained,
          .cost = report.replica_seconds,
          .of_oracle = oracle > 0 ? report.replica_seconds / oracle : 0,
          .flaps = report.flaps,
          .refused = report.refused,
          .longest_wait = report.longest_wait};
}

double Score(const CrossCell& cell) {
  return cell.of_oracle + kShort * std::max(0.0, kCrossObjective - cell.met);
}

// Replicas that start in time: each second has the most that are wanted until one that starts now is ready.
std::vector<uint32_t> Ahead(const std::vector<uint32_t>& plan, int cold_start) {
  std::vector<uint32_t> out(plan.size());
  const auto ahead = static_cast<size_t>(cold_start) + 1;
  for (size_t at = 0; at < plan.size(); ++at) {
    const auto from = plan.begin() + static_cast<std::ptrdiff_t>(at);
    out[at] = *std::max_element(from, from + static_cast<std::ptrdiff_t>(std::min(ahead, plan.size() - at)));
  }
  return out;
}

class Oracles {
 public:
  explicit Oracles(const CrossCase& c) : c_(c) {}

  // The cheapest that holds the objective; of the plans that would with free starts, and somewhat tighter ones.
  CrossCell At(int cold_start) {
    if (plans_.empty()) FindFree();
    std::vector<CrossCell> tried;
    for (const auto& [bucket, utilization] : plans_) {
      for (const double tighter : {1.0, 1.06})
        tried.push_back(Try(bucket, utilization * tighter, cold_start));
    }
    return *std::ranges::min_element(tried, {}, [](const CrossCell& cell) {
      return std::pair(cell.met < kCrossObjective, cell.met < kCrossObjective ? -cell.met : cell.cost);
    });
  }

 private:
  void FindFree() {
    std::optional<std::pair<double, std::pair<uint32_t, double>>> best;
    for (const uint32_t bucket : kOracleBuckets) {
      double low = 0.3;
      double high = 1.2;
      for (int step = 0; step < kOracleSteps; ++step) {
        const double middle = (low + high) / 2;
        const CrossCell cell = Try(bucket, middle, 0);
        (cell.met >= kCrossObjective ? low : high) = middle;
        if (cell.met >= kCrossObjective && (!best || cell.cost < best->first))
          best = {cell.cost, {bucket, middle}};
      }
      if (!best) best = {std::numeric_limits<double>::max(), {bucket, low}};
    }
    plans_.push_back(best->second);
  }
  CrossCell Try(uint32_t bucket, double utilization, int cold_start) const {
    ElasticOptions options = Options(c_, cold_start);
    options.plan =
        Ahead(router::sim::PlanKnowing(c_.requests, c_.engine, c_.hits, utilization, bucket, kMostOfCross),
              cold_start);
    options.initial = options.plan.empty() ? 1 : options.plan.front();
    return CellOf(router::sim::SimulateElastic(options, c_.requests), 0);
  }

  const CrossCase& c_;
  std::vector<std::pair<uint32_t, double>> plans_;
};

CrossCell FewestFixed(const CrossCase& c) {
  const auto with = [&](uint32_t replicas) {
    ElasticOptions options = Options(c, 0);
    options.plan = {replicas};
    options.initial = replicas;
    return CellOf(router::sim::SimulateElastic(options, c.requests), 0);
  };
  uint32_t low = 0;  // too few
  uint32_t high = kMostOfCross / 2;
  CrossCell best = with(high);
  for (int step = 0; step < kFixedSteps && high - low > 1; ++step) {
    const uint32_t middle = (low + high) / 2;
    const CrossCell cell = with(middle);
    (cell.met >= kCrossObjective ? high : low) = middle;
    if (cell.met >= kCrossObjective || best.met < kCrossObjective) best = cell;
  }
  return best;
}

// The mean over some cases, of those that were run.
struct Summary {
  double met = 0;
  double worst_met = 1;
  double of_oracle = 0;
  double worst_of_oracle = 0;
  uint32_t held = 0;  // cases that hold the objective
  uint32_t cases = 0;
  uint32_t flaps = 0;
  uint64_t refused = 0;
  double score = 0;

  void Add(const CrossCell& cell) {
    ++cases;
    met += cell.met;
    worst_met = std::min(worst_met, cell.met);
    of_oracle += cell.of_oracle;
    worst_of_oracle = std::max(worst_of_oracle, cell.of_oracle);
    held += cell.met >= kCrossObjective ? 1 : 0;
    flaps += cell.flaps;
    refused += cell.refused;
    score += Score(cell);
  }
  double over(double sum) const { return cases > 0 ? sum / cases : 0; }
};

using Which = std::function<bool(size_t)>;

Summary Sum(const std::vector<CrossCell>& cells, const Which& which) {
  Summary sum;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (which(i) && cells[i].cost > 0) sum.Add(cells[i]);
  }
  return sum;
}

const CrossRun& BestOn(const std::vector<CrossRun>& runs, size_t cold, const Which& which) {
  return *std::ranges::min_element(runs, {}, [&](const CrossRun& run) {
    const Summary sum = Sum(run.of[cold], which);
    return sum.cases > 0 ? sum.score / sum.cases : std::numeric_limits<double>::max();
  });
}

// The best setting of each case.
std::vector<CrossCell> BestOfEach(const std::vector<CrossRun>& runs, size_t cold) {
  std::vector<CrossCell> out;
  for (const CrossRun& run : runs) {
    for (size_t i = 0; i < run.of[cold].size(); ++i) {
      if (out.size() <= i) {
        out.push_back(run.of[cold][i]);
      } else if (Score(run.of[cold][i]) < Score(out[i])) {
        out[i] = run.of[cold][i];
      }
    }
  }
  return out;
}

void PrintRow(std::string_view name, const Summary& sum) {
  fmt::print("  {:<34} {:>6}/{:<3} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>6} {:>8}\n", name, sum.held,
             sum.cases, 100 * sum.over(sum.met), 100 * sum.worst_met, sum.over(sum.of_oracle),
             sum.worst_of_oracle, sum.flaps, sum.refused);
}

void PrintHead(std::string_view what) {
  fmt::print("\n{}\n  {:<34} {:>10} {:>7} {:>7} {:>7} {:>7} {:>6} {:>8}\n", what, "", "held", "met %",
             "worst", "of or", "worst", "flaps", "refused");
}

class Progress {
 public:
  Progress(size_t steps, std::string_view of) : steps_(steps), of_(of) {}
  void Next(std::string_view name) {
    const auto passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    fmt::print(stderr, "\r\033[K{} {}/{}, {:.0f} s: {}", of_, ++done_, steps_, passed, name);
  }
  ~Progress() { fmt::print(stderr, "\n"); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  size_t steps_;
  std::string_view of_;
  size_t done_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

std::vector<CrossRun> Runs(std::string_view law, std::span<const double> settings, size_t cold_starts,
                           size_t cases) {
  std::vector<CrossRun> runs;
  runs.reserve(settings.size());
  for (const double setting : settings) {
    runs.push_back({.law = std::string(law),
                    .setting = setting,
                    .of = {cold_starts, std::vector<CrossCell>(cases, CrossCell())}});
  }
  return runs;
}

nlohmann::json ToJson(const CrossCell& cell) {
  return {{"ttft_attained", cell.met},   {"replica_hours", cell.cost / 3600},
          {"of_oracle", cell.of_oracle}, {"flaps", cell.flaps},
          {"refused", cell.refused},     {"longest_wait_s", cell.longest_wait}};
}

}  // namespace

CrossStudy RunCross(std::span<const CrossCase> cases, const CrossOptions& run) {
  CrossStudy study;
  const auto colds = run.quick ? std::span<const int>(kFewColdStarts) : std::span<const int>(kAllColdStarts);
  const auto targets = run.quick ? std::span<const double>(kFewInFlight) : std::span<const double>(kInFlight);
  study.cold_starts.assign(colds.begin(), colds.end());
  study.oracle.assign(colds.size(), std::vector<CrossCell>(cases.size(), CrossCell()));
  study.demand = Runs("demand", run.only_demand ? std::span(kAttainments).first(1) : std::span(kAttainments),
                      colds.size(), cases.size());
  if (!run.only_demand) {
    study.kpa = Runs("kpa", targets, colds.size(), cases.size());
    study.hpa = Runs("hpa", targets, colds.size(), cases.size());
    study.fixed.assign(cases.size(), CrossCell());
  }
  Progress progress(cases.size(), "cross");
  for (size_t i = 0; i < cases.size(); ++i) {
    const CrossCase& c = cases[i];
    progress.Next(c.name);
    Oracles oracles(c);
    if (!run.only_demand) study.fixed[i] = FewestFixed(c);
    for (size_t at = 0; at < colds.size(); ++at) {
      if (!run.only_demand) {
        study.oracle[at][i] = oracles.At(colds[at]);
        study.oracle[at][i].of_oracle = 1;
      }
      const auto simulate = [&](CrossRun& of, const std::function<void(ElasticOptions&)>& set) {
        ElasticOptions options = Options(c, colds[at]);
        set(options);
        of.of[at][i] = CellOf(router::sim::SimulateElastic(options, c.requests), study.oracle[at][i].cost);
      };
      for (CrossRun& of : study.demand) {
        if (of.setting != kCrossObjective && colds[at] != kComparedAt) continue;
        simulate(of, [&](ElasticOptions& o) { o.policy.attainment = of.setting; });
      }
      for (CrossRun& of : study.kpa) {
        simulate(of, [&](ElasticOptions& o) {
          o.policy.law = Law::kKpa;
          o.policy.kpa.target = of.setting;
        });
      }
      for (CrossRun& of : study.hpa) {
        simulate(of, [&](ElasticOptions& o) {
          o.policy.law = Law::kHpa;
          o.policy.hpa.target = of.setting;
        });
      }
    }
  }
  return study;
}

void PrintCross(std::span<const CrossCase> cases, const CrossStudy& study) {
  const Which all = [](size_t) { return true; };
  const Which even = [](size_t i) { return i % 2 == 0; };
  const Which odd = [](size_t i) { return i % 2 == 1; };
  const Which bursty = [&](size_t i) { return cases[i].bursty; };
  for (size_t at = 0; at < study.cold_starts.size(); ++at) {
    const int cold = study.cold_starts[at];
    fmt::print(
        "\nby case, {} s to start a replica: first tokens in time (%), replica-hours of the oracle's, "
        "flaps\n",
        cold);
    const std::vector<CrossCell> kpa = BestOfEach(study.kpa, at);
    const std::vector<CrossCell> hpa = BestOfEach(study.hpa, at);
    fmt::print("  {:<26} {:<22} {:>16} {:>22} {:>22} {:>22} {:>16}\n", "", "", "oracle, hours", "demand",
               "kpa in hindsight", "hpa in hindsight", "fixed");
    for (size_t i = 0; i < cases.size(); ++i) {
      const CrossCell& oracle = study.oracle[at][i];
      const auto cell = [](const CrossCell& of) {
        return fmt::format("{:.2f} {:5.2f} {:4}", 100 * of.met, of.of_oracle, of.flaps);
      };
      fmt::print("  {:<26} {:<22} {:>16} {:>22}", cases[i].name, cases[i].preset,
                 fmt::format("{:.2f} {:6.2f}", 100 * oracle.met, oracle.cost / 3600),
                 cell(study.demand.front().of[at][i]));
      if (!kpa.empty()) {
        fmt::print(" {:>22} {:>22} {:>16}", cell(kpa[i]), cell(hpa[i]),
                   fmt::format("{:.2f} {:5.2f}", 100 * study.fixed[i].met,
                               oracle.cost > 0 ? study.fixed[i].cost / oracle.cost : 0));
      }
      fmt::print("\n");
    }
    PrintHead(fmt::format("{} s to start a replica, all cases", cold));
    PrintRow("oracle, pays its cold starts", Sum(study.oracle[at], all));
    PrintRow("demand", Sum(study.demand.front().of[at], all));
    for (const auto* runs : {&study.kpa, &study.hpa}) {
      if (runs->empty()) continue;
      const CrossRun& one = BestOn(*runs, at, all);
      PrintRow(fmt::format("{}, {:g} each", one.law, one.setting), Sum(one.of[at], all));
      PrintRow(fmt::format("{}, best of each in hindsight", one.law), Sum(BestOfEach(*runs, at), all));
    }
    if (!study.fixed.empty()) {
      std::vector<CrossCell> fixed = study.fixed;
      for (size_t i = 0; i < fixed.size(); ++i) fixed[i].of_oracle = fixed[i].cost / study.oracle[at][i].cost;
      PrintRow("fixed, fewest that hold", Sum(fixed, all));
    }
    if (study.kpa.empty()) continue;
    PrintHead("tuned on every second case, judged on the others, and the other way round");
    for (const auto* runs : {&study.demand, &study.kpa, &study.hpa}) {
      for (const auto& [tuned, judged] : {std::pair(&even, &odd), std::pair(&odd, &even)}) {
        const CrossRun& best = BestOn(*runs, at, *tuned);
        PrintRow(fmt::format("{}, {:g} ({})", best.law, best.setting, tuned == &even ? "odd" : "even"),
                 Sum(best.of[at], *judged));
      }
    }
    if (cold != kComparedAt) continue;
    for (const auto& [name, which] :
         {std::pair("all cases", &all), std::pair("bursts after idle minutes", &bursty)}) {
      PrintHead(fmt::format("frontier, {} s, {}", cold, name));
      for (const auto* runs : {&study.demand, &study.kpa, &study.hpa}) {
        for (const CrossRun& run : *runs)
          PrintRow(fmt::format("{}, {:g}", run.law, run.setting), Sum(run.of[at], *which));
      }
    }
  }
}

nlohmann::json ToJson(std::span<const CrossCase> cases, const CrossStudy& study) {
  nlohmann::json out = {{"objective", kCrossObjective}};
  for (size_t i = 0; i < cases.size(); ++i) {
    nlohmann::json& c = out["cases"][cases[i].name];
    c = {{"engine", cases[i].preset}, {"requests", cases[i].requests.size()}, {"bursty", cases[i].bursty}};
    if (!study.fixed.empty()) c["fixed"] = ToJson(study.fixed[i]);
    for (size_t at = 0; at < study.cold_starts.size(); ++at) {
      nlohmann::json& cold = c["by_cold_start_s"][std::to_string(study.cold_starts[at])];
      cold["oracle"] = ToJson(study.oracle[at][i]);
      for (const auto* runs : {&study.demand, &study.kpa, &study.hpa}) {
        for (const CrossRun& run : *runs) {
          if (run.of[at][i].cost > 0) cold[run.law][fmt::format("{:g}", run.setting)] = ToJson(run.of[at][i]);
        }
      }
    }
  }
  return out;
}

}  // namespace bench::autoscaling
