#include "router/load/adapter_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

AdapterId Of(const std::string& name) {
  return AdapterIdOf(name);
}

// Adapters that are used one second after the other, in their order.
std::vector<PlannedAdapter> Used(const std::vector<std::string>& names) {
  std::vector<PlannedAdapter> adapters;
  for (const std::string& name : names)
    adapters.push_back({.id = Of(name), .used = kStart + 1s * static_cast<int>(adapters.size())});
  return adapters;
}

AdapterReplica Holding(const std::vector<std::string>& names) {
  AdapterReplica replica;
  replica.ready = true;
  for (const std::string& name : names) replica.held.push_back({.id = Of(name)});
  return replica;
}

AdapterChange Loads(uint32_t replica, const std::string& name) {
  return {.replica = replica, .load = Of(name)};
}
AdapterChange Unloads(uint32_t replica, const std::string& name) {
  return {.replica = replica, .unload = Of(name)};
}

TEST(AdapterPlan, EveryReplicaGetsTheAdaptersThatItLacks) {
  const auto adapters = Used({"a", "b"});
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({}), Holding({"a"}), Holding({"a", "b"})}}, 0),
              ElementsAre(Loads(0, "b"), Loads(1, "b")));
}

TEST(AdapterPlan, AnAdapterThatRequestsWaitForIsLoadedFirst) {
  auto adapters = Used({"a", "b", "c"});
  adapters[0].waited_for = true;
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({})}}, 0), ElementsAre(Loads(0, "a")));
}

TEST(AdapterPlan, TheAdapterWithTheFewestCopiesIsLoadedBeforeOthers) {
  const auto adapters = Used({"a", "b"});
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({}), Holding({"b"})}}, 1), ElementsAre(Loads(0, "a")));
}

TEST(AdapterPlan, WhatTheEngineHoldsBesideTakesASlotToo) {
  const auto adapters = Used({"a"});
  AdapterReplica replica = Holding({});
  replica.others = 1;
  EXPECT_THAT(PlanAdapters(adapters, {{replica}}, 1), IsEmpty());
  EXPECT_THAT(PlanAdapters(adapters, {{replica}}, 2), ElementsAre(Loads(0, "a")));
}

TEST(AdapterPlan, AnAdapterThatNobodyWaitsForDisplacesNone) {
  EXPECT_THAT(PlanAdapters(Used({"a", "b"}), {{Holding({"a"})}}, 1), IsEmpty());
}

TEST(AdapterPlan, TheAdapterUsedTheLongestAgoLeavesForOneThatRequestsWaitFor) {
  auto adapters = Used({"a", "b", "c"});
  adapters[2].waited_for = true;
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({"b", "a"})}}, 2),
              ElementsAre(AdapterChange{.replica = 0, .unload = Of("a"), .load = Of("c")}));
}

TEST(AdapterPlan, AnAdapterThatIsElsewhereTooLeavesBeforeTheLastCopyOfAnother) {
  auto adapters = Used({"a", "b", "c"});
  adapters[2].waited_for = true;
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({"a", "b"}), Holding({"b"})}}, 2), ElementsAre(Loads(1, "c")));
  EXPECT_THAT(PlanAdapters(adapters, {{Holding({"a", "b"}), Holding({"a", "b"})}}, 2),
              ElementsAre(AdapterChange{.replica = 0, .unload = Of("a"), .load = Of("c")}));
}

TEST(AdapterPlan, AnAdapterInUseStays) {
  auto adapters = Used({"a", "b", "c"});
  adapters[2].waited_for = true;
  AdapterReplica replica = Holding({"a", "b"});
  replica.held[0].in_use = true;
  EXPECT_THAT(PlanAdapters(adapters, {{replica}}, 2),
              ElementsAre(AdapterChange{.replica = 0, .unload = Of("b"), .load = Of("c")}));
  replica.held[1].in_use = true;
  EXPECT_THAT(PlanAdapters(adapters, {{replica}}, 2), IsEmpty());
}

TEST(AdapterPlan, AnAdapterThatIsBeingLoadedIsNotLoadedElsewhereInPlaceOfAnother) {
  auto adapters = Used({"a", "b"});
  adapters[1].waited_for = true;
  AdapterReplica loading = Holding({});
  loading.ready = false;
  loading.loads = Of("b");
  EXPECT_THAT(PlanAdapters(adapters, {{loading, Holding({"a"})}}, 1), IsEmpty());
}

TEST(AdapterPlan, AnAdapterThatLeavesIsUnloadedOnceNoRequestUsesIt) {
  auto adapters = Used({"a", "b"});
  adapters[0].leaves = true;
  AdapterReplica used = Holding({"a", "b"});
  used.held[0].in_use = true;
  EXPECT_THAT(PlanAdapters(adapters, {{used, Holding({"a"}), Holding({})}}, 0),
              ElementsAre(Unloads(1, "a"), Loads(2, "b")));
}

TEST(AdapterPlan, WhatAnEngineHasRefusedIsTriedElsewhere) {
  auto adapters = Used({"a"});
  adapters[0].waited_for = true;
  AdapterReplica refuses = Holding({});
  refuses.refused = {Of("a")};
  EXPECT_THAT(PlanAdapters(adapters, {{refuses, Holding({})}}, 0), ElementsAre(Loads(1, "a")));
  EXPECT_THAT(PlanAdapters(adapters, {{refuses}}, 0), IsEmpty());
}

TEST(AdapterPlan, AReplicaThatCannotBeAskedIsLeftAlone) {
  AdapterReplica away = Holding({});
  away.ready = false;
  EXPECT_THAT(PlanAdapters(Used({"a"}), {{away}}, 0), IsEmpty());
}

}  // namespace
}  // namespace router
