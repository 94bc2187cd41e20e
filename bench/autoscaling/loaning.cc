#include "bench/autoscaling/loaning.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/scheduling/workload.h"
#include "router/sim/quantiles.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"

namespace bench::autoscaling {
namespace {

using namespace scheduler;
using bench::scheduling::Between;
using bench::scheduling::JobOn;
using sim::TraceJob;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::array<uint32_t, 4> kGangs = {1, 2, 4, 8};  // devices
constexpr double kBacklog = 3;                            // times the capacity of the pool

// A job for each replica, from its launch to its end; who came last goes first.
std::vector<TraceJob> Replicas(std::span<const router::sim::ElasticSample> samples, uint32_t devices_each) {
  std::vector<TraceJob> jobs;
  std::vector<std::pair<double, size_t>> open;  // since when, and which
  const auto end = [&](double at) {
    const auto [since, which] = open.back();
    jobs[which].run = jobs[which].job.estimate = seconds(static_cast<int64_t>(at - since));
    open.pop_back();
  };
  for (const router::sim::ElasticSample& sample : samples) {
    while (open.size() > sample.replicas()) end(sample.second);
    while (open.size() < sample.replicas()) {
      open.emplace_back(sample.second, jobs.size());
      TraceJob replica = JobOn("serving", static_cast<uint32_t>(jobs.size()), devices_each,
                               seconds(static_cast<int64_t>(sample.second)), {});
      replica.job.work = WorkClass::kInference;
      replica.job.priority = 100;
      replica.job.preemptible = false;
      jobs.push_back(std::move(replica));
    }
  }
  while (!open.empty()) end(samples.back().second);
  return jobs;
}

std::vector<TraceJob> Training(double device_hours, Rng& rng) {
  std::vector<TraceJob> jobs;
  for (double offered = 0; offered < device_hours;) {
    const uint32_t devices = kGangs[rng.Uniform(kGangs.size())];
    const conf::Duration run = Between(rng, minutes(30), minutes(180));
    TraceJob made = JobOn("training", static_cast<uint32_t>(jobs.size()), devices, {}, run);
    made.job.checkpoint = {.interval = minutes(15),
                           .save = Between(rng, seconds(5), seconds(25)),
                           .restart = Between(rng, seconds(30), seconds(90))};
    offered += devices * conf::ToSeconds(run) / 3600;
    jobs.push_back(std::move(made));
  }
  return jobs;
}

double HoursOf(const sim::Report& report, std::string_view queue) {
  const auto found = std::ranges::find(report.queues, queue, &sim::QueueUse::name);
  return found == report.queues.end() ? 0 : found->device_hours;
}

}  // namespace

Loaning MeasureLoaning(std::span<const router::sim::ElasticSample> samples, uint32_t devices_each) {
  Loaning out;
  if (samples.empty()) return out;
  const uint32_t most =
      std::ranges::max_element(samples, {}, &router::sim::ElasticSample::replicas)->replicas();
  const uint32_t nodes = (most * devices_each + 7) / 8;
  const Cluster cluster = bench::scheduling::EightWayCluster(nodes);
  out.devices = 8 * nodes;
  out.hours = samples.back().second / 3600;
  Rng rng(1);
  std::vector<TraceJob> jobs = Training(kBacklog * out.devices * out.hours, rng);
  const std::vector<TraceJob> replicas = Replicas(samples, devices_each);
  absl::flat_hash_map<std::string, conf::TimePoint> waiting;
  for (const TraceJob& job : replicas) waiting.emplace(job.job.id, job.job.submitted);
  jobs.insert(jobs.end(), replicas.begin(), replicas.end());
  sim::SortBySubmission(jobs);

  Policy policy;
  policy.order = {{"priority", 1'000'000}, {"age", 1}};
  policy.backfill.kind = Backfill::kBestEffort;
  out.grace_s = conf::ToSeconds(policy.preemption.grace);
  std::vector<double> reclaims;
  sim::WorldOptions world;
  world.horizon = seconds(static_cast<int64_t>(samples.back().second));
  world.planned = [&](conf::TimePoint now, const Plan& plan, const Planner&) {
    for (const Action& action : plan.actions) {
      const auto at = waiting.find(action.job);
      if (action.kind != ActionKind::kStart || at == waiting.end()) continue;
      if (now > at->second) reclaims.push_back(conf::ToSeconds(now - at->second));
      waiting.erase(at);
    }
  };
  std::vector<Queue> queues = {{.name = "training", .parent = "all"}, {.name = "serving", .parent = "all"}};
  queues.push_back({.name = "all", .parent = ""});
  const sim::Report report =
      sim::World(cluster, std::move(queues), std::move(policy), jobs, std::move(world)).Run();
  out.serving_h = HoursOf(report, "serving");
  out.lent_h = HoursOf(report, "training");
  out.idle_h = std::max(0.0, out.devices * out.hours - out.serving_h - out.lent_h);
  out.wasted_h = report.lost_h + report.restarted_h + report.saved_h;
  out.reclaims = static_cast<uint32_t>(reclaims.size());
  out.reclaim_p50_s = router::sim::QuantilesOf(reclaims).p50;
  if (!reclaims.empty()) {
    out.reclaim_p95_s = reclaims[static_cast<size_t>(0.95 * static_cast<double>(reclaims.size() - 1))];
    out.reclaim_most_s = reclaims.back();
  }
  return out;
}

}  // namespace bench::autoscaling
