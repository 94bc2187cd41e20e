#include "scheduler/placement/gang.h"
#include "scheduler/placement/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

Job Gang(Ask ask, uint32_t count, uint32_t min_count = 0) {
  Job job;
  job.roles = {{.name = "worker",
                .ask = std::move(ask),
                .count = count,
                .min_count = min_count == 0 ? count : min_count}};
  return job;
}

Job Within(std::string level, Job job) {
  job.topology = {.level = std::move(level), .required = true};
  return job;
}

struct World {
  explicit World(Cluster c, std::string_view policy = "e-binpack")
      : cluster(std::move(c)),
        state(cluster),
        shapes(cluster),
        jobs(shapes),
        placer(state, shapes, *FindPlacementPolicy(policy)),
        gangs(state, shapes) {}

  JobIndex Add(Job job) {
    job.id = std::to_string(next_id++);
    return jobs.Add(std::move(job), 0);
  }
  GangResult Place(JobIndex job, const NodeSet* except = nullptr) {
    Trial trial(state);
    GangResult result = gangs.Place(trial, placer, job, jobs[job], except, rng);
    trial.Commit();
    if (!result.placed.empty()) jobs[job].phase = Phase::kRunning;
    return result;
  }
  GangResult Start(Job job, const NodeSet* except = nullptr) { return Place(Add(std::move(job)), except); }
  // Takes devices of a node, for a job of its own.
  JobIndex Occupy(NodeId node, uint16_t devices) {
    const JobIndex job = Add(Gang(Devices(devices), 1));
    Trial trial(state);
    const auto holding = placer.On(node, jobs[job].shapes[0]);
    EXPECT_TRUE(holding.has_value());
    trial.Assign({.job = job, .holding = *holding});
    trial.Commit();
    return job;
  }
  void Stop(JobIndex job) {
    Trial trial(state);
    trial.EvictJob(job);
    trial.Commit();
  }

  Cluster cluster;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
  Placer placer;
  GangPlacer gangs;
  Rng rng{5};
  int next_id = 0;
};

std::map<NodeId, int> PerNode(const GangResult& result) {
  std::map<NodeId, int> nodes;
  for (const MemberAt& member : result.placed) ++nodes[member.holding.node];
  return nodes;
}

std::map<DomainId, int> PerLeaf(const World& world, const GangResult& result) {
  std::map<DomainId, int> leaves;
  for (const MemberAt& member : result.placed) ++leaves[world.cluster.nodes[member.holding.node].domain];
  return leaves;
}

TEST(Gang, StartsWholeOrNotAtAll) {
  World world(EightWay(8, 4));
  EXPECT_EQ(world.Start(Gang(Devices(8), 8)).placed.size(), 8u);
  World other(EightWay(8, 4));
  other.Occupy(3, 1);
  const GangResult refused = other.Start(Gang(Devices(8), 8));
  EXPECT_TRUE(refused.placed.empty());
  EXPECT_EQ(refused.short_by, 1u);
  EXPECT_EQ(other.state.member_count(), 1u);
  EXPECT_EQ(other.state.Check(), "");
}

TEST(Gang, TakesTheTightestLeafThatHoldsIt) {
  World world(EightWay(12, 4));
  world.Occupy(0, 8);
  world.Occupy(4, 8);
  world.Occupy(5, 8);
  const GangResult two = world.Start(Gang(Devices(8), 2));
  EXPECT_EQ(PerNode(two), (std::map<NodeId, int>{{6, 1}, {7, 1}}));
  const GangResult three = world.Start(Gang(Devices(8), 3));
  EXPECT_EQ(PerNode(three), (std::map<NodeId, int>{{1, 1}, {2, 1}, {3, 1}}));
}

TEST(Gang, TakesTheFewestLeavesWhenNoneHoldsItLargestFirst) {
  World world(EightWay(16, 4));
  world.Occupy(0, 8);
  world.Occupy(4, 8);
  world.Occupy(5, 8);
  const GangResult result = world.Start(Gang(Devices(8), 6));
  EXPECT_EQ(PerLeaf(world, result), (std::map<DomainId, int>{{2, 4}, {1, 2}}));
}

