#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "router/pick.h"
#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

struct Peer {
  Peer(size_t replicas, PolicyKind policy)
      : routing({Serving("m", std::vector<double>(replicas, 1), policy)}) {}

  Decision PickOf(const PickFacts& facts) {
    return Pick(routing.table, ModelId{0}, routing.load, facts, {}, kStart, routing.rng);
  }
  void Put(uint32_t replica, size_t requests, int64_t uncached = 0) {
    for (size_t i = 0; i < requests; ++i) {
      held.emplace_back(routing.load.shared(ReplicaId{replica}), Work{1, uncached, uncached},
                        Admission::kAdmitted, kStart);
    }
  }
  void Scrape(uint32_t replica, const Telemetry& telemetry) {
    routing.state(replica).engine.OnTelemetry(telemetry, {}, kStart);
  }

  Routing routing;
  std::vector<Charge> held;
};

PickFacts Prompt(std::span<const PrefixMatch> cached = {}, uint64_t affinity = 0) {
  return {
      .tokens = 1300, .prompt_tokens = 1000, .output_tokens = 300, .affinity = affinity, .cached = cached};
}

TEST(LeastRequests, CountsRequestsNotTokens) {
  Peer peer(3, PolicyKind::kLeastRequests);
  peer.Put(0, 2);
  peer.Put(1, 1, 1'000'000);
  peer.Put(2, 2);
  EXPECT_EQ(peer.PickOf(Prompt()).replica, ReplicaId{1});
}

TEST(ConsistentHash, ASessionStaysAndSessionsSpread) {
  Peer peer(8, PolicyKind::kConsistentHash);
  std::map<ReplicaId, int> shares;
  for (uint64_t session = 1; session <= 4000; ++session) {
    const auto first = peer.PickOf(Prompt({}, session)).replica;
    EXPECT_EQ(peer.PickOf(Prompt({}, session)).replica, first);
    ++shares[*first];
  }
  ASSERT_EQ(shares.size(), 8u);
  for (const auto& [replica, share] : shares) EXPECT_NEAR(share, 500, 100);
}

TEST(ConsistentHash, MovesOnlyTheSessionsOfARemovedReplica) {
  Peer peer(8, PolicyKind::kConsistentHash);
  std::vector<ReplicaId> before;
  for (uint64_t session = 1; session <= 500; ++session)
    before.push_back(*peer.PickOf(Prompt({}, session)).replica);
  peer.routing.TakeDown(3);
  for (uint64_t session = 1; session <= 500; ++session) {
    const ReplicaId now = *peer.PickOf(Prompt({}, session)).replica;
    if (before[session - 1] == ReplicaId{3}) {
      EXPECT_NE(now, ReplicaId{3});
    } else {
      EXPECT_EQ(now, before[session - 1]);
    }
  }
}

TEST(ConsistentHash, NoReplicaGetsMoreThanAQuarterAboveItsShare) {
  Peer peer(8, PolicyKind::kConsistentHash);
  std::vector<Decision> held;
  for (int i = 0; i < 400; ++i) held.push_back(peer.PickOf(Prompt({}, 42)));
  for (uint32_t i = 0; i < 8; ++i)
    EXPECT_LE(peer.routing.state(i).load.requests(), std::ceil(1.25 * 400 / 8));
}

TEST(CacheAware, GoesToTheHolderOfMoreThanHalf) {
  Peer peer(4, PolicyKind::kCacheAware);
  peer.Put(2, 10);
  const PrefixMatch most[] = {{ReplicaId{2}, 501}, {ReplicaId{1}, 400}};
  EXPECT_EQ(peer.PickOf(Prompt(most)).replica, ReplicaId{2});
  const PrefixMatch half[] = {{ReplicaId{2}, 500}};
  EXPECT_NE(peer.PickOf(Prompt(half)).replica, ReplicaId{2});
}

TEST(CacheAware, GoesToTheLeastLoadedWhenThePoolIsImbalanced) {
  Peer peer(4, PolicyKind::kCacheAware);
  const PrefixMatch held[] = {{ReplicaId{2}, 999}};
  peer.Put(2, 32);
  EXPECT_EQ(peer.PickOf(Prompt(held)).replica, ReplicaId{2});
  peer.Put(2, 1);
  EXPECT_NE(peer.PickOf(Prompt(held)).replica, ReplicaId{2});
}

