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
#include "gateway/cli/simulate/output.h"
#include "gateway/cli/simulate/progress.h"
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

enum class Way : uint8_t { kPolicy, kKpa, kHpa, kFixed, kOracle };

constexpr conf::Word<Way> kWays[] = {
    {"kpa", Way::kKpa}, {"hpa", Way::kHpa}, {"fixed", Way::kFixed}, {"oracle", Way::kOracle}};

// "hpa:24": a law, and its number if there is one.
struct Beside {
  Way way = Way::kPolicy;
  std::optional<double> number;
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
  if (options.policy.empty()) {
    Refuse(problems, "--policy", "",
           "is needed with --traffic: a file such as conf/policies/scaling/demand.yaml");
  } else if (const std::optional<std::string> text = ReadFile(options.policy, problems)) {
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
  if (!options.html.empty()) {
    study.options.sample_every = kSample;
    if (const std::string why = WhyNotWritable(options.html); !why.empty()) {
      Refuse(problems, "--html", options.html, fmt::format("{} cannot be written: {}", options.html, why));
    }
  }
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

double GpuHours(const Study& study, const serving::ElasticReport& report) {
  return report.replica_seconds / 3600 * study.gpus;
}

// "2 members, 16 GPUs; the engine's speed is that of 4"; empty: nothing is to be said of it.
std::string SizeOf(const Study& study) {
  std::string text;
  if (study.members > 1) text = fmt::format("{} members, {:g} GPUs", study.members, study.gpus);
  const uint32_t modelled = study.options.engine.devices;
  if (study.gpus == modelled) return text;
  if (text.empty()) text = fmt::format("{:g} GPU{}", study.gpus, study.gpus == 1 ? "" : "s");
  return fmt::format("{}; the engine's speed is that of {}", text, modelled);
}

std::string AsTable(const TrafficOptions& options, const Study& study,
                    const std::vector<serving::SizedBy>& rows, size_t requests) {
  Table table({{"SIZED BY"},
               {"TTFT MET (%)", true},
               {"TOKENS MET (%)", true},
               {"BOTH (%)", true},
               {"GPU-HOURS", true},
               {"REPLICAS MEAN", true},
               {"MOST", true},
               {"UPS", true},
               {"DOWNS", true},
               {"FLAPS", true},
               {"HELD", true},
               {"LONGEST WAIT (s)", true},
               {"REFUSED", true},
               {"TTFT P50 (s)", true},
               {"P99", true}});
  for (const auto& [name, r] : rows) {
    table.Add({name, fmt::format("{:.2f}", 100 * r.ttft_attained),
               fmt::format("{:.2f}", 100 * r.tokens_attained), fmt::format("{:.2f}", 100 * r.attained),
               fmt::format("{:.1f}", GpuHours(study, r)), fmt::format("{:.2f}", r.mean_replicas),
               std::to_string(r.most_replicas), std::to_string(r.ups), std::to_string(r.downs),
               std::to_string(r.flaps), std::to_string(r.held), fmt::format("{:.1f}", r.longest_wait),
               std::to_string(r.refused), fmt::format("{:.2f}", r.ttft.p50),
               fmt::format("{:.2f}", r.ttft.p99)});
  }
  const std::string size = SizeOf(study);
  return fmt::format(
      "{}: {} in {:.1f} h; replicas of {}{}, {} to start one; first tokens within {}, the next "
      "within "
      "{}\n\n{}",
      options.source.path, Counted(requests, "request"), rows.front().report.seconds / 3600, options.engine,
      size.empty() ? "" : fmt::format(" ({})", size), options.cold_start,
      conf::InWords(study.options.policy.ttft), conf::InWords(study.options.policy.inter_token),
      table.Render());
}

nlohmann::ordered_json AsJson(const serving::Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p90", q.p90}, {"p99", q.p99}};
}

std::string AsJson(const TrafficOptions& options, const Study& study,
                   const std::vector<serving::SizedBy>& rows, const RecordedTraffic& traffic,
                   size_t requests) {
  nlohmann::ordered_json json{{"trace", options.source.path},
                              {"rows", traffic.rows},
                              {"left_out", traffic.left_out},
                              {"requests", requests},
                              {"model", study.options.policy.model},
                              {"engine", options.engine},
                              {"members", study.members},
                              {"gpus_per_replica", study.gpus},
                              {"engine_gpus", study.options.engine.devices},
                              {"cold_start_s", conf::ToSeconds(study.options.cold_start)},
                              {"ttft_slo_s", conf::ToSeconds(study.options.policy.ttft)},
                              {"inter_token_slo_s", conf::ToSeconds(study.options.policy.inter_token)},
                              {"sized_by", nlohmann::ordered_json::array()}};
  for (const auto& [name, r] : rows) {
    json["sized_by"].push_back({{"name", name},
                                {"ttft_attained", r.ttft_attained},
                                {"inter_token_attained", r.tokens_attained},
                                {"attained", r.attained},
                                {"gpu_hours", GpuHours(study, r)},
                                {"mean_replicas", r.mean_replicas},
                                {"most_replicas", r.most_replicas},
                                {"launches", r.launches},
                                {"scale_ups", r.ups},
                                {"scale_downs", r.downs},
                                {"flaps", r.flaps},
                                {"taken_back", r.taken_back},
                                {"finished", r.finished},
                                {"held", r.held},
                                {"refused", r.refused},
                                {"wait_s", AsJson(r.wait)},
                                {"longest_wait_s", r.longest_wait},
                                {"ttft_s", AsJson(r.ttft)},
                                {"token_time_s", AsJson(r.token_time)},
                                {"seconds", r.seconds}});
  }
  return AsText(json) + '\n';
}

// The requests to simulate, or nothing after an error message.
std::optional<std::vector<serving::Request>> Prepare(const TrafficOptions& options,
                                                     std::vector<serving::Request> requests,
                                                     std::optional<conf::Duration> loop) {
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

}  // namespace

CLI::Option* AddTrafficOptions(CLI::App& command, TrafficOptions& options, std::vector<std::string>& own) {
  CLI::Option* traffic =
      command.add_option("--traffic", options.source.path,
                         "Instead of jobs: recorded requests, on replicas that the scaling "
                         "policy of --policy starts and stops");
  traffic->group("With --traffic");
  const auto add = [&](CLI::Option* option) {
    option->needs(traffic)->group("With --traffic");
    own.push_back(option->get_name());
  };
  add(command
          .add_option(
              "--traffic-format", options.source.format,
              "Format: azure (CSV), mooncake (JSONL, says what prompts share) or servegen (a folder of "
              "clients)")
          ->check(TrafficFormats())
          ->capture_default_str());
  add(command
          .add_option("--copies", options.copies,
                      "Number of copies of the trace, each shifted by up to a minute")
          ->check(CLI::Range(1u, 10'000u))
          ->capture_default_str());
  add(command.add_option("--loop", options.loop, "Repeat the traffic for this time"));
  add(command
          .add_option("--cold-start", options.cold_start,
                      "Time from the launch of a replica until it is ready")
          ->capture_default_str());
  add(command
          .add_option("--starts-at", options.starts_at,
                      "The date at which the trace begins, for the policy's schedule")
          ->capture_default_str());
  add(command
          .add_option(
              "--beside", options.beside,
              "Laws to compare with: kpa, hpa (kpa:24 sets the target in flight; default: 70 % busy), fixed "
              "(fixed:8; default: the oracle's most), oracle (knows the trace, starts at once), or none")
          ->delimiter(',')
          ->capture_default_str());
  for (const char* const shared : {"--clients", "--from", "--window", "--engine", "--speed-up"}) {
    own.emplace_back(shared);
  }
  return traffic;
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
  absl::Status written;
  if (!options.html.empty()) {
    const serving::StudyFacts facts{.trace = options.source.path,
                                    .requests = requests->size(),
                                    .model = study.options.policy.model,
                                    .engine = options.engine,
                                    .gpus = study.gpus,
                                    .cold_start = study.options.cold_start,
                                    .ttft = study.options.policy.ttft,
                                    .attainment = study.options.policy.attainment};
    written = WriteWhole(options.html, serving::AsHtml(facts, *rows));
  }
  written.Update(Print(options.source.json ? AsJson(options, study, *rows, *loaded.traffic, requests->size())
                                           : AsTable(options, study, *rows, requests->size())));
  return written.ok() ? kOk : Fail(written);
}

}  // namespace gateway::cli
