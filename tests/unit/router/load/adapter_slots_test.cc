#include "router/load/adapter_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using State = AdapterAvailability::State;

struct AdapterSlotsTest : testing::Test {
  static AdapterId Id(const std::string& name) { return AdapterIdOf(name); }
  void Report(const std::vector<std::string>& in_use, uint32_t most, double started_at = 100) {
    slots.OnReport({.in_use = in_use, .slots = most, .started_at = started_at}, now);
  }
  // One request from begin to end, whose first token comes after `takes`.
  void Serve(const std::string& name, conf::Duration takes = 0s) {
    slots.Begin(Id(name), 0.0, now);
    now += takes;
    slots.Loaded(Id(name), true, now);
    slots.End(Id(name));
    now += 1ms;
  }
  State Of(const std::string& name) const { return slots.Read(Id(name), now).state; }

  conf::TimePoint now = kStart;
  AdapterSlots slots;
};

TEST_F(AdapterSlotsTest, WithoutReportsRecentlyUsedAdaptersCountAsLoaded) {
  EXPECT_EQ(Of("a"), State::kFreeSlot);
  EXPECT_TRUE(slots.Begin(Id("a"), 0.0, now));
  EXPECT_EQ(Of("a"), State::kLoading);
  slots.Loaded(Id("a"), true, now + 200ms);
  EXPECT_EQ(Of("a"), State::kLoaded);
  EXPECT_FALSE(slots.Begin(Id("a"), 0.0, now));
  slots.End(Id("a"));
  slots.End(Id("a"));
  EXPECT_EQ(Of("a"), State::kLoaded);
  now += 11min;
  EXPECT_EQ(Of("a"), State::kFreeSlot);
}

TEST_F(AdapterSlotsTest, TheLeastRecentlyUsedIsEvictedFirst) {
  Report({}, 2);
  Serve("a");
  Serve("b");
  EXPECT_EQ(Of("c"), State::kEvicts);
  Serve("a");
  Serve("c");
  EXPECT_EQ(Of("a"), State::kLoaded);
  EXPECT_EQ(Of("b"), State::kEvicts);
  EXPECT_EQ(Of("c"), State::kLoaded);
}

TEST_F(AdapterSlotsTest, AdaptersInUseStayAndANewOneWaits) {
  Report({}, 2);
  slots.Begin(Id("a"), 0.0, now);
  slots.Begin(Id("b"), 0.0, now);
  slots.Loaded(Id("a"), true, now);
  slots.Loaded(Id("b"), true, now);
  EXPECT_EQ(Of("c"), State::kFull);
  slots.Begin(Id("c"), 0.0, now);
  EXPECT_EQ(Of("c"), State::kFull);
  EXPECT_EQ(Of("a"), State::kLoaded);
  slots.End(Id("a"));
  EXPECT_EQ(Of("a"), State::kFull) << "it has made room for c";
  EXPECT_EQ(Of("c"), State::kLoading);
}

TEST_F(AdapterSlotsTest, ReportsShowAdaptersThatOthersUse) {
  Report({"x", "y"}, 2);
  EXPECT_EQ(Of("x"), State::kLoaded);
  EXPECT_EQ(Of("a"), State::kFull);
  Report({}, 2);
  EXPECT_EQ(Of("x"), State::kLoaded) << "idle, and still in its slot";
  EXPECT_EQ(Of("a"), State::kEvicts);
}

TEST_F(AdapterSlotsTest, AnOldReportDoesNotShowUse) {
  Report({"x", "y"}, 2);
  now += 11s;
  EXPECT_EQ(Of("a"), State::kEvicts);
}

TEST_F(AdapterSlotsTest, ARestartedEngineHasNothingLoaded) {
  Report({}, 4, 100);
  Serve("a");
  slots.Begin(Id("b"), 0.0, now);
  slots.Loaded(Id("b"), true, now);
  Report({}, 4, 100);
  EXPECT_EQ(Of("a"), State::kLoaded);
  Report({}, 4, 200);
  EXPECT_EQ(Of("a"), State::kFreeSlot);
  slots.End(Id("b"));  // it broke off
  EXPECT_EQ(Of("b"), State::kFreeSlot);
}

