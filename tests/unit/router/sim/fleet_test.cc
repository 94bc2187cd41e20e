#include "router/sim/fleet.h"

#include <gtest/gtest.h>

#include "scheduler/engine/presets.h"

namespace router::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// So many requests a second, of 1,000 tokens and 100.
void AddRequests(std::vector<Request>& requests, double rate, seconds from, seconds to) {
  const auto count = static_cast<int>(rate * static_cast<double>((to - from).count()));
  for (int i = 0; i < count; ++i) {
    const auto at = conf::Duration(static_cast<int64_t>(1e9 * i / rate));
    requests.push_back({.at = from + at, .prompt_tokens = 1000, .output_tokens = 100, .blocks = {}});
  }
}

// One node whose devices hold this many replicas.
scheduler::Cluster ClusterFor(uint32_t replicas, uint32_t devices_each) {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "a100"}};
  cluster.types = {{.name = "node", .devices = static_cast<uint8_t>(replicas * devices_each)}};
  cluster.nodes = {{.name = "n"}};
  cluster.fabric = scheduler::FlatFabric();
  return cluster;
}

FleetModel ModelOn(std::string preset, std::string name, std::span<const Request> requests) {
  FleetModel model;
  model.name = std::move(name);
  model.engine = Simulated(*scheduler::engine::FindPreset(preset));
  model.policy.model = model.name;
  model.policy.max = 4;
  model.requests = requests;
  model.cold_start = seconds(60);
  return model;
}

