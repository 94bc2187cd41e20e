#include "router/policies/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

ReplicaSignals Some(scheduler::Rng& rng) {
  return {.requests = rng.Double() * 200,
          .waiting = rng.Double() * 20,
          .backlog = rng.Double() * 1e5,
          .context = rng.Double() * 1e6,
          .kv_use = rng.Double(),
          .prefill_rate = 100 + rng.Double() * 2e4,
          .pace = rng.Double() * 0.01,
          .stalled = rng.Double() * 10,
          .max_running = 256,
          .scraped = {}};
}

double Of(const ReplicaSignals& signals, double uncached, double output = 300, double mean = 20) {
  return CostOf(signals, uncached, output, mean, {}).Sum();
}

// No modes: a small step in any signal is a small step of the cost.
TEST(Cost, IsContinuousInEverySignal) {
  scheduler::Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const ReplicaSignals at = Some(rng);
    const double uncached = rng.Double() * 1e5;
    const double cost = Of(at, uncached);
    double ReplicaSignals::* const fields[] = {&ReplicaSignals::requests, &ReplicaSignals::backlog,
                                               &ReplicaSignals::kv_use,   &ReplicaSignals::prefill_rate,
                                               &ReplicaSignals::pace,     &ReplicaSignals::stalled,
                                               &ReplicaSignals::waiting};
    for (double ReplicaSignals::* const field : fields) {
      double last = HUGE_VAL;
      for (const double step : {1e-3, 1e-5, 1e-7}) {
        ReplicaSignals moved = at;
        moved.*field += step * std::max(1e-3, at.*field);
        const double change = std::abs(Of(moved, uncached) - cost);
        EXPECT_LE(change, last + 1e-9);
        last = change;
      }
      EXPECT_LE(last, 1e-5 * std::max(1.0, cost));
    }
  }
}

TEST(Cost, GrowsWithEverythingThatMakesARequestSlow) {
  scheduler::Rng rng(2);
  for (int i = 0; i < 500; ++i) {
    const ReplicaSignals at = Some(rng);
    const double cost = Of(at, 5000);
    EXPECT_GT(Of(at, 6000), cost);
    const auto with = [&](double ReplicaSignals::* field, double factor) {
      ReplicaSignals moved = at;
      moved.*field *= factor;
      return Of(moved, 5000);
    };
    EXPECT_GE(with(&ReplicaSignals::requests, 1.1), cost);
    EXPECT_GE(with(&ReplicaSignals::backlog, 1.1), cost);
    EXPECT_GE(with(&ReplicaSignals::kv_use, 1.05), cost);
    EXPECT_GE(with(&ReplicaSignals::stalled, 1.1), cost);
    EXPECT_LE(with(&ReplicaSignals::prefill_rate, 1.1), cost);
  }
}

TEST(Cost, IsTheSumOfItsTermsInSeconds) {
  const ReplicaSignals signals{.requests = 12,
                               .waiting = 2,
                               .backlog = 4000,
                               .context = 0,
                               .kv_use = 0.5,
                               .prefill_rate = 2000,
                               .pace = 0.001,
                               .stalled = 5,
                               .max_running = 256,
                               .scraped = {}};
  const CostWeights weights{.running = 0.1, .pool = 0.5, .decode = 1, .pressure = 0.15, .usual_silence = 2};
  const CostTerms terms = CostOf(signals, 1000, 100, 4, weights);
  EXPECT_DOUBLE_EQ(terms.wait, 2);
  EXPECT_DOUBLE_EQ(terms.compute, 0.5);
  EXPECT_DOUBLE_EQ(terms.decode, 100 * 0.001 * 13);
  EXPECT_DOUBLE_EQ(terms.others, 0.5 * (0.1 * 10 + 0.5 * 4));
  EXPECT_DOUBLE_EQ(terms.pressure, 0.15);
  EXPECT_DOUBLE_EQ(terms.silence, 3);
}

