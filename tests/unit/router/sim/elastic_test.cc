#include "router/sim/elastic.h"

#include <gtest/gtest.h>

#include "router/sim/scaling_study.h"
#include "scheduler/engine/presets.h"

namespace router::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// So many requests a second, of 1,000 tokens and 100.
void Add(std::vector<Request>& requests, double rate, seconds from, seconds to) {
  const auto count = static_cast<int>(rate * static_cast<double>((to - from).count()));
  for (int i = 0; i < count; ++i) {
    const auto at = conf::Duration(static_cast<int64_t>(1e9 * i / rate));
    requests.push_back({.at = from + at, .prompt_tokens = 1000, .output_tokens = 100, .blocks = {}});
  }
}

ElasticOptions Options(uint32_t min, uint32_t max) {
  ElasticOptions options;
  options.engine = Simulated(*scheduler::engine::FindPreset("llama-3.3-70b-4xa100"));
  options.policy.model = "m";
  options.policy.min = min;
  options.policy.max = max;
  options.initial = min;
  return options;
}

TEST(Elastic, FollowsTrafficUpAndDown) {
  std::vector<Request> requests;
  Add(requests, 3, seconds(0), seconds(300));
  Add(requests, 24, seconds(300), seconds(900));
  Add(requests, 3, seconds(900), seconds(3600));
  const ElasticReport report = SimulateElastic(Options(1, 20), requests);
  EXPECT_EQ(report.finished, requests.size());
  EXPECT_EQ(report.refused, 0u);
  EXPECT_GE(report.most_replicas, 7u);
  EXPECT_LE(report.most_replicas, 20u);
  EXPECT_LT(report.mean_replicas, 4.6);
  EXPECT_GT(report.held, 0u);
  EXPECT_GT(report.ups, 0u);
  EXPECT_GT(report.downs, 0u);
  EXPECT_LE(report.flaps, 1u);
  EXPECT_NEAR(report.mean_replicas * report.seconds, report.replica_seconds, 1e-6 * report.replica_seconds);
}

TEST(Elastic, ScaleFromZeroAddsOneColdStartAndLosesNoRequest) {
  std::vector<Request> requests;
  Add(requests, 1, seconds(100), seconds(200));
  ElasticOptions options = Options(0, 4);
  options.cold_start = seconds(90);
  const ElasticReport report = SimulateElastic(options, requests);
  EXPECT_EQ(report.finished, 100u);
  EXPECT_EQ(report.refused, 0u);
  EXPECT_GT(report.longest_wait, 85);
  EXPECT_LT(report.longest_wait, 95);
}

TEST(Elastic, ABurstThatOutgrowsTheFirstReplicasIsNotRefusedBeforeTheHold) {
  std::vector<Request> requests;
  Add(requests, 60, seconds(0), seconds(150));
  ElasticOptions options = Options(0, 8);
  options.cold_start = seconds(90);
  const ElasticReport report = SimulateElastic(options, requests);
  EXPECT_GT(report.longest_wait, 90);
  EXPECT_LT(report.longest_wait, conf::ToSeconds(options.policy.hold));
  EXPECT_EQ(report.finished, requests.size());
  EXPECT_EQ(report.refused, 0u);
}

TEST(Elastic, ARequestHeldForTooLongIsRefused) {
  std::vector<Request> requests;
  Add(requests, 1, seconds(10), seconds(110));
  ElasticOptions options = Options(0, 4);
  options.cold_start = minutes(5);
  options.policy.hold = seconds(60);
  const ElasticReport report = SimulateElastic(options, requests);
  EXPECT_EQ(report.finished + report.refused, 100u);
  EXPECT_EQ(report.refused, 100u);
  EXPECT_EQ(report.lost.expired, 100u);
  EXPECT_LE(report.longest_wait, 62);
}

TEST(Elastic, LateRequestsWaitBehindOthers) {
  std::vector<Request> requests;
  Add(requests, 40, seconds(0), seconds(30));  // far more than one replica can do
  Add(requests, 2, seconds(30), seconds(600));
  ElasticOptions options = Options(1, 1);
  const ElasticReport report = SimulateElastic(options, requests);
  EXPECT_EQ(report.finished, requests.size());
  // Were they served in the order of arrival, all that come in the next minutes would be late too.
  EXPECT_GT(report.ttft_attained, 1 - 1250.0 / static_cast<double>(requests.size()));
  EXPECT_GT(report.longest_wait, 60);
}

