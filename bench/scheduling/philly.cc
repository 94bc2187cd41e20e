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
constexpr std::string_view kCrossTitle = "cross-validation of the weight of expected";
constexpr std::string_view kQueue = "all";
constexpr double kNoise = 1;  // σ of log-normal estimates
constexpr uint64_t kNoiseSeed = 42;
// As conf/policies/expected.yaml has it.
const std::vector<scheduler::OrderTerm> kOfQueues = {
    {"priority", 1e9}, {"fair-share", 1e5}, {"overdue", 1e5}, {"expected", 16}, {"age", 1}};
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

enum class Known : uint8_t { kExact, kNoisy, kNothing };  // of run times, before they are over

enum class Order : uint8_t {
  kAge,               // one queue, as submitted
  kExpected,          // one queue, by learned run times
  kShipped,           // the default policy, a queue for each virtual cluster
  kExpectedOfQueues,  // conf/policies/expected.yaml, a queue for each virtual cluster
};

struct Setting {
  int nodes = 0;
  Backfill kind = Backfill::kFifo;
  std::string_view placement{};
  bool defragments = false;
  Known known = Known::kExact;
  Order order = Order::kAge;
  double expected_weight = 16;

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

std::string_view TitleOf(Known known) {
  switch (known) {
    case Known::kExact:
      return "";
    case Known::kNoisy:
      return ", noisy estimates";
    case Known::kNothing:
      return ", no estimates";
  }
  return "";
}

bool HasQueues(Order order) {
  return order == Order::kShipped || order == Order::kExpectedOfQueues;
}

// "EASY, default, defragmentation, noisy estimates"
std::string TitleOf(const Setting& setting) {
  if (setting.order == Order::kShipped) return fmt::format("shipped{}", TitleOf(setting.known));
  if (setting.order == Order::kExpectedOfQueues)
    return fmt::format("expected.yaml{}", TitleOf(setting.known));
  return fmt::format("{}, {}{}{}{}", TitleOf(setting.kind), setting.placement,
                     setting.order == Order::kExpected ? ", expected" : "",
                     setting.defragments ? ", defragmentation" : "", TitleOf(setting.known));
}

// With what is known of run times beforehand, more and less.
std::vector<Setting> OfOrders(int nodes) {
  std::vector<Setting> settings;
  for (const Known known : {Known::kNoisy, Known::kNothing}) {
    if (known != Known::kNoisy) settings.push_back({nodes, Backfill::kEasy, "default", false, known});
    settings.push_back({nodes, Backfill::kEasy, "default", false, known, Order::kExpected});
  }
  for (const Order order : {Order::kShipped, Order::kExpectedOfQueues}) {
    for (const Known known : {Known::kExact, Known::kNoisy, Known::kNothing})
      settings.push_back({nodes, Backfill::kEasy, "default", false, known, order});
  }
  return settings;
}

// The baseline, ours with its comparisons, and in a full run all others.
std::vector<Setting> SettingsOn(int nodes, bool quick) {
  std::vector<Setting> settings;
  if (quick) {
    settings = {{nodes, Backfill::kFifo, "spread"},
                {nodes, Backfill::kEasy, "e-binpack"},
                {nodes, Backfill::kEasy, "default"},
                {nodes, Backfill::kEasy, "default", true}};
    for (const Setting& setting : OfOrders(nodes)) settings.push_back(setting);
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
      settings.push_back({nodes, kind, "default", defragments, Known::kNoisy});
  }
  for (const Setting& setting : OfOrders(nodes)) settings.push_back(setting);
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

// Of the virtual cluster's queue; the virtual cluster is the user, too.
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
  return std::move(trace.jobs);
}

scheduler::Policy PolicyOf(const Setting& setting) {
  scheduler::Policy policy;
  if (setting.order == Order::kShipped) return policy;
  policy.placement = setting.placement;
  policy.backfill.kind = setting.kind;
  policy.defragment.enabled = setting.defragments;
  if (setting.order == Order::kExpectedOfQueues) {
    policy.order = kOfQueues;
  } else if (setting.order == Order::kExpected) {
    policy.order = {{"expected", setting.expected_weight}, {"overdue", 1'000}, {"age", 1}};
  } else {
    policy.order = {{"age", 1}};
  }
  return policy;
}

Outcome Replay(const Setting& setting, std::vector<TraceJob> jobs) {
  if (!HasQueues(setting.order)) {
    for (TraceJob& job : jobs) job.job.queue = kQueue;
  }
  if (setting.defragments) scheduler::sim::SetCheckpoints(jobs, kContract);
  scheduler::Rng noise(kNoiseSeed);
  const EstimateKind estimates = setting.known == Known::kExact   ? EstimateKind::kExact
                                 : setting.known == Known::kNoisy ? EstimateKind::kNoisy
                                                                  : EstimateKind::kUser;
  scheduler::sim::SetEstimates(jobs, {estimates, kNoise}, noise);
  std::vector<scheduler::Queue> queues = scheduler::sim::QueuesOf(jobs);
  const scheduler::Cluster cluster = Cluster(setting.nodes);

  Outcome outcome{.setting = setting, .report = {}};
  const double before = ThreadCpuSeconds();
  scheduler::sim::World world(cluster, std::move(queues), PolicyOf(setting), jobs, {});
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

// The targets of one cluster's replays, each beside its comparison.
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
    CheckShipped(out, fifo);
    CheckExpected(out);
    Line(out, "speed", ours.cpu_s < 20, "82,247 jobs replayed in less than 20 s",
         fmt::format("{:.1f} s of one core, {} planning cycles", ours.cpu_s, we.cycles));
  }

 private:
  void CheckNoise(nlohmann::json& out, bool defragments, const Report& fifo) const {
    const Outcome* const with_noise = Find({nodes_, Backfill::kEasy, "default", defragments, Known::kNoisy});
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

  void CheckShipped(nlohmann::json& out, const Report& fifo) const {
    for (const Known known : {Known::kExact, Known::kNoisy, Known::kNothing}) {
      const Report& report =
          Find({nodes_, Backfill::kEasy, "default", false, known, Order::kShipped})->report;
      const bool gfr = known != Known::kExact || report.gfr < 0.01;
      Line(out, fmt::format("shipped{}", TitleOf(known)),
           gfr && report.gfr < fifo.gfr && report.waits.mean_h < fifo.waits.mean_h &&
               report.waits_of_large.p99_h <= fifo.waits_of_large.p99_h,
           fmt::format("the shipped policy beats strict FIFO{}", TitleOf(known)),
           fmt::format(
               "GFR {:.2f}, {:.2f} %; mean wait {:.1f}, {:.1f} h; p99 of 8 GPUs and more {:.1f}, {:.1f} h",
               100 * report.gfr, 100 * fifo.gfr, report.waits.mean_h, fifo.waits.mean_h,
               report.waits_of_large.p99_h, fifo.waits_of_large.p99_h));
    }
  }

  void CheckExpected(nlohmann::json& out) const {
    const auto of = [&](Order order) -> const Report& {
      return Find({nodes_, Backfill::kEasy, "default", false, Known::kNothing, order})->report;
    };
    const Report& expected = of(Order::kExpected);
    const Report& age = of(Order::kAge);
    Line(out, "expected", expected.waits.mean_h * 3 <= age.waits.mean_h,
         "by expected run times, mean wait at most a third of that by age, no estimates",
         fmt::format("{:.1f} h of {:.1f} h; p99 {:.1f}, {:.1f} h; of 8 GPUs and more {:.1f}, {:.1f} h",
                     expected.waits.mean_h, age.waits.mean_h, expected.waits.p99_h, age.waits.p99_h,
                     expected.waits_of_large.p99_h, age.waits_of_large.p99_h));
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

// The weight of `expected` that is best on one half of the trace, by time, is used on the other half, which the
// planner begins without having learned anything.
void CrossValidate(const std::vector<TraceJob>& jobs, int nodes, unsigned threads, nlohmann::json& out) {
  constexpr std::array<double, 5> kWeights = {0, 1, 4, 16, 64};
  const auto middle = jobs.begin() + static_cast<std::ptrdiff_t>(jobs.size() / 2);
  const std::array<std::vector<TraceJob>, 2> halves = {std::vector<TraceJob>(jobs.begin(), middle),
                                                       std::vector<TraceJob>(middle, jobs.end())};
  fmt::print("  {:<48} {:>18} {:>18}\n", kCrossTitle, "first half, h", "second half, h");
  std::array<std::array<double, kWeights.size()>, 2> mean{};
  const auto replay = [&](size_t i) {
    Setting setting{nodes, Backfill::kEasy, "default", false, Known::kNothing, Order::kExpected};
    setting.expected_weight = kWeights[i / 2];
    mean[i % 2][i / 2] = Replay(setting, halves[i % 2]).report.waits.mean_h;
  };
  RunAll("philly", 2 * kWeights.size(), threads, replay, [](size_t) {});
  for (size_t w = 0; w < kWeights.size(); ++w) {
    fmt::print("  weight {:<41} {:>18.1f} {:>18.1f}\n", kWeights[w], mean[0][w], mean[1][w]);
    out["weights"].push_back(
        {{"weight", kWeights[w]}, {"first_half_h", mean[0][w]}, {"second_half_h", mean[1][w]}});
  }
  for (const size_t half : {size_t{0}, size_t{1}}) {
    const auto best = std::ranges::min_element(mean[half]) - mean[half].begin();
    const double other = mean[1 - half][static_cast<size_t>(best)];
    fmt::print("  best on the {} half: {}; on the other half {:.1f} h, without {:.1f} h\n",
               half == 0 ? "first" : "second", kWeights[static_cast<size_t>(best)], other, mean[1 - half][0]);
    out[half == 0 ? "chosen_on_first" : "chosen_on_second"] = {
        {"weight", kWeights[static_cast<size_t>(best)]}, {"mean_h", other}, {"without_h", mean[1 - half][0]}};
  }
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
    const bool crosses =
        options.only.empty() ? !options.quick : kCrossTitle.find(options.only) != std::string::npos;
    if (crosses) {
      CrossValidate(*jobs, nodes, options.threads, of["cross_validation"]);
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace bench::scheduling
