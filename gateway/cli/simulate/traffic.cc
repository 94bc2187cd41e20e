#include "gateway/cli/simulate/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "conf/shown.h"
#include "conf/text.h"
#include "conf/time.h"
#include "conf/words.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/problems.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/progress.h"
#include "gateway/cli/simulate/recorded_traffic.h"
#include "gateway/cli/simulate/traffic_report.h"
#include "gateway/config/model_policy.h"
#include "router/sim/offered_load.h"
#include "router/sim/scaling_html.h"
#include "router/sim/scaling_study.h"
#include "router/sim/shared_cache.h"

namespace gateway::cli {
namespace {

namespace serving = router::sim;
namespace autoscale = scheduler::autoscale;
using autoscale::Law;

constexpr conf::Duration kSpread = std::chrono::minutes(1);   // of copies of one call
constexpr conf::Duration kSample = std::chrono::seconds(10);  // of the page's plots
constexpr double kTargetBusy = 0.7;                           // of kpa and hpa, when no target is given
constexpr size_t kMostRequests = 20'000'000;
constexpr uint32_t kMostReplicas = 4096;
constexpr conf::Duration kLongestTraffic = std::chrono::hours(31 * 24);

enum class Way : uint8_t { kPolicy, kKpa, kHpa, kFixed, kOracle };

constexpr conf::Word<Way> kWays[] = {
    {"kpa", Way::kKpa}, {"hpa", Way::kHpa}, {"fixed", Way::kFixed}, {"oracle", Way::kOracle}};

// "hpa:24": a law, and its number if there is one.
struct Beside {
  Way way = Way::kPolicy;
  std::optional<double> number;
};

struct TrafficOptions {
  TrafficSource source;
  uint32_t copies = 1;
  std::string loop;
  std::string cold_start = "90s";
  std::string starts_at = "1970-01-01";
  std::vector<std::string> beside = {"kpa", "hpa", "fixed", "oracle"};
  std::string engine = "llama-3.3-70b-4xh200";
  double speed_up = 1;
  std::string policy;
  std::string html;
};

struct Study {
  serving::ElasticOptions options;
  uint32_t members = 1;  // of a replica
  double gpus = 1;       // of a replica, by the policy, or by the engine's preset where that names none
  std::vector<Beside> beside;
  double hits = 0;
};

std::optional<Beside> ReadBeside(const std::string& text) {
  const size_t colon = text.find(':');
  Beside beside;
  const std::optional<Way> way = conf::ValueOf(kWays, std::string_view(text).substr(0, colon));
  if (!way) return std::nullopt;
  beside.way = *way;
  if (colon == std::string::npos) return beside;
  const double number = conf::ReadNumber<double>(std::string_view(text).substr(colon + 1)).value_or(0);
  const double most = beside.way == Way::kFixed ? kMostReplicas : 1e6;
  if (beside.way == Way::kOracle || !(number > 0 && number <= most)) return std::nullopt;
  if (beside.way == Way::kFixed && number != std::floor(number)) return std::nullopt;
  beside.number = number;
  return beside;
}

Study ReadStudy(const TrafficOptions& options, std::vector<conf::Problem>& problems) {
  Study study;
  if (const auto profile = FindEngine(options.engine, problems))
    study.options.engine = serving::Simulated(*profile);
  if (const std::optional<std::string> text = ReadFile(options.policy, problems)) {
    auto policy = config::ReadUnopenedPolicy(*text, options.policy);
    std::ranges::move(policy.problems, std::back_inserter(problems));
    if (policy.value) {
      study.members = policy.value->placement.members;
      study.gpus = config::DevicesOf(*policy.value);
      study.options.policy = std::move(policy.value->scaling);
    }
  }
  if (study.gpus == 0) study.gpus = study.options.engine.devices;
  ReadTime("--cold-start", options.cold_start, study.options.cold_start, problems);
  if (const auto begins = conf::ParseTime(options.starts_at)) {
    study.options.begins_at = *begins;
  } else {
    Refuse(problems, "--starts-at", options.starts_at,
           fmt::format("\"{}\" must be a time such as 2026-11-23T08:00:00Z", options.starts_at));
  }
  for (const std::string& text : options.beside) {
    if (text == "none") continue;
    if (const std::optional<Beside> beside = ReadBeside(text)) {
      study.beside.push_back(*beside);
    } else {
      Refuse(problems, "--beside", text,
             fmt::format(
                 "\"{}\" must be kpa, hpa, fixed, oracle or none; kpa and hpa may have a target behind a "
                 "colon (hpa:24), fixed a whole number of replicas up to {}",
                 text, kMostReplicas));
    }
  }
  if (!options.html.empty()) study.options.sample_every = kSample;
  CheckWritable("--html", options.html, problems);
  study.options.seed = options.source.seed;
  return study;
}

// A row of the study; nothing when it was interrupted.
class Runner {
 public:
  Runner(const Study& study, const std::vector<serving::Request>& requests, const Interruption& interruption)
      : study_(study), requests_(requests), interruption_(interruption) {
    target_ = std::round(serving::InFlightAt(kTargetBusy, requests, study.options.engine, study.hits));
  }