TEST(Gang, StaysBelowTheRequiredLevel) {
  World world(EightWay(16, 4, 2));
  EXPECT_TRUE(world.Start(Within("leaf", Gang(Devices(8), 5))).placed.empty());
  const GangResult spine = world.Start(Within("spine", Gang(Devices(8), 5)));
  EXPECT_EQ(spine.placed.size(), 5u);
  EXPECT_TRUE(world.Start(Within("spine", Gang(Devices(8), 9))).placed.empty());
  EXPECT_EQ(PerNode(world.Start(Within("node", Gang(Devices(2), 4)))).size(), 1u);
  EXPECT_TRUE(world.Start(Within("node", Gang(Devices(3), 3))).placed.empty());
  EXPECT_TRUE(world.Start(Within("row", Gang(Devices(1), 1))).placed.empty()) << "no such level";
}

TEST(Gang, FallsBackUpwardsFromAPreferredLevel) {
  World world(EightWay(16, 4, 2));
  Job job = Gang(Devices(8), 5);
  job.topology = {.level = "leaf"};
  const GangResult result = world.Start(job);
  EXPECT_EQ(result.placed.size(), 5u);
  for (const auto& [leaf, members] : PerLeaf(world, result)) {
    EXPECT_EQ(world.cluster.fabric.domains[leaf].parent,
              world.cluster.fabric.domains[world.cluster.nodes[result.placed[0].holding.node].domain].parent);
  }
}

TEST(Gang, StartsAsManyAsFitAndGrowsLater) {
  World world(EightWay(4, 2));
  const JobIndex other = world.Add(Gang(Devices(8), 2));
  ASSERT_EQ(world.Place(other).placed.size(), 2u);
  const JobIndex job = world.Add(Gang(Devices(8), 4, 1));
  const GangResult first = world.Place(job);
  ASSERT_EQ(first.placed.size(), 2u);
  EXPECT_EQ(first.placed[1].rank, 1u);
  EXPECT_TRUE(world.Place(job).placed.empty());
  world.Stop(other);
  const GangResult more = world.Place(job);
  ASSERT_EQ(more.placed.size(), 2u);
  EXPECT_EQ(more.placed[0].rank, 2u);
  EXPECT_EQ(more.placed[1].rank, 3u);
  EXPECT_EQ(world.state.of(job).size(), 4u);
}

TEST(Gang, ReplacesAMissingMemberNextToTheOthers) {
  World world(EightWay(12, 4));
  world.Occupy(1, 8);
  const JobIndex blocker = world.Occupy(7, 8);
  const JobIndex job = world.Add(Within("leaf", Gang(Devices(8), 3)));
  const GangResult start = world.Place(job);
  ASSERT_EQ(PerLeaf(world, start), (std::map<DomainId, int>{{0, 3}}));
  {
    Trial trial(world.state);
    for (const MemberId id : world.state.of(job)) {
      if (world.state.member(id).rank == 1) {
        trial.Evict(id);
        break;
      }
    }
    trial.Commit();
  }
  NodeSet broken(12);
  broken.Add(start.placed[1].holding.node);
  EXPECT_TRUE(world.Place(job, &broken).placed.empty()) << "its leaf is full, and it may not leave it";
  world.Stop(blocker);
  const GangResult again = world.Place(job);
  ASSERT_EQ(again.placed.size(), 1u);
  EXPECT_EQ(again.placed[0].rank, 1u);
  EXPECT_EQ(again.placed[0].holding.node, start.placed[1].holding.node);
}

