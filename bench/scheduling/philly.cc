// Philly: the whole trace, in order of time, on 56 and on 72 nodes; every way of overtaking with every
// placement, beside strict FIFO that spreads.
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "bench/scheduling/runs.h"
#include "bench/scheduling/section.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace bench::scheduling {
namespace {

using scheduler::Backfill;
using scheduler::sim::EstimateKind;
using scheduler::sim::Report;
using scheduler::sim::TraceJob;

constexpr uint8_t kDevices = 8;
constexpr int kNodesPerLeaf = 8;
constexpr std::array<int, 2> kClusters = {56, 72};  // nodes
constexpr std::string_view kQueue = "all";
constexpr double kNoise = 1;  // σ of log-normal estimates
constexpr uint64_t kNoiseSeed = 42;
constexpr scheduler::Checkpoint kContract = {
    .interval = std::chrono::hours(1), .save = std::chrono::seconds(30), .restart = std::chrono::minutes(2)};

struct Kind {
  Backfill kind;
  std::string_view title;
};
constexpr std::array<Kind, 4> kKinds = {{{Backfill::kFifo, "strict FIFO"},
                                         {Backfill::kBestEffort, "best effort"},
                                         {Backfill::kEasy, "EASY"},
                                         {Backfill::kConservative, "conservative"}}};
constexpr std::array<std::string_view, 4> kPlacements = {"spread", "binpack", "e-binpack", "default"};

struct Setting {
  int nodes = 0;
  Backfill kind = Backfill::kFifo;
  std::string_view placement;
  bool defragments = false;
  bool noisy = false;

  friend bool operator==(const Setting&, const Setting&) = default;
};

struct Outcome {
  Setting setting;
  Report report;
  double cpu_s = 0;  // of the thread that replayed it
};

std::string_view TitleOf(Backfill kind) {
  return std::ranges::find(kKinds, kind, &Kind::kind)->title;
}

// "EASY, default, defragmentation, noisy estimates"
std::string TitleOf(const Setting& setting) {
  return fmt::format("{}, {}{}{}", TitleOf(setting.kind), setting.placement,
                     setting.defragments ? ", defragmentation" : "",
                     setting.noisy ? ", noisy estimates" : "");
}

// The baseline, ours with what it is compared to, and in a full run all others.
std::vector<Setting> SettingsOn(int nodes, bool quick) {
  std::vector<Setting> settings;
  if (quick) {
    settings = {{nodes, Backfill::kFifo, "spread"},
                {nodes, Backfill::kEasy, "e-binpack"},
                {nodes, Backfill::kEasy, "default"},
                {nodes, Backfill::kEasy, "default", true}};
    return settings;
  }
  for (const Kind& kind : kKinds) {
    for (const std::string_view placement : kPlacements) {
      for (const bool defragments : {false, true}) {
        settings.push_back({nodes, kind.kind, placement, defragments});
      }
    }
  }
  for (const Backfill kind : {Backfill::kEasy, Backfill::kConservative}) {
    for (const bool defragments : {false, true})
      settings.push_back({nodes, kind, "default", defragments, true});
  }
  return settings;
}

scheduler::Cluster Cluster(int nodes) {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "gpu"}};
  cluster.types = {{.name = "philly", .cpu_milli = 96'000, .memory_mib = 1 << 20, .devices = kDevices}};
  for (int n = 0; n < nodes; ++n) cluster.nodes.push_back({.name = fmt::format("node-{}", n)});
  GroupIntoLeaves(cluster, kNodesPerLeaf);
  return cluster;
}

// One queue for all; who submitted to which virtual cluster stays the user.
absl::StatusOr<std::vector<TraceJob>> LoadJobs(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("{}: cannot be read", path));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  scheduler::sim::Trace trace = scheduler::sim::ReadPhilly(text, path, kDevices);
  if (trace.report.left_out > 0) {
    const conf::Problem& first = trace.report.problems.front();
    return absl::InvalidArgumentError(fmt::format("{}:{}: {} ({} lines left out)", first.file, first.line,
                                                  first.message, trace.report.left_out));
  }
  for (TraceJob& job : trace.jobs) job.job.queue = kQueue;
  return std::move(trace.jobs);
}