  std::optional<std::vector<serving::SizedBy>> Run() {
    rows_.push_back({fmt::format("{} (the policy)",
                                 conf::WordOf(scheduler::autoscale::kLawWords, study_.options.policy.law)),
                     Simulate("policy", study_.options)});
    for (const Beside& beside : study_.beside) {
      if (interruption_.seen()) return std::nullopt;
      Add(beside);
    }
    bar_.End();
    if (interruption_.seen()) return std::nullopt;
    return std::move(rows_);
  }

 private:
  void Add(const Beside& beside) {
    serving::ElasticOptions options = study_.options;
    const double number = beside.number.value_or(target_);
    options.policy.behavior.reset();
    switch (beside.way) {
      case Way::kPolicy:
        return;
      case Way::kKpa:
        options.policy.law = Law::kKpa;
        options.policy.kpa = {.target = number};
        return AddRow(fmt::format("kpa, {:g} each", number), options);
      case Way::kHpa:
        options.policy.law = Law::kHpa;
        options.policy.hpa = {.target = number};
        return AddRow(fmt::format("hpa, {:g} each", number), options);
      case Way::kFixed: {
        if (!beside.number && !FindOracle()) return;
        const uint32_t replicas =
            beside.number ? static_cast<uint32_t>(*beside.number) : *std::ranges::max_element(oracle_->plan);
        options.plan = {replicas};
        options.initial = replicas;
        return AddRow(fmt::format("fixed, {}", replicas), options);
      }
      case Way::kOracle:
        if (FindOracle()) rows_.push_back({"oracle", oracle_->report});
        return;
    }
  }

  void AddRow(const std::string& name, const serving::ElasticOptions& options) {
    rows_.push_back({name, Simulate(name, options)});
  }

  bool FindOracle() {
    if (oracle_) return true;
    bar_.Begin("oracle");
    oracle_ = serving::FindOracle(study_.options, requests_, study_.hits,
                                  [&](size_t arrived) { return Advanced(arrived); });
    return oracle_.has_value();
  }

  serving::ElasticReport Simulate(const std::string& name, const serving::ElasticOptions& options) {
    bar_.Begin(name);
    return serving::SimulateElastic(options, requests_, [&](size_t arrived) { return Advanced(arrived); });
  }

  bool Advanced(size_t arrived) {
    bar_.Show({.over = arrived, .all = requests_.size(), .of = "requests", .moment = {}});
    return !interruption_.seen();
  }

