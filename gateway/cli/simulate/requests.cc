#include "gateway/cli/simulate/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>
#include <utility>

#include "conf/text.h"
#include "conf/time.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/files.h"
#include "gateway/cli/interruption.h"
#include "gateway/cli/output.h"
#include "gateway/cli/simulate/option_problems.h"
#include "gateway/cli/simulate/output.h"
#include "gateway/cli/simulate/progress.h"
#include "router/routes/route_table.h"
#include "router/sim/adapter_traffic.h"
#include "router/sim/offered_load.h"
#include "router/sim/report_json.h"
#include "router/sim/shared_cache.h"
#include "router/sim/world.h"

namespace gateway::cli {
namespace {

namespace serving = router::sim;
using scheduler::engine::Profile;

constexpr uint32_t kMostSimulated = 4096;
constexpr size_t kMostFaults = 1000;
constexpr uint32_t kMostAdapters = 10'000;
// The most that a run may be sped up or slowed down by.
constexpr double kMostSpeedUp = 1e6;

// The simulation: one pool under one load, once for each policy.
struct Pool {
  serving::Options options;
  std::vector<router::PolicyKind> policies;
  Profile profile;
  double speed = 0;  // of all replicas together, in those of `profile`
};

struct PoolRun {
  std::string_view policy;
  serving::Report report;
};

// "3@5m" as the replica and what stands behind the sign.
std::optional<std::pair<uint32_t, std::string>> AtReplica(const std::string& text, uint32_t replicas) {
  const size_t sign = text.find('@');
  if (sign == std::string::npos) return std::nullopt;
  const auto replica = conf::ReadNumber<uint32_t>(std::string_view(text).substr(0, sign));
  if (!replica || *replica >= replicas) return std::nullopt;
  return std::pair(*replica, text.substr(sign + 1));
}

void ReadFaults(std::string_view option, const std::vector<std::string>& texts, serving::FaultKind kind,
                const RequestsOptions& options, serving::Options& out, std::vector<conf::Problem>& problems) {
  for (const std::string& text : texts) {
    const auto at = AtReplica(text, options.replicas);
    const auto time = at ? conf::ParseDuration(at->second) : std::nullopt;
    if (!time) {
      Refuse(problems, option, text,
             fmt::format("\"{}\" must be REPLICA@TIME, a replica from 0 to {} and a time such as 5m", text,
                         options.replicas - 1));
    } else {
      out.faults.push_back({.at = *time, .replica = at->first, .kind = kind});
    }
  }
}

void ReadSlow(const RequestsOptions& options, Pool& pool, std::vector<conf::Problem>& problems) {
  for (const std::string& text : options.slow) {
    const auto at = AtReplica(text, options.replicas);
    double speed = 0;
    if (at) std::from_chars(at->second.data(), at->second.data() + at->second.size(), speed);
    if (!at || !(speed >= 0.01 && speed <= 100)) {
      Refuse(problems, "--slow", text,
             fmt::format("\"{}\" must be REPLICA@SPEED, a replica from 0 to {} and its speed as a factor, "
                         "0.01 to 100",
                         text, options.replicas - 1));
    } else {
      pool.options.replicas[at->first] = scheduler::engine::SpeedUp(pool.profile, speed);
    }
  }
  for (const Profile& replica : pool.options.replicas) {
    pool.speed += static_cast<double>(pool.profile.per_prefill_token.count()) /
                  static_cast<double>(replica.per_prefill_token.count());
  }
}

Pool ReadPool(const RequestsOptions& options, std::vector<conf::Problem>& problems) {
  Pool pool;
  const auto profile = FindEngine(options.engine, problems);
  if (!profile) return pool;
  pool.profile = serving::Simulated(*profile);
  pool.profile.max_loras = options.max_loras;
  conf::Duration lora_load{};
  ReadTime("--lora-load", options.lora_load, lora_load, problems);
  pool.profile.lora_load = lora_load;
  pool.options.adapters = options.adapters;
  pool.options.replicas.assign(options.replicas, pool.profile);
  if (options.prefill > 0 && options.prefill >= options.replicas) {
    Refuse(problems, "--prefill", std::to_string(options.prefill),
           fmt::format("must be less than the {} replicas: at least one must answer", options.replicas));
  }
  pool.options.prefills = options.prefill;
  ReadSlow(options, pool, problems);
  if (options.queue) pool.options.queue.emplace();
  for (const std::string& name : options.policies) {
    if (const auto kind = router::PolicyByName(name)) {
      pool.policies.push_back(*kind);
    } else {
      Refuse(problems, "--policies", name,
             fmt::format("no policy is called \"{}\", expected one of {}", name,
                         fmt::join(std::views::keys(router::PolicyWords()), ", ")));
    }
  }
  if (options.policies.empty()) {
    for (const auto& [name, kind] : router::PolicyWords()) pool.policies.push_back(kind);
  }
  ReadTime("--telemetry-age", options.telemetry_age, pool.options.telemetry_age, problems);
  conf::Duration every{};
  ReadTime("--telemetry-every", options.telemetry_every, every, problems);
  if (every > conf::Duration::zero()) {
    pool.options.telemetry_every = every;
    pool.options.telemetry_age = std::max(pool.options.telemetry_age, conf::Duration(1));
  }
  ReadTime("--ttft-slo", options.slo, pool.options.slo, problems);
  ReadFaults("--die", options.die, serving::FaultKind::kDies, options, pool.options, problems);
  ReadFaults("--hang", options.hang, serving::FaultKind::kHangs, options, pool.options, problems);
  if (pool.options.faults.size() > kMostFaults) {
    Refuse(problems, "--die", "",
           fmt::format("{} faults, at most {} fit", pool.options.faults.size(), kMostFaults));
  }
  pool.options.seed = options.source.seed;
  return pool;
}

std::string AsTable(const RequestsOptions& options, const std::vector<PoolRun>& runs, double speed_up,
                    double bound, size_t requests) {
  Table table({{"POLICY"},
               {"HITS (%)", true},
               {"TTFT P50 (s)", true},
               {"P90", true},
               {"P99", true},
               {"TOKEN P50 (ms)", true},
               {"P99", true},
               {"TOTAL MEAN (s)", true},
               {"P99", true},
               {fmt::format("IN {} (%)", options.slo), true},
               {"SPREAD", true},
               {"RETRIED", true},
               {"LOST", true},
               {"LOADS", true},
               {"HELD", true}});
  for (const auto& [policy, r] : runs) {
    table.Add({std::string(policy), fmt::format("{:.1f}", 100 * r.hit_ratio),
               fmt::format("{:.2f}", r.ttft.p50), fmt::format("{:.2f}", r.ttft.p90),
               fmt::format("{:.2f}", r.ttft.p99), fmt::format("{:.1f}", 1e3 * r.token_time.p50),
               fmt::format("{:.1f}", 1e3 * r.token_time.p99), fmt::format("{:.2f}", r.total.mean),
               fmt::format("{:.2f}", r.total.p99), fmt::format("{:.1f}", 100 * r.within_slo),
               fmt::format("{:.2f}", r.spread), std::to_string(r.retried),
               std::to_string(r.broken + r.refused),
               options.adapters > 0 ? std::to_string(r.adapter_loads) : "-",
               options.queue ? std::to_string(r.held) : "-"});
  }
  return fmt::format(
      "{}: {} at {:.3g} times their rate; {} of {}{}; one cache as large as all would hit "
      "{:.1f} %\n\n{}",
      options.source.path, Counted(requests, "request"), speed_up, Counted(options.replicas, "replica"),
      options.engine, options.prefill > 0 ? fmt::format(", {} for prompts alone", options.prefill) : "",
      100 * bound, table.Render());
}

std::string AsJson(const RequestsOptions& options, const std::vector<PoolRun>& runs, double speed_up,
                   double bound, const RecordedTraffic& traffic) {
  nlohmann::ordered_json json{{"trace", options.source.path},
                              {"rows", traffic.rows},
                              {"left_out", traffic.left_out},
                              {"requests", traffic.requests.size()},
                              {"replicas", options.replicas},
                              {"prefill", options.prefill},
                              {"queue", options.queue},
                              {"engine", options.engine},
                              {"speed_up", speed_up},
                              {"shared_cache_hit_ratio", bound},
                              {"policies", nlohmann::ordered_json::array()}};
  if (options.utilization) json["utilization"] = *options.utilization;
  for (const auto& [policy, report] : runs) {
    nlohmann::ordered_json row{{"policy", policy}};
    row.update(serving::AsJson(report));
    json["policies"].push_back(std::move(row));
  }
  return AsText(json) + '\n';
}

// Nothing when it was interrupted.
std::optional<std::vector<PoolRun>> RunPolicies(const Pool& pool,
                                                const std::vector<serving::Request>& requests,
                                                const Interruption& interruption) {
  std::vector<PoolRun> runs;
  ProgressBar bar;
  for (const router::PolicyKind policy : pool.policies) {
    const std::string_view name = router::PolicyName(policy);
    bar.Begin(std::string(name));
    serving::Options options = pool.options;
    options.policy = policy;
    runs.push_back({name, serving::Simulate(options, requests, [&](size_t sent) {
                      bar.Show({.over = sent, .all = requests.size(), .of = "requests", .moment = {}});
                      return !interruption.seen();
                    })});
    if (interruption.seen()) return std::nullopt;
  }
  bar.End();
  return runs;
}

}  // namespace

CLI::Option* AddRequestsOptions(CLI::App& command, RequestsOptions& options, std::vector<std::string>& own) {
  CLI::Option* requests =
      command.add_option("--requests", options.source.path,
                         "Instead of jobs: recorded requests, to compare routing policies; a file");
  const auto add = [&](CLI::Option* option) {
    option->needs(requests)->group("With --requests");
    own.push_back(option->get_name());
    return option;
  };
  requests->group("With --requests");
  add(command.add_option(
          "--requests-format", options.source.format,
          "Format: azure (CSV), mooncake (JSONL, says what prompts share) or servegen (a folder of "
          "clients)"))
      ->check(TrafficFormats())
      ->capture_default_str();
  add(command.add_option(
          "--clients", options.source.clients,
          "Clients of servegen: CLIENT:TIMES@SHIFT, such as 1:20,5:10@6h: which client, how many times "
          "its rate, how much later; default: every client as it is"))
      ->delimiter(',');
  add(command.add_option("--from", options.source.from, "Start of the part to simulate, in the trace's time"))
      ->capture_default_str();
  add(command.add_option("--window", options.source.window,
                         "Length of the part to simulate; default: to the end"));
  add(command.add_option("--replicas", options.replicas, "Number of engines"))
      ->check(CLI::Range(1u, kMostSimulated))
      ->capture_default_str();
  add(command.add_option("--prefill", options.prefill,
                         "How many of the engines only compute prompts, of 1024 tokens and more, for the "
                         "others"));
  add(command.add_flag(
      "--queue", options.queue,
      "Hold requests at the gateway while the replicas are full, as a model does by default; without this "
      "option each request is sent at once"));
  add(command.add_option("--engine", options.engine, "Preset of the engines: a model and its GPUs"))
      ->capture_default_str();
  add(command.add_option("--slow", options.slow,
                         "REPLICA@SPEED: the speed of one replica (numbered from 0) as a factor"));
  add(command.add_option("--policies", options.policies, "Routing policies to compare; default: all"))
      ->delimiter(',');
  CLI::Option* utilization =
      add(command.add_option(
              "--utilization", options.utilization,
              "Load of the pool, as a part of its capacity; default: 0.85, unless --speed-up is given"))
          ->check(CLI::Range(0.01, 10.0));
  add(command.add_option("--speed-up", options.speed_up,
                         "Factor by which requests arrive faster than recorded"))
      ->check(CLI::Range(1 / kMostSpeedUp, kMostSpeedUp))
      ->excludes(utilization);
  add(command.add_option("--telemetry-age", options.telemetry_age,
                         "Age of the engines' signals when they are read"))
      ->capture_default_str();
  add(command.add_option("--telemetry-every", options.telemetry_every,
                         "Time between two readings of the signals; 0: at every choice"))
      ->capture_default_str();
  add(command.add_option("--die", options.die, "REPLICA@TIME: this replica dies, this long after the start"));
  add(command.add_option(
      "--hang", options.hang,
      "REPLICA@TIME: this replica accepts requests and never answers, this long after the start"));
  CLI::Option* adapters =
      add(command.add_option(
              "--adapters", options.adapters,
              "Number of LoRA adapters that the conversations use, some more popular than others"))
          ->check(CLI::Range(1u, kMostAdapters));
  add(command.add_option("--max-loras", options.max_loras, "Adapters that an engine holds at a time"))
      ->needs(adapters)
      ->check(CLI::Range(1u, kMostAdapters))
      ->capture_default_str();
  add(command.add_option("--lora-load", options.lora_load, "Time that an engine takes to load an adapter"))
      ->needs(adapters)
      ->capture_default_str();
  add(command.add_option("--ttft-slo", options.slo, "A first token within this time counts as in time"))
      ->capture_default_str();
  return requests;
}

int SimulateRequests(const RequestsOptions& options) {
  std::vector<conf::Problem> problems;
  Pool pool = ReadPool(options, problems);
  LoadedTraffic loaded = LoadTraffic(options.source, std::move(problems));
  if (!loaded.traffic) return loaded.code;
  std::vector<serving::Request>& requests = loaded.traffic->requests;
  uint64_t blocks = 0;
  for (const Profile& replica : pool.options.replicas) blocks += replica.kv_blocks;
  const double bound = serving::SharedCacheHitRatio(requests, blocks);
  const double speed_up = options.speed_up.value_or(
      serving::SpeedUpFor(options.utilization.value_or(0.85), pool.speed, requests, pool.profile, bound));
  requests = serving::Faster(std::move(requests), speed_up);
  serving::DealOut(options.adapters, requests);

  const Interruption interruption;
  const auto runs = RunPolicies(pool, requests, interruption);
  if (!runs) {
    fmt::print(stderr, "tidegate: interrupted\n");
    interruption.Obey();
  }
  const absl::Status written =
      Print(options.source.json ? AsJson(options, *runs, speed_up, bound, *loaded.traffic)
                                : AsTable(options, *runs, speed_up, bound, requests.size()));
  return written.ok() ? kOk : Fail(written);
}

}  // namespace gateway::cli