TEST(Gang, KeepsMembersApartWhereAsked) {
  for (const uint32_t members : {3u, 8u}) {
    World world(EightWay(8, 4));
    Job job = Gang(Devices(1), members);
    job.anti_affinity = true;
    EXPECT_EQ(PerNode(world.Start(job)).size(), members);
    EXPECT_EQ(world.Start(Gang(Devices(1), 1)).placed.size(), 1u);
  }
  World world(EightWay(8, 4));
  Job job = Gang(Devices(1), 9);
  job.anti_affinity = true;
  EXPECT_TRUE(world.Start(job).placed.empty());
}

TEST(Gang, SpreadsOverLeavesThenNodes) {
  World world(EightWay(8, 2));
  Job job = Gang(Devices(1), 8);
  job.spread = true;
  const GangResult result = world.Start(job);
  EXPECT_EQ(PerNode(result).size(), 8u);
  job.roles[0].count = job.roles[0].min_count = 4;
  EXPECT_EQ(PerLeaf(world, world.Start(job)).size(), 4u);
  job.topology = {.level = "leaf", .required = true};
  const GangResult within = world.Start(job);
  EXPECT_EQ(PerLeaf(world, within).size(), 1u);
  EXPECT_EQ(PerNode(within).size(), 2u);
}

TEST(Gang, SpreadsEvenlyAroundTakenNodes) {
  World world(EightWay(12, 3));
  for (NodeId n = 0; n < 3; ++n) world.Occupy(n, 8);
  for (NodeId n = 3; n < 12; n += 3) world.Occupy(n, 5);
  Job job = Gang(Devices(1), 20);
  job.spread = true;
  NodeSet except(12);
  except.Add(5);
  const GangResult result = world.Start(job, &except);
  ASSERT_EQ(result.placed.size(), 20u);
  EXPECT_EQ(PerLeaf(world, result), (std::map<DomainId, int>{{1, 6}, {2, 7}, {3, 7}}))
      << "leaves as even as can be";
  std::map<NodeId, int> nodes = PerNode(result);
  EXPECT_EQ(nodes[3], 3) << "it has no more";
  EXPECT_EQ(nodes.count(5), 0u);
  EXPECT_LE(std::max(nodes[7], nodes[8]) - std::min(nodes[7], nodes[8]), 1);
  EXPECT_TRUE(world.Start(job, &except).placed.size() == 20u) << "over the rest";
  EXPECT_EQ(world.state.Check(), "");
}

TEST(Gang, GoesOneByOneUnderAPolicyThatSpreads) {
  World world(EightWay(8, 2), "spread");
  const GangResult result = world.Start(Gang(Devices(2), 8));
  EXPECT_EQ(PerNode(result).size(), 8u);
  EXPECT_EQ(PerNode(world.Start(Within("leaf", Gang(Devices(2), 3)))).size(), 1u)
      << "but a topology that is asked for is kept";
}

TEST(Gang, NeverUsesExcludedNodes) {
  World world(EightWay(8, 4));
  NodeSet except(8);
  for (NodeId n = 0; n < 5; ++n) except.Add(n);
  EXPECT_TRUE(world.Start(Gang(Devices(8), 4), &except).placed.empty());
  for (const auto& [node, members] : PerNode(world.Start(Gang(Devices(8), 3), &except))) EXPECT_GE(node, 5u);
  EXPECT_TRUE(world.Start(Gang(Devices(1), 1), &except).placed.empty());
}

Cluster TwoKinds() {
  Cluster cluster = EightWay(8, 4);
  cluster.kinds.push_back({.name = "a100", .memory_mib = 40960});
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].kind = 1;
  for (size_t n = 4; n < 8; ++n) cluster.nodes[n].type = 1;
  return cluster;
}

TEST(Gang, UsesOneAlternativeForAllMembersWhereItHolds) {
  Ask ask = Devices(8);
  ask.devices = {{.kinds = {"h100"}, .count = 8}, {.kinds = {"a100"}, .count = 8}};
  World world(TwoKinds());
  for (const auto& [node, members] : PerNode(world.Start(Gang(ask, 3)))) EXPECT_LT(node, 4u);
  for (const auto& [node, members] : PerNode(world.Start(Gang(ask, 3)))) EXPECT_GE(node, 4u);
  EXPECT_EQ(world.Start(Gang(ask, 2)).placed.size(), 2u) << "one of each kind";
  EXPECT_EQ(world.state.Check(), "");
}

