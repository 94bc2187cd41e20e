#include "router/admission/room.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr Signals kIdle{.prefill_rate = 1'000, .max_running = 16, .rate_measured = true};

TEST(Room, ARequestHasItWhereItWouldBeginSoon) {
  struct Case {
    const char* what;
    Signals signals;
    bool room;
  };
  const auto with = [](auto set) {
    Signals s = kIdle;
    s.requests = 4;
    set(s);
    return s;
  };
  const std::vector<Case> cases = {
      {"idle", kIdle, true},
      {"some run", with([](Signals&) {}), true},
      {"a short backlog", with([](Signals& s) { s.backlog = 249; }), true},
      {"a quarter of a second of prefill", with([](Signals& s) { s.backlog = 250; }), false},
      {"a long backlog at a rate that nobody has measured", with([](Signals& s) {
         s.backlog = 9'999;
         s.rate_measured = false;
       }),
       true},
      {"as many as it can run", with([](Signals& s) { s.requests = 16; }), false},
      {"several wait for a first token", with([](Signals& s) { s.waiting = 8; }), false},
      {"a full KV cache", with([](Signals& s) { s.kv_use = 0.98; }), false},
      {"idle, though its meters say otherwise", {.backlog = 9'999, .kv_use = 1, .prefill_rate = 10}, true},
  };
  for (const Case& c : cases) EXPECT_EQ(HasRoom(c.signals, {}), c.room) << c.what;
  EXPECT_TRUE(HasRoom(cases[3].signals, {.busy_for = 300ms})) << "the bound is the operator's";
  EXPECT_TRUE(HasRoom(cases[3].signals, {}, 0.1)) << "its cache saves more than it delays";
  EXPECT_FALSE(HasRoom(cases[1].signals, {.max_running = 4}));
}

ModelSpec Bounded(size_t replicas, double max_running = 1) {
  ModelSpec spec = Serving("m", std::vector<double>(replicas, 1));
  spec.room = RoomSpec{.max_running = max_running};
  return spec;
}

struct Pool : Routing {
  explicit Pool(ModelSpec spec) : Routing({std::move(spec)}) {}
  RoomFound Look(uint32_t enough = 1) { return LookForRoom(table, ModelId{0}, load, enough, kStart); }
  void Fill(uint32_t id) {
    held.emplace_back(load.shared(ReplicaId{id}), Work{}, Admission::kAdmitted, kStart);
  }
  std::vector<Charge> held{};
};

TEST(Room, IsCountedUpToWhatIsAskedFor) {
  Pool pool(Bounded(4));
  EXPECT_EQ(pool.Look(2).replicas, 2u);
  EXPECT_EQ(pool.Look(9).replicas, 4u);
  pool.Fill(0);
  pool.Fill(2);
  EXPECT_EQ(pool.Look(9).replicas, 2u);
  pool.Fill(1);
  pool.Fill(3);
  EXPECT_EQ(pool.Look().replicas, 0u);
  EXPECT_TRUE(pool.Look().usable);
}

TEST(Room, NobodyIsWaitedForWhereNoReplicaCanBeUsed) {
  Pool pool(Bounded(2));
  pool.Break(0);
  pool.TakeDown(1);
  EXPECT_EQ(pool.Look().replicas, 0u);
  EXPECT_FALSE(pool.Look().usable);
  Pool resting(Bounded(1));
  resting.state(0).breaker.Rest(5s, kStart);
  EXPECT_EQ(resting.Look().replicas, 0u);
  EXPECT_TRUE(resting.Look().usable) << "it has asked for a pause, no more";
}

TEST(Room, OfALargePoolIsFoundByLooksThatGoThroughIt) {
  constexpr uint32_t kReplicas = 4'000;
  Pool pool(Bounded(kReplicas));
  for (uint32_t id = 0; id < kReplicas; ++id) {
    if (id != 3'210) pool.Fill(id);
  }
  uint32_t looks = 1;
  while (pool.Look().replicas == 0 && looks <= kReplicas) ++looks;
  EXPECT_EQ(looks, 3'210 / kRoomLooks + 1);
  EXPECT_EQ(pool.Look().replicas, 1u) << "it is remembered";
  pool.Fill(3'210);
  EXPECT_EQ(pool.Look().replicas, 0u);
  pool.held.front().Release();
  RoomMayBeAt(pool.table, ModelId{0}, pool.load, ReplicaId{0});
  EXPECT_EQ(pool.Look().replicas, 1u) << "by a hint at once";
}

TEST(Room, OfAProviderIsNotKnownAndAlwaysThere) {
  ModelSpec spec = Bounded(2);
  spec.replicas[1].room_known = false;
  Pool pool(std::move(spec));
  for (int i = 0; i < 3; ++i) {
    pool.Fill(0);
    pool.Fill(1);
  }
  EXPECT_EQ(pool.Look(2).replicas, 1u);
}

TEST(Room, APickPrefersThoseThatHaveItUnderEveryPolicy) {
  for (size_t kind = 0; kind < kPolicyKinds; ++kind) {
    ModelSpec spec = Bounded(3);
    spec.policy = static_cast<PolicyKind>(kind);
    Pool pool(std::move(spec));
    pool.Fill(0);
    pool.Fill(2);
    const PickFacts facts{.tokens = 10, .affinity = 7, .prefer_room = true};
    Decision picked = Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng);
    EXPECT_EQ(picked.replica, ReplicaId{1}) << PolicyName(static_cast<PolicyKind>(kind));
    const Decision beyond = Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng);
    EXPECT_TRUE(beyond.replica.has_value()) << "where none has, it goes to any";
  }
}

TEST(Room, AHolderOfThePromptMayBeBusierByWhatItSaves) {
  ModelSpec spec = Bounded(2, 100);
  spec.policy = PolicyKind::kCost;
  Pool pool(std::move(spec));
  pool.state(0).engine.Configure({.first_prefill_rate = 1'000});
  pool.state(1).engine.Configure({.first_prefill_rate = 1'000});
  pool.held.emplace_back(pool.load.shared(ReplicaId{0}), Work{.uncached = 1'000}, Admission::kAdmitted,
                         kStart);
  const PrefixMatch match{ReplicaId{0}, 9'000};
  PickFacts facts{.tokens = 10'000, .prompt_tokens = 10'000, .cached = {&match, 1}, .prefer_room = true};
  EXPECT_EQ(Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng).replica, ReplicaId{0});
  facts.cached = {};
  EXPECT_EQ(Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng).replica, ReplicaId{1});
}

// Nobody sees when their prompts are computed: they stand in the backlog as long as the measured rate says.
TEST(Room, AnswersThatComeWholeAreTakenToBeComputedAtTheRateThatIsMeasured) {
  Pool pool(Bounded(1, 100));
  pool.state(0).engine.Configure({.first_prefill_rate = 1'000});
  for (int i = 0; i < 4; ++i) {
    pool.held.emplace_back(pool.load.shared(ReplicaId{0}), Work{.uncached = 500, .unseen = true},
                           Admission::kAdmitted, kStart);
  }
  EXPECT_EQ(pool.state(0).engine.Read(kStart).requests, 4);
  EXPECT_NEAR(pool.state(0).engine.Read(kStart).backlog, 2'000, 1);
  EXPECT_NEAR(pool.state(0).engine.Read(kStart + 1s).backlog, 1'000, 1);
  EXPECT_NEAR(pool.state(0).engine.Read(kStart + 3s).backlog, 0, 1);
  EXPECT_EQ(pool.Look().replicas, 1u) << "the rate is a guess yet";
  pool.held.clear();
  EXPECT_EQ(pool.state(0).engine.Read(kStart).requests, 0);
  EXPECT_EQ(pool.state(0).engine.Read(kStart).waiting, 0);
}

}  // namespace
}  // namespace router
