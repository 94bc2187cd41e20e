#include "router/sim/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "router/sim/adapter_traffic.h"
#include "router/sim/shared_cache.h"
#include "scheduler/engine/presets.h"
#include "scheduler/rng.h"

namespace router::sim {
namespace {

using namespace std::chrono_literals;

// Conversations whose turns come some time apart, each turn's prompt beginning with the last one's.
std::vector<Request> Conversations(size_t turns, double per_second, uint64_t seed = 1) {
  struct Talk {
    uint64_t name;
    uint32_t blocks;
  };
  scheduler::Rng rng(seed);
  std::vector<Talk> talks;
  for (uint64_t i = 0; i < 60; ++i) talks.push_back({i, 10});
  std::vector<Request> requests;
  for (size_t i = 0; i < turns; ++i) {
    Talk& talk = talks[rng.Uniform(talks.size())];
    talk.blocks += 5;
    if (talk.blocks > 120) talk = {1000 + i, 10};
    Request request{.at = conf::Duration(static_cast<int64_t>(1e9 * static_cast<double>(i) / per_second)),
                    .prompt_tokens = talk.blocks * kBlockTokens + 7,
                    .output_tokens = 20 + static_cast<uint32_t>(rng.Uniform(200)),
                    .blocks = {}};
    scheduler::Rng text(talk.name);
    for (uint32_t b = 0; b < talk.blocks; ++b) request.blocks.push_back(text.Next());
    requests.push_back(std::move(request));
  }
  return requests;
}

Options Pool(size_t replicas, PolicyKind policy) {
  Options options;
  options.policy = policy;
  options.replicas.assign(replicas, Simulated(*scheduler::engine::FindPreset("llama-3.3-70b-4xh100")));
  return options;
}

TEST(ServingSimulation, EveryRequestEndsUnderEveryPolicy) {
  const auto requests = Conversations(1500, 20);
  for (const auto& [name, kind] : PolicyWords()) {
    const Report report = Simulate(Pool(4, kind), requests);
    EXPECT_EQ(report.finished, requests.size()) << name;
    EXPECT_EQ(report.refused + report.broken, 0u) << name;
    EXPECT_GT(report.ttft.p50, 0) << name;
    EXPECT_GE(report.total.p99, report.ttft.p50) << name;
  }
}

TEST(ServingSimulation, TheSameOptionsGiveTheSameReport) {
  const auto requests = Conversations(800, 20);
  const Report a = Simulate(Pool(4, PolicyKind::kCost), requests);
  const Report b = Simulate(Pool(4, PolicyKind::kCost), requests);
  EXPECT_EQ(a.ttft.mean, b.ttft.mean);
  EXPECT_EQ(a.total.p99, b.total.p99);
  EXPECT_EQ(a.hit_ratio, b.hit_ratio);
}

// Long prompts that have nothing in common, and short answers.
std::vector<Request> Documents(size_t count, double per_second) {
  scheduler::Rng rng(7);
  std::vector<Request> requests(count);
  for (size_t i = 0; i < count; ++i) {
    requests[i].at = conf::Duration(static_cast<int64_t>(1e9 * static_cast<double>(i) / per_second));
    requests[i].blocks.resize(80);
    for (uint64_t& block : requests[i].blocks) block = rng.Next();
    requests[i].prompt_tokens = 80 * kBlockTokens + 7;
    requests[i].output_tokens = 100;
  }
  return requests;
}

TEST(ServingSimulation, RemotePrefillDelaysNoTokens) {
  const auto requests = Documents(300, 4);
  for (const std::string_view name : {"cost", "least-load", "epp"}) {
    Options options = Pool(4, *PolicyByName(name));
    const Report mixed = Simulate(options, requests);
    options.prefills = 2;
    const Report split = Simulate(options, requests);
    EXPECT_EQ(split.finished, requests.size()) << name;
    EXPECT_EQ(split.remote_prefill, requests.size()) << name;
    EXPECT_LT(split.token_time.p99, 0.8 * mixed.token_time.p99) << name;
  }
}

TEST(ServingSimulation, EveryRequestSurvivesTheLossOfAPrefillOrADecodeReplica) {
  const auto requests = Conversations(1500, 14);
  for (const uint32_t victim : {0U, 3U}) {
    Options options = Pool(4, PolicyKind::kCost);
    options.prefills = 2;
    options.faults = {{.at = 40s, .replica = victim, .kind = FaultKind::kDies}};
    const Report report = Simulate(options, requests);
    EXPECT_EQ(report.finished + report.broken, requests.size()) << victim;
    EXPECT_EQ(report.refused, 0u) << victim;
    if (victim == 0) EXPECT_EQ(report.broken, 0u) << "a prompt has no token that could be lost";
  }
}

TEST(ServingSimulation, WithKvEventsPredictedPrefixesAreFound) {
  const auto requests = Conversations(3000, 20);
  Options options = Pool(4, PolicyKind::kCost);
  // Caches so small that they evict all the time.
  for (scheduler::engine::Profile& profile : options.replicas) profile.kv_blocks /= 6;
  options.kv_events = true;
  const Report told = Simulate(options, requests);
  EXPECT_EQ(told.finished, requests.size());
  EXPECT_LT(std::abs(told.predicted_ratio - told.hit_ratio), 0.05 * told.hit_ratio);
}

TEST(ServingSimulation, GuessesAreNearlyAsGoodAsKvEvents) {
  const auto requests = Conversations(3000, 20);
  Options options = Pool(4, PolicyKind::kCost);
  for (scheduler::engine::Profile& profile : options.replicas) profile.kv_blocks /= 6;
  const Report guessed = Simulate(options, requests);
  options.kv_events = true;
  const Report told = Simulate(options, requests);
  EXPECT_LT(std::abs(guessed.predicted_ratio - guessed.hit_ratio), 0.06 * guessed.hit_ratio);
  EXPECT_GT(guessed.hit_ratio, 0.95 * told.hit_ratio);
  EXPECT_LT(guessed.total.mean, 1.2 * told.total.mean);
}

TEST(ServingSimulation, CostFindsMorePrefixesAndIsFasterThanRoundRobin) {
  const auto requests = Conversations(3000, 40);
  const Report cost = Simulate(Pool(8, PolicyKind::kCost), requests);
  const Report turns = Simulate(Pool(8, PolicyKind::kRoundRobin), requests);
  EXPECT_GT(cost.hit_ratio, 1.3 * turns.hit_ratio);
  EXPECT_LT(cost.ttft.mean, 0.7 * turns.ttft.mean);
}

TEST(ServingSimulation, NoPolicyBeatsTheSharedCacheByMuch) {
  const auto requests = Conversations(3000, 40);
  const Options options = Pool(8, PolicyKind::kCost);
  const double bound = SharedCacheHitRatio(requests, 8 * options.replicas[0].kv_blocks);
  const Report cost = Simulate(options, requests);
  EXPECT_LE(cost.hit_ratio, bound);
  EXPECT_GE(cost.hit_ratio, 0.85 * bound);
  EXPECT_NEAR(cost.predicted_ratio, cost.hit_ratio, 0.05);
  EXPECT_GE(cost.offered_ratio, cost.predicted_ratio);
}

// A gateway that took an answer's whole duration for waiting would see backlogs that are not there.
TEST(ServingSimulation, UnstreamedAnswersAreSpreadAsWellAsStreams) {
  const auto requests = Conversations(3000, 40);
  Options options = Pool(8, PolicyKind::kCost);
  options.telemetry_age = 1s;
  const Report streamed = Simulate(options, requests);
  for (const double whole : {0.5, 0.9}) {
    options.whole = whole;
    const Report mixed = Simulate(options, requests);
    EXPECT_EQ(mixed.finished, requests.size());
    EXPECT_LE(mixed.ttft.mean, 1.1 * streamed.ttft.mean) << whole;
    EXPECT_LE(mixed.ttft.p99, 1.2 * streamed.ttft.p99) << whole;
    EXPECT_LE(mixed.total.mean, 1.1 * streamed.total.mean) << whole;
    EXPECT_GE(mixed.hit_ratio, 0.97 * streamed.hit_ratio) << whole;
    EXPECT_LE(mixed.spread, 1.1 * streamed.spread) << whole;
  }
}

TEST(ServingSimulation, TelemetryASecondOldCostsLittle) {
  const auto requests = Conversations(3000, 40);
  Options options = Pool(8, PolicyKind::kCost);
  const Report fresh = Simulate(options, requests);
  options.telemetry_age = 1s;
  const Report old = Simulate(options, requests);
  EXPECT_LE(old.ttft.p50, 1.25 * fresh.ttft.p50);
  EXPECT_LE(old.total.mean, 1.25 * fresh.total.mean);
}

TEST(ServingSimulation, SlowerReplicasGetLess) {
  const auto requests = Conversations(3000, 30);
  Options options = Pool(4, PolicyKind::kCost);
  for (size_t i = 0; i < 2; ++i) options.replicas[i] = scheduler::engine::SpeedUp(options.replicas[i], 0.5);
  const Report cost = Simulate(options, requests);
  options.policy = PolicyKind::kLeastRequests;
  const Report least = Simulate(options, requests);
  EXPECT_GT(cost.spread, 1.15) << "the quick ones compute more than the mean";
  EXPECT_LT(cost.ttft.mean, least.ttft.mean);
}

TEST(ServingSimulation, RequestsAtAReplicaThatDiesAreRetriedElsewhere) {
  const auto requests = Conversations(2000, 30);
  Options options = Pool(4, PolicyKind::kCost);
  options.faults = {{.at = 20s, .replica = 1, .kind = FaultKind::kDies}};
  const Report report = Simulate(options, requests);
  EXPECT_EQ(report.refused, 0u);
  EXPECT_EQ(report.finished + report.broken, requests.size());
  EXPECT_LT(report.broken, 100u) << "only those whose answers had begun";
  EXPECT_GT(report.retried, 0u);
  EXPECT_LT(report.retried, 40u) << "after a few failures nobody is sent there any more";
}

TEST(ServingSimulation, AReplicaThatHangsDelaysFewRequests) {
  const auto requests = Conversations(2000, 30);
  Options options = Pool(4, PolicyKind::kCost);
  options.faults = {{.at = 20s, .replica = 1, .kind = FaultKind::kHangs}};
  const Report report = Simulate(options, requests);
  EXPECT_EQ(report.refused, 0u);
  EXPECT_EQ(report.finished + report.broken, requests.size());
  // An even share of the 30 s until it is found out would be 225.
  EXPECT_LT(report.retried, 225u / 3);
}

TEST(SharedCache, HitsBlocksThatAreNotEvicted) {
  const auto request = [](std::vector<uint64_t> blocks) {
    const auto tokens = static_cast<uint32_t>(blocks.size()) * kBlockTokens;
    return Request{.at = {}, .prompt_tokens = tokens + 1, .output_tokens = 1, .blocks = std::move(blocks)};
  };
  const std::vector<Request> requests = {request({1, 2, 3}), request({1, 2, 4}), request({7, 8, 9}),
                                         request({1, 2, 3})};
  const double tokens = 4 * (3 * kBlockTokens + 1);
  EXPECT_DOUBLE_EQ(SharedCacheHitRatio(requests, 100), 5 * kBlockTokens / tokens);
  EXPECT_DOUBLE_EQ(SharedCacheHitRatio(requests, 4), 3 * kBlockTokens / tokens) << "1 outlives 2 and 3";
  EXPECT_DOUBLE_EQ(SharedCacheHitRatio(requests, 0), 0);
}

TEST(ServingSimulation, AdapterRequestsStayWhereTheAdapterIsLoaded) {
  auto requests = Conversations(1500, 12);
  DealOut(12, requests);
  const auto report = [&](PolicyKind policy) {
    Options options = Pool(4, policy);
    options.adapters = 12;
    for (scheduler::engine::Profile& replica : options.replicas) {
      replica.max_loras = 3;
      replica.lora_load = 400ms;
    }
    return Simulate(options, requests);
  };
  const Report cost = report(PolicyKind::kCost);
  const Report blind = report(PolicyKind::kLeastRequests);
  EXPECT_EQ(cost.finished, requests.size());
  EXPECT_EQ(blind.finished, requests.size());
  EXPECT_GE(cost.adapter_loads, 12u);
  EXPECT_LT(cost.adapter_loads, blind.adapter_loads / 8);
  EXPECT_LT(cost.ttft.p90, blind.ttft.p90 / 2);
}

TEST(AdapterTraffic, ConversationsKeepTheirAdapterAndPopularityFollowsZipf) {
  auto requests = Conversations(1500, 20);
  const auto plain = requests;
  DealOut(8, requests);
  std::map<uint64_t, uint32_t> adapter_of;  // by the beginning
  std::vector<size_t> counts(9);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_GE(requests[i].adapter, 1u);
    ASSERT_LE(requests[i].adapter, 8u);
    // What is shorter than an opening may still become another conversation.
    if (plain[i].blocks.size() >= 16) {
      EXPECT_EQ(adapter_of.try_emplace(plain[i].blocks[0], requests[i].adapter).first->second,
                requests[i].adapter);
    }
    ++counts[requests[i].adapter];
  }
  EXPECT_GT(counts[1], counts[8]);
}

TEST(ServingSimulation, RequestsWithoutHeadroomWaitAndAreServed) {
  const auto requests = Documents(400, 20);
  for (const std::string_view name : {"cost", "epp", "round-robin"}) {
    Options options = Pool(4, *PolicyByName(name));
    options.queue.emplace();
    const Report report = Simulate(options, requests);
    EXPECT_EQ(report.finished, requests.size()) << name;
    EXPECT_GT(report.held, 0u) << name;
    EXPECT_GT(report.wait.p99, 0) << name;
  }
}

TEST(ServingSimulation, WaitingRequestsAreServedWhereTheirPromptIsHeld) {
  const auto requests = Conversations(3000, 100);
  Options options = Pool(4, PolicyKind::kCost);
  const Report at_once = Simulate(options, requests);
  options.queue.emplace();
  const Report waits = Simulate(options, requests);
  EXPECT_GT(waits.held, requests.size() / 10);
  EXPECT_GT(waits.hit_ratio, 0.98 * at_once.hit_ratio);
  EXPECT_LT(waits.ttft.p50, at_once.ttft.p50);
}

TEST(ServingSimulation, WaitingAdapterRequestsAreServedWhereTheAdapterIsLoaded) {
  auto requests = Conversations(3000, 40);
  DealOut(12, requests);
  Options options = Pool(4, PolicyKind::kCost);
  options.adapters = 12;
  for (scheduler::engine::Profile& replica : options.replicas) {
    replica.max_loras = 3;
    replica.lora_load = 400ms;
  }
  options.queue.emplace();
  options.queue->headroom.busy_for = 20ms;
  const Report waits = Simulate(options, requests);
  options.policy = PolicyKind::kLeastRequests;
  const Report blind = Simulate(options, requests);
  EXPECT_EQ(waits.finished, requests.size());
  EXPECT_GT(waits.held, requests.size() / 10);
  EXPECT_LT(waits.adapter_loads, blind.adapter_loads / 4);
}

TEST(ServingSimulation, AFullQueueRefuses) {
  const auto requests = Conversations(2000, 200);
  Options options = Pool(1, PolicyKind::kCost);
  options.queue.emplace();
  options.queue->admission.max_requests = 10;
  const Report report = Simulate(options, requests);
  EXPECT_GT(report.refused, 0u);
  EXPECT_EQ(report.finished + report.refused, requests.size());
}

}  // namespace
}  // namespace router::sim
