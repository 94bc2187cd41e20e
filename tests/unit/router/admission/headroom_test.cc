#include "router/load/headroom.h"

#include <gtest/gtest.h>

#include <vector>

#include "router/admission/headroom_search.h"
#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr ObservedSignals kSome{.requests = 4, .prefill_rate = 1'000, .rate_measured = true};

ObservedSignals With(void (*set)(ObservedSignals&)) {
  ObservedSignals seen = kSome;
  set(seen);
  return seen;
}

TEST(Headroom, ExistsUntilItIsObservedThatARequestWouldWait) {
  struct Case {
    const char* what;
    ObservedSignals seen;
    bool headroom;
  };
  const std::vector<Case> cases = {
      {"idle", {}, true},
      {"some run", kSome, true},
      {"thousands run, of which nothing else is known", With([](ObservedSignals& s) { s.requests = 5'000; }),
       true},
      {"a short backlog", With([](ObservedSignals& s) { s.backlog = 499; }), true},
      {"half a second of prefill", With([](ObservedSignals& s) { s.backlog = 500; }), false},
      {"... where a request alone takes as long", With([](ObservedSignals& s) {
         s.backlog = 749;
         s.uncontended = 0.25;
       }),
       true},
      {"a long backlog at a rate that nobody has measured", With([](ObservedSignals& s) {
         s.backlog = 9'999;
         s.rate_measured = false;
       }),
       true},
      {"as many as its engine says that it can run",
       With([](ObservedSignals& s) { s.max_running = s.requests = 16; }), false},
      {"a few more than its engine was seen to run", With([](ObservedSignals& s) {
         s.observed_batch_limit = 16;
         s.requests = 23;
       }),
       true},
      {"many more", With([](ObservedSignals& s) {
         s.observed_batch_limit = 16;
         s.requests = 24;
       }),
       false},
      {"63 wait for the first token that ever came", With([](ObservedSignals& s) { s.waiting = 63; }), true},
      {"64 do", With([](ObservedSignals& s) { s.waiting = 64; }), false},
      {"seven wait where one comes a second", With([](ObservedSignals& s) {
         s.waiting = 7;
         s.first_tokens = 1;
       }),
       true},
      {"eight do", With([](ObservedSignals& s) {
         s.waiting = 8;
         s.first_tokens = 1;
       }),
       false},
      {"a thousand wait where five thousand come a second", With([](ObservedSignals& s) {
         s.waiting = 1'000;
         s.first_tokens = 5'000;
       }),
       true},
      {"fifty wait half a second each, as the first did that was alone", With([](ObservedSignals& s) {
         s.waiting = 50;
         s.first_tokens = 100;
         s.uncontended = 0.5;
       }),
       true},
      {"a full KV cache", With([](ObservedSignals& s) { s.kv_use = 0.98; }), false},
      {"idle, though its meters say otherwise", {.prefill_rate = 10, .kv_use = 1}, true},
  };
  for (const Case& c : cases) EXPECT_EQ(HasHeadroom(c.seen, {}), c.headroom) << c.what;
  const ObservedSignals busy = With([](ObservedSignals& s) { s.backlog = 500; });
  EXPECT_TRUE(HasHeadroom(busy, {.busy_for = 600ms})) << "the bound is the operator's";
  EXPECT_TRUE(HasHeadroom(busy, {}, {.cached = 100})) << "its cache saves more than it delays";
  EXPECT_FALSE(HasHeadroom(kSome, {.max_running = 4}));
  const ObservedSignals slow = With([](ObservedSignals& s) {
    s.backlog = 600;
    s.uncontended = 0.25;
    s.latency = 0.1;
  });
  EXPECT_TRUE(HasHeadroom(slow, {}));
  EXPECT_FALSE(HasHeadroom(slow, {}, {}, WaitsFor::kBestReplica)) << "what it takes to compute is no latency";
  EXPECT_TRUE(HasHeadroom(slow, {}, {.cached = 100}, WaitsFor::kBestReplica));
}

// Short prompts are there together for the engine's next step; before a long one only so much that the engine
// does not become idle.
TEST(Headroom, BacklogAndOwnPrefillCountTogetherWhereARequestWaitsForThisReplica) {
  const auto most_before = [](double computed, WaitsFor waits) {
    ObservedSignals seen = kSome;
    while (HasHeadroom(seen, {}, {.uncached = computed}, waits)) ++seen.backlog;
    return seen.backlog;
  };
  EXPECT_EQ(most_before(10, WaitsFor::kBestReplica), 490);
  EXPECT_EQ(most_before(400, WaitsFor::kBestReplica), 100);
  EXPECT_EQ(most_before(460, WaitsFor::kBestReplica), 50);
  EXPECT_EQ(most_before(100'000, WaitsFor::kBestReplica), 50);
  EXPECT_EQ(most_before(100'000, WaitsFor::kAnyReplica), 500);
}

// A server that takes half a second for each request and any number of them at a time: who admitted only what
// it has answered in a quarter of a second would send it less and less.
TEST(Headroom, LatencyIsNoQueue) {
  FirstTokenPace pace;
  pace.Observe(0.5);
  pace.ObserveUncontended(0.5, 1'000);
  pace.ObserveUncontended(0.5, 100);
  double there = 1;
  for (int round = 0; round < 40; ++round) {
    ObservedSignals seen = kSome;
    seen.first_tokens = pace.per_second();
    seen.uncontended = pace.uncontended();
    seen.latency = pace.latency();
    seen.requests = seen.waiting = there = 1;
    while (there < 10'000 && HasHeadroom(seen, {})) seen.requests = seen.waiting = ++there;
    for (double i = 0; i < there; ++i) pace.Observe(0.5 / there);
  }
  EXPECT_EQ(there, 10'000);
}

// What is computed is known by its tokens: only what does not grow with them is latency.
TEST(Headroom, PrefillTimeIsNoLatency) {
  FirstTokenPace engine;
  for (const double tokens : {500, 4'000, 1'000, 9'000})
    engine.ObserveUncontended(0.05 + tokens / 10'000, tokens);
  EXPECT_NEAR(engine.latency(), 0.05, 1e-9);
  EXPECT_GT(engine.uncontended(), 0.3);
  FirstTokenPace alike;
  for (const double tokens : {1'000, 1'010, 990}) alike.ObserveUncontended(0.05 + tokens / 10'000, tokens);
  EXPECT_NEAR(alike.latency(), 0.15, 0.001) << "prompts that are all alike say nothing of their length";
}

TEST(Headroom, AReplicaAtItsMaximumIsFullHoweverFewWait) {
  const ModelSpec spec = [] {
    ModelSpec m = Serving("m", {1});
    m.headroom = HeadroomLimits{};
    return m;
  }();
  const ReplicaSpec& replica = spec.replicas[0];
  EXPECT_TRUE(IsFull(spec, replica, With([](ObservedSignals& s) { s.max_running = s.requests; })));
  EXPECT_FALSE(IsFull(spec, replica, With([](ObservedSignals& s) { s.backlog = 1e9; })));
  EXPECT_FALSE(IsFull(spec, replica, With([](ObservedSignals& s) { s.kv_use = 1; })));
}

ModelSpec Bounded(size_t replicas, double max_running = 1) {
  ModelSpec spec = Serving("m", std::vector<double>(replicas, 1));
  spec.headroom = HeadroomLimits{.max_running = max_running};
  return spec;
}

struct Pool : Routing {
  explicit Pool(ModelSpec spec) : Routing({std::move(spec)}) {}
  HeadroomFound Find(uint32_t enough = 1) { return FindHeadroom(table, ModelId{0}, load, enough, kStart); }
  void Fill(uint32_t id) {
    held.emplace_back(load.shared(ReplicaId{id}), Work{}, Admission::kAdmitted, kStart);
  }
  std::vector<Charge> held{};
};

TEST(Headroom, IsCountedUpToTheWantedNumber) {
  Pool pool(Bounded(4));
  EXPECT_EQ(pool.Find(2).replicas, 2u);
  EXPECT_EQ(pool.Find(9).replicas, 4u);
  pool.Fill(0);
  pool.Fill(2);
  EXPECT_EQ(pool.Find(9).replicas, 2u);
  pool.Fill(1);
  pool.Fill(3);
  EXPECT_EQ(pool.Find().replicas, 0u);
  EXPECT_TRUE(pool.Find().usable);
}

TEST(Headroom, IsNotExpectedWhenNoReplicaIsUsable) {
  Pool pool(Bounded(2));
  pool.Break(0);
  pool.TakeDown(1);
  EXPECT_EQ(pool.Find().replicas, 0u);
  EXPECT_FALSE(pool.Find().expected());
  Pool resting(Bounded(2));
  resting.state(0).breaker.Rest(5s, kStart);
  resting.state(1).breaker.Rest(3s, kStart);
  EXPECT_EQ(resting.Find().replicas, 0u);
  EXPECT_TRUE(resting.Find().expected()) << "they have asked for a pause, no more";
  EXPECT_EQ(resting.Find().rested_at, kStart + 3s);
}

TEST(Headroom, SearchesOfALargePoolContinueWhereTheLastEnded) {
  constexpr uint32_t kReplicas = 4'000;
  Pool pool(Bounded(kReplicas));
  for (uint32_t id = 0; id < kReplicas; ++id) {
    if (id != 3'210) pool.Fill(id);
  }
  uint32_t looks = 1;
  while (pool.Find().replicas == 0 && looks <= kReplicas) ++looks;
  EXPECT_EQ(looks, 3'210 / kMaxHeadroomScan + 1);
  EXPECT_EQ(pool.Find().replicas, 1u) << "it is remembered";
  pool.Fill(3'210);
  EXPECT_EQ(pool.Find().replicas, 0u);
  pool.held.front().Release();
  HintHeadroomAt(pool.table, ModelId{0}, pool.load, ReplicaId{0});
  EXPECT_EQ(pool.Find().replicas, 1u) << "by a hint at once";
}

TEST(Headroom, OfAProviderIsLimitedByTheOperatorOnly) {
  ModelSpec spec = Bounded(2);
  spec.replicas[1].headroom_known = false;
  Pool pool(std::move(spec));
  for (int i = 0; i < 3; ++i) {
    pool.Fill(0);
    pool.Fill(1);
  }
  EXPECT_EQ(pool.Find(2).replicas, 0u) << "the operator's bound is for all";
  ModelSpec unbounded = Bounded(2, 0);
  for (ReplicaSpec& replica : unbounded.replicas) replica.headroom_known = false;
  Pool free(std::move(unbounded));
  for (int i = 0; i < 100; ++i) free.Fill(0);
  EXPECT_EQ(free.Find(2).replicas, 2u);
}

TEST(Headroom, EveryPolicyPrefersReplicasWithHeadroom) {
  for (size_t kind = 0; kind < kPolicyKinds; ++kind) {
    ModelSpec spec = Bounded(3);
    spec.policy = static_cast<PolicyKind>(kind);
    Pool pool(std::move(spec));
    pool.Fill(0);
    pool.Fill(2);
    const PickFacts facts{.tokens = 10, .affinity = 7, .prefer_headroom = true};
    Decision picked = Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng);
    EXPECT_EQ(picked.replica, ReplicaId{1}) << PolicyName(static_cast<PolicyKind>(kind));
    const Decision beyond = Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng);
    EXPECT_TRUE(beyond.replica.has_value()) << "where none has, it goes to any";
  }
}

TEST(Headroom, AHolderOfThePromptMayBeBusierByTheSavedTime) {
  ModelSpec spec = Bounded(2, 100);
  spec.policy = PolicyKind::kCost;
  Pool pool(std::move(spec));
  pool.state(0).engine.Configure({.first_prefill_rate = 1'000});
  pool.state(1).engine.Configure({.first_prefill_rate = 1'000});
  pool.held.emplace_back(pool.load.shared(ReplicaId{0}), Work{.uncached = 1'000}, Admission::kAdmitted,
                         kStart);
  const PrefixMatch match{ReplicaId{0}, 9'000};
  PickFacts facts{.tokens = 10'000, .prompt_tokens = 10'000, .cached = {&match, 1}, .prefer_headroom = true};
  EXPECT_EQ(Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng).replica, ReplicaId{0});
  facts.cached = {};
  EXPECT_EQ(Pick(pool.table, ModelId{0}, pool.load, facts, {}, kStart, pool.rng).replica, ReplicaId{1});
}

// Nobody sees when their prompts are computed: what is guessed of it chooses a replica, and holds nobody
// back.
TEST(Headroom, UnstreamedAnswersHoldNoRequestBackOnAGuess) {
  Pool pool(Bounded(1, 0));
  EngineSignals& engine = pool.state(0).engine;
  {
    Charge measured(pool.load.shared(ReplicaId{0}), Work{.uncached = 1'000}, Admission::kAdmitted, kStart);
    measured.FirstToken(kStart + 1s);
  }
  for (int i = 0; i < 4'000; ++i) {
    pool.held.emplace_back(pool.load.shared(ReplicaId{0}), Work{.uncached = 500, .unseen = true},
                           Admission::kAdmitted, kStart);
  }
  EXPECT_GT(engine.Read(kStart).backlog, 1e6);
  EXPECT_GT(engine.Read(kStart).waiting, 1'000);
  EXPECT_EQ(pool.Find().replicas, 1u);
  // Its engine says that it runs 16 of them, twice.
  conf::TimePoint now = kStart;
  for (int i = 0; i < 3; ++i) {
    now += 1s;
    engine.OnTelemetry({.running = 16, .waiting = 3'984}, engine.charged(now), now);
  }
  EXPECT_EQ(FindHeadroom(pool.table, ModelId{0}, pool.load, 1, now).replicas, 0u);
  pool.held.resize(23);
  EXPECT_EQ(FindHeadroom(pool.table, ModelId{0}, pool.load, 1, now).replicas, 1u);
}

}  // namespace
}  // namespace router
