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
#include "gateway/cli/simulate/progress.h"
#include "gateway/cli/simulate/recorded_traffic.h"
#include "gateway/cli/simulate/requests_report.h"
#include "router/routes/route_table.h"
#include "router/sim/adapter_traffic.h"
#include "router/sim/offered_load.h"
#include "router/sim/requests_html.h"
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
constexpr conf::Duration kSampleEvery = std::chrono::seconds(10);  // of the page's plots

struct RequestsOptions {
  TrafficSource source;
  uint32_t replicas = 8;
  uint32_t prefill = 0;   // of these, for long prompts alone
  bool no_queue = false;  // each request is sent at once
  std::string engine = "llama-3.3-70b-4xh200";
  std::vector<std::string> slow;      // REPLICA@SPEED
  std::vector<std::string> policies;  // none: all
  std::optional<double> utilization;  // one of these two
  std::optional<double> speed_up;
  std::string telemetry_age = "0s";
  std::string telemetry_every = "1s";  // as the gateway reads busy engines
  std::vector<std::string> die;        // REPLICA@TIME
  std::vector<std::string> hang;       // REPLICA@TIME
  uint32_t adapters = 0;               // LoRA
  uint32_t max_loras = 4;
  std::string lora_load = "500ms";
  std::string slo = "2s";
  std::string html;
};

// The simulation: one pool under one load, once for each policy.
struct Pool {
  serving::Options options;
  std::vector<router::PolicyKind> policies;
  Profile profile;
  double speed = 0;  // of all replicas together, in those of `profile`
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
  if (!options.no_queue) pool.options.queue.emplace();
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
  CheckWritable("--html", options.html, problems);
  if (!options.html.empty()) pool.options.sample_every = kSampleEvery;
  pool.options.seed = options.source.seed;
  return pool;
}

// Nothing when it was interrupted.
std::optional<std::vector<serving::PolicyReport>> RunPolicies(const Pool& pool,
                                                              const std::vector<serving::Request>& requests,
                                                              const Interruption& interruption) {
  std::vector<serving::PolicyReport> runs;
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
    return kFailed;
  }
  const RequestsFacts facts{.pool = {.trace = options.source.path,
                                     .requests = requests.size(),
                                     .speed_up = speed_up,
                                     .engine = options.engine,
                                     .replicas = options.replicas,
                                     .prefill = options.prefill,
                                     .queue = !options.no_queue,
                                     .slo = pool.options.slo,
                                     .shared_cache_hit_ratio = bound},
                            .rows = loaded.traffic->rows,
                            .left_out = loaded.traffic->left_out,
                            .adapters = options.adapters,
                            .utilization = options.utilization};
  absl::Status written;
  if (!options.html.empty()) written.Update(WriteWhole(options.html, serving::AsHtml(facts.pool, *runs)));
  written.Update(Print(options.source.json ? AsJson(facts, *runs) : AsTable(facts, *runs)));
  return written.ok() ? kOk : Fail(written);
}

void AddPoolOptions(CLI::App& command, RequestsOptions& options) {
  const auto add = [](CLI::Option* option) { return option->group("Replicas"); };
  add(command.add_option("--replicas", options.replicas, "Number of engines"))
      ->check(CLI::Range(1u, kMostSimulated))
      ->capture_default_str();
  add(command.add_option("--engine", options.engine, "Preset: a model and its GPUs"))->capture_default_str();
  add(command.add_option("--prefill", options.prefill, "Of these, engines that only compute long prompts"));
  add(command.add_option("--slow", options.slow, "REPLICA@SPEED: one replica's speed as a factor"));
  add(command.add_option("--die", options.die, "REPLICA@TIME: this replica dies at that time"));
  add(command.add_option("--hang", options.hang, "REPLICA@TIME: this replica hangs from that time on"));
  CLI::Option* adapters =
      add(command.add_option("--adapters", options.adapters, "Number of LoRA adapters that requests use"))
          ->check(CLI::Range(1u, kMostAdapters));
  add(command.add_option("--max-loras", options.max_loras, "Adapters that an engine holds at a time"))
      ->needs(adapters)
      ->check(CLI::Range(1u, kMostAdapters))
      ->capture_default_str();
  add(command.add_option("--lora-load", options.lora_load, "Time to load an adapter"))
      ->needs(adapters)
      ->capture_default_str();
}

void AddRoutingOptions(CLI::App& command, RequestsOptions& options) {
  const auto add = [](CLI::Option* option) { return option->group("Load and routing"); };
  CLI::Option* utilization = add(command.add_option("--utilization", options.utilization,
                                                    "Load as a share of the pool's capacity; default: 0.85"))
                                 ->check(CLI::Range(0.01, 10.0));
  add(command.add_option("--speed-up", options.speed_up, "Instead: a multiple of the recorded rate"))
      ->check(CLI::Range(1 / kMostSpeedUp, kMostSpeedUp))
      ->excludes(utilization);
  add(command.add_option("--policies", options.policies, "Routing policies to compare; default: all"))
      ->delimiter(',');
  add(command.add_flag("--no-queue", options.no_queue, "Send each request at once, also to full replicas"));
  add(command.add_option("--telemetry-every", options.telemetry_every,
                         "Time between two readings of the engines"))
      ->capture_default_str();
  add(command.add_option("--telemetry-age", options.telemetry_age, "Age of a reading when it arrives"))
      ->capture_default_str();
  add(command.add_option("--ttft-slo", options.slo, "A first token within this time is in time"))
      ->capture_default_str();
}

}  // namespace

void AddSimulateRequests(CLI::App& simulate, Run& run) {
  CLI::App* command = simulate.add_subcommand(
      "requests", "Recorded requests on a fixed pool of engines: latency and cache hits by routing policy");
  auto options = std::make_shared<RequestsOptions>();
  AddSourceOptions(*command, options->source);
  AddPoolOptions(*command, *options);
  AddRoutingOptions(*command, *options);
  command->add_option("--html", options->html, "Write a page with tables and plots")
      ->group("Runs and output");
  AddRunOptions(*command, options->source);
  command->footer(
      "Examples:\n"
      "  tidegate simulate requests conf/traffic/conversations.jsonl --replicas 4\n"
      "  tidegate simulate requests conf/traffic/conversations.jsonl --replicas 8 --utilization 1.1 \\\n"
      "    --policies cost,least-load --die 2@1m --html routing.html");
  command->callback([options, &run] { run = [options] { return SimulateRequests(*options); }; });
}

}  // namespace gateway::cli