Outcome Replay(const Setting& setting, std::vector<TraceJob> jobs) {
  if (setting.defragments) scheduler::sim::SetCheckpoints(jobs, kContract);
  scheduler::Rng noise(kNoiseSeed);
  scheduler::sim::SetEstimates(jobs, {setting.noisy ? EstimateKind::kNoisy : EstimateKind::kExact, kNoise},
                               noise);
  scheduler::Policy policy;
  policy.order = {{"age", 1}};
  policy.placement = setting.placement;
  policy.backfill.kind = setting.kind;
  policy.defragment.enabled = setting.defragments;
  scheduler::Queue queue;
  queue.name = kQueue;
  const scheduler::Cluster cluster = Cluster(setting.nodes);

  Outcome outcome{.setting = setting, .report = {}};
  const double before = ThreadCpuSeconds();
  scheduler::sim::World world(cluster, {queue}, std::move(policy), std::move(jobs), {});
  outcome.report = world.Run();
  outcome.cpu_s = ThreadCpuSeconds() - before;
  return outcome;
}

nlohmann::json JsonOf(const Outcome& outcome) {
  nlohmann::json json;
  for (const scheduler::sim::Metric& metric : scheduler::sim::Metrics()) {
    json[std::string(metric.key)] = metric.of(outcome.report);
  }
  json["cpu_s"] = outcome.cpu_s;
  return json;
}

// What one cluster's replays must show, each beside what it is compared to.
class Requirements {
 public:
  Requirements(const std::vector<Outcome>& outcomes, int nodes) : outcomes_(outcomes), nodes_(nodes) {}

  void Check(nlohmann::json& out) const {
    const Report& fifo = Find({nodes_, Backfill::kFifo, "spread"})->report;
    const Outcome& ours = *Find({nodes_, Backfill::kEasy, "default", true});
    const Report& we = ours.report;
    fmt::print("  ours: {}; compared to: {}\n", TitleOf(ours.setting),
               TitleOf(Setting{nodes_, Backfill::kFifo, "spread"}));
    const double gar = 100 * (we.gar - fifo.gar);
    const double sor = 100 * (we.sor - fifo.sor);
    Line(out, "gar_and_sor_gain", std::min(gar, sor) >= 15,
         "GAR and SOR at least 15 points above FIFO+spread",
         fmt::format("{:+.1f} and {:+.1f} points (published: 74.8 -> 91.3 %, +16.5; Kant +4.6 and +4.1)", gar,
                     sor));
    Line(out, "gfr", we.gfr < 0.01, "GFR median below 1 % with defragmentation",
         fmt::format("{:.2f} %, from {:.2f} % (published: 37.9 -> 2.25 %; Kant 8.5 -> below 1 %)",
                     100 * we.gfr, 100 * fifo.gfr));
    Line(out, "wait_mean", we.waits.mean_h * 3 <= fifo.waits.mean_h, "mean wait at most a third",
         fmt::format("{:.1f} h of {:.1f} h, {:.2f} (published: 191 h of 562 h, 0.34)", we.waits.mean_h,
                     fifo.waits.mean_h, we.waits.mean_h / fifo.waits.mean_h));
    Line(out, "wait_large_p99", we.waits_of_large.p99_h <= fifo.waits_of_large.p99_h,
         "p99 wait of jobs of 8 and more GPUs no worse than strict FIFO's",
         fmt::format("{:.1f} h, {:.1f} h", we.waits_of_large.p99_h, fifo.waits_of_large.p99_h));
    for (const bool defragments : {false, true}) CheckNoise(out, defragments, fifo);
    Line(out, "speed", ours.cpu_s < 20, "82,247 jobs replayed in less than 20 s",
         fmt::format("{:.1f} s of one core, {} planning cycles", ours.cpu_s, we.cycles));
  }