TEST(Gang, PlacesAllRolesBelowOneDomain) {
  World world(EightWay(16, 4));
  Job job = Gang(Devices(8), 3);
  Ask head = Devices(1);
  job.roles.insert(job.roles.begin(), {.name = "head", .ask = head});
  const GangResult result = world.Start(Within("leaf", job));
  ASSERT_EQ(result.placed.size(), 4u);
  EXPECT_EQ(PerLeaf(world, result).size(), 1u);
  EXPECT_EQ(result.placed[0].role, 0) << "by role, whatever the order of placing";
  job.roles[1].count = job.roles[1].min_count = 4;
  EXPECT_TRUE(world.Start(Within("leaf", job)).placed.empty()) << "the head has no room beside four";
  job.roles[1].min_count = 2;
  EXPECT_EQ(world.Start(Within("leaf", job)).placed.size(), 4u);
}

TEST(Gang, KeepsToPowerBudgets) {
  Cluster cluster = EightWay(8, 4);
  // The leaf draws 4·8·70 W when idle; each node of busy devices adds 8·630 W.
  cluster.fabric.domains[0].power_budget_watts = 4 * 8 * 70 + 2.5 * 8 * 630;
  World world(cluster);
  EXPECT_EQ(PerLeaf(world, world.Start(Gang(Devices(8), 8, 1))), (std::map<DomainId, int>{{0, 2}, {1, 4}}));
  EXPECT_EQ(world.state.Check(), "");
  World root(cluster);
  root.cluster.fabric.domains[2].power_budget_watts = 8 * 8 * 70 + 3.5 * 8 * 630;
  EXPECT_TRUE(root.Start(Gang(Devices(8), 4)).placed.empty());
  EXPECT_EQ(root.Start(Gang(Devices(8), 3)).placed.size(), 3u);
}

TEST(Gang, RunsNoMoreArrayTasksAtATimeThanAsked) {
  World world(EightWay(4, 2));
  Job job = Gang(Devices(1), 100, 1);
  job.work = WorkClass::kArray;
  job.max_running = 10;
  const JobIndex index = world.Add(job);
  EXPECT_EQ(world.Place(index).placed.size(), 10u);
  EXPECT_TRUE(world.Place(index).placed.empty());
}

