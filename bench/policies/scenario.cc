#include "bench/policies/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>

#include "bench/policies/workload.h"
#include "router/route_table.h"

namespace bench::policies {
namespace {

using router::sim::Fault;
using router::sim::FaultKind;
using router::sim::Request;
using scheduler::engine::Profile;

constexpr std::array<std::string_view, 10> kCompared = {
    "round-robin",     "random",      "least-requests", "least-load", "power-of-two",
    "consistent-hash", "cache-aware", "kv-cost",        "epp",        "cost"};

std::vector<Profile> PoolOf(const Scenario& scenario, const Profile& profile) {
  std::vector<Profile> pool(scenario.replicas, profile);
  for (uint32_t i = 1; scenario.mixed && i < scenario.replicas; i += 2) {
    pool[i] = scheduler::engine::SpeedUp(profile, 0.5);
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
  for (const auto& [name, kind] :
       {std::pair("dies", FaultKind::kDies), std::pair("hangs", FaultKind::kHangs)}) {
    all.push_back({.name = fmt::format("16 replicas, 75 % load, one {} after 5 minutes", name),
                   .replicas = 16,
                   .load = 0.75,
                   .faults = {Fault{.at = std::chrono::minutes(5), .replica = 3, .kind = kind}}});
  }
  return all;
}

double DemandSeconds(std::span<const Request> requests, const Profile& profile, double hits) {
  const double kv_tokens = static_cast<double>(profile.kv_blocks) * profile.block_size;
  double nanos = 0;
  for (const Request& request : requests) {
    const double tokens = static_cast<double>(request.prompt_tokens) + request.output_tokens;
    const double of_step = std::max(1.0 / profile.max_running, tokens / kv_tokens);
    nanos += request.prompt_tokens * (1 - hits) * profile.per_prefill_token.count();
    nanos += request.output_tokens *
             (profile.step_per_sequence.count() + profile.per_context_token.count() * tokens +
              profile.step_base.count() * of_step);
  }
  return nanos * 1e-9;
}

std::vector<Result> RunAll(std::span<const Scenario> scenarios, const std::vector<Request>& trace,
                           const Profile& profile, unsigned threads) {
  std::vector<Result> results;
  std::vector<std::vector<Request>> workloads;
  for (const Scenario& scenario : scenarios) {
    Result& result = results.emplace_back();
    result.scenario = scenario;
    result.bound = router::sim::SharedCacheHitRatio(trace, uint64_t{scenario.replicas} * profile.kv_blocks);
    result.speed_up = scenario.load * SpeedOf(scenario) * conf::ToSeconds(trace.back().at) /
                      DemandSeconds(trace, profile, result.bound);
    result.reports.resize(kCompared.size());
    workloads.push_back(Faster(trace, result.speed_up));
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    const size_t all = scenarios.size() * kCompared.size();
    for (size_t i = next++; i < all; i = next++) {
      const size_t at = i / kCompared.size();
      router::sim::Options options;
      options.policy = *router::PolicyByName(kCompared[i % kCompared.size()]);
      options.replicas = PoolOf(scenarios[at], profile);
      options.telemetry_age = scenarios[at].telemetry_age;
      options.faults = scenarios[at].faults;
      options.whole = scenarios[at].whole;
      results[at].reports[i % kCompared.size()] = Simulate(options, workloads[at]);
      fmt::print(stderr, "\r{} of {} ", i + 1, all);
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  fmt::print(stderr, "\n");
  return results;
}

}  // namespace bench::policies
