#include "bench/autoscaling/sleeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/autoscaling/day.h"
#include "bench/autoscaling/fleet_progress.h"
#include "bench/replay/study.h"
#include "bench/scheduling/workload.h"
#include "router/sim/offered_load.h"
#include "router/sim/report_json.h"
#include "scheduler/engine/presets.h"

namespace bench::autoscaling {
namespace {

using router::sim::FleetModel;
using router::sim::FleetOptions;
using router::sim::Request;
using scheduler::autoscale::SleepLevel;
using scheduler::autoscale::SleepSettings;

constexpr double kBusiest = 0.7;  // of a replica, in the busiest ten minutes of each model
constexpr conf::Duration kSleepAfter = std::chrono::minutes(2);
constexpr std::array<std::string_view, 2> kEngines = {"llama-3.1-8b-h100", "llama-3.3-70b-4xh100"};

// Whose rates of a day the three models' traffic follows.
struct SharedDay {
  std::string_view name;
  std::array<std::string_view, 3> clients;
};
constexpr std::array<SharedDay, 2> kDays = {{
    {"at different times", {"./0", "./1", "./7"}},
    {"all by day", {"m-small/17", "m-mid/49", "m-large/5"}},
}};

enum class Way : uint8_t { kAwake, kColdStarts, kSleepLight, kSleepDeep };
struct Named {
  Way way;
  std::string_view name;
};
constexpr std::array<Named, 4> kWays = {{{Way::kAwake, "always awake, devices of three"},
                                         {Way::kColdStarts, "stop and cold start"},
                                         {Way::kSleepLight, "sleep, level 1"},
                                         {Way::kSleepDeep, "sleep, level 2"}}};

// Replicas of one that takes all devices of a node's part: two of them, or three.
scheduler::Cluster ClusterOf(uint32_t replicas, uint32_t devices_each) {
  scheduler::Cluster cluster = bench::scheduling::EightWayCluster(1);
  cluster.types.front().devices = static_cast<uint8_t>(replicas * devices_each);
  return cluster;
}

SleepRun RunWay(const Named& named, const std::string& engine, std::span<const std::vector<Request>> days,
                std::string_view what) {
  const auto profile = *scheduler::engine::FindPreset(engine);
  SleepRun run{.name = std::string(named.name), .report = {}};
  const uint32_t places = named.way == Way::kAwake ? 3 : 2;
  FleetOptions options;
  options.cluster = ClusterOf(places, profile.devices);
  run.devices = places * profile.devices;
  for (const std::vector<Request>& day : days) {
    FleetModel& model = options.models.emplace_back();
    model.name = fmt::format("m{}", options.models.size());
    model.engine = router::sim::Simulated(profile);
    model.policy.model = model.name;
    model.policy.max = 1;
    model.policy.scale_to_zero_after = kSleepAfter;
    model.requests = day;
    model.cold_start = profile.load_time;
    if (named.way == Way::kAwake) {
      model.policy.min = 1;
      model.initial = 1;
    }
    if (named.way == Way::kSleepLight || named.way == Way::kSleepDeep) {
      const bool light = named.way == Way::kSleepLight;
      model.policy.sleep =
          SleepSettings{.level = light ? SleepLevel::kWeightsInHostMemory : SleepLevel::kNothing};
      model.fall = light ? profile.move_time : conf::Duration();
      model.wake = light ? profile.move_time : profile.reload_time;
    }
  }
  FleetProgress progress(fmt::format("{}, {}, {}", what, engine, named.name));
  run.report = router::sim::SimulateFleet(options, progress.Tell());
  return run;
}

}  // namespace

uint64_t SleepRun::requests() const {
  uint64_t sum = 0;
  for (const auto& model : report.models) sum += model.served.requests;
  return sum;
}

double SleepRun::in_time() const {
  double met = 0;
  for (const auto& model : report.models)
    met += model.served.within_slo * static_cast<double>(model.served.requests);
  return met / static_cast<double>(requests());
}

double SleepRun::in_time_of_served() const {
  uint64_t refused = 0;
  for (const auto& model : report.models) refused += model.served.refused;
  const auto asked = static_cast<double>(requests());
  return in_time() * asked / (asked - static_cast<double>(refused));
}

double SleepRun::worst_in_time() const {
  double worst = 1;
  for (const auto& model : report.models) {
    if (model.served.requests > 0) worst = std::min(worst, model.served.within_slo);
  }
  return worst;
}

double SleepRun::device_hours() const {
  double seconds = 0;
  for (const auto& model : report.models) seconds += model.device_seconds;
  return seconds / 3600;
}

double SleepRun::ttft_p50() const {
  double most = 0;
  for (const auto& model : report.models) most = std::max(most, model.served.ttft.p50);
  return most;
}

double SleepRun::ttft_p99() const {
  double most = 0;
  for (const auto& model : report.models) most = std::max(most, model.served.ttft.p99);
  return most;
}

uint64_t SleepRun::lost() const {
  uint64_t sum = 0;
  for (const auto& model : report.models) sum += model.served.refused + model.served.broken;
  return sum;
}

uint32_t SleepRun::cold_starts() const {
  uint32_t sum = 0;
  for (const auto& model : report.models) sum += model.cold_starts;
  return sum;
}

uint32_t SleepRun::wakes() const {
  uint32_t sum = 0;
  for (const auto& model : report.models) sum += model.wakes;
  return sum;
}

std::optional<std::vector<SleepCase>> RunSleeping(const SleepOptions& options) {
  const auto hour = LoadRequests(options.traces + "/azure_llm/AzureLLMInferenceTrace_conv.csv",
                                 router::sim::TrafficFormat::kAzure);
  if (!hour) return std::nullopt;
  std::vector<SleepCase> cases;
  for (const SharedDay& shared : kDays) {
    std::vector<std::vector<double>> rates;
    for (const std::string_view client : shared.clients) {
      const auto of = RatesOf(options.traces, std::span(&client, 1));
      if (!of) return std::nullopt;
      rates.push_back(*of);
    }
    for (const std::string_view engine : kEngines) {
      if (options.quick && (&shared != &kDays.front() || engine != kEngines.front())) continue;
      const auto profile = *scheduler::engine::FindPreset(engine);
      const double busy = router::sim::DemandSeconds(*hour, router::sim::Simulated(profile), 0) /
                          conf::ToSeconds(hour->back().at);
      std::vector<std::vector<Request>> days;
      std::vector<double> loads;
      for (const std::vector<double>& of : rates) {
        const std::span<const double> steps = options.quick ? std::span(of).subspan(0, 6 * 6) : std::span(of);
        days.push_back(DayOf(*hour, steps, kBusiest / busy / PeakOverMean(steps)));
        const double peak = *std::ranges::max_element(steps);
        loads.resize(steps.size());
        for (size_t i = 0; i < steps.size(); ++i) loads[i] += kBusiest * steps[i] / peak;
      }
      SleepCase& one = cases.emplace_back();
      one.busiest = *std::ranges::max_element(loads);
      one.traffic = shared.name;
      one.engine = engine;
      one.cold_start_s = conf::ToSeconds(profile.load_time);
      one.wake_s = conf::ToSeconds(profile.move_time);
      one.reload_s = conf::ToSeconds(profile.reload_time);
      for (const Named& way : kWays) one.runs.push_back(RunWay(way, one.engine, days, one.traffic));
    }
  }
  return cases;
}

void PrintSleeping(const std::vector<SleepCase>& cases) {
  for (const SleepCase& one : cases) {
    fmt::print(
        "\n{}, {}: a cold start {:.1f} s, a wake {:.1f} s, of level 2 {:.1f} s; at most {:.2f} replicas "
        "busy\n",
        one.traffic, one.engine, one.cold_start_s, one.wake_s, one.reload_s, one.busiest);
    fmt::print("{:32} {:>7} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6} {:>7} {:>6}\n", "", "devices",
               "device-h", "in 2 s%", "worst%", "served%", "TTFT p50", "p99", "starts", "wakes", "lost");
    for (const SleepRun& run : one.runs) {
      fmt::print("{:32} {:7} {:9.1f} {:8.2f} {:8.2f} {:8.2f} {:9.3f} {:9.2f} {:6} {:7} {:6}\n", run.name,
                 run.devices, run.device_hours(), 100 * run.in_time(), 100 * run.worst_in_time(),
                 100 * run.in_time_of_served(), run.ttft_p50(), run.ttft_p99(), run.cold_starts(),
                 run.wakes(), run.lost());
    }
  }
}

nlohmann::json ToJson(const std::vector<SleepCase>& cases) {
  nlohmann::json out = nlohmann::json::array();
  for (const SleepCase& one : cases) {
    nlohmann::json made = {{"traffic", one.traffic},           {"engine", one.engine},
                           {"cold_start_s", one.cold_start_s}, {"wake_s", one.wake_s},
                           {"wake_level_2_s", one.reload_s},   {"busiest_replicas", one.busiest}};
    for (const SleepRun& run : one.runs) {
      nlohmann::json of = {{"name", run.name},
                           {"devices", run.devices},
                           {"device_hours", run.device_hours()},
                           {"in_time", run.in_time()},
                           {"worst_in_time", run.worst_in_time()},
                           {"in_time_of_served", run.in_time_of_served()},
                           {"lost", run.lost()}};
      for (const router::sim::FleetModelReport& model : run.report.models) {
        nlohmann::json served = router::sim::AsJson(model.served);
        served["name"] = model.name;
        served["device_hours"] = model.device_seconds / 3600;
        served["asleep_hours"] = model.asleep_seconds / 3600;
        served["cold_starts"] = model.cold_starts;
        served["wakes"] = model.wakes;
        of["models"].push_back(std::move(served));
      }
      made["runs"].push_back(std::move(of));
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace bench::autoscaling