  const Study& study_;
  const std::vector<serving::Request>& requests_;
  const Interruption& interruption_;
  ProgressBar bar_;
  double target_ = 1;
  std::vector<serving::SizedBy> rows_;
  std::optional<serving::Oracle> oracle_;
};

// The requests to simulate, or nothing after an error message.
std::optional<std::vector<serving::Request>> Prepare(const TrafficOptions& options,
                                                     std::vector<serving::Request> requests,
                                                     std::optional<conf::Duration> loop) {
  const double span = std::max(conf::ToSeconds(requests.back().at) / options.speed_up,
                               conf::ToSeconds(loop.value_or(conf::Duration::zero())));
  if (span > conf::ToSeconds(kLongestTraffic)) {
    fmt::print(
        stderr,
        "tidegate: {}: the traffic would last {:.0f} days; at most {} can be simulated. --window takes a "
        "part of it, --speed-up makes it shorter\n",
        options.source.path, std::ceil(span / 86400), kLongestTraffic / std::chrono::days(1));
    return std::nullopt;
  }
  requests = serving::Faster(std::move(requests), options.speed_up);
  const double loops = loop ? conf::ToSeconds(*loop) / std::max(1.0, conf::ToSeconds(requests.back().at)) : 1;
  if (static_cast<double>(requests.size()) * loops * options.copies > static_cast<double>(kMostRequests)) {
    fmt::print(stderr, "tidegate: {}: more than {} requests; make --loop or --copies less\n",
               options.source.path, kMostRequests);
    return std::nullopt;
  }
  if (loop) requests = serving::Looped(requests, *loop);
  if (options.copies > 1) requests = serving::Copied(requests, options.copies, kSpread, options.source.seed);
  return requests;
}

int SimulateTraffic(const TrafficOptions& options) {
  std::vector<conf::Problem> problems;
  Study study = ReadStudy(options, problems);
  std::optional<conf::Duration> loop;
  if (!options.loop.empty()) ReadTime("--loop", options.loop, loop.emplace(), problems);
  LoadedTraffic loaded = LoadTraffic(options.source, std::move(problems));
  if (!loaded.traffic) return loaded.code;
  const auto requests = Prepare(options, std::move(loaded.traffic->requests), loop);
  if (!requests) return kFailed;
  study.hits = serving::SharedCacheHitRatio(*requests, study.options.engine.kv_blocks);
  study.options.initial =
      serving::InitialFor(*requests, study.options.engine, study.hits, study.options.policy);

  const Interruption interruption;
  const auto rows = Runner(study, *requests, interruption).Run();
  if (!rows) {
    fmt::print(stderr, "tidegate: interrupted\n");
    interruption.Obey();
    return kFailed;
  }
  const TrafficFacts facts{.study = {.trace = options.source.path,
                                     .requests = requests->size(),
                                     .model = study.options.policy.model,
                                     .engine = options.engine,
                                     .gpus = study.gpus,
                                     .cold_start = study.options.cold_start,
                                     .ttft = study.options.policy.ttft,
                                     .attainment = study.options.policy.attainment},
                           .inter_token = study.options.policy.inter_token,
                           .members = study.members,
                           .engine_gpus = study.options.engine.devices,
                           .rows = loaded.traffic->rows,
                           .left_out = loaded.traffic->left_out};
  absl::Status written;
  if (!options.html.empty()) written.Update(WriteWhole(options.html, serving::AsHtml(facts.study, *rows)));
  written.Update(Print(options.source.json ? AsJson(facts, *rows) : AsTable(facts, *rows)));
  return written.ok() ? kOk : Fail(written);
}

}  // namespace

void AddSimulateTraffic(CLI::App& simulate, Run& run) {
  CLI::App* command = simulate.add_subcommand(
      "traffic",
      "Recorded requests on replicas that a scaling policy starts and stops: GPU-hours and latency");
  auto options = std::make_shared<TrafficOptions>();
  AddSourceOptions(*command, options->source);
  const auto load = [&](CLI::Option* option) { return option->group("Traffic"); };
  load(command->add_option("--speed-up", options->speed_up, "Times the recorded rate"))
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  load(command->add_option("--copies", options->copies, "Copies of the trace, each up to a minute later"))
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str();
  load(command->add_option("--loop", options->loop, "Repeat the traffic until this time is over"));
  const auto scaling = [&](CLI::Option* option) { return option->group("Scaling"); };
  scaling(command->add_option("--policy", options->policy, "The scaling policy, a YAML file"))->required();
  scaling(command->add_option("--beside", options->beside,
                              "Laws to compare: kpa[:TARGET], hpa[:TARGET], fixed[:N], oracle, none"))
      ->delimiter(',')
      ->capture_default_str();
  scaling(command->add_option("--engine", options->engine, "Preset: a model and its GPUs"))
      ->capture_default_str();
  scaling(
      command->add_option("--cold-start", options->cold_start, "From a replica's launch until it is ready"))
      ->capture_default_str();
  scaling(command->add_option("--starts-at", options->starts_at, "Date of the trace's start, for schedules"))
      ->capture_default_str();
  command->add_option("--html", options->html, "Write a page with tables and plots")
      ->group("Runs and output");
  AddRunOptions(*command, options->source);
  command->footer(
      "Examples:\n"
      "  tidegate simulate traffic conf/traffic/conversations.jsonl \\\n"
      "    --policy conf/policies/scaling/demand.yaml --loop 1h\n"
      "  tidegate simulate traffic conf/traffic/conversations.jsonl --copies 4 --loop 1h --beside "
      "fixed,oracle \\\n"
      "    --policy conf/policies/scaling/demand.yaml --html scaling.html");
  command->callback([options, &run] { run = [options] { return SimulateTraffic(*options); }; });
}

}  // namespace gateway::cli