TEST(Epp, ScoresLoadedAdaptersAndFreeSlots) {
  ModelSpec adapter;
  adapter.name = "adapter";
  adapter.base = "m";
  adapter.adapter = "sql";
  adapter.policy = PolicyKind::kEpp;
  Routing routing({Serving("m", {1, 1, 1}, PolicyKind::kEpp), adapter});
  const std::vector<std::string> others = {"x", "y"};
  const std::vector<std::string> sql = {"sql"};
  routing.state(0).adapters.OnReport({.in_use = others, .slots = 2}, kStart);
  routing.state(1).adapters.OnReport({.in_use = {}, .slots = 2}, kStart);
  const auto picked = [&] {
    const Decision decision = Pick(routing.table, ModelId{1}, routing.load, {}, {}, kStart, routing.rng);
    return std::pair(decision.replica, decision.score);
  };
  routing.state(2).adapters.OnReport({.in_use = sql, .slots = 2}, kStart);
  EXPECT_EQ(picked(), std::pair(std::optional(ReplicaId{2}), 5.0));
  routing.TakeDown(2);
  EXPECT_EQ(picked(), std::pair(std::optional(ReplicaId{1}), 4.8));
  routing.TakeDown(1);
  EXPECT_EQ(picked(), std::pair(std::optional(ReplicaId{0}), 4.0));
}

TEST(Epp, AddsQueueKvAndPrefixScores) {
  struct Case {
    double waiting[2];
    double kv_use[2];
    int64_t cached[2];
    uint32_t chosen;
  };
  const Case cases[] = {
      {{0, 5}, {0, 0}, {0, 0}, 0},        // 2 for the shortest queue
      {{3, 3}, {0.5, 0.4}, {0, 0}, 1},    // what is free of the cache
      {{0, 5}, {0, 0}, {0, 700}, 1},      // 3 * 0.7 > 2
      {{0, 5}, {0, 0}, {0, 600}, 0},      // 3 * 0.6 < 2
      {{2, 2}, {0.9, 0.1}, {500, 0}, 1},  // 2 * 0.1 + 1.5 < 2 * 0.9
      {{2, 2}, {0.6, 0.1}, {500, 0}, 0},  // 2 * 0.4 + 1.5 > 2 * 0.9
  };
  for (const Case& c : cases) {
    Peer peer(2, PolicyKind::kEpp);
    std::vector<PrefixMatch> matches;
    for (uint32_t i = 0; i < 2; ++i) {
      peer.Scrape(i, {.running = 0, .waiting = c.waiting[i], .kv_use = c.kv_use[i]});
      if (c.cached[i] > 0) matches.push_back({ReplicaId{i}, c.cached[i]});
    }
    EXPECT_EQ(peer.PickOf(Prompt(matches)).replica, ReplicaId{c.chosen}) << &c - cases;
  }
}

TEST(KvCost, WeighsBlocksToComputeAndBlocksInUseAlike) {
  Peer peer(2, PolicyKind::kKvCost);
  peer.Put(0, 1, 350);  // 350 to compute and 350 in use
  const PrefixMatch held[] = {{ReplicaId{0}, 750}};
  EXPECT_EQ(peer.PickOf(Prompt(held)).replica, ReplicaId{0});
  const PrefixMatch less[] = {{ReplicaId{0}, 650}};
  EXPECT_EQ(peer.PickOf(Prompt(less)).replica, ReplicaId{1});
}

TEST(PrefixMatches, AreInTokensAndOnlyOfReplicasInTheTable) {
  prefix::Index index;
  ReplicaStates states(&index);
  const auto gone = states.Get("gone");
  const RouteTable table = MakeTable({Serving("m", {1, 1})});
  const LoadView load(table, states);
  const prefix::Holder holders[] = {{*gone->member, 10}, {*load[ReplicaId{1}].member, 5}};
  PrefixMatch matches[4];
  ASSERT_EQ(MatchesOf(load, holders, 10, 1000, matches), 1u);
  EXPECT_EQ(matches[0].replica, ReplicaId{1});
  EXPECT_EQ(matches[0].tokens, 500);
}

TEST(PrefixMatches, ARemovedReplicaTakesItsPrefixesAlong) {
  prefix::Index index;
  ReplicaStates states(&index);
  const std::vector<uint64_t> prompt = {11, 22, 33};
  prefix::Holder out[4];
  {
    const auto state = states.Get("r");
    index.Confirm(prompt, *state->member, kStart);
    EXPECT_EQ(index.Find(prompt, kStart, out), 1u);
  }
  EXPECT_EQ(index.Find(prompt, kStart, out), 0u);
}

}  // namespace
}  // namespace router