const std::vector<Request>& Lines() {
  static const std::vector<Request> lines(
      1'000, Request{.at = {}, .prompt_tokens = 800, .output_tokens = 200, .blocks = {}});
  return lines;
}

TEST(Fleet, ServesEveryRequestAndCountsTheDevicesThatReplicasHeld) {
  std::vector<Request> requests;
  AddRequests(requests, 1, seconds(0), seconds(600));
  FleetOptions options{.cluster = ClusterFor(4, 4),
                       .models = {ModelOn("llama-3.3-70b-4xa100", "m", requests)}};
  options.models[0].policy.min = options.models[0].policy.max = 1;
  options.models[0].initial = 1;
  const FleetReport report = SimulateFleet(options);
  const FleetModelReport& model = report.models.at(0);
  EXPECT_EQ(model.served.finished, requests.size());
  EXPECT_EQ(model.cold_starts, 0u);
  EXPECT_NEAR(model.device_seconds, 4 * report.seconds, 1e-6);
  EXPECT_EQ(SimulateFleet(options).models.at(0).served.ttft.p99, model.served.ttft.p99) << "deterministic";
}

TEST(Fleet, RequestsWaitForTheFirstReplica) {
  std::vector<Request> requests;
  AddRequests(requests, 1, seconds(10), seconds(20));
  const FleetReport report = SimulateFleet(
      {.cluster = ClusterFor(4, 4), .models = {ModelOn("llama-3.3-70b-4xa100", "m", requests)}});
  EXPECT_EQ(report.models.at(0).served.finished, 10u);
  EXPECT_GT(report.models.at(0).served.ttft.p50, 50);
  EXPECT_EQ(report.models.at(0).cold_starts, 1u);
}

TEST(Fleet, ReplicasForBatchesFillIdleDevicesAndServeWhatRequestsNeed) {
  std::vector<Request> requests;
  AddRequests(requests, 1, seconds(0), seconds(900));
  AddRequests(requests, 6, seconds(900), seconds(1800));
  FleetOptions options{.cluster = ClusterFor(3, 4),
                       .models = {ModelOn("llama-3.3-70b-4xa100", "m", requests)}};
  FleetModel& model = options.models[0];
  model.policy.min = model.initial = 1;
  model.lines = Lines();
  model.lines_in_flight = 256;
  const FleetReport without = SimulateFleet(options);
  EXPECT_EQ(without.models.at(0).batch_starts, 0u) << "its policy has no replicas for batches";
  model.batch = {.may_start = true, .max_replicas = 3};
  const FleetReport with = SimulateFleet(options);
  EXPECT_GE(with.models.at(0).batch_starts, 2u);
  EXPECT_GT(with.models.at(0).changed_hands, 0u);
  EXPECT_EQ(with.preempted, 0u) << "no replica ends to start another on its devices";
  EXPECT_LT(with.models.at(0).served.ttft.p99, without.models.at(0).served.ttft.p99);
  EXPECT_GT(with.models.at(0).served.spare.finished, 2 * without.models.at(0).served.spare.finished);
  EXPECT_EQ(with.models.at(0).served.finished + with.models.at(0).served.broken, requests.size());
}

TEST(Fleet, AReplicaForBatchesMakesRoomForAnotherModel) {
  std::vector<Request> requests;
  std::vector<Request> later;
  AddRequests(requests, 1, seconds(0), seconds(900));
  AddRequests(later, 1, seconds(600), seconds(900));
  FleetOptions options{.cluster = ClusterFor(2, 4),
                       .models = {ModelOn("llama-3.3-70b-4xa100", "m", requests),
                                  ModelOn("llama-3.3-70b-4xa100", "n", later)}};
  options.models[0].policy.min = options.models[0].policy.max = options.models[0].initial = 1;
  options.models[0].lines = Lines();
  options.models[0].lines_in_flight = 256;
  options.models[0].batch = {.may_start = true, .max_replicas = 2};
  const FleetReport report = SimulateFleet(options);
  EXPECT_EQ(report.preempted, 1u);
  EXPECT_EQ(report.models.at(0).served.finished + report.models.at(0).served.broken, requests.size());
  EXPECT_EQ(report.models.at(1).served.finished, later.size());
  EXPECT_LT(report.models.at(1).served.wait.p99, 60 + 15 + 5);
}

TEST(Fleet, ThreeModelsOnTwoDevicesWakeAndSleep) {
  std::vector<std::vector<Request>> traffic(3);
  for (int model = 0; model < 3; ++model) {
    for (int round = 0; round < 4; ++round) {
      const seconds from = minutes(30 * round + 10 * model);
      AddRequests(traffic[static_cast<size_t>(model)], 1, from, from + minutes(5));
    }
  }
  FleetOptions options{.cluster = ClusterFor(2, 1)};
  for (const std::vector<Request>& requests : traffic) {
    FleetModel model = ModelOn("llama-3.1-8b-h100", "m" + std::to_string(options.models.size()), requests);
    model.policy.max = 1;
    model.policy.scale_to_zero_after = minutes(2);
    model.fall = model.wake = seconds(1);
    options.models.push_back(std::move(model));
  }
  const FleetReport cold = SimulateFleet(options);
  for (FleetModel& model : options.models) model.policy.sleep.emplace();
  const FleetReport asleep = SimulateFleet(options);
  for (size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(asleep.models[m].served.finished, traffic[m].size());
    EXPECT_EQ(asleep.models[m].cold_starts, 1u);
    EXPECT_EQ(asleep.models[m].wakes, 3u);
    EXPECT_EQ(cold.models[m].cold_starts, 4u);
    EXPECT_GT(asleep.models[m].served.within_slo, cold.models[m].served.within_slo);
    EXPECT_LT(asleep.models[m].device_seconds, 1.01 * cold.models[m].device_seconds);
  }
}

// Three models on the devices of two.
FleetOptions ThreeBusyModels(std::span<const std::vector<Request>> traffic) {
  FleetOptions options{.cluster = ClusterFor(2, 1)};
  for (const std::vector<Request>& requests : traffic) {
    FleetModel model = ModelOn("llama-3.1-8b-h100", "m" + std::to_string(options.models.size()), requests);
    model.policy.max = 1;
    model.policy.scale_to_zero_after = minutes(2);
    model.policy.sleep.emplace();
    model.fall = model.wake = seconds(1);
    options.models.push_back(std::move(model));
  }
  return options;
}

TEST(Fleet, OfModelsThatAreAllBusyThoseWithMoreLoadStayAwakeAndNoneStarves) {
  std::vector<std::vector<Request>> traffic(3);
  AddRequests(traffic[0], 5, minutes(0), minutes(60));
  AddRequests(traffic[1], 3, minutes(0), minutes(60));
  AddRequests(traffic[2], 1, minutes(2), minutes(60));
  const FleetReport report = SimulateFleet(ThreeBusyModels(traffic));
  for (size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(report.models[m].served.finished, traffic[m].size()) << m;
    EXPECT_LT(report.models[m].served.wait.p99, 10 * 60) << m;
    EXPECT_LE(report.models[m].cold_starts, 2u) << "at most one for each device";
  }
  EXPECT_GT(report.models[0].served.within_slo, 0.97) << "it has the most load, so others make room";
  EXPECT_GT(report.models[1].served.within_slo, 0.75);
  EXPECT_LT(report.models[2].served.within_slo, 0.25) << "the fewest requests are late so";
}

TEST(Fleet, AModelWhoseLoadGrowsGetsTheDevicesOfTheOneWithTheLeast) {
  std::vector<std::vector<Request>> traffic(3);
  AddRequests(traffic[0], 3, minutes(0), minutes(60));
  AddRequests(traffic[1], 1, minutes(0), minutes(60));
  AddRequests(traffic[2], 0.2, minutes(2), minutes(30));
  AddRequests(traffic[2], 5, minutes(30), minutes(60));
  const FleetReport report = SimulateFleet(ThreeBusyModels(traffic));
  EXPECT_GT(report.models[0].served.within_slo, 0.9);
  EXPECT_GT(report.models[2].served.within_slo, 0.9) << "nearly all of its requests come late in the hour";
  EXPECT_LT(report.models[1].served.within_slo, 0.7);
  for (size_t m = 0; m < 3; ++m) EXPECT_EQ(report.models[m].served.finished, traffic[m].size()) << m;
}

}  // namespace
}  // namespace router::sim