// Or a request would rather wait where few lines are than go where many are and no prompt is computed.
TEST(Cost, LinesOfBatchesAreDelayedForNothing) {
  ReplicaSignals signals{.requests = 12, .waiting = 2, .prefill_rate = 2000};
  const CostWeights weights{.running = 0.1, .pool = 0};
  EXPECT_DOUBLE_EQ(CostOf(signals, 1000, 100, 4, weights).others, 0.5 * 0.1 * 10);
  signals.spare = 7;
  EXPECT_DOUBLE_EQ(CostOf(signals, 1000, 100, 4, weights).others, 0.5 * 0.1 * 3);
  signals.spare = 12;
  EXPECT_DOUBLE_EQ(CostOf(signals, 1000, 100, 4, weights).others, 0);
}

TEST(Cost, AnAdapterCostsTheTimeUntilItIsLoaded) {
  using State = AdapterAvailability::State;
  const ReplicaSignals signals{.requests = 12,
                               .waiting = 2,
                               .backlog = 0,
                               .context = 0,
                               .kv_use = 0,
                               .prefill_rate = 2000,
                               .pace = 0.001,
                               .stalled = 0,
                               .max_running = 256,
                               .scraped = {}};
  const CostWeights weights{.running = 0.1, .pool = 0.5};
  const auto of = [&](State state, double elapsed = 0, double wait = 0) {
    return AdapterSeconds({.state = state, .load = 0.4, .wait = wait, .elapsed = elapsed}, signals, 100, 4,
                          weights);
  };
  const double load = 0.4 * (1 + 0.1 * 10 + 0.5 * 4);
  EXPECT_EQ(of(State::kLoaded), 0);
  EXPECT_DOUBLE_EQ(of(State::kLoading, 0.1), 0.3);
  EXPECT_EQ(of(State::kLoading, 3), 0);
  EXPECT_DOUBLE_EQ(of(State::kFreeSlot), load);
  EXPECT_DOUBLE_EQ(of(State::kEvicts), 2 * load);
  EXPECT_DOUBLE_EQ(of(State::kFull), 2 * load + 100 * 0.001 * 13);
  // Where waits for a slot were measured.
  EXPECT_DOUBLE_EQ(of(State::kFreeSlot, 0, 30), load);
  EXPECT_DOUBLE_EQ(of(State::kEvicts, 0, 30), 2 * load + 0.2 * 30);
  EXPECT_DOUBLE_EQ(of(State::kFull, 0, 30), 2 * load + 30);
}

