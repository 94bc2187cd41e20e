// One model's control loop at 1,000 replicas and 100,000 requests a second, ticks of 100 ms: folding what
// arrived into seconds of a replica, and the decision. `core` is the part of one core that it takes,
// `most_ms` the longest tick, CPU time both.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "conf/time.h"
#include "scheduler/autoscale/autoscaler.h"
#include "scheduler/autoscale/capacity.h"
#include "scheduler/engine/presets.h"
#include "scheduler/rng.h"

namespace {

using namespace scheduler::autoscale;

constexpr uint32_t kReplicas = 1000;
constexpr uint32_t kRequests = 10'000;  // in a tick
constexpr conf::Duration kTick = std::chrono::milliseconds(100);

// CPU time of this thread: other processes do not count.
double ThreadCpuMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

ScalingPolicy PolicyOf(Law law) {
  ScalingPolicy policy;
  policy.model = "m";
  policy.max = 2 * kReplicas;
  policy.law = law;
  policy.kpa.target = policy.hpa.target = 16;
  return policy;
}

std::vector<ReplicaView> Pool(scheduler::Rng& rng) {
  std::vector<ReplicaView> replicas;
  replicas.reserve(kReplicas);
  for (uint32_t id = 0; id < kReplicas; ++id) {
    ReplicaView& replica = replicas.emplace_back();
    replica.id = id;
    replica.phase = id % 20 == 0   ? ReplicaPhase::kDraining
                    : id % 20 == 1 ? ReplicaPhase::kPending
                                   : ReplicaPhase::kReady;
    replica.in_flight = static_cast<uint32_t>(rng.Uniform(200));
  }
  return replicas;
}

void ControlLoop(benchmark::State& state) {
  scheduler::Rng rng(1);
  const Capacity capacity = CapacityOf(*scheduler::engine::FindPreset("llama-3.3-70b-4xa100"));
  Autoscaler autoscaler(PolicyOf(static_cast<Law>(state.range(0))));
  std::vector<ReplicaView> replicas = Pool(rng);
  std::vector<uint32_t> prompts(kRequests);
  for (uint32_t& prompt : prompts) prompt = static_cast<uint32_t>(100 + rng.Uniform(4000));
  AnswerSizes answers(256);
  // Replicas are assumed to be so fast that the load keeps four fifths of them busy.
  const double faster =
      0.8 * kReplicas * conf::ToSeconds(kTick) / (kRequests * WorkOf(capacity, 2100, 2100, 256));
  conf::TimePoint now{std::chrono::hours(1000)};
  double most_ms = 0;
  double changes = 0;
  for (auto _ : state) {
    const double begun = ThreadCpuMs();
    double work = 0;
    for (const uint32_t prompt : prompts) {
      work += WorkOf(capacity, prompt, prompt, answers.mean(), answers.written());
      answers.Add(prompt / 8.0);
    }
    now += kTick;
    // A swell of half of the load in ten minutes: replicas come and go.
    const double swell = 1 + 0.5 * std::sin(conf::ToSeconds(now.time_since_epoch()) / 95);
    const Signals signals{.demand = {.work = work / conf::ToSeconds(kTick) * faster * swell},
                          .in_flight = 16 * kReplicas * swell,
                          .held = 0};
    const Decision decision = autoscaler.Tick(signals, replicas, std::chrono::seconds(90), now);
    changes += decision.start + static_cast<double>(decision.drain.size() + decision.take_back.size());
    most_ms = std::max(most_ms, ThreadCpuMs() - begun);
    benchmark::DoNotOptimize(decision.wanted);
    for (ReplicaView& replica : replicas) {
      if (replica.phase == ReplicaPhase::kPending) replica.since = now;
    }
  }
  state.counters["core"] = benchmark::Counter(
      conf::ToSeconds(kTick), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["most_ms"] = most_ms;
  state.counters["changes"] = benchmark::Counter(changes, benchmark::Counter::kAvgIterations);
}
BENCHMARK(ControlLoop)
    ->ArgName("law")
    ->Arg(static_cast<int>(Law::kDemand))
    ->Arg(static_cast<int>(Law::kKpa))
    ->Arg(static_cast<int>(Law::kHpa))
    ->Unit(benchmark::kMicrosecond);

}  // namespace
