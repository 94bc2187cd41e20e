#include "router/engine_signals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr Work kPrompt{.tokens = 1100, .uncached = 1000, .context = 1100};

Charge At(Routing& routing, const Work& work = kPrompt, conf::TimePoint now = kStart) {
  return Charge(routing.load.shared(ReplicaId{0}), work, Admission::kAdmitted, now);
}

TEST(EngineSignals, AChargeIsTakenBackExactlyHoweverItEnds) {
  Routing routing({Serving("m", {1})});
  scheduler::Rng rng(3);
  std::vector<Charge> held;
  for (int i = 0; i < 2000; ++i) {
    const auto uncached = static_cast<int64_t>(rng.Uniform(5000));
    held.push_back(At(routing, {uncached + 10, uncached, uncached + 300}));
    const size_t other = rng.Uniform(held.size());
    switch (rng.Uniform(4)) {
      case 0:
        held[other].FirstToken(kStart + 1s);
        held[other].FirstToken(kStart + 2s);
        break;
      case 1:
        held[other].LastToken(100, kStart + 3s);
        held[other].Release();
        held[other].FirstToken(kStart + 4s);
        break;
      case 2:
        held[other] = Charge();
        break;
      default:
        held[other].Reestimate(static_cast<int64_t>(rng.Uniform(100)));
    }
  }
  held.clear();
  const Signals after = routing.state(0).engine.Read(kStart + 5s);
  EXPECT_EQ(after.requests, 0);
  EXPECT_EQ(after.waiting, 0);
  EXPECT_EQ(after.backlog, 0);
  EXPECT_EQ(after.context, 0);
  EXPECT_EQ(routing.state(0).load.tokens(), 0);
  EXPECT_EQ(routing.state(0).load.requests(), 0);
}

TEST(EngineSignals, TheBacklogIsWhatWaitsAndFallsAsTheEngineComputes) {
  Routing routing({Serving("m", {1})});
  routing.state(0).engine.Configure({.first_prefill_rate = 1000});
  Charge first = At(routing);
  Charge second = At(routing);
  const EngineSignals& engine = routing.state(0).engine;
  EXPECT_EQ(engine.Read(kStart).backlog, 2000);
  EXPECT_NEAR(engine.Read(kStart + 500ms).backlog, 1500, 1);
  EXPECT_NEAR(engine.Read(kStart + 1h).backlog, 1000, 1) << "no more than one prompt is computed unseen";
  first.FirstToken(kStart + 1s);
  const Signals then = engine.Read(kStart + 1s);
  EXPECT_EQ(then.backlog, 1000);
  EXPECT_EQ(then.waiting, 1);
  EXPECT_EQ(then.requests, 2);
}

TEST(EngineSignals, LearnsThePrefillRateFromFirstTokens) {
  Routing routing({Serving("m", {1})});
  conf::TimePoint now = kStart;
  for (int i = 0; i < 50; ++i) {
    Charge charge = At(routing, kPrompt, now);
    now += 250ms;  // 4,000 tokens a second
    charge.FirstToken(now);
    charge.Release();
    now += 10s;  // nobody waits: this time says nothing
  }
  EXPECT_NEAR(routing.state(0).engine.Read(now).prefill_rate, 4000, 1);
}

TEST(EngineSignals, ThePaceIsPerRequestAndDoesNotFollowTheLoad) {
  Routing routing({Serving("m", {1})});
  const auto answer = [&](size_t beside, conf::Duration token_time) {
    std::vector<Charge> others;
    for (size_t i = 0; i < beside; ++i) others.push_back(At(routing));
    Charge charge = At(routing);
    charge.FirstToken(kStart);
    charge.LastToken(101, kStart + 100 * token_time);
  };
  answer(0, 2ms);
  EXPECT_NEAR(routing.state(0).engine.Read(kStart).pace, 0.002, 1e-9);
  for (int i = 0; i < 10; ++i) answer(9, 20ms);
  EXPECT_NEAR(routing.state(0).engine.Read(kStart).pace, 0.002, 1e-9);
}

TEST(EngineSignals, TelemetryAddsOnlyWhatOthersSent) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  std::vector<Charge> ours;
  for (int i = 0; i < 4; ++i) ours.push_back(At(routing));
  const EngineSignals::Charged then = engine.charged();
  engine.OnTelemetry({.running = 1, .waiting = 3, .kv_use = 0.2}, then, kStart + 1s);
  EXPECT_EQ(engine.Read(kStart + 1s).requests, 4) << "they are ours";
  engine.OnTelemetry({.running = 5, .waiting = 6, .kv_use = 0.2}, then, kStart + 1s);
  Signals signals = engine.Read(kStart + 1s);
  EXPECT_EQ(signals.requests, 11);
  EXPECT_EQ(signals.waiting, 6);
  EXPECT_EQ(signals.scraped.waiting, 6);
  ours.clear();  // old telemetry does not bring them back
  EXPECT_EQ(engine.Read(kStart + 2s).requests, 7);
}

TEST(EngineSignals, WorkChargedAfterTheTelemetryWasTakenIsNotLost) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.kv_tokens = 11'000});
  const EngineSignals::Charged then = engine.charged();
  const Charge since = At(routing);
  engine.OnTelemetry({.running = 0, .waiting = 0, .kv_use = 0.3}, then, kStart + 1s);
  const Signals signals = engine.Read(kStart + 1s);
  EXPECT_EQ(signals.requests, 1);
  EXPECT_NEAR(signals.kv_use, 0.4, 1e-9);
}

TEST(EngineSignals, StaleTelemetryIsNotUsed) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.kv_tokens = 11'000, .stale_after = 10s});
  const Charge ours = At(routing);
  engine.OnTelemetry({.running = 50, .waiting = 50, .kv_use = 0.9}, engine.charged(), kStart);
  EXPECT_GT(engine.Read(kStart + 10s).requests, 50);
  const Signals late = engine.Read(kStart + 11s);
  EXPECT_EQ(late.requests, 1);
  EXPECT_NEAR(late.kv_use, 0.1, 1e-9);
  EXPECT_EQ(late.scraped.waiting, 1) << "our own counts stand in";
}

TEST(EngineSignals, NonsenseFromAnEngineIsLeftOut) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  engine.OnTelemetry({.running = nan, .waiting = -5, .kv_use = HUGE_VAL}, {}, kStart);
  engine.Configure({.max_running = 0, .kv_tokens = -1, .first_prefill_rate = nan, .first_pace = -1});
  const Signals signals = engine.Read(kStart);
  for (const double value :
       {signals.requests, signals.waiting, signals.backlog, signals.kv_use, signals.pace}) {
    EXPECT_EQ(value, 0);
  }
  EXPECT_GT(signals.prefill_rate, 0);
  EXPECT_GE(signals.max_running, 1);
}

TEST(EngineSignals, SilenceCountsOnlyWhileSomebodyIsThere) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  EXPECT_EQ(engine.Read(kStart + 1h).stalled, 0);
  Charge charge = At(routing, kPrompt, kStart + 1h);
  EXPECT_NEAR(engine.Read(kStart + 1h + 5s).stalled, 5, 1e-6);
  engine.OnToken(kStart + 1h + 6s);
  EXPECT_NEAR(engine.Read(kStart + 1h + 7s).stalled, 1, 1e-6);
  charge.Release();
  EXPECT_EQ(engine.Read(kStart + 2h).stalled, 0);
}

}  // namespace
}  // namespace router