struct Pool {
  explicit Pool(size_t replicas, double rate = 10'000)
      : routing({Serving("m", std::vector<double>(replicas, 1), PolicyKind::kCost)}) {
    for (uint32_t i = 0; i < replicas; ++i) {
      routing.state(i).engine.Configure(
          {.max_running = 32, .kv_tokens = 1'000'000, .first_prefill_rate = rate});
    }
  }
  Decision PickOf(const PickFacts& facts, std::span<const ReplicaId> tried = {},
                  conf::TimePoint now = kStart) {
    return Pick(routing.table, ModelId{0}, routing.load, facts, tried, now, routing.rng);
  }
  Charge Put(uint32_t replica, int64_t uncached) {
    return Charge(routing.load.shared(ReplicaId{replica}), {uncached, uncached, uncached},
                  Admission::kAdmitted, kStart);
  }
  void Scrape(uint32_t replica, const Telemetry& telemetry) {
    routing.state(replica).engine.OnTelemetry(telemetry, routing.state(replica).engine.charged(kStart),
                                              kStart);
  }
  Routing routing;
};

constexpr PickFacts kCold{
    .tokens = 10'300, .prompt_tokens = 10'000, .output_tokens = 300, .affinity = 0, .cached = {}};

PickFacts Held(const std::vector<PrefixMatch>& matches) {
  PickFacts facts = kCold;
  facts.cached = matches;
  return facts;
}

TEST(Cost, PrefersTheHolderOfThePrefix) {
  Pool pool(8);
  const std::vector<PrefixMatch> matches = {{ReplicaId{5}, 9000}, {ReplicaId{2}, 500}};
  const Decision decision = pool.PickOf(Held(matches));
  EXPECT_EQ(decision.replica, ReplicaId{5});
  EXPECT_EQ(decision.cached, 9000);
  EXPECT_EQ(decision.charge.work().uncached, 1000);
  EXPECT_NEAR(decision.score, decision.terms.Sum(), 1e-12);
  EXPECT_NEAR(decision.terms.compute, 0.1, 1e-12);
}

TEST(Cost, LeavesThePrefixWhenItsHolderIsTooBusy) {
  Pool pool(8);
  const std::vector<PrefixMatch> matches = {{ReplicaId{5}, 9000}};
  std::vector<Charge> work;
  for (int i = 0; i < 5; ++i) work.push_back(pool.Put(5, 20'000));
  EXPECT_NE(pool.PickOf(Held(matches)).replica, ReplicaId{5});
}

TEST(Cost, ChargesUncachedTokensSoThatABurstSpreads) {
  Pool pool(8);
  std::vector<Decision> held;
  for (int i = 0; i < 64; ++i) held.push_back(pool.PickOf(kCold));
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(pool.routing.state(i).load.requests(), 8);
    EXPECT_EQ(pool.routing.state(i).engine.Read(kStart).backlog, 80'000);
  }
}

TEST(Cost, GivesHalfAsMuchToReplicasThatComputeHalfAsFast) {
  Pool pool(4);
  for (uint32_t slow : {0u, 1u}) {
    pool.routing.state(slow).engine.Configure({.max_running = 256, .first_prefill_rate = 5'000});
  }
  for (uint32_t fast : {2u, 3u}) {
    pool.routing.state(fast).engine.Configure({.max_running = 256, .first_prefill_rate = 10'000});
  }
  PickFacts facts = kCold;
  facts.output_tokens = 0;
  std::vector<Decision> held;
  for (int i = 0; i < 60; ++i) held.push_back(pool.PickOf(facts));
  EXPECT_NEAR(static_cast<double>(pool.routing.state(0).load.requests()), 10, 2);
  EXPECT_NEAR(static_cast<double>(pool.routing.state(2).load.requests()), 20, 2);
}

TEST(Cost, NeverChoosesAVetoedReplicaWhileAnotherIsNot) {
  scheduler::Rng rng(5);
  for (const size_t size : {2u, 16u, 40u, 41u, 200u}) {
    Pool pool(size);
    const auto open = static_cast<uint32_t>(rng.Uniform(size));
    for (uint32_t i = 0; i < size; ++i)
      pool.Scrape(i, {.running = 32, .waiting = i == open ? 7.0 : 9.0, .kv_use = 0.2});
    std::vector<PrefixMatch> matches;
    for (uint32_t i = 0; i < std::min<size_t>(size, 32); ++i) {
      if (i != open) matches.push_back({ReplicaId{i}, 9999});
    }
    for (int i = 0; i < 20; ++i) {
      const Decision decision = pool.PickOf(Held(matches));
      ASSERT_EQ(decision.replica, ReplicaId{open}) << size;
    }
  }
}

TEST(Cost, ChoosesAmongVetoedReplicasWhenAllAre) {
  Pool pool(4);
  for (uint32_t i = 0; i < 4; ++i) pool.Scrape(i, {.running = 32, .waiting = 20.0 + i, .kv_use = 1});
  const std::vector<PrefixMatch> matches = {{ReplicaId{2}, 9900}};
  EXPECT_EQ(pool.PickOf(Held(matches)).replica, ReplicaId{2});
}

TEST(Cost, AvoidsAReplicaThatHangs) {
  Pool pool(4);
  const std::vector<PrefixMatch> matches = {{ReplicaId{1}, 9900}};
  const Charge there = pool.Put(1, 100);
  EXPECT_EQ(pool.PickOf(Held(matches), {}, kStart + 1s).replica, ReplicaId{1});
  EXPECT_NE(pool.PickOf(Held(matches), {}, kStart + 20s).replica, ReplicaId{1});
}

TEST(Cost, BreaksTiesAtRandom) {
  Pool pool(8);
  std::vector<int> shares(8);
  for (int i = 0; i < 8000; ++i) ++shares[static_cast<size_t>(*pool.PickOf(kCold).replica)];
  EXPECT_GT(*std::min_element(shares.begin(), shares.end()), 850);
}

// Rates are measured with noise. That must not matter, or one replica gets all while nobody is busy.
TEST(Cost, LightTrafficIsSpreadOverReplicasOfAboutTheSameSpeed) {
  Pool pool(8);
  for (uint32_t i = 0; i < 8; ++i) {
    pool.routing.state(i).engine.Configure({.max_running = 32, .first_prefill_rate = 5'000.0 + 1'000 * i});
  }
  PickFacts facts{.tokens = 12, .prompt_tokens = 8, .output_tokens = 4, .affinity = 0, .cached = {}};
  std::vector<int> shares(8);
  for (int i = 0; i < 4000; ++i) ++shares[static_cast<size_t>(*pool.PickOf(facts).replica)];
  EXPECT_GT(*std::min_element(shares.begin(), shares.end()), 350);
  std::vector<Decision> held;
  for (int i = 0; i < 64; ++i) held.push_back(pool.PickOf(facts));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(pool.routing.state(i).load.requests(), 8);
}

TEST(Cost, UnmeasuredReplicasAreUsed) {
  Pool pool(4, 100);  // a first guess that is far too low
  std::vector<int> shares(4);
  for (int i = 0; i < 200; ++i) {
    Decision decision = pool.PickOf(kCold);
    ++shares[static_cast<size_t>(*decision.replica)];
    decision.charge.FirstToken(kStart + 1s);  // 10,000 tokens a second
    decision.charge.LastToken(101, kStart + 2s);
  }
  EXPECT_GT(*std::min_element(shares.begin(), shares.end()), 25);
}

TEST(Cost, EvaluatesOnlyCandidatesInALargePool) {
  Pool pool(4000);
  std::vector<PrefixMatch> matches;
  for (uint32_t i = 0; i < 32; ++i) matches.push_back({ReplicaId{100 * i}, 5000});
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(pool.PickOf(Held(matches)).considered, 52u);
    EXPECT_LE(pool.PickOf(kCold).considered, 20u);
  }
}

TEST(Cost, ALargePoolFillsEvenlyWithoutLookingAtEveryReplica) {
  Pool pool(500);
  std::vector<Decision> held;
  for (int i = 0; i < 2000; ++i) held.push_back(pool.PickOf(kCold));
  int64_t most = 0;
  for (uint32_t i = 0; i < 500; ++i) most = std::max(most, pool.routing.state(i).load.requests());
  EXPECT_LE(most, 6) << "4 each would be even";
}

TEST(Cost, FindsTheOnlyUsableReplicaOfALargePool) {
  Pool pool(300);
  for (uint32_t i = 0; i < 300; ++i) {
    if (i != 123) pool.routing.TakeDown(i);
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pool.PickOf(kCold).replica, ReplicaId{123});
}

// Pools that are looked at whole and such of which candidates are, at random loads, with ties and vetoes.
TEST(Cost, ARecordedChoiceIsMadeAgain) {
  scheduler::Rng loads(9);
  int ties = 0;
  int everybody = 0;
  for (int round = 0; round < 200; ++round) {
    const uint32_t size = round % 2 == 0 ? 16 : 300;
    Pool pool(size);
    std::vector<Charge> work;
    const uint64_t requests = round % 5 == 0 ? 0 : loads.Uniform(30 * size);
    for (uint64_t i = 0; i < requests; ++i) {
      work.push_back(
          pool.Put(static_cast<uint32_t>(loads.Uniform(size)), static_cast<int64_t>(loads.Uniform(9000))));
    }
    if (round % 7 == 0) {
      for (uint32_t i = 0; i < size * 70; ++i) work.push_back(pool.Put(i % size, 100));
    }
    const std::vector<PrefixMatch> matches = {{ReplicaId{3}, 9000}, {ReplicaId{7}, 4000}};
    PickLog log;
    PickFacts facts = round % 5 == 0 ? kCold : Held(matches);
    facts.log = &log;
    const Decision decision = pool.PickOf(facts);
    ASSERT_EQ(log.picks.size(), 1u);
    const PickTrace& trace = log.picks[0];
    EXPECT_EQ(trace.replica, decision.replica);
    EXPECT_EQ(trace.scored.size(), decision.considered);
    const std::optional<Choice> again = ChooseAgain(trace, {});
    ASSERT_TRUE(again);
    const ScoredCandidate& chosen = trace.scored[again->place];
    EXPECT_EQ(chosen.replica, decision.replica);
    EXPECT_EQ(chosen.cached, decision.cached);
    EXPECT_EQ(chosen.terms, decision.terms);
    EXPECT_EQ(again->score, decision.score);
    EXPECT_EQ(again->reason, decision.reason);
    everybody += trace.everybody;
    int cheapest = 0;
    for (const ScoredCandidate& seen : trace.scored) cheapest += seen.terms.Sum() == decision.score;
    ties += cheapest > 1;
  }
  EXPECT_GT(ties, 10);
  EXPECT_GT(everybody, 10);
}

TEST(Cost, AChoiceIsRecordedOnlyWithALog) {
  Pool pool(4);
  PickLog log;
  PickFacts facts = kCold;
  facts.log = &log;
  for (size_t i = 0; i < PickLog::kMax + 4; ++i) pool.PickOf(facts);
  EXPECT_EQ(log.picks.size(), PickLog::kMax);
  EXPECT_TRUE(pool.PickOf(kCold).replica);
  EXPECT_EQ(log.picks.size(), PickLog::kMax);
}

TEST(Cost, AnotherZoneIsUsedWhenItIsBetterByItsCost) {
  ModelSpec spec = Serving("m", {1, 1}, PolicyKind::kCost);
  spec.replicas[0].zone = "west";
  spec.replicas[1].zone = "east";
  spec.cost.other_zone = 2;
  auto table = RouteTable::Build({spec}, "west");
  ASSERT_TRUE(table.ok());
  ReplicaStates states;
  const LoadView load(*table, states);
  scheduler::Rng rng(1);
  const auto pick = [&] { return Pick(*table, ModelId{0}, load, kCold, {}, kStart, rng); };
  const Decision near = pick();
  EXPECT_EQ(near.replica, ReplicaId{0});
  EXPECT_EQ(near.terms.distance, 0);
  // 8,000 tokens a second: two seconds' worth stand before it there, and a little.
  const Charge busy(load.shared(ReplicaId{0}), Work{17'000, 17'000, 17'000}, Admission::kAdmitted, kStart);
  const Decision far = pick();
  EXPECT_EQ(far.replica, ReplicaId{1});
  EXPECT_EQ(far.terms.distance, 2);
}

TEST(Cost, WeightsMustBeNumbersFromZeroOn) {
  for (const double bad : {-1.0, HUGE_VAL, std::nan("")}) {
    ModelSpec spec = Serving("m", {1});
    spec.cost.pool = bad;
    const auto table = RouteTable::Build({spec});
    ASSERT_FALSE(table.ok());
    EXPECT_NE(table.status().ToString().find("cost weight pool"), std::string::npos) << table.status();
  }
}

}  // namespace
}  // namespace router
