#include "router/pick.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr PolicyKind kAllPolicies[] = {PolicyKind::kLeastLoad, PolicyKind::kRoundRobin,
                                       PolicyKind::kPowerOfTwo, PolicyKind::kWeighted};

std::vector<int> Shares(Routing& routing, int picks) {
  std::vector<int> shares(routing.table.replicas().size());
  for (int i = 0; i < picks; ++i) {
    const Decision decision = routing.PickOf();
    if (decision.replica) ++shares[static_cast<size_t>(*decision.replica)];
  }
  return shares;
}

TEST(Pick, EveryPolicyGivesEachOfSixteenIdleReplicasItsShare) {
  for (PolicyKind policy : kAllPolicies) {
    Routing routing({Serving("m", std::vector<double>(16, 1), policy)});
    const std::vector<int> shares = Shares(routing, 16'000);
    EXPECT_GT(*std::min_element(shares.begin(), shares.end()), 850) << PolicyName(policy);
    EXPECT_LT(*std::max_element(shares.begin(), shares.end()), 1150) << PolicyName(policy);
  }
}

TEST(Pick, EveryPolicyAvoidsUnusableReplicas) {
  for (PolicyKind policy : kAllPolicies) {
    Routing routing({Serving("m", {1, 1, 0, 1, 1, 1}, policy)});
    routing.Break(0);
    routing.TakeDown(1);
    routing.state(3).breaker.Rest(10s, kStart);
    const ReplicaId tried[] = {ReplicaId{4}};
    for (int i = 0; i < 100; ++i) {
      const Decision decision = routing.PickOf(ModelId{0}, 1, tried);
      ASSERT_EQ(decision.replica, ReplicaId{5}) << PolicyName(policy);
      EXPECT_FALSE(decision.reason.empty());
      EXPECT_FALSE(decision.failed_open);
    }
  }
}

TEST(Pick, ChargesItsChoiceAtOnce) {
  Routing routing({Serving("m", {1, 1, 1, 1})});
  std::vector<Decision> held;
  for (int i = 0; i < 40; ++i) held.push_back(routing.PickOf(ModelId{0}, 100));
  for (uint32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(routing.state(id).load.requests(), 10);
    EXPECT_EQ(routing.state(id).load.tokens(), 1000);
  }
}

TEST(Pick, ShardsThatChooseAtTheSameMomentDoNotHerd) {
  Routing routing({Serving("m", std::vector<double>(8, 1))});
  std::vector<std::vector<Decision>> held(4);
  std::vector<std::thread> shards;
  for (uint64_t shard = 0; shard < held.size(); ++shard) {
    shards.emplace_back([&, shard] {
      scheduler::Rng rng(shard);
      for (int i = 0; i < 200; ++i) {
        held[shard].push_back(
            Pick(routing.table, ModelId{0}, routing.load, {.tokens = 100}, {}, kStart, rng));
      }
    });
  }
  for (std::thread& shard : shards) shard.join();
  for (uint32_t id = 0; id < 8; ++id)
    EXPECT_NEAR(static_cast<double>(routing.state(id).load.requests()), 100, 6);
}

TEST(Pick, LeastLoadWeighsTokensNotRequests) {
  Routing routing({Serving("m", {1, 1})});
  const Charge heavy(routing.load.shared(ReplicaId{0}), 10'000, Admission::kAdmitted);
  std::vector<Charge> light;
  for (int i = 0; i < 50; ++i)
    light.emplace_back(routing.load.shared(ReplicaId{1}), 10, Admission::kAdmitted);
  EXPECT_EQ(routing.PickOf().replica, ReplicaId{1});
}

TEST(Pick, LeastLoadFillsReplicasByWeight) {
  Routing routing({Serving("m", {1, 3})});
  std::vector<Decision> held;
  for (int i = 0; i < 400; ++i) held.push_back(routing.PickOf(ModelId{0}, 10));
  EXPECT_NEAR(static_cast<double>(routing.state(0).load.requests()), 100, 2);
}

TEST(Pick, RoundRobinDoublesNoShareWhenOneReplicaIsDown) {
  Routing routing({Serving("m", {1, 1, 1, 1}, PolicyKind::kRoundRobin)});
  routing.TakeDown(1);
  const std::vector<int> shares = Shares(routing, 3000);
  for (size_t id : {0U, 2U, 3U}) EXPECT_EQ(shares[id], 1000);
}

TEST(Pick, WeightedIsExactAndSmooth) {
  Routing routing({Serving("m", {5, 1, 1}, PolicyKind::kWeighted)});
  std::string sequence;
  for (int i = 0; i < 14; ++i)
    sequence += static_cast<char>('a' + static_cast<int>(*routing.PickOf().replica));
  EXPECT_EQ(sequence, "aabacaaaabacaa");
}

TEST(Pick, PowerOfTwoPrefersTheLessLoaded) {
  Routing routing({Serving("m", {1, 1, 1}, PolicyKind::kPowerOfTwo)});
  const Charge loaded(routing.load.shared(ReplicaId{1}), 100, Admission::kAdmitted);
  EXPECT_EQ(Shares(routing, 300)[1], 0);
}

TEST(Pick, PowerOfTwoStillFindsTheOneUsableOfMany) {
  Routing routing({Serving("m", std::vector<double>(200, 1), PolicyKind::kPowerOfTwo)});
  for (uint32_t id = 0; id < 199; ++id) routing.Break(id);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(routing.PickOf().replica, ReplicaId{199});
}

TEST(Pick, SaysWhyThereIsNone) {
  struct Case {
    std::vector<double> weights;
    std::vector<ReplicaId> tried;
    void (*prepare)(Routing&);
    NoneBecause none;
    std::optional<conf::Duration> retry_in;
  };
  const Case cases[] = {
      {{}, {}, [](Routing&) {}, NoneBecause::kNoReplicas, {}},
      {{1, 1}, {ReplicaId{0}, ReplicaId{1}}, [](Routing&) {}, NoneBecause::kAllTried, {}},
      {{1, 1}, {}, [](Routing& r) { r.Break(0), r.Break(1, kStart - 2s); }, NoneBecause::kAllBroken, 3s},
      {{1, 1},
       {},
       [](Routing& r) { r.Break(0), r.state(1).breaker.Rest(7s, kStart); },
       NoneBecause::kAllResting,
       5s},
      {{1, 1}, {ReplicaId{0}}, [](Routing& r) { r.TakeDown(1); }, NoneBecause::kAllTried, {}},
      {{1}, {}, [](Routing& r) { r.TakeDown(0), r.Break(0); }, NoneBecause::kAllDown, {}},
  };
  for (const Case& c : cases) {
    Routing routing({Serving("m", c.weights)});
    c.prepare(routing);
    const Decision decision = routing.PickOf(ModelId{0}, 1, c.tried);
    EXPECT_FALSE(decision.replica);
    EXPECT_EQ(decision.none, c.none) << decision.reason;
    EXPECT_EQ(decision.reason, ReasonText(c.none));
    EXPECT_EQ(decision.retry_at, c.retry_in ? std::optional(kStart + *c.retry_in) : std::nullopt)
        << decision.reason;
  }
}

TEST(Pick, AllDownFailsOpenOnlyWhenSoConfigured) {
  for (bool fail_open : {true, false}) {
    ModelSpec spec = Serving("m", {1, 1});
    spec.fail_open = fail_open;
    Routing routing({spec});
    routing.TakeDown(0);
    EXPECT_EQ(routing.PickOf().replica, ReplicaId{1});
    routing.TakeDown(1);
    const Decision decision = routing.PickOf();
    EXPECT_EQ(decision.replica.has_value(), fail_open);
    EXPECT_EQ(decision.failed_open, fail_open);
  }
}

TEST(Pick, TheSameSeedAndLoadsGiveTheSameChoices) {
  for (PolicyKind policy : kAllPolicies) {
    Routing a({Serving("m", {1, 2, 3, 4, 5}, policy)});
    Routing b({Serving("m", {1, 2, 3, 4, 5}, policy)});
    for (int64_t i = 0; i < 500; ++i)
      ASSERT_EQ(a.PickOf(ModelId{0}, i).replica, b.PickOf(ModelId{0}, i).replica);
  }
}

// --- Tracks, zones, sessions ---

// Two stable replicas, then two of the track v2; the second of each stands in another zone.
struct Steered {
  explicit Steered(PolicyKind policy) {
    ModelSpec spec = Serving("m", {1, 1, 1, 1}, policy);
    for (size_t i = 0; i < 4; ++i) {
      spec.replicas[i].track = i < 2 ? "" : "v2";
      spec.replicas[i].zone = i % 2 == 0 ? "west" : "east";
    }
    spec.canaries = {{.track = "v2", .percent = 10}};
    auto built = RouteTable::Build({std::move(spec)}, "west");
    EXPECT_TRUE(built.ok()) << built.status();
    table = *std::move(built);
    load.emplace(table, states);
  }

  std::optional<ReplicaId> PickOf(std::string_view track, std::optional<ReplicaId> of_session = {}) {
    const PickFacts facts{.prompt_tokens = 10, .track = table.TrackNamed(track), .of_session = of_session};
    last = Pick(table, ModelId{0}, *load, facts, {}, kStart, rng);
    return last.replica;
  }
  ReplicaState& state(uint32_t id) const { return (*load)[static_cast<ReplicaId>(id)]; }
  void TakeDown(uint32_t id) const {
    for (int i = 0; i < 3; ++i) state(id).health.OnProbe(ProbeResult::kFailed, kStart);
  }
  // As many waiting as veto it.
  std::vector<Charge> Saturate(uint32_t id) const {
    std::vector<Charge> work;
    for (int i = 0; i < 200; ++i) {
      work.emplace_back(load->shared(static_cast<ReplicaId>(id)), Work{1, 1, 1}, Admission::kAdmitted,
                        kStart);
    }
    return work;
  }

  RouteTable table;
  ReplicaStates states;
  std::optional<LoadView> load;
  scheduler::Rng rng{1};
  Decision last;
};

struct PickByPolicy : testing::TestWithParam<PolicyKind> {};

TEST_P(PickByPolicy, EachTrackUsesItsOwnReplicasAndFallsBackToStableOnes) {
  Steered pool(GetParam());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(pool.PickOf(""), ReplicaId{0});
    EXPECT_EQ(pool.PickOf("v2"), ReplicaId{2});
  }
  pool.TakeDown(2);
  EXPECT_EQ(pool.PickOf("v2"), ReplicaId{3}) << "the track before the zone";
  pool.TakeDown(3);
  EXPECT_EQ(pool.PickOf("v2"), ReplicaId{0});
  EXPECT_FALSE(pool.last.failed_open);
}

TEST_P(PickByPolicy, ACanaryNeverServesTheStableTrack) {
  Steered pool(GetParam());
  pool.TakeDown(0);
  EXPECT_EQ(pool.PickOf(""), ReplicaId{1}) << "the other zone";
  pool.TakeDown(1);
  EXPECT_LT(pool.PickOf(""), ReplicaId{2}) << "all are down: those are tried all the same";
  EXPECT_TRUE(pool.last.failed_open);
  for (const uint32_t id : {0u, 1u}) {
    for (int i = 0; i < 5; ++i) pool.state(id).breaker.Report(Outcome::kBad, Admission::kAdmitted, kStart);
  }
  EXPECT_FALSE(pool.PickOf(""));
}

TEST_P(PickByPolicy, AnotherZoneIsUsedWhenTheOwnIsSaturated) {
  Steered pool(GetParam());
  const std::vector<Charge> near = pool.Saturate(0);
  EXPECT_EQ(pool.PickOf(""), ReplicaId{1});
}

TEST_P(PickByPolicy, ASessionStaysOnItsReplicaWhileThatIsUsable) {
  Steered pool(GetParam());
  const std::vector<Charge> busy = pool.Saturate(1);
  EXPECT_EQ(pool.PickOf("", ReplicaId{1}), ReplicaId{1});
  EXPECT_EQ(pool.last.reason, "the session's replica");
  EXPECT_EQ(pool.PickOf("", ReplicaId{3}), ReplicaId{0}) << "it is another track's";
  EXPECT_EQ(pool.PickOf("", ReplicaId{77}), ReplicaId{0}) << "it is gone";
  pool.TakeDown(1);
  EXPECT_EQ(pool.PickOf("", ReplicaId{1}), ReplicaId{0});
}

INSTANTIATE_TEST_SUITE_P(Policies, PickByPolicy,
                         testing::Values(PolicyKind::kLeastRequests, PolicyKind::kCost));

TEST(RouteTable, CanariesMustHaveReplicasAndAtMostAllRequests) {
  ModelSpec spec = Serving("m", {1, 1});
  spec.replicas[1].track = "v2";
  spec.canaries = {{.track = "v2", .percent = 60}, {.track = "v3", .percent = 50}};
  const auto table = RouteTable::Build({spec});
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.status().ToString().find("no replica has the track \"v3\""), std::string::npos);
  EXPECT_NE(table.status().ToString().find("110 %"), std::string::npos);
}

}  // namespace
}  // namespace router