TEST(Gang, SpreadsAwayFromOtherElementsOfItsArray) {
  World world(EightWay(4, 2));
  RunningArrays arrays;
  GangPlacer gangs(world.state, world.shapes, &arrays);
  std::map<NodeId, int> nodes;
  for (int i = 0; i < 8; ++i) {
    Job replica = Gang(Devices(1), 1);
    replica.work = WorkClass::kInference;
    replica.array = i % 2 == 0 ? "chat-small" : "chat-large";
    replica.spread = true;
    const JobIndex job = world.Add(replica);
    Trial trial(world.state);
    const GangResult result = gangs.Place(trial, world.placer, job, world.jobs[job], nullptr, world.rng);
    trial.Commit();
    ASSERT_EQ(result.placed.size(), 1u);
    arrays[replica.array].insert(job);
    if (i % 2 == 0) ++nodes[result.placed[0].holding.node];
    const auto leaf = [&](NodeId node) { return world.cluster.nodes[node].domain; };
    if (i == 2) EXPECT_EQ(std::set({leaf(nodes.begin()->first), leaf(nodes.rbegin()->first)}).size(), 2u);
  }
  EXPECT_EQ(nodes, (std::map<NodeId, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
}

TEST(Gang, ThoseThatSpreadBelowOneLeafTakeLeavesThatTheirArrayDoesNotHave) {
  World world(EightWay(9, 3));
  RunningArrays arrays;
  GangPlacer gangs(world.state, world.shapes, &arrays);
  std::vector<DomainId> leaves;
  for (int i = 0; i < 3; ++i) {
    Job replica = Within("leaf", Gang(Devices(2), 2));
    replica.work = WorkClass::kInference;
    replica.array = "chat-large";
    replica.spread = true;
    const JobIndex job = world.Add(replica);
    Trial trial(world.state);
    const GangResult result = gangs.Place(trial, world.placer, job, world.jobs[job], nullptr, world.rng);
    trial.Commit();
    arrays[replica.array].insert(job);
    EXPECT_EQ(PerNode(result).size(), 2u) << "its members stand on different nodes";
    const std::map<DomainId, int> leaf = PerLeaf(world, result);
    ASSERT_EQ(leaf.size(), 1u) << "of one leaf";
    leaves.push_back(leaf.begin()->first);
    world.Occupy(8, 1);  // the last leaf has the least room
  }
  EXPECT_THAT(leaves, ::testing::UnorderedElementsAre(0, 1, 2));
}

TEST(Gang, MightFitIsNecessary) {
  World world(EightWay(4, 2));
  EXPECT_TRUE(world.gangs.MightFit(world.jobs[world.Add(Gang(Devices(8), 4))]));
  EXPECT_FALSE(world.gangs.MightFit(world.jobs[world.Add(Gang(Devices(8), 5))]));
  world.Occupy(0, 1);
  EXPECT_FALSE(world.gangs.MightFit(world.jobs[world.Add(Gang(Devices(8), 4))]));
  EXPECT_TRUE(world.gangs.MightFit(world.jobs[world.Add(Gang(Devices(8), 4, 3))]));
}

// Brute force: the most members that any permitted domain holds.
uint32_t MostSlots(const World& world, const Job& job, const Shape& shape) {
  const Fabric& fabric = world.cluster.fabric;
  const auto slots = [&](NodeId n) {
    if (world.state.health(n) != Health::kHealthy) return 0u;
    const uint32_t s = Slots(world.state.node(n), shape, world.state.view_of(n));
    return job.anti_affinity ? std::min(s, 1u) : s;
  };
  uint32_t most = 0;
  if (job.topology.required && job.topology.level == "node") {
    for (NodeId n = 0; n < world.cluster.nodes.size(); ++n) most = std::max(most, slots(n));
    return most;
  }
  for (DomainId d = 0; d < fabric.domains.size(); ++d) {
    if (job.topology.required && fabric.levels[fabric.domains[d].level] != job.topology.level) continue;
    uint32_t sum = 0;
    for (NodeId n = 0; n < world.cluster.nodes.size(); ++n) {
      DomainId above = world.cluster.nodes[n].domain;
      while (above != kNone && above != d) above = fabric.domains[above].parent;
      if (above == d) sum += slots(n);
    }
    most = std::max(most, sum);
  }
  return most;
}

DomainId At(const World& world, NodeId node, uint8_t level) {
  DomainId d = world.cluster.nodes[node].domain;
  while (world.cluster.fabric.domains[d].level < level) d = world.cluster.fabric.domains[d].parent;
  return d;
}

Job RandomGang(Rng& rng) {
  const Ask asks[] = {Devices(1), Devices(2), Devices(3), Devices(8), Share(300), Partition("2g.20gb")};
  Job job = Gang(asks[rng.Uniform(std::size(asks))], 1 + static_cast<uint32_t>(rng.Uniform(24)));
  if (rng.Uniform(2) == 0) {
    job.roles[0].min_count = 1 + static_cast<uint32_t>(rng.Uniform(job.roles[0].count));
  }
  const char* levels[] = {"", "node", "leaf", "spine", "cluster"};
  job.topology = {.level = levels[rng.Uniform(5)], .required = rng.Uniform(2) == 0};
  if (job.topology.level.empty()) job.topology.required = false;
  job.anti_affinity = rng.Uniform(5) == 0;
  job.spread = rng.Uniform(5) == 0;
  return job;
}

TEST(Gang, IsWholeBelowItsLevelAndRefusedOnlyWhereNoDomainHoldsIt) {
  int refused = 0;
  int shrunk = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const char* policies[] = {"e-binpack", "binpack", "spread", "random"};
    World world(EightWay(8 + static_cast<int>(rng.Uniform(20)), 1 + static_cast<int>(rng.Uniform(6)),
                         1 + static_cast<int>(rng.Uniform(4))),
                policies[seed % 4]);
    std::vector<JobIndex> running;
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && rng.Uniform(3) == 0) {
        const size_t at = rng.Uniform(running.size());
        world.Stop(running[at]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      const Job job = RandomGang(rng);
      const JobIndex index = world.Add(job);
      const Shape shape = world.shapes[world.jobs[index].shapes[0][0]];
      const uint32_t most = MostSlots(world, job, shape);
      const bool might = world.gangs.MightFit(world.jobs[index]);
      const GangResult result = world.Place(index);
      const uint32_t wanted = job.roles[0].count;
      const uint32_t least = job.roles[0].min_count;
      ASSERT_EQ(result.placed.size(), most < least ? 0 : std::min(most, wanted))
          << "seed " << seed << " step " << step << " level " << job.topology.level;
      ASSERT_EQ(world.state.of(index).size(), result.placed.size());
      if (result.placed.empty()) {
        ++refused;
        ASSERT_EQ(result.short_by > 0, true);
        continue;
      }
      ASSERT_TRUE(might);
      shrunk += result.placed.size() < wanted;
      running.push_back(index);
      std::set<std::pair<uint16_t, uint32_t>> ranks;
      for (const MemberAt& member : result.placed) ranks.insert({member.role, member.rank});
      ASSERT_EQ(ranks.size(), result.placed.size());
      if (job.anti_affinity) ASSERT_EQ(PerNode(result).size(), result.placed.size());
      if (!job.topology.required) continue;
      const auto& levels = world.cluster.fabric.levels;
      if (job.topology.level == "node") {
        ASSERT_EQ(PerNode(result).size(), 1u);
        continue;
      }
      const auto level = static_cast<uint8_t>(std::ranges::find(levels, job.topology.level) - levels.begin());
      const DomainId domain = At(world, result.placed[0].holding.node, level);
      for (const MemberAt& member : result.placed) ASSERT_EQ(At(world, member.holding.node, level), domain);
    }
    ASSERT_EQ(world.state.Check(), "") << "seed " << seed;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(shrunk, 50);
}

TEST(Gang, PlacementDoesNotDependOnEarlierTrials) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    World used(EightWay(20, 4, 2));
    Rng rng(seed);
    std::vector<JobIndex> running;
    for (int step = 0; step < 80; ++step) {
      const JobIndex index = used.Add(RandomGang(rng));
      if (!used.Place(index).placed.empty()) running.push_back(index);
      if (running.size() > 6) {
        used.Stop(running[2]);
        running.erase(running.begin() + 2);
      }
    }
    // The same members in another order, in a world that has seen nothing else.
    World fresh(EightWay(20, 4, 2));
    fresh.shapes.Resolve(Share(17), "");
    std::vector<Member> members;
    for (NodeId n = 0; n < 20; ++n) {
      for (const MemberId id : used.state.on(n)) members.push_back(used.state.member(id));
    }
    rng.Shuffle(members);
    for (size_t i = 0; i < 1000; ++i) fresh.Add(Gang(Devices(1), 1));  // indices beyond those of `used`
    {
      Trial trial(fresh.state);
      for (const Member& member : members) trial.Assign(member);
      trial.Commit();
    }
    for (int i = 0; i < 10; ++i) {
      const Job job = RandomGang(rng);
      used.rng = fresh.rng = Rng(seed);
      const JobIndex a = used.Add(job);
      const JobIndex b = fresh.Add(job);
      ASSERT_EQ(used.Place(a).placed, fresh.Place(b).placed) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace scheduler