TEST_F(AdapterSlotsTest, ARequestThatEndsBeforeAnyTokenLeavesNothingLoaded) {
  slots.Begin(Id("a"), 0.0, now);
  slots.End(Id("a"));
  EXPECT_EQ(Of("a"), State::kFreeSlot);
}

TEST_F(AdapterSlotsTest, LoadingTimeIsTheExtraTimeToTheFirstToken) {
  Report({}, 1);
  EXPECT_EQ(slots.Read(Id("a"), now).load, 0);
  slots.Begin(Id("a"), 0.25, now);
  EXPECT_NEAR(slots.Read(Id("a"), now + 100ms).elapsed, 0.1, 1e-9);
  slots.Loaded(Id("a"), true, now + 1s);
  EXPECT_NEAR(slots.Read(Id("a"), now).load, 0.75, 1e-9);
  slots.End(Id("a"));
  // Neither an answer that came whole nor one whose prompt's time was not known tells anything.
  slots.Begin(Id("b"), 0.0, now);
  slots.Loaded(Id("b"), false, now + 30s);
  slots.End(Id("b"));
  slots.Begin(Id("c"), {}, now);
  slots.Loaded(Id("c"), true, now + 30s);
  EXPECT_NEAR(slots.Read(Id("a"), now).load, 0.75, 1e-9);
}

TEST_F(AdapterSlotsTest, AWaitForASlotIsMeasuredApartFromLoading) {
  Report({}, 1);
  slots.Begin(Id("a"), 0.0, now);
  slots.Loaded(Id("a"), true, now + 500ms);
  slots.Begin(Id("b"), 0.0, now);  // which it gets when a's request has ended
  EXPECT_EQ(Of("b"), State::kFull);
  EXPECT_EQ(slots.Read(Id("b"), now).wait, 0);
  slots.End(Id("a"));
  slots.Loaded(Id("b"), true, now + 20s);
  EXPECT_NEAR(slots.Read(Id("c"), now).wait, 20, 1e-9);
  EXPECT_NEAR(slots.Read(Id("c"), now).load, 0.5, 1e-9);
}

TEST_F(AdapterSlotsTest, AMissingAdapterIsAvoidedForAWhile) {
  slots.Begin(Id("a"), 0.0, now);
  slots.NoteMissing(Id("a"), now);
  slots.End(Id("a"));
  EXPECT_EQ(Of("a"), State::kFreeSlot);
  EXPECT_TRUE(slots.IsMissing(Id("a"), now));
  EXPECT_FALSE(slots.IsMissing(Id("b"), now));
  EXPECT_FALSE(slots.IsMissing(Id("a"), now + kMissingFor));
  Serve("a");
  EXPECT_FALSE(slots.IsMissing(Id("a"), now)) << "it has been served since";
}

TEST_F(AdapterSlotsTest, AreBoundedAndKeepAdaptersInUse) {
  slots.Begin(Id("kept"), 0.0, now);
  slots.Loaded(Id("kept"), true, now);
  for (int i = 0; i < 1000; ++i) {
    Serve(std::to_string(i));
    slots.NoteMissing(Id(std::to_string(i)), now);
  }
  EXPECT_EQ(Of("kept"), State::kLoaded);
  const AdapterSlots::Contents view = slots.ReadContents(now);
  EXPECT_LE(view.loaded.size(), AdapterSlots::kMax);
  EXPECT_LE(view.missing.size(), 16u);
}

