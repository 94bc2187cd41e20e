#include "scheduler/state/cluster_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

struct World {
  explicit World(const Cluster& c, std::string_view policy = "e-binpack")
      : cluster(c), state(cluster), shapes(cluster), placer(state, shapes, *FindPlacementPolicy(policy)) {
    for (const char* tenant : {"a", "b", "c"})
      shapes.TenantNumber(tenant);  // the same numbers in every world
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  Placer placer;
};

std::vector<Ask> Asks() {
  std::vector<Ask> asks = {
      Devices(1),         Devices(2),           Devices(4),           Devices(8),           Share(250),
      Share(500, 20'000), Partition("1g.10gb"), Partition("3g.40gb"), Partition("2g.20gb"), Share(100)};
  asks[1].isolation = Isolation::kTenant;
  asks[2].isolation = Isolation::kNode;
  return asks;
}

// One random assign or evict within the trial; the same choices for the same source.
void Step(World& world, Trial& trial, std::vector<MemberId>& live, const std::vector<Ask>& asks, Rng& rng,
          uint32_t i) {
  if (!live.empty() && rng.Uniform(5) < 2) {
    const size_t at = rng.Uniform(live.size());
    trial.Evict(live[at]);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  const std::string tenant = rng.Uniform(2) == 0 ? "a" : "b";
  const auto shapes = world.shapes.Resolve(asks[rng.Uniform(asks.size())], tenant);
  if (const auto holding = world.placer.Choose(shapes, {}, rng)) {
    live.push_back(trial.Assign({.job = i, .holding = *holding}));
  }
}

TEST(ClusterState, StaysRightThroughAnyMixOfAssignsAndEvicts) {
  for (const std::string_view policy : {"binpack", "e-binpack", "spread", "random"}) {
    World world(EightWay(12, 4), policy);
    std::vector<MemberId> live;
    Rng rng(7);
    const auto asks = Asks();
    for (uint32_t i = 0; i < 4'000; ++i) {
      Trial trial(world.state);
      Step(world, trial, live, asks, rng, i);
      trial.Commit();
      if (i % 50 == 0) ASSERT_EQ(world.state.Check(), "") << policy << " at step " << i;
    }
    EXPECT_EQ(world.state.Check(), "");
    EXPECT_GT(world.state.member_count(), 0u);
  }
}

TEST(Trial, RollsBackUncommittedChangesExactly) {
  World world(EightWay(12, 4));
  std::vector<MemberId> live;
  Rng rng(11);
  const auto asks = Asks();
  for (uint32_t round = 0; round < 200; ++round) {
    {
      Trial trial(world.state);
      Step(world, trial, live, asks, rng, round);
      trial.Commit();
    }
    std::vector<NodeState> before;
    for (NodeId n = 0; n < 12; ++n) before.push_back(world.state.node(n));
    const ClusterTotals totals = world.state.totals();
    {
      Trial trial(world.state);
      std::vector<MemberId> tried = live;
      for (uint32_t i = 0; i < 20; ++i) Step(world, trial, tried, asks, rng, 100'000 + i);
      const Trial::Mark mark = trial.mark();
      for (uint32_t i = 0; i < 20; ++i) Step(world, trial, tried, asks, rng, 200'000 + i);
      trial.Rollback(mark);
      EXPECT_EQ(trial.mark(), mark);
    }
    for (NodeId n = 0; n < 12; ++n)
      ASSERT_EQ(world.state.node(n), before[n]) << "round " << round << " node " << n;
    EXPECT_EQ(world.state.totals().allocated_milli, totals.allocated_milli);
    for (const MemberId id : live)
      EXPECT_TRUE(std::ranges::count(world.state.on(world.state.member(id).holding.node), id));
    ASSERT_EQ(world.state.Check(), "");
  }
}

// Invariant 10: what was done before, and in which order, leaves no trace in a choice.
TEST(Placer, DeterministicWhateverHappenedBefore) {
  for (const std::string_view policy : {"binpack", "e-binpack", "spread", "random"}) {
    World old(EightWay(40, 4), policy);
    std::vector<MemberId> live;
    Rng rng(3);
    const auto asks = Asks();
    for (uint32_t i = 0; i < 500; ++i) {
      Trial trial(old.state);
      Step(old, trial, live, asks, rng, i);
      trial.Commit();
    }
    World fresh(EightWay(40, 4), policy);
    for (const MemberId id : live) {
      Trial trial(fresh.state);
      trial.Assign(old.state.member(id));
      trial.Commit();
    }
    for (size_t a = 0; a < asks.size(); ++a) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        Rng one(seed);
        Rng other(seed);
        const auto old_choice = old.placer.Choose(old.shapes.Resolve(asks[a], "a"), {}, one);
        const auto new_choice = fresh.placer.Choose(fresh.shapes.Resolve(asks[a], "a"), {}, other);
        ASSERT_EQ(old_choice.has_value(), new_choice.has_value());
        if (!old_choice) continue;
        EXPECT_EQ(old_choice->node, new_choice->node) << policy << " ask " << a;
        EXPECT_EQ(old_choice->devices, new_choice->devices);
      }
    }
  }
}

TEST(Trial, EvictsAWholeJob) {
  World world(EightWay(4));
  const auto shape = world.shapes.Resolve(Devices(8), "");
  Rng rng(1);
  Trial trial(world.state);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    trial.Assign({.job = 5, .rank = rank, .holding = *world.placer.Choose(shape, {}, rng)});
  }
  EXPECT_EQ(world.state.totals().allocated_milli, 24'000);
  trial.EvictJob(5);
  EXPECT_EQ(world.state.totals().allocated_milli, 0);
  EXPECT_TRUE(world.state.of(5).empty());
}

// Nodes hold several tenants, shares and partitions, of which some members stay.
TEST(Trial, EvictsSeveralMembersAtOnceAsOneByOne) {
  World at_once(EightWay(6, 3));
  World one_by_one(EightWay(6, 3));
  const auto asks = Asks();
  for (World* const world : {&at_once, &one_by_one}) {
    std::vector<MemberId> live;
    Rng rng(5);
    for (uint32_t i = 0; i < 80; ++i) {
      Trial trial(world->state);
      Step(*world, trial, live, asks, rng, i);
      trial.Commit();
    }
  }
  const auto node = [](const World& world, NodeId n) { return world.state.node(n); };
  Rng rng(6);
  for (int round = 0; round < 50; ++round) {
    std::vector<JobIndex> jobs;
    for (JobIndex job = 0; job < 80; ++job) {
      if (rng.Uniform(2) == 0) jobs.push_back(job);
    }
    std::vector<NodeState> before;
    for (NodeId n = 0; n < 6; ++n) before.push_back(node(at_once, n));
    {
      Trial many(at_once.state);
      Trial single(one_by_one.state);
      many.EvictJobs(jobs);
      for (const JobIndex job : jobs) single.EvictJob(job);
      for (NodeId n = 0; n < 6; ++n) ASSERT_EQ(node(at_once, n), node(one_by_one, n)) << "node " << n;
      ASSERT_EQ(at_once.state.Check(), "");
    }
    for (NodeId n = 0; n < 6; ++n) ASSERT_EQ(node(at_once, n), before[n]) << "node " << n;
    ASSERT_EQ(at_once.state.Check(), "");
  }
}

TEST(ClusterState, ANodeThatIsNotHealthyTakesNothingAndCountsForNothing) {
  World world(EightWay(2));
  world.state.SetHealth(0, Health::kDraining);
  EXPECT_EQ(world.state.totals().capacity_milli, 8'000);
  const auto shape = world.shapes.Resolve(Devices(8), "");
  Rng rng(1);
  Trial trial(world.state);
  const auto first = world.placer.Choose(shape, {}, rng);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->node, 1u);
  trial.Assign({.holding = *first});
  EXPECT_FALSE(world.placer.Choose(shape, {}, rng));
  trial.Rollback(0);
  world.state.SetHealth(0, Health::kHealthy);
  EXPECT_EQ(world.state.totals().capacity_milli, 16'000);
  EXPECT_EQ(world.state.Check(), "");
}

TEST(ClusterState, ADeviceThatIsNotHealthyIsNotChosen) {
  World world(EightWay(1));
  world.state.SetDeviceHealth(0, 3, false);
  Rng rng(1);
  EXPECT_FALSE(world.placer.Choose(world.shapes.Resolve(Devices(8), ""), {}, rng));
  const auto seven = world.placer.Choose(world.shapes.Resolve(Devices(7), ""), {}, rng);
  ASSERT_TRUE(seven);
  EXPECT_EQ(seven->devices, 0xf7u);
  EXPECT_EQ(world.state.totals().capacity_milli, 7'000);
}

TEST(ClusterState, TenantsThatAskForItShareNoNode) {
  World world(EightWay(2));
  Ask alone = Devices(1);
  alone.isolation = Isolation::kTenant;
  Rng rng(1);
  Trial trial(world.state);
  const auto a = world.shapes.Resolve(alone, "a");
  const auto b = world.shapes.Resolve(alone, "b");
  const auto open = world.shapes.Resolve(Devices(1), "c");
  const auto first = *world.placer.Choose(a, {}, rng);
  trial.Assign({.job = 1, .holding = first});
  EXPECT_EQ(world.placer.Choose(a, {}, rng)->node, first.node);
  const auto second = *world.placer.Choose(b, {}, rng);
  EXPECT_NE(second.node, first.node);
  trial.Assign({.job = 2, .holding = second});
  EXPECT_FALSE(world.placer.Choose(open, {}, rng));
}

}  // namespace
}  // namespace scheduler
