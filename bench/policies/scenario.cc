#include "bench/policies/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "bench/policies/parallel.h"
#include "router/routes/route_table.h"
#include "router/sim/adapter_traffic.h"
#include "router/sim/offered_load.h"
#include "router/sim/shared_cache.h"

namespace bench::policies {
namespace {

using router::sim::Fault;
using router::sim::FaultKind;
using router::sim::Request;
using scheduler::engine::Profile;

// Suffixes of a policy's name: it uses the engines' own reports of their caches instead of a guess; and requests that
// find no room wait at the gateway.
constexpr std::string_view kTold = "+events";
constexpr std::string_view kQueued = "+queue";
constexpr std::array<std::string_view, 14> kCompared = {"round-robin", "random",           "least-requests",
                                                        "least-load",  "power-of-two",     "consistent-hash",
                                                        "cache-aware", "kv-cost",          "epp",
                                                        "epp+queue",   "epp+events",       "cost",
                                                        "cost+queue",  "cost+events+queue"};

// Removes the suffix from the name, if present.
bool TakeOff(std::string_view suffix, std::string_view& policy) {
  const bool there = policy.ends_with(suffix);
  if (there) policy.remove_suffix(suffix.size());
  return there;
}

// From a local disk to the GPU, for a 70B model.
constexpr std::chrono::milliseconds kAdapterLoad{500};

std::vector<Profile> PoolOf(const Scenario& scenario, const Profile& profile) {
  std::vector<Profile> pool(scenario.replicas, profile);
  for (Profile& replica : pool) {
    replica.max_loras = scenario.slots;
    replica.lora_load = kAdapterLoad;
  }
  for (uint32_t i = 1; scenario.mixed && i < scenario.replicas; i += 2) {
    pool[i] = scheduler::engine::SpeedUp(pool[i], 0.5);
  }
  return pool;
}

double SpeedOf(const Scenario& scenario) {
  return scenario.mixed ? 0.75 * scenario.replicas : scenario.replicas;
}

}  // namespace

std::span<const std::string_view> ComparedPolicies() {
  return kCompared;
}

std::vector<Scenario> Scenarios(bool quick) {
  std::vector<Scenario> all;
  for (const uint32_t replicas : {8u, 16u}) {
    for (const double load : {0.60, 0.85, 0.97}) {
      for (const conf::Duration age : {std::chrono::seconds(0), std::chrono::seconds(1)}) {
        if (age > conf::Duration::zero() && load != 0.85) continue;
        const bool plain = load == 0.85 && age == conf::Duration::zero();
        if (quick && (replicas != 8 || (!plain && load != 0.97) || age != conf::Duration::zero())) continue;
        all.push_back({.name = fmt::format("{} replicas, {:.0f} % load{}", replicas, 100 * load,
                                           age > conf::Duration::zero() ? ", telemetry 1 s old" : ""),
                       .replicas = replicas,
                       .load = load,
                       .telemetry_age = age});
      }
    }
  }
  if (quick) return all;
  for (const uint32_t replicas : {8u, 16u}) {
    all.push_back({.name = fmt::format("{} replicas, half of them at half the rate, 85 % load", replicas),
                   .replicas = replicas,
                   .load = 0.85,
                   .mixed = true});
  }
  all.push_back({.name = "8 replicas, 85 % load, half of the answers not streamed", .whole = 0.5});
  for (const auto& [adapters, slots] : {std::pair(24u, 4u), std::pair(48u, 4u)}) {
    all.push_back(
        {.name = fmt::format("8 replicas, 70 % load, {} LoRA adapters, {} slots each", adapters, slots),
         .load = 0.70,
         .adapters = adapters,
         .slots = slots});
  }
  for (const uint32_t prefills : {3u, 4u}) {
    all.push_back({.name = fmt::format("8 replicas, 85 % load, {} of them for prompts alone", prefills),
                   .prefills = prefills});
  }
  for (const auto& [name, kind] :
       {std::pair("dies", FaultKind::kDies), std::pair("hangs", FaultKind::kHangs)}) {
    all.push_back({.name = fmt::format("16 replicas, 75 % load, one {} after 5 minutes", name),
                   .replicas = 16,
                   .load = 0.75,
                   .faults = {Fault{.at = std::chrono::minutes(5), .replica = 3, .kind = kind}}});
  }
  return all;
}

std::vector<Result> RunAll(std::span<const Scenario> scenarios, const std::vector<Request>& trace,
                           const Profile& profile, unsigned threads) {
  std::vector<Result> results;
  std::vector<std::vector<Request>> workloads;
  for (const Scenario& scenario : scenarios) {
    Result& result = results.emplace_back();
    result.scenario = scenario;
    result.bound = router::sim::SharedCacheHitRatio(trace, uint64_t{scenario.replicas} * profile.kv_blocks);
    result.speed_up = router::sim::SpeedUpFor(scenario.load, SpeedOf(scenario), trace, profile, result.bound);
    result.reports.resize(kCompared.size());
    workloads.push_back(router::sim::Faster(trace, result.speed_up));
    router::sim::DealOut(scenario.adapters, workloads.back());
  }
  std::vector<std::function<void()>> runs;
  for (size_t at = 0; at < scenarios.size(); ++at) {
    for (size_t p = 0; p < kCompared.size(); ++p) {
      runs.emplace_back([&, at, p] {
        router::sim::Options options;
        std::string_view policy = kCompared[p];
        if (TakeOff(kQueued, policy)) options.queue.emplace();
        options.kv_events = TakeOff(kTold, policy);
        options.policy = *router::PolicyByName(policy);
        options.replicas = PoolOf(scenarios[at], profile);
        options.telemetry_age = scenarios[at].telemetry_age;
        options.faults = scenarios[at].faults;
        options.whole = scenarios[at].whole;
        options.adapters = scenarios[at].adapters;
        options.prefills = scenarios[at].prefills;
        results[at].reports[p] = Simulate(options, workloads[at]);
      });
    }
  }
  RunOnThreads(runs, threads);
  return results;
}

}  // namespace bench::policies