TEST_F(AdapterSlotsTest, CountEveryRequestOfSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 2000; ++i) {
        const AdapterId id = Id(std::to_string((t + i) % 100));
        slots.Begin(id, 0.0, now);
        slots.Read(id, now);
        slots.Loaded(id, true, now);
        slots.End(id);
        if (i % 64 == 0) slots.OnReport({.in_use = {}, .slots = 8, .started_at = 1}, now);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Report({}, 8, 1);
  EXPECT_LE(slots.ReadContents(now).loaded.size(), 8u) << "nobody is taken to be in use for ever";
}

std::vector<ModelSpec> BaseWith(const std::vector<std::string>& adapters, size_t replicas,
                                PolicyKind policy) {
  std::vector<ModelSpec> models{Serving("base", std::vector<double>(replicas, 1), policy)};
  for (const std::string& name : adapters) {
    ModelSpec& model = models.emplace_back();
    model.name = name;
    model.base = "base";
    model.adapter = name + "-at-engine";
    model.policy = policy;
  }
  return models;
}

TEST(Adapters, AreServedByTheReplicasOfTheirBaseAndShareItsCounts) {
  Routing routing(BaseWith({"a"}, 2, PolicyKind::kLeastRequests));
  const ModelId a = *routing.table.Find("a");
  EXPECT_EQ(routing.table.replicas(a).data(), routing.table.replicas(ModelId{0}).data());
  EXPECT_EQ(&routing.load.cell(a), &routing.load.cell(ModelId{0}));
  const Decision first = routing.PickOf(a);
  const Decision second = routing.PickOf(ModelId{0});
  EXPECT_NE(first.replica, second.replica) << "each sees the other's";
  EXPECT_EQ(routing.table.NameAt(a, routing.table.replica(*first.replica)).name, "a-at-engine");
  EXPECT_EQ(routing.table.NameAt(a, routing.table.replica(*first.replica)).json, "\"a-at-engine\"");
}

TEST(Adapters, StayWhereTheyAreLoadedAndSpreadOverFreeSlots) {
  Routing routing(BaseWith({"a", "b", "c", "d"}, 2, PolicyKind::kCost));
  for (uint32_t i = 0; i < 2; ++i) routing.state(i).adapters.OnReport({.slots = 2}, kStart);
  std::vector<std::optional<ReplicaId>> placements;
  conf::TimePoint now = kStart;
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      now += 10ms;
      Decision decision = routing.PickOf(static_cast<ModelId>(i + 1), 1, {}, now);
      ASSERT_TRUE(decision.replica);
      if (round == 0) {
        placements.push_back(decision.replica);
      } else {
        EXPECT_EQ(decision.replica, placements[i]);
        EXPECT_EQ(decision.terms.adapter, 0);
      }
      decision.charge.FirstToken(now);
    }
  }
  EXPECT_EQ(std::ranges::count(placements, std::optional(ReplicaId{0})), 2);
}

TEST(Adapters, LeaveABusyReplicaWhenLoadingElsewhereCostsLess) {
  Routing routing(BaseWith({"a"}, 2, PolicyKind::kCost));
  Decision first = routing.PickOf(ModelId{1});
  const ReplicaId home = *first.replica;
  first.charge.FirstToken(kStart);
  EXPECT_EQ(routing.PickOf(ModelId{1}).replica, home);
  const Charge busy(routing.load.shared(home), Work{.tokens = 9000, .uncached = 9000}, Admission::kAdmitted,
                    kStart);
  EXPECT_NE(routing.PickOf(ModelId{1}).replica, home);
}

TEST(Adapters, AreFoundInALargePool) {
  Routing routing(BaseWith({"a"}, 500, PolicyKind::kCost));
  Decision first = routing.PickOf(ModelId{1});
  first.charge.FirstToken(kStart);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(routing.PickOf(ModelId{1}).replica, first.replica);
}

