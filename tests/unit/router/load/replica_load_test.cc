#include "router/load/replica_load.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "scheduler/rng.h"
#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

TEST(Charge, ReleasesExactlyItsLoad) {
  ReplicaStates states;
  const auto state = states.Get("r");
  {
    Charge a(state, 100, Admission::kAdmitted);
    Charge b(state, 50, Admission::kAdmitted);
    EXPECT_EQ(state->load.requests(), 2);
    EXPECT_EQ(state->load.tokens(), 150);
    a.ChangeWork({.tokens = 10}, kStart);
    EXPECT_EQ(state->load.tokens(), 60);
    Charge moved = std::move(a);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
    a.Release();
    EXPECT_EQ(state->load.tokens(), 60);
    b = std::move(moved);
    EXPECT_EQ(state->load.requests(), 1);
    EXPECT_EQ(state->load.tokens(), 10);
  }
  EXPECT_EQ(state->load.requests(), 0);
  EXPECT_EQ(state->load.tokens(), 0);
}

TEST(Charge, PinsItsBlocksUntilItEnds) {
  prefix::Index index;
  ReplicaStates states(&index);
  const auto state = states.Get("r");
  index.SetCapacity(*state->member, 100);
  std::vector<uint64_t> prompt;
  for (uint64_t i = 1; i <= 40; ++i) prompt.push_back(i * 0x9e3779b97f4a7c15u);
  const auto fill = [&](uint64_t from) {
    for (uint64_t i = from; i < from + 500; ++i) {
      index.Confirm(std::vector<uint64_t>{i * 0xd6e8feb86659fd93u}, *state->member, kStart);
    }
  };
  const auto holders = [&] {
    std::vector<prefix::Holder> out(4);
    return index.Find(prompt, kStart, out);
  };
  {
    Charge charge(state, 100, Admission::kAdmitted);
    charge.FirstToken(kStart);
    charge.Hold(prompt, kStart);
    charge.Hold({1, 2, 3}, kStart);  // once
    Charge moved = std::move(charge);
    charge.Release();  // NOLINT(bugprone-use-after-move)
    fill(1000);
    EXPECT_EQ(holders(), 1u);
    moved.LastToken(30 * 64, kStart);
  }
  EXPECT_EQ(holders(), 1u);
  EXPECT_GT(index.BlocksOf(*state->member), 70u) << "the answer's blocks as well";
  fill(2000);
  EXPECT_EQ(holders(), 0u);
  Charge none;
  none.Hold(prompt, kStart);
  Charge unknown(ReplicaStates().Get("s"), 1, Admission::kAdmitted);
  unknown.Hold(prompt, kStart);
  EXPECT_EQ(holders(), 0u);
}

TEST(Charge, AnAbandonedTrialLeavesTheReplicaAsUntriedAsBefore) {
  Routing routing({Serving("m", {1})});
  routing.Break(0);
  const conf::TimePoint later = kStart + std::chrono::seconds(5);
  {
    const Decision trial = routing.PickOf(ModelId{0}, 1, {}, later);
    ASSERT_TRUE(trial.replica);
    EXPECT_FALSE(routing.PickOf(ModelId{0}, 1, {}, later).replica);
  }
  EXPECT_TRUE(routing.PickOf(ModelId{0}, 1, {}, later).replica);
}

TEST(Charge, AFailureAfterAGoodStartCountsOnce) {
  Routing routing({Serving("m", {1})});
  for (int i = 0; i < 11; ++i) {
    Decision decision = routing.PickOf();
    ASSERT_TRUE(decision.replica) << i;
    decision.charge.Report(Outcome::kGood, kStart);
    decision.charge.Report(Outcome::kBad, kStart);
    decision.charge.Report(Outcome::kBad, kStart);
    decision.charge.Report(Outcome::kGood, kStart);
  }
  EXPECT_FALSE(routing.PickOf().replica);
}

TEST(ReplicaStates, KeepsAStateOverReloadsByIdentity) {
  ReplicaStates states;
  const RouteTable before = MakeTable({Serving("m", {1, 1})});
  const LoadView old_view(before, states);
  const Charge charge(old_view.shared(ReplicaId{1}), 70, Admission::kAdmitted);
  ModelSpec reordered = Serving("m", {1, 1, 1});
  std::swap(reordered.replicas[1], reordered.replicas[2]);
  const RouteTable after = MakeTable({reordered});
  const LoadView new_view(after, states);
  EXPECT_EQ(new_view[ReplicaId{2}].load.tokens(), 70);
  EXPECT_EQ(new_view[ReplicaId{1}].load.tokens(), 0);
}

TEST(ReplicaStates, ForgetsStatesWithoutHolders) {
  ReplicaStates states;
  const auto kept = states.Get("kept");
  for (int i = 0; i < 10'000; ++i) states.Get("replica-" + std::to_string(i));
  EXPECT_LE(states.size(), 130U);
  EXPECT_EQ(states.Get("kept"), kept);
}

TEST(ReplicaLoad, IsZeroAfterAnyMixOfChargesFromAllShards) {
  Routing routing({Serving("m", {1, 2, 3}, PolicyKind::kPowerOfTwo)});
  std::vector<std::thread> shards;
  for (uint64_t shard = 0; shard < 4; ++shard) {
    shards.emplace_back([&, shard] {
      scheduler::Rng rng(shard);
      std::vector<Charge> held(16);
      for (int n = 0; n < 5'000; ++n) {
        Decision decision = Pick(routing.table, ModelId{0}, routing.load,
                                 {.tokens = static_cast<int64_t>(rng.Uniform(500))}, {}, kStart, rng);
        if (!decision.replica) continue;
        if (rng.Uniform(3) == 0)
          decision.charge.ChangeWork({.tokens = static_cast<int64_t>(rng.Uniform(1000))}, kStart);
        if (rng.Uniform(8) == 0) decision.charge.Report(Outcome::kGood, kStart);
        held[rng.Uniform(held.size())] = std::move(decision.charge);
      }
    });
  }
  for (std::thread& shard : shards) shard.join();
  for (uint32_t id = 0; id < 3; ++id) {
    EXPECT_EQ(routing.state(id).load.requests(), 0);
    EXPECT_EQ(routing.state(id).load.tokens(), 0);
  }
}

}  // namespace
}  // namespace router
