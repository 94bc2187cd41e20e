// bench_scaling: the autoscaler's laws over recorded traffic, in virtual time, and what its idle devices are
// worth to training; see bench/README.md.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/autoscaling/cross.h"
#include "bench/autoscaling/fill.h"
#include "bench/autoscaling/loaning.h"
#include "bench/autoscaling/sleeping.h"
#include "bench/autoscaling/study.h"
#include "bench/replay/study.h"
#include "gateway/net/standard_descriptors.h"
#include "router/sim/scaling_study.h"
#include "scheduler/engine/presets.h"

namespace {

using namespace bench::autoscaling;

// Replicas by our law, second by second, in the first case.
Loaning Lend(const Case& c) {
  router::sim::ElasticOptions options;
  options.engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
  options.policy.model = "m";
  options.policy.min = 1;
  options.policy.max = 128;
  options.sample_every = std::chrono::seconds(1);
  options.initial = router::sim::InitialFor(c.requests, options.engine, 0, options.policy);
  const auto report = router::sim::SimulateElastic(options, c.requests);
  return MeasureLoaning(report.samples, options.engine.devices);
}

nlohmann::json ToJson(const Loaning& l) {
  return {{"devices", l.devices},
          {"hours", l.hours},
          {"serving_h", l.serving_h},
          {"lent_h", l.lent_h},
          {"idle_h", l.idle_h},
          {"wasted_h", l.wasted_h},
          {"harvested", l.harvested()},
          {"reclaims", l.reclaims},
          {"reclaim_p50_s", l.reclaim_p50_s},
          {"reclaim_p95_s", l.reclaim_p95_s},
          {"reclaim_most_s", l.reclaim_most_s},
          {"grace_s", l.grace_s}};
}

// On traffic that no law was tuned on.
int Cross(const bench::StudyOptions& options, const CrossOptions& how, const std::string& only) {
  auto cases = LoadCrossCases(options.traces, how.quick);
  if (!cases) return 1;
  std::erase_if(*cases, [&](const CrossCase& one) { return one.name.find(only) == std::string::npos; });
  if (cases->empty()) {
    fmt::print(stderr, "--only: no case's name contains \"{}\"\n", only);
    return 2;
  }
  const CrossStudy study = RunCross(*cases, how);
  PrintCross(*cases, study);
  return bench::WriteFigures(options, ToJson(*cases, study));
}

// A day beside batch lines.
int Fill(const bench::StudyOptions& options, bool quick) {
  const auto study = RunFill({.traces = options.traces, .quick = quick});
  if (!study) return 1;
  PrintFill(*study);
  return bench::WriteFigures(options, ToJson(*study));
}

// Three models on the devices of two.
int Sleeping(const bench::StudyOptions& options, bool quick) {
  const auto cases = RunSleeping({.traces = options.traces, .quick = quick});
  if (!cases) return 1;
  PrintSleeping(*cases);
  return bench::WriteFigures(options, {{"cases", ToJson(*cases)}});
}

}  // namespace

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  CLI::App app{"The autoscaler's laws over recorded traffic, in virtual time"};
  bench::StudyOptions options;
  bool quick = false;
  bench::AddStudyOptions(app, options);
  app.add_flag("--quick", quick, "one hour and few targets, as a quick check");
  bool cross = false;
  bool only_demand = false;
  std::string only;
  CLI::Option* const of_cross =
      app.add_flag("--cross", cross, "instead: many clients, traces, worlds, engines and cold starts");
  app.add_flag("--only-demand", only_demand, "neither the other laws nor an oracle, to try a change")
      ->needs(of_cross);
  app.add_option("--only", only, "cases whose name contains this")->needs(of_cross);
  bool fill = false;
  bool sleeping = false;
  app.add_flag("--fill", fill, "instead: a day of conversations beside a backlog of batch lines")
      ->excludes(of_cross);
  app.add_flag("--sleep", sleeping,
               "instead: a day of three models on the devices of two, with replicas that sleep")
      ->excludes(of_cross)
      ->excludes("--fill");
  CLI11_PARSE(app, argc, argv);
  if (fill) return Fill(options, quick);
  if (sleeping) return Sleeping(options, quick);
  if (cross) return Cross(options, {.quick = quick, .only_demand = only_demand}, only);
  const auto cases = LoadCases(options.traces, quick);
  if (!cases) return 1;

  const Study study = RunStudy(*cases, quick);
  PrintTables(*cases, study);
  const Loaning loaning = Lend(cases->front());
  fmt::print(
      "\nlent to training, {}: {} GPUs for {:.1f} h; {:.0f} GPU-hours served, {:.0f} lent, {:.1f} idle "
      "({:.1f} % of what serving left); {:.1f} of what was lent saved, restored or lost\n"
      "  {} replicas waited for training to leave: half {:.0f} s, 95 % {:.0f} s, at most {:.0f} s; its grace "
      "is {:.0f} s\n\n",
      cases->front().name, loaning.devices, loaning.hours, loaning.serving_h, loaning.lent_h, loaning.idle_h,
      100 * loaning.harvested(), loaning.wasted_h, loaning.reclaims, loaning.reclaim_p50_s,
      loaning.reclaim_p95_s, loaning.reclaim_most_s, loaning.grace_s);

  std::vector<Aim> aims = AimsOf(study);
  aims.push_back({"idle device-time that training harvests, %", 90, false, 100 * loaning.harvested()});
  aims.push_back({"reclaim, 95 % within, s", loaning.grace_s + 5, true, loaning.reclaim_p95_s});
  nlohmann::json out = ToJson(*cases, study);
  out["loaning"] = ToJson(loaning);
  for (const Aim& aim : aims) {
    fmt::print("{:7} {:60} {:6.2f} ({} {:g})\n", aim.met() ? "met" : "MISSED", aim.what, aim.reached,
               aim.at_most ? "at most" : "at least", aim.bound);
    out["aims"].push_back(
        {{"what", aim.what}, {"bound", aim.bound}, {"reached", aim.reached}, {"met", aim.met()}});
  }
  return bench::WriteFigures(options, out);
}