TEST(Adapters, AFirstTokenThatWaitedForALoadDoesNotCountForTheRate) {
  Routing routing(BaseWith({"a"}, 1, PolicyKind::kCost));
  Decision cold = Pick(routing.table, ModelId{1}, routing.load, {.tokens = 5000, .prompt_tokens = 4000}, {},
                       kStart, routing.rng);
  cold.charge.FirstToken(kStart + 10s);
  EXPECT_FALSE(routing.state(0).engine.Read(kStart).rate_measured);
  Decision warm = Pick(routing.table, ModelId{1}, routing.load, {.tokens = 5000, .prompt_tokens = 4000}, {},
                       kStart + 11s, routing.rng);
  warm.charge.FirstToken(kStart + 12s);
  EXPECT_NEAR(routing.state(0).engine.Read(kStart + 12s).prefill_rate, 4000, 1);
}

TEST(Adapters, ConfigurationFaultsAreNamed) {
  const auto fault = [](auto change) {
    std::vector<ModelSpec> models = BaseWith({"a", "b"}, 1, PolicyKind::kCost);
    change(models);
    return std::string(RouteTable::Build(std::move(models)).status().message());
  };
  EXPECT_EQ(fault([](auto& models) { models[1].base = "gone"; }),
            "model \"a\": its base \"gone\" is not a model");
  EXPECT_EQ(fault([](auto& models) { models[2].base = "a"; }),
            "model \"b\": its base \"a\" is an adapter; name a model with replicas");
  EXPECT_EQ(fault([](auto& models) { models[1].adapter = ""; }), "model \"a\": its adapter has no name");
  EXPECT_EQ(fault([](auto& models) { models[1].replicas = Serving("x", {1}).replicas; }),
            "model \"a\" is served by \"base\" and must not have replicas of its own");
}

TEST_F(AdapterSlotsTest, WhatTheEngineListsIsHeldUntilItListsItNoMore) {
  EXPECT_FALSE(slots.Holds(Id("a")));
  slots.SetHeld(std::vector{Id("a"), Id("b")});
  EXPECT_TRUE(slots.Holds(Id("a")));
  slots.SetHeld(std::vector{Id("b"), Id("c")});
  EXPECT_FALSE(slots.Holds(Id("a")));
  EXPECT_TRUE(slots.Holds(Id("b")));
  EXPECT_TRUE(slots.Holds(Id("c")));
  slots.NoteMissing(Id("b"), now);
  EXPECT_FALSE(slots.Holds(Id("b"))) << "the engine has said that it has none";
}

TEST_F(AdapterSlotsTest, TheLastUseOfAHeldAdapterIsKeptBeyondTheEnginesOwnSlots) {
  slots.SetHeld(std::vector{Id("a"), Id("b")});
  EXPECT_EQ(slots.ReadUse(Id("a")).last, std::nullopt);
  Report({}, 1);
  const conf::TimePoint used = now;
  slots.Begin(Id("a"), 0.0, now);
  EXPECT_EQ(slots.ReadUse(Id("a")).in_flight, 1u);
  slots.End(Id("a"));
  now += 1s;
  Serve("b");
  EXPECT_EQ(slots.ReadUse(Id("a")).last, used);
  EXPECT_EQ(slots.ReadUse(Id("a")).in_flight, 0u);
  slots.SetHeld(std::vector{Id("b")});
  slots.SetHeld(std::vector{Id("a"), Id("b")});
  EXPECT_EQ(slots.ReadUse(Id("a")).last, std::nullopt) << "it was loaded anew";
}

TEST_F(AdapterSlotsTest, AtMostSoManyAreHeldAndTheOthersArePassedOver) {
  std::vector<AdapterId> many;
  for (size_t i = 0; i <= AdapterSlots::kMaxHeld; ++i) many.push_back(Id("a" + std::to_string(i)));
  slots.SetHeld(many);
  EXPECT_TRUE(slots.Holds(many[AdapterSlots::kMaxHeld - 1]));
  EXPECT_FALSE(slots.Holds(many[AdapterSlots::kMaxHeld]));
}

}  // namespace
}  // namespace router