TEST(Elastic, APlanIsFollowedToTheSecond) {
  std::vector<Request> requests;
  Add(requests, 1, seconds(0), seconds(600));
  ElasticOptions options = Options(1, 1);
  options.cold_start = {};
  options.plan.assign(300, 2);
  options.plan.insert(options.plan.end(), 300, 5);
  options.initial = 2;
  const ElasticReport report = SimulateElastic(options, requests);
  EXPECT_EQ(report.most_replicas, 5u);
  EXPECT_NEAR(report.replica_seconds, 300 * 2 + 300 * 5, 50);
  EXPECT_EQ(report.ups, 1u);
}

TEST(Elastic, TheTickIntervalMattersLittle) {
  std::vector<Request> requests;
  for (int turn = 0; turn < 6; ++turn) {
    Add(requests, 6, seconds(600 * turn), seconds(600 * turn + 300));
    Add(requests, 14, seconds(600 * turn + 300), seconds(600 * turn + 600));
  }
  ElasticOptions options = Options(1, 20);
  options.initial = 3;
  const ElasticReport seldom = SimulateElastic(options, requests);
  options.tick = std::chrono::milliseconds(100);
  const ElasticReport live = SimulateElastic(options, requests);
  EXPECT_NEAR(live.replica_seconds, seldom.replica_seconds, 0.05 * seldom.replica_seconds);
  EXPECT_NEAR(live.ttft_attained, seldom.ttft_attained, 0.01);
  EXPECT_EQ(live.finished, seldom.finished);
}

TEST(Elastic, IsTheSameForTheSameSeed) {
  std::vector<Request> requests;
  Add(requests, 8, seconds(0), seconds(300));
  const ElasticReport a = SimulateElastic(Options(1, 8), requests);
  const ElasticReport b = SimulateElastic(Options(1, 8), requests);
  EXPECT_EQ(a.replica_seconds, b.replica_seconds);
  EXPECT_EQ(a.ttft.p99, b.ttft.p99);
}

TEST(ScalingStudy, TheOracleHoldsTheObjectiveWithLessThanAnyLaw) {
  std::vector<Request> requests;
  for (int turn = 0; turn < 4; ++turn) {
    Add(requests, 4, seconds(400 * turn), seconds(400 * turn + 200));
    Add(requests, 16, seconds(400 * turn + 200), seconds(400 * turn + 400));
  }
  const ElasticOptions options = Options(1, 20);
  const ElasticReport law = SimulateElastic(options, requests);
  const std::optional<Oracle> oracle = FindOracle(options, requests, 0);
  ASSERT_TRUE(oracle);
  EXPECT_GE(oracle->report.ttft_attained, 0.99);
  EXPECT_LT(oracle->report.replica_seconds, law.replica_seconds);
  EXPECT_FALSE(FindOracle(options, requests, 0, [](size_t) { return false; }));
}

TEST(ScalingStudy, CopiesAndLoopsKeepTheOrderAndTheCount) {
  std::vector<Request> requests;
  Add(requests, 1, seconds(0), seconds(100));
  const std::vector<Request> copied = Copied(requests, 3, minutes(1), 7);
  EXPECT_EQ(copied.size(), 300u);
  EXPECT_TRUE(std::ranges::is_sorted(copied, {}, &Request::at));
  EXPECT_LT(copied.back().at, seconds(160));
  const std::vector<Request> looped = Looped(requests, seconds(250));
  EXPECT_EQ(looped.size(), 250u);
  EXPECT_TRUE(std::ranges::is_sorted(looped, {}, &Request::at));
  EXPECT_LT(looped.back().at, seconds(250));
}

TEST(ScalingStudy, MoreLoadMeansMoreInFlight) {
  std::vector<Request> requests;
  Add(requests, 1, seconds(0), seconds(100));
  const scheduler::engine::Profile engine = Options(1, 1).engine;
  const double half = InFlightAt(0.5, requests, engine, 0);
  const double most = InFlightAt(0.9, requests, engine, 0);
  EXPECT_GT(half, 1);
  EXPECT_GT(most, 2 * half);
  EXPECT_LE(most, engine.max_running);
}

}  // namespace
}  // namespace router::sim
