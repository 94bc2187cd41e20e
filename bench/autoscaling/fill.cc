#include "bench/autoscaling/fill.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/autoscaling/day.h"
#include "bench/autoscaling/fleet_progress.h"
#include "bench/autoscaling/study.h"
#include "bench/replay/study.h"
#include "bench/scheduling/workload.h"
#include "router/sim/offered_load.h"
#include "router/sim/report_json.h"
#include "router/sim/scaling_study.h"
#include "scheduler/engine/presets.h"
#include "scheduler/rng.h"

namespace bench::autoscaling {
namespace {

using router::sim::FleetModel;
using router::sim::FleetOptions;
using router::sim::FleetReport;
using router::sim::Request;

constexpr uint32_t kPlaces = 8;
constexpr double kMeanLoad = 1.0 / 3;
constexpr size_t kLines = 100'000;
constexpr uint32_t kAtGateway = 1'024;  // lines at replicas or in the queue
constexpr conf::Duration kLinesAlone = std::chrono::minutes(20);
// Chat clients of two models, whose sum has a day: the mean is two thirds of the peak, the night a third.
constexpr std::array<std::string_view, 6> kDayLike = {"m-small/17", "m-small/26", "m-small/27",
                                                      "m-small/35", "m-mid/23",   "m-mid/49"};

std::vector<Request> LinesLike(std::span<const Request> requests) {
  scheduler::Rng rng(7);
  std::vector<Request> lines(kLines);
  for (Request& line : lines) {
    const Request& as = requests[rng.Uniform(requests.size())];
    line.prompt_tokens = as.prompt_tokens;
    line.output_tokens = as.output_tokens;
  }
  return lines;
}

FleetModel ModelOf(std::span<const Request> requests) {
  FleetModel model;
  model.name = "m";
  model.engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
  model.policy.model = "m";
  model.policy.min = 1;
  model.policy.max = kPlaces;
  model.policy.attainment = kObjective;
  model.requests = requests;
  model.cold_start = std::chrono::seconds(90);
  model.initial = router::sim::InitialFor(requests, model.engine, 0, model.policy);
  return model;
}

FleetReport RunFilled(const FleetModel& model, std::string_view name) {
  FleetOptions options;
  options.cluster = bench::scheduling::EightWayCluster(kPlaces * model.engine.devices / 8);
  options.sample_every = std::chrono::hours(1);
  options.tick = std::chrono::seconds(1);
  options.models.push_back(model);
  FleetProgress progress(name);
  return router::sim::SimulateFleet(options, progress.Tell());
}

// The tokens of lines in a second if all places served nothing else.
double LinesAlone(const std::vector<Request>& lines) {
  const std::vector<Request> end = {
      {.at = kLinesAlone, .prompt_tokens = 1, .output_tokens = 1, .blocks = {}}};
  router::sim::Options options;
  options.replicas.assign(kPlaces, router::sim::Simulated(*scheduler::engine::FindPreset(kEngine)));
  options.queue.emplace();
  options.spare = {.lines = lines, .in_flight = 256 * kPlaces, .only_spare = false};
  const router::sim::Report::Spare done = router::sim::Simulate(options, end).spare;
  return static_cast<double>(done.prompt_tokens + done.output_tokens) / conf::ToSeconds(kLinesAlone);
}

}  // namespace

double FillRun::LineTokens() const {
  return static_cast<double>(served().spare.prompt_tokens + served().spare.output_tokens);
}

std::optional<FillStudy> RunFill(const FillOptions& options) {
  const auto hour = LoadRequests(options.traces + "/azure_llm/AzureLLMInferenceTrace_conv.csv",
                                 router::sim::TrafficFormat::kAzure);
  const auto rates = RatesOf(options.traces, kDayLike);
  if (!hour || !rates) return std::nullopt;
  const auto engine = router::sim::Simulated(*scheduler::engine::FindPreset(kEngine));
  const double busy = router::sim::DemandSeconds(*hour, engine, 0) / conf::ToSeconds(hour->back().at);
  std::span<const double> steps = *rates;
  if (options.quick) steps = steps.subspan(7 * 6, 2 * 6);  // the morning
  const std::vector<Request> day = DayOf(*hour, steps, kMeanLoad * kPlaces / busy);
  const std::vector<Request> lines = LinesLike(*hour);

  FillStudy study{.engine = kEngine, .places = kPlaces};
  study.hours = conf::ToSeconds(day.back().at) / 3600;
  study.load = router::sim::DemandSeconds(day, engine, 0) / (3600 * study.hours * kPlaces);
  study.lines_alone = LinesAlone(lines);
  FleetModel model = ModelOf(day);
  study.runs.push_back({.name = "alone", .report = RunFilled(model, "alone")});
  model.lines = lines;
  model.lines_in_flight = kAtGateway;
  study.runs.push_back({.name = "lines", .report = RunFilled(model, "lines")});
  model.batch = {.may_start = true, .max_replicas = kPlaces};
  study.runs.push_back(
      {.name = "lines, on idle devices too", .report = RunFilled(model, "lines, on idle devices too")});
  const double idle = (1 - study.load) * study.lines_alone * 3600 * study.hours;
  for (FillRun& run : study.runs) run.used_of_idle = run.LineTokens() / idle;
  const uint64_t finished = study.runs.back().served().spare.finished;
  if (finished > 0) study.hours_of_backlog = study.hours * kLines / static_cast<double>(finished);
  return study;
}

void PrintFill(const FillStudy& study) {
  fmt::print(
      "{:.1f} h, {} places of {}, {:.0f} % load; lines alone: {:.0f} tokens/s; 100,000 lines take {:.1f} h\n",
      study.hours, study.places, study.engine, 100 * study.load, study.lines_alone, study.hours_of_backlog);
  fmt::print("{:28} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>10} {:>10} {:>8} {:>7} {:>9}\n", "",
             "TTFT p50", "p90", "p99", "ITL p50", "p99", "in 2 s%", "lost", "replica-h", "for lines",
             "starts", "left", "of idle %");
  for (const FillRun& run : study.runs) {
    const router::sim::FleetModelReport& model = run.report.models.front();
    const router::sim::Report& served = run.served();
    const double devices = static_cast<double>(scheduler::engine::FindPreset(study.engine)->devices);
    fmt::print(
        "{:28} {:8.3f} {:8.3f} {:8.3f} {:8.4f} {:8.4f} {:8.2f} {:6} {:10.1f} {:10.1f} {:8} {:7} {:9.1f}\n",
        run.name, served.ttft.p50, served.ttft.p90, served.ttft.p99, served.token_time.p50,
        served.token_time.p99, 100 * served.within_slo, served.refused + served.broken,
        model.device_seconds / devices / 3600, model.batch_seconds / devices / 3600,
        model.cold_starts + model.batch_starts, run.report.preempted, 100 * run.used_of_idle);
  }
}

nlohmann::json ToJson(const FillStudy& study) {
  nlohmann::json out = {{"engine", study.engine},
                        {"places", study.places},
                        {"load", study.load},
                        {"hours", study.hours},
                        {"lines_alone_tokens_per_second", study.lines_alone},
                        {"hours_of_100000_lines", study.hours_of_backlog}};
  for (const FillRun& run : study.runs) {
    const router::sim::FleetModelReport& model = run.report.models.front();
    nlohmann::json one = router::sim::AsJson(run.served());
    one["name"] = run.name;
    one["used_of_idle"] = run.used_of_idle;
    one["lines"] = run.served().spare.finished;
    one["device_hours"] = model.device_seconds / 3600;
    one["device_hours_for_batches"] = model.batch_seconds / 3600;
    one["starts"] = model.cold_starts;
    one["starts_for_batches"] = model.batch_starts;
    one["preempted"] = run.report.preempted;
    for (const router::sim::FirstTokenStep& step : run.served().first_tokens)
      one["by_hour"].push_back(
          {{"count", step.count}, {"ttft_p50_s", step.ttft_p50}, {"ttft_p99_s", step.ttft_p99}});
    out["runs"].push_back(std::move(one));
  }
  return out;
}

}  // namespace bench::autoscaling