 private:
  void CheckNoise(nlohmann::json& out, bool defragments, const Report& fifo) const {
    const Outcome* const with_noise = Find({nodes_, Backfill::kEasy, "default", defragments, true});
    if (with_noise == nullptr) return;
    const Report& exact = Find({nodes_, Backfill::kEasy, "default", defragments})->report;
    const Report& noisy = with_noise->report;
    const double gar = 100 * (noisy.gar - exact.gar);
    const double sor = 100 * (noisy.sor - exact.sor);
    const std::string_view how = defragments ? "with" : "without";
    Line(out, fmt::format("noise_{}_defragmentation", how), std::max(std::abs(gar), std::abs(sor)) <= 1.5,
         fmt::format("noisy estimates (sigma 1) within 1.5 points of exact ones, {} defragmentation", how),
         fmt::format("GAR {:+.2f}, SOR {:+.2f} points; mean wait {:.1f} h, {:.1f} h; p99 of 8 GPUs and more "
                     "{:.1f} h, {:.1f} h, FIFO's {:.1f} h",
                     gar, sor, noisy.waits.mean_h, exact.waits.mean_h, noisy.waits_of_large.p99_h,
                     exact.waits_of_large.p99_h, fifo.waits_of_large.p99_h));
  }

  const Outcome* Find(const Setting& setting) const {
    const auto at = std::ranges::find(outcomes_, setting, &Outcome::setting);
    return at == outcomes_.end() ? nullptr : &*at;
  }

  static void Line(nlohmann::json& out, const std::string& key, bool met, std::string_view what,
                   const std::string& figures) {
    fmt::print("  {:<7} {}: {}\n", met ? "met" : "NOT MET", what, figures);
    out[key] = {{"met", met}, {"figures", figures}};
  }

  const std::vector<Outcome>& outcomes_;
  int nodes_;
};

void PrintHeading() {
  fmt::print("  {:<48} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>7} {:>7}\n", "", "GAR %", "SOR %", "GFR %",
             "wait h", "p99 h 8+", "p99 h", "moves", "CPU s");
}

void PrintRow(const Outcome& outcome) {
  const Report& report = outcome.report;
  fmt::print("  {:<48} {:>7.2f} {:>7.2f} {:>7.2f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7} {:>7.1f}\n",
             TitleOf(outcome.setting), 100 * report.gar, 100 * report.sor, 100 * report.gfr,
             report.waits.mean_h, report.waits_of_large.p99_h, report.waits.p99_h, report.moves,
             outcome.cpu_s);
}

}  // namespace

absl::Status RunPhilly(const Options& options, nlohmann::json& out) {
  const absl::StatusOr<std::vector<TraceJob>> jobs = LoadJobs(options.traces + "/philly/philly.csv");
  if (!jobs.ok()) return jobs.status();
  for (const int nodes : kClusters) {
    if (options.quick && nodes != kClusters.front()) continue;
    std::vector<Setting> settings = SettingsOn(nodes, options.quick);
    std::erase_if(settings,
                  [&](const Setting& s) { return TitleOf(s).find(options.only) == std::string::npos; });
    fmt::print("\nphilly: {} jobs on {} nodes of {} GPUs; medians of the hours in which jobs waited\n",
               jobs->size(), nodes, kDevices);
    PrintHeading();
    std::fflush(stdout);
    nlohmann::json& of = out[fmt::format("{}_nodes", nodes)];
    std::vector<Outcome> outcomes(settings.size());
    RunAll(
        "philly", settings.size(), options.threads,
        [&](size_t i) { outcomes[i] = Replay(settings[i], *jobs); },
        [&](size_t i) {
          PrintRow(outcomes[i]);
          of["policies"][TitleOf(settings[i])] = JsonOf(outcomes[i]);
        });
    if (options.only.empty()) Requirements(outcomes, nodes).Check(of["requirements"]);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace bench::scheduling
