// Replicas in the planner: who gets which devices, who gets none and why, and what a process before this one
// has given away.
#include "gateway/control/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/unit/gateway/config_fixture.h"

namespace gateway::control {
namespace {

using plugins::launchers::Grant;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

// A machine with four h100.
config::Scaling Machine() {
  const LoadResult loaded = Parse(With({{"models", "[{name: chat-small}]"},
                                        {"scaling",
                                         "{policies: conf/policies/scaling/chat-small.yaml, "
                                         "cluster: [{kind: h100, count: 4}]}"},
                                        {"tenants", "[{name: search, models: [chat-small]}]"}}));
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  return *loaded.config->scaling;
}

config::ModelPolicy Devices(uint16_t count) {
  config::ModelPolicy policy;
  policy.scaling.model = "chat-small";
  policy.placement.devices = {{{.kinds = {"h100"}, .count = count}}};
  return policy;
}

TEST(Planning, ReplicasGetDevicesOfTheirOwnUntilThereAreNone) {
  Planning planning(Machine(), kStart);
  planning.Submit("r-a", Devices(2), kStart);
  planning.Submit("r-b", Devices(2), kStart);
  planning.Submit("r-c", Devices(2), kStart);
  const Planning::Outcome first = planning.Run(kStart);
  ASSERT_EQ(first.starts.size(), 2u);
  std::vector<uint8_t> given = first.starts[0].grant.devices;
  given.insert(given.end(), first.starts[1].grant.devices.begin(), first.starts[1].grant.devices.end());
  EXPECT_THAT(given, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(first.starts[0].grant.node, "local");
  EXPECT_EQ(first.starts[0].grant.kind, "h100");
  ASSERT_EQ(first.unplaced.size(), 1u);
  EXPECT_EQ(first.unplaced[0].first, "r-c");
  EXPECT_FALSE(first.unplaced[0].second.empty());
  EXPECT_THAT(planning.Run(kStart).starts, IsEmpty()) << "nothing has changed";
  planning.Leave("r-a", kStart);
  const Planning::Outcome then = planning.Run(kStart);
  ASSERT_EQ(then.starts.size(), 1u);
  EXPECT_EQ(then.starts[0].run, "r-c");
}

TEST(Planning, WhatAsksForMoreThanTheClusterWaitsAndIsToldSo) {
  Planning planning(Machine(), kStart);
  planning.Submit("r-a", Devices(8), kStart);
  const Planning::Outcome outcome = planning.Run(kStart);
  EXPECT_THAT(outcome.starts, IsEmpty());
  EXPECT_THAT(planning.Explain("r-a", kStart), HasSubstr("8 h100"));
  planning.Submit("r-b", Devices(1), kStart);
  EXPECT_EQ(planning.Run(kStart).starts.size(), 1u) << "others are served all the same";
}

TEST(Planning, WhatRanBeforeKeepsItsDevices) {
  Planning planning(Machine(), kStart);
  const Grant grant{.node = "local", .kind = "h100", .devices = {1, 2}};
  EXPECT_TRUE(planning.Seat("r-old", Devices(2), grant, kStart));
  EXPECT_FALSE(planning.Seat("r-twice", Devices(2), grant, kStart)) << "they are taken";
  EXPECT_FALSE(
      planning.Seat("r-gone", Devices(1), {.node = "elsewhere", .kind = "h100", .devices = {0}}, kStart));
  EXPECT_FALSE(planning.Seat("r-few", Devices(1), {.node = "local", .kind = "h100", .devices = {4}}, kStart));
  EXPECT_FALSE(
      planning.Seat("r-kind", Devices(1), {.node = "local", .kind = "a100", .devices = {0}}, kStart));
  planning.Submit("r-new", Devices(2), kStart);
  Planning::Outcome outcome = planning.Run(kStart);
  ASSERT_EQ(outcome.starts.size(), 1u);
  EXPECT_THAT(outcome.starts[0].grant.devices, ElementsAre(0, 3));
  planning.Submit("r-next", Devices(2), kStart);
  EXPECT_THAT(planning.Run(kStart).starts, IsEmpty());
  planning.Leave("r-old", kStart);
  outcome = planning.Run(kStart);
  ASSERT_EQ(outcome.starts.size(), 1u);
  EXPECT_THAT(outcome.starts[0].grant.devices, ElementsAre(1, 2));
}

TEST(Planning, SharesOfADeviceAreGivenAndAreKeptByWhatRanBefore) {
  config::ModelPolicy half = Devices(1);
  half.placement.devices = {{{.kinds = {"h100"}, .milli = 500, .memory_mib = 0}}};
  std::vector<Grant> grants;
  {
    Planning planning(Machine(), kStart);
    for (int i = 0; i < 8; ++i) planning.Submit("r-" + std::to_string(i), half, kStart);
    for (const Planning::Start& start : planning.Run(kStart).starts) grants.push_back(start.grant);
  }
  ASSERT_EQ(grants.size(), 8u) << "two on each of four";
  EXPECT_EQ(grants.front().milli, 500);
  Planning next(Machine(), kStart);
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(next.Seat("r-" + std::to_string(i), half, grants[static_cast<size_t>(i)], kStart)) << i;
  EXPECT_FALSE(next.Seat("r-8", half, grants[0], kStart));
  next.Submit("r-9", half, kStart);
  EXPECT_THAT(next.Run(kStart).starts, IsEmpty());
}

TEST(Planning, WhatNeedsNoDevicesHasAPlaceEverywhere) {
  Planning planning(Machine(), kStart);
  for (int i = 0; i < 20; ++i) planning.Submit("r-" + std::to_string(i), {}, kStart);
  EXPECT_EQ(planning.Run(kStart).starts.size(), 20u);
}

TEST(Planning, WhatOthersHoldIsNotGivenAndWhatIsOursStays) {
  Planning planning(Machine(), kStart);
  planning.Submit("r-a", Devices(1), kStart);
  const Planning::Outcome first = planning.Run(kStart);
  ASSERT_EQ(first.starts.size(), 1u);
  const uint8_t given = first.starts[0].grant.devices[0];
  planning.See({{"local", scheduler::Health::kHealthy, "h100", 4, 2}}, kStart);
  planning.Submit("r-b", Devices(2), kStart);
  planning.Submit("r-c", Devices(1), kStart);
  const Planning::Outcome second = planning.Run(kStart);
  ASSERT_EQ(second.starts.size(), 1u) << "of four, others hold two and r-a one";
  EXPECT_EQ(second.starts[0].run, "r-c");
  EXPECT_NE(second.starts[0].grant.devices[0], given);
  EXPECT_THAT(second.evicted, IsEmpty());
  planning.See({{"local", scheduler::Health::kHealthy, "h100", 4, 0}}, kStart);
  const Planning::Outcome third = planning.Run(kStart);
  ASSERT_EQ(third.starts.size(), 1u) << "they have gone";
  EXPECT_EQ(third.starts[0].run, "r-b");
}

TEST(Planning, NoDeviceIsGivenThatOnlyOurDescriptionOfTheClusterHas) {
  for (const auto& [kind, devices, starts] :
       {std::tuple{"h100", 4u, 4u}, {"h100", 8u, 4u}, {"h100", 3u, 3u}, {"a100", 4u, 0u}, {"", 0u, 0u}}) {
    Planning planning(Machine(), kStart);
    planning.See({{"local", scheduler::Health::kHealthy, kind, devices, 0}}, kStart);
    for (int i = 0; i < 5; ++i) planning.Submit("r-" + std::to_string(i), Devices(1), kStart);
    EXPECT_EQ(planning.Run(kStart).starts.size(), starts) << devices << " of kind " << kind;
  }
}

TEST(Planning, NothingIsPlacedOnANodeThatIsDownOrUnknown) {
  for (const std::vector<plugins::launchers::SharedNode>& seen :
       {std::vector<plugins::launchers::SharedNode>{{"local", scheduler::Health::kQuarantined, "h100", 4, 0}},
        std::vector<plugins::launchers::SharedNode>{}}) {
    Planning planning(Machine(), kStart);
    planning.See(seen, kStart);
    planning.Submit("r-a", Devices(1), kStart);
    EXPECT_THAT(planning.Run(kStart).starts, IsEmpty());
    planning.See({{"local", scheduler::Health::kHealthy, "h100", 4, 0}}, kStart);
    EXPECT_EQ(planning.Run(kStart).starts.size(), 1u);
  }
}

TEST(Planning, AReplicaPushesAsideOnlyTheWorkThatItsPolicyNames) {
  for (const bool may : {false, true}) {
    Planning planning(Machine(), kStart);
    scheduler::Job training;
    training.id = "train-1";
    training.queue = "default";
    training.roles = {{.name = "member", .ask = {.devices = {{.kinds = {"h100"}, .count = 4}}}}};
    planning.planner().Submit(training, kStart);
    planning.Changed();
    ASSERT_EQ(planning.Run(kStart).of_jobs.size(), 1u);
    config::ModelPolicy policy = Devices(2);
    policy.placement.may_preempt = {may ? config::Victim::kTraining : config::Victim::kNotebook};
    planning.Submit("r-a", policy, kStart);
    const Planning::Outcome outcome = planning.Run(kStart);
    EXPECT_EQ(outcome.of_jobs.size(), may ? 1u : 0u);
    EXPECT_THAT(outcome.evicted, IsEmpty());
  }
}

}  // namespace
}  // namespace gateway::control
