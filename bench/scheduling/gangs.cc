// Gangs: 256 to 2,048 GPUs on 2,048 nodes in a fabric of three levels, among many small jobs, under load.
#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/scheduling/runs.h"
#include "bench/scheduling/section.h"
#include "bench/scheduling/workload.h"
#include "scheduler/metrics.h"
#include "scheduler/sim/draws.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace bench::scheduling {
namespace {

using scheduler::sim::GangPlaced;
using scheduler::sim::Report;
using scheduler::sim::TraceJob;

constexpr uint32_t kNodes = 2'048;
constexpr uint32_t kDevices = 8;
constexpr std::array<int, 2> kFabrics = {16, 32};  // nodes per leaf
constexpr int kLeavesPerSpine = 16;
constexpr double kLoad = 0.93;  // asked for, of all device time
constexpr uint64_t kSeed = 42;
constexpr std::string_view kQueue = "all";
constexpr std::array<uint32_t, 4> kGangs = {256, 512, 1'024, 2'048};  // devices
constexpr double kMostJtted = 1.02;                                   // wanted, medians: of all gangs
constexpr double kMostJttedOfLargest = 1.05;
constexpr conf::Duration kBetweenCycles = std::chrono::seconds(30);
constexpr int kDays = 8;
constexpr conf::Duration kPatience = std::chrono::hours(4);  // for a spine that is waited for
constexpr double kWarmUpHours = 48;  // gangs that start on a cluster still empty are not counted
constexpr scheduler::Checkpoint kContract = {
    .interval = std::chrono::hours(1), .save = std::chrono::seconds(30), .restart = std::chrono::minutes(2)};

// Jobs of one size: how often beside the others, and how long: log-normal, by median and sigma.
struct Size {
  uint32_t devices;
  double weight;
  double median_h;
  double sigma;
};
constexpr std::array<Size, 12> kSizes = {{{1, 6000, 0.7, 1.2},
                                          {2, 1200, 1, 1.2},
                                          {4, 1200, 1.5, 1.2},
                                          {8, 1500, 2, 1.2},
                                          {16, 240, 3, 1},
                                          {32, 140, 3, 1},
                                          {64, 80, 4, 1},
                                          {128, 40, 4, 1},
                                          {256, 22, 5, 0.8},
                                          {512, 14, 5, 0.8},
                                          {1024, 8, 5, 0.8},
                                          {2048, 4, 5, 0.8}}};

// How gangs ask for one spine.
enum class Spine : uint8_t { kSilent, kWaited, kRequired };

struct Setting {
  int nodes_per_leaf = 0;
  std::string_view placement;
  Spine spine = Spine::kSilent;
  bool defragments = false;
};

struct Outcome {
  Setting setting;
  Report report;
  std::map<uint32_t, std::vector<double>> waits_h;  // to the first start, of gangs by devices
  double last_arrival_h = 0;
  double cpu_s = 0;
};

std::string TitleOf(const Setting& setting) {
  constexpr std::array<std::string_view, 3> kSpine = {"", ", spine waited for", ", spine required"};
  return fmt::format("{}{}{}", setting.placement, kSpine[static_cast<size_t>(setting.spine)],
                     setting.defragments ? ", defragmentation" : "");
}

// Poisson arrivals that ask for kLoad of the cluster over so many days.
std::vector<TraceJob> Jobs(int days) {
  double weights = 0;
  double device_hours = 0;  // of a job, the mean
  for (const Size& size : kSizes) {
    weights += size.weight;
    device_hours += size.weight * size.devices * size.median_h * std::exp(size.sigma * size.sigma / 2);
  }
  device_hours /= weights;
  const double gap_s = 3600 * device_hours / (kLoad * kNodes * kDevices);
  scheduler::Rng rng(kSeed);
  std::vector<TraceJob> jobs;
  double now_s = 0;
  while (true) {
    now_s += -gap_s * std::log1p(-rng.Double());
    if (now_s > days * 86'400.0) return jobs;
    double lot = rng.Double() * weights;
    const Size* size = kSizes.data();
    while (size != &kSizes.back() && lot >= size->weight) lot -= (size++)->weight;
    const double hours = size->median_h * std::exp(size->sigma * scheduler::sim::Normal(rng));
    TraceJob& job = jobs.emplace_back();
    job.job.id = fmt::format("job-{}", jobs.size());
    job.job.queue = kQueue;
    job.job.roles = scheduler::sim::GangOf(size->devices, kDevices);
    job.job.submitted = conf::TimePoint() + conf::Duration(std::llround(now_s * 1e9));
    job.run = conf::Duration(std::llround(hours * 3.6e12));
  }
}

uint32_t DevicesOf(const scheduler::Job& job) {
  return static_cast<uint32_t>(scheduler::DeviceMilli(job) / scheduler::kWholeDevice);
}

Outcome Simulate(const Setting& setting, std::vector<TraceJob> jobs) {
  const scheduler::Cluster cluster = EightWayCluster(kNodes, setting.nodes_per_leaf, kLeavesPerSpine);
  for (TraceJob& job : jobs) {
    if (setting.spine == Spine::kSilent || DevicesOf(job.job) < kGangs.front()) continue;
    const bool required = setting.spine == Spine::kRequired;
    job.job.topology = {"spine", required, required ? conf::Duration() : kPatience};
  }
  if (setting.defragments) scheduler::sim::SetCheckpoints(jobs, kContract);
  scheduler::Rng unused(0);
  scheduler::sim::SetEstimates(jobs, {}, unused);  // exact
  scheduler::Policy policy;
  policy.order = {{"age", 1}};
  policy.placement = setting.placement;
  policy.defragment.enabled = setting.defragments;
  scheduler::Queue queue;
  queue.name = kQueue;

  Outcome outcome{.setting = setting, .report = {}, .waits_h = {}};
  absl::flat_hash_map<std::string, const scheduler::Job*> not_started;
  for (const TraceJob& job : jobs) {
    if (DevicesOf(job.job) >= kGangs.front()) not_started.emplace(job.job.id, &job.job);
  }
  outcome.last_arrival_h = conf::ToSeconds(jobs.back().job.submitted - jobs.front().job.submitted) / 3600;
  const auto planned = [&](conf::TimePoint now, const scheduler::Plan& plan, const scheduler::Planner&) {
    for (const scheduler::Action& action : plan.actions) {
      const auto at = not_started.find(action.job);
      if (action.kind != scheduler::ActionKind::kStart || at == not_started.end()) continue;
      outcome.waits_h[DevicesOf(*at->second)].push_back(conf::ToSeconds(now - at->second->submitted) / 3600);
      not_started.erase(at);
    }
  };
  const double before = ThreadCpuSeconds();
  scheduler::sim::World world(cluster, {queue}, std::move(policy), jobs,
                              {.min_cycle = kBetweenCycles, .planned = planned});
  outcome.report = world.Run();
  outcome.cpu_s = ThreadCpuSeconds() - before;
  return outcome;
}

struct OfSize {
  size_t gangs = 0;  // that started under load
  double jtted_p50 = 0;
  double jtted_p90 = 0;
  double wait_mean_h = 0;  // of all
  double wait_most_h = 0;
};

// The figures of gangs of `least` to `most` devices.
OfSize GangsOf(const Outcome& outcome, uint32_t least, uint32_t most) {
  std::vector<double> jtted;
  for (const GangPlaced& gang : outcome.report.gangs) {
    const bool under_load = gang.hour >= kWarmUpHours && gang.hour <= outcome.last_arrival_h;
    if (gang.devices >= least && gang.devices <= most && under_load) jtted.push_back(gang.jtted);
  }
  std::ranges::sort(jtted);
  std::vector<double> waits;
  for (const auto& [devices, of_size] : outcome.waits_h) {
    if (devices >= least && devices <= most) waits.insert(waits.end(), of_size.begin(), of_size.end());
  }
  return {.gangs = jtted.size(),
          .jtted_p50 = scheduler::Quantile(jtted, 0.5),
          .jtted_p90 = scheduler::Quantile(jtted, 0.9),
          .wait_mean_h = scheduler::Mean(waits),
          .wait_most_h = waits.empty() ? 0 : std::ranges::max(waits)};
}

nlohmann::json JsonOf(const OfSize& of) {
  return {{"gangs", of.gangs},
          {"jtted_p50", of.jtted_p50},
          {"jtted_p90", of.jtted_p90},
          {"wait_mean_h", of.wait_mean_h},
          {"wait_most_h", of.wait_most_h}};
}

// Mean share of the devices that were held, under load.
double HeldUnderLoad(const Outcome& outcome) {
  std::vector<double> held;
  for (const scheduler::sim::Sample& sample : outcome.report.samples) {
    if (sample.hour >= kWarmUpHours && sample.hour <= outcome.last_arrival_h) held.push_back(sample.sor);
  }
  return scheduler::Mean(held);
}

void PrintHeading() {
  fmt::print("  {:<42} JTTED, median and p90, of gangs of{:>37} longest wait, h, of\n  {:<42}", "", "", "");
  for (const uint32_t size : kGangs) fmt::print(" {:>12}", size);
  fmt::print(" {:>12} ", "all");
  for (const uint32_t size : kGangs) fmt::print(" {:>5}", size);
  fmt::print(" {:>6} {:>6} {:>6} {:>6}  near     all ran\n", "any", "held %", "GFR %", "CPU s");
}

nlohmann::json Print(const Outcome& outcome) {
  const Report& report = outcome.report;
  nlohmann::json json;
  std::string waits;
  fmt::print("  {:<42}", TitleOf(outcome.setting));
  for (const uint32_t size : kGangs) {
    const OfSize of = GangsOf(outcome, size, size);
    json["by_devices"][std::to_string(size)] = JsonOf(of);
    fmt::print("  {:.3f} {:.3f}", of.jtted_p50, of.jtted_p90);
    waits += fmt::format(" {:>5.1f}", of.wait_most_h);
  }
  const OfSize all = GangsOf(outcome, kGangs.front(), kGangs.back());
  const OfSize largest = GangsOf(outcome, kGangs.back(), kGangs.back());
  const bool near = all.jtted_p50 <= kMostJtted && largest.jtted_p50 <= kMostJttedOfLargest;
  const bool all_ran = report.finished == report.submitted;
  const double held = 100 * HeldUnderLoad(outcome);
  fmt::print("  {:.3f} {:.3f} {} {:>6.1f} {:>6.1f} {:>6.2f} {:>6.1f}  {:<7}  {}\n", all.jtted_p50,
             all.jtted_p90, waits, report.waits.max_h, held, 100 * report.gfr, outcome.cpu_s,
             near ? "met" : "NOT MET", all_ran ? "met" : "NOT MET");
  json["all"] = JsonOf(all);
  json["held_mean_pct"] = held;
  json["gfr_pct"] = 100 * report.gfr;
  json["longest_wait_h"] = report.waits.max_h;
  json["hours"] = report.hours;
  json["moves"] = report.moves;
  json["never_ran"] = report.submitted - report.finished;
  json["cpu_s"] = outcome.cpu_s;
  json["near"] = near;
  json["all_ran"] = all_ran;
  return json;
}

std::vector<Setting> SettingsOf(int nodes_per_leaf, bool quick) {
  std::vector<Setting> settings;
  for (const Spine spine : {Spine::kSilent, Spine::kWaited, Spine::kRequired}) {
    for (const std::string_view placement : {"default", "e-binpack"}) {
      for (const bool defragments : {false, true}) {
        if (quick && (defragments || placement != "default")) continue;
        settings.push_back({nodes_per_leaf, placement, spine, defragments});
      }
    }
  }
  return settings;
}

}  // namespace

absl::Status RunGangs(const Options& options, nlohmann::json& out) {
  const int days = options.quick ? 3 : kDays;
  const std::vector<TraceJob> jobs = Jobs(days);
  for (const int nodes_per_leaf : kFabrics) {
    std::vector<Setting> settings = SettingsOf(nodes_per_leaf, options.quick);
    std::erase_if(settings,
                  [&](const Setting& s) { return TitleOf(s).find(options.only) == std::string::npos; });
    fmt::print(
        "\ngangs: {} jobs in {} days at {:.0f} % of {} nodes, leaves of {} nodes, {} a spine; EASY, exact "
        "estimates, a plan every {:.0f} s at most\n"
        "  wanted: JTTED median at most {} of all, {} of {} GPUs; nothing starves\n",
        jobs.size(), days, 100 * kLoad, kNodes, nodes_per_leaf, kLeavesPerSpine,
        conf::ToSeconds(kBetweenCycles), kMostJtted, kMostJttedOfLargest, kGangs.back());
    PrintHeading();
    std::fflush(stdout);
    nlohmann::json& of = out[fmt::format("leaves_of_{}", nodes_per_leaf)];
    std::vector<Outcome> outcomes(settings.size());
    RunAll(
        "gangs", settings.size(), options.threads,
        [&](size_t i) { outcomes[i] = Simulate(settings[i], jobs); },
        [&](size_t i) { of[TitleOf(settings[i])] = Print(outcomes[i]); });
  }
  return absl::OkStatus();
}

}  // namespace bench::scheduling
