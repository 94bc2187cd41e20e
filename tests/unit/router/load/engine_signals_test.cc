#include "router/load/engine_signals.h"

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
    const bool unseen = rng.Uniform(2) == 0;
    held.push_back(At(routing, {uncached + 10, uncached, uncached + 300, unseen, 300}));
    const size_t other = rng.Uniform(held.size());
    switch (rng.Uniform(4)) {
      case 0:
        held[other].FirstToken(kStart + 1s);
        held[other].FirstToken(kStart + 2s);
        break;
      case 1:
        if (rng.Uniform(2) == 0) held[other].Answered(kStart + 2s);
        held[other].LastToken(100, kStart + 3s);
        held[other].Release();
        held[other].FirstToken(kStart + 4s);
        break;
      case 2:
        held[other] = Charge();
        break;
      default:
        held[other].ChangeWork({.tokens = static_cast<int64_t>(rng.Uniform(100)), .uncached = uncached},
                               kStart + 1s);
    }
  }
  held.clear();
  const ReplicaSignals after = routing.state(0).engine.Read(kStart + 5s);
  EXPECT_EQ(after.requests, 0);
  EXPECT_EQ(after.waiting, 0);
  EXPECT_EQ(after.backlog, 0);
  EXPECT_EQ(after.context, 0);
  EXPECT_EQ(routing.state(0).load.tokens(), 0);
  EXPECT_EQ(routing.state(0).load.requests(), 0);
}

TEST(EngineSignals, TheBacklogFallsAsTheEngineComputes) {
  Routing routing({Serving("m", {1})});
  routing.state(0).engine.Configure({.first_prefill_rate = 1000});
  Charge first = At(routing);
  Charge second = At(routing);
  const EngineSignals& engine = routing.state(0).engine;
  EXPECT_EQ(engine.Read(kStart).backlog, 2000);
  EXPECT_NEAR(engine.Read(kStart + 500ms).backlog, 1500, 1);
  EXPECT_NEAR(engine.Read(kStart + 1h).backlog, 1000, 1) << "no more than one prompt is computed unseen";
  first.FirstToken(kStart + 1s);
  const ReplicaSignals then = engine.Read(kStart + 1s);
  EXPECT_EQ(then.backlog, 1000);
  EXPECT_EQ(then.waiting, 1);
  EXPECT_EQ(then.requests, 2);
}

constexpr Work kUnseen{.tokens = 1100, .uncached = 1000, .context = 1100, .unseen = true, .output = 100};

struct UnseenRequests : testing::Test {
  UnseenRequests() { engine.Configure({.first_prefill_rate = 1000, .first_pace = 0.001}); }
  Routing routing{{Serving("m", {1})}};
  EngineSignals& engine = routing.state(0).engine;
};

TEST_F(UnseenRequests, WorkDrainsAtTheMeasuredRate) {
  const Charge first = At(routing, kUnseen);
  const Charge second = At(routing, kUnseen);
  EXPECT_NEAR(engine.Read(kStart).backlog, 2000, 1);
  EXPECT_NEAR(engine.Read(kStart).waiting, 2, 1e-6);
  EXPECT_NEAR(engine.Read(kStart + 500ms).backlog, 1500, 1);
  EXPECT_NEAR(engine.Read(kStart + 1500ms).waiting, 0.5, 1e-3);
  const ReplicaSignals drained = engine.Read(kStart + 2s);
  EXPECT_NEAR(drained.backlog, 0, 1e-6);
  EXPECT_NEAR(drained.waiting, 0, 1e-6);
  EXPECT_EQ(drained.requests, 2) << "they are there until their answers have come";
  // What comes later does not count the time before it.
  const Charge third = At(routing, kUnseen, kStart + 10s);
  EXPECT_NEAR(engine.Read(kStart + 10s).backlog, 1000, 1);
}

TEST_F(UnseenRequests, WorkDrainsInTheOrderOfArrivalWithStreams) {
  const Charge before = At(routing, kUnseen);
  Charge seen = At(routing);
  const Charge after = At(routing, kUnseen);
  EXPECT_NEAR(engine.Read(kStart).backlog, 3000, 1);
  EXPECT_NEAR(engine.Read(kStart + 900ms).backlog, 2100, 10);
  // A first token says that what came before is computed, and what came after is not.
  seen.FirstToken(kStart + 1200ms);
  EXPECT_NEAR(engine.Read(kStart + 1200ms).backlog, 1000, 1);
}

TEST_F(UnseenRequests, AnAnswerProvesThatItsPromptIsComputed) {
  Charge first = At(routing, kUnseen);
  Charge second = At(routing, kUnseen);
  const Charge third = At(routing, kUnseen);
  second.Answered(kStart + 100ms);
  EXPECT_NEAR(engine.Read(kStart + 100ms).backlog, 1000, 1) << "and so is what came before it";
  first.Release();
  EXPECT_NEAR(engine.Read(kStart + 100ms).backlog, 1000, 1);
}

TEST_F(UnseenRequests, ARequestThatLeavesTakesItsUncomputedTokensAlong) {
  Charge first = At(routing, kUnseen);
  const Charge second = At(routing, kUnseen);
  first.Release();
  EXPECT_NEAR(engine.Read(kStart).backlog, 1000, 1);
  EXPECT_NEAR(engine.Read(kStart + 400ms).backlog, 600, 1);
}

TEST_F(UnseenRequests, AnswersDoNotCountForThePrefillRate) {
  conf::TimePoint now = kStart;
  for (int i = 0; i < 50; ++i) {
    Charge whole = At(routing, kUnseen, now);
    now += 20s;  // most of it is decoding
    whole.FirstToken(now);
    whole.Answered(now);
  }
  EXPECT_EQ(engine.Read(now).prefill_rate, 1000);
}

// Where the engine computes 4,000 tokens a second and every other request comes whole, the meter must not
// take the time for which a stream waited behind such a one for its own.
TEST_F(UnseenRequests, UnseenWorkBeforeAStreamCountsForTheRate) {
  conf::TimePoint now = kStart;
  for (int i = 0; i < 200; ++i) {
    Charge whole = At(routing, kUnseen, now);
    Charge stream = At(routing, kPrompt, now);
    now += 500ms;
    stream.FirstToken(now);
    now += 3s;
    whole.Answered(now);
    stream.Release();
    whole.Release();
  }
  EXPECT_NEAR(engine.Read(now).prefill_rate, 4000, 200);
}

TEST_F(UnseenRequests, ThePaceIsInferredUntilItIsSeen) {
  const auto answer = [&](const Work& work, conf::Duration after) {
    Charge charge = At(routing, work);
    if (!work.unseen) charge.FirstToken(kStart + 1s);
    charge.Answered(kStart + after);
    charge.LastToken(101, kStart + after);
  };
  answer(kUnseen, 3s);  // one second of prefill, and 100 tokens in two
  EXPECT_NEAR(engine.Read(kStart).pace, 0.02, 1e-6);
  answer(kPrompt, 2s);
  EXPECT_NEAR(engine.Read(kStart).pace, 0.01, 1e-6);
  answer(kUnseen, 30s);
  EXPECT_NEAR(engine.Read(kStart).pace, 0.01, 1e-6);
  EXPECT_GT(engine.Read(kStart).token_time, 0.1) << "the mean of the last answers follows whatever ends";
  EXPECT_NEAR(engine.Read(kStart).token_requests, 1, 1e-6);
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

TEST(EngineSignals, ShortPromptsDoNotCountForThePrefillRate) {
  Routing routing({Serving("m", {1})});
  const double before = routing.state(0).engine.Read(kStart).prefill_rate;
  for (int i = 0; i < 50; ++i) {
    Charge charge = At(routing, {.uncached = 8});
    charge.FirstToken(kStart + 20ms);  // a step of the engine, and the way there and back
  }
  EXPECT_EQ(routing.state(0).engine.Read(kStart).prefill_rate, before);
}

TEST(EngineSignals, AnIdleReplicaCountsAsFasterTheLongerAgoItWasMeasured) {
  Routing routing({Serving("m", {1})});
  const EngineSignals& engine = routing.state(0).engine;
  {
    Charge charge = At(routing);
    charge.FirstToken(kStart + 10s);  // 100 tokens a second: it was loading something
  }
  EXPECT_NEAR(engine.Read(kStart + 60s).prefill_rate, 100, 1);
  EXPECT_NEAR(engine.Read(kStart + 190s).prefill_rate, 300, 1);
  EXPECT_NEAR(engine.Read(kStart + 24h).prefill_rate, 1000, 1);
  const Charge busy = At(routing, kPrompt, kStart + 24h);
  EXPECT_NEAR(engine.Read(kStart + 24h).prefill_rate, 100, 1) << "somebody is finding out";
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

TEST(EngineSignals, TelemetryAddsOnlyForeignRequests) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  std::vector<Charge> ours;
  for (int i = 0; i < 4; ++i) ours.push_back(At(routing));
  const EngineSignals::Charged then = engine.charged(kStart);
  engine.OnTelemetry({.running = 1, .waiting = 3, .kv_use = 0.2}, then, kStart + 1s);
  EXPECT_EQ(engine.Read(kStart + 1s).requests, 4) << "they are ours";
  engine.OnTelemetry({.running = 5, .waiting = 6, .kv_use = 0.2}, then, kStart + 1s);
  ReplicaSignals signals = engine.Read(kStart + 1s);
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
  const EngineSignals::Charged then = engine.charged(kStart);
  const Charge since = At(routing);
  engine.OnTelemetry({.running = 0, .waiting = 0, .kv_use = 0.3}, then, kStart + 1s);
  const ReplicaSignals signals = engine.Read(kStart + 1s);
  EXPECT_EQ(signals.requests, 1);
  EXPECT_NEAR(signals.kv_use, 0.4, 1e-9);
}

TEST(EngineSignals, StaleTelemetryIsNotUsed) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.kv_tokens = 11'000, .stale_after = 10s});
  const Charge ours = At(routing);
  engine.OnTelemetry({.running = 50, .waiting = 50, .kv_use = 0.9}, engine.charged(kStart), kStart);
  EXPECT_GT(engine.Read(kStart + 10s).requests, 50);
  const ReplicaSignals late = engine.Read(kStart + 11s);
  EXPECT_EQ(late.requests, 1);
  EXPECT_NEAR(late.kv_use, 0.1, 1e-9);
  EXPECT_EQ(late.scraped.waiting, 1) << "our own counts stand in";
}

TEST(EngineSignals, InvalidTelemetryCountsAsZero) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  engine.OnTelemetry({.running = nan, .waiting = -5, .kv_use = HUGE_VAL}, {}, kStart);
  engine.Configure({.max_running = 0, .kv_tokens = -1, .first_prefill_rate = nan, .first_pace = -1});
  const ReplicaSignals signals = engine.Read(kStart);
  for (const double value :
       {signals.requests, signals.waiting, signals.backlog, signals.kv_use, signals.pace}) {
    EXPECT_EQ(value, 0);
  }
  EXPECT_GT(signals.prefill_rate, 0);
  EXPECT_EQ(signals.max_running, 0) << "not known";
}

TEST(EngineSignals, ObservedSignalsLeaveOutGuesses) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.kv_tokens = 1'000'000});
  std::vector<Charge> whole;
  for (int i = 0; i < 20; ++i)
    whole.push_back(At(routing, {.uncached = 50'000, .context = 50'000, .unseen = true}));
  EXPECT_GT(engine.Read(kStart).waiting, 10);
  EXPECT_GT(engine.Read(kStart).kv_use, 0.9);
  const ObservedSignals seen = engine.ReadObserved(kStart);
  EXPECT_EQ(seen.requests, 20) << "that they are there is certain";
  EXPECT_EQ(seen.waiting, 0);
  EXPECT_EQ(seen.backlog, 0);
  EXPECT_EQ(seen.kv_use, 0);
  const Charge stream = At(routing, {.uncached = 300});
  EXPECT_EQ(engine.ReadObserved(kStart).waiting, 1);
  EXPECT_EQ(engine.ReadObserved(kStart).backlog, 300);
}

TEST(EngineSignals, AFullCacheCountsUntilTheRequestsThatFilledItHaveLeft) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.kv_tokens = 10'000, .stale_after = 10s});
  const Charge stays = At(routing, {.context = 5'000});
  Charge leaves = At(routing, {.context = 5'000});
  engine.OnTelemetry({.running = 2, .kv_use = 0.98}, engine.charged(kStart), kStart);
  EXPECT_NEAR(engine.ReadObserved(kStart).kv_use, 0.98, 1e-9);
  leaves.Release();
  EXPECT_NEAR(engine.ReadObserved(kStart).kv_use, 0.48, 1e-9);
  EXPECT_EQ(engine.ReadObserved(kStart + 11s).kv_use, 0) << "too old to be believed";
}

TEST(EngineSignals, FirstTokensShowTheirPaceAndTheUncontendedTime) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  EXPECT_EQ(engine.ReadObserved(kStart).first_tokens, 0);
  Charge lone = At(routing, {.uncached = 10});
  lone.FirstToken(kStart + 50ms);
  EXPECT_NEAR(engine.ReadObserved(kStart).uncontended, 0.05, 1e-9);
  std::vector<Charge> several;
  for (int i = 0; i < 40; ++i) several.push_back(At(routing, {.uncached = 10}, kStart + 1s));
  conf::TimePoint now = kStart + 1s;
  for (Charge& charge : several) charge.FirstToken(now += 10ms);
  EXPECT_NEAR(engine.ReadObserved(now).first_tokens, 100, 15);
  EXPECT_LT(engine.ReadObserved(now).uncontended, 0.05) << "one of them found nobody waiting, the others did";
}

TEST(EngineSignals, SilenceCountsOnlyWhileRequestsAreThere) {
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

TEST(EngineSignals, NothingIsOverdueWhileTheWorkThereExplainsTheSilence) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.first_prefill_rate = 1000});
  EXPECT_EQ(engine.Overdue(kStart + 1h), 0s) << "nobody is there";
  Charge prompt = At(routing, {.uncached = 60'000});
  EXPECT_EQ(engine.Overdue(kStart + 120s), 0s) << "a minute's prompt may take two";
  EXPECT_EQ(engine.Overdue(kStart + 130s), 10s);
  prompt.FirstToken(kStart + 60s);
  EXPECT_EQ(engine.Overdue(kStart + 61s), 1s) << "the next token is due at any time";
  prompt.Token(kStart + 70s);
  EXPECT_EQ(engine.Overdue(kStart + 71s), 1s);
}

TEST(EngineSignals, AnUnstreamedAnswerIsOverdueByItsBoundAndTheMeasuredPace) {
  Routing routing({Serving("m", {1})});
  EngineSignals& engine = routing.state(0).engine;
  engine.Configure({.first_prefill_rate = 1000});
  const auto whole = [](int64_t output) { return Work{.uncached = 1000, .unseen = true, .output = output}; };
  {
    const Charge charge = At(routing, whole(1000));
    EXPECT_EQ(engine.Overdue(kStart + 200s), 0s) << "how fast it answers is not known yet";
  }
  {
    Charge stream = At(routing);
    stream.FirstToken(kStart + 1s);
    stream.LastToken(101, kStart + 2s);  // 10 ms a token
  }
  const Charge slow = At(routing, whole(1000), kStart);
  Charge quick = At(routing, whole(100), kStart + 1s);
  EXPECT_EQ(engine.Overdue(kStart + 6s), 0s);
  EXPECT_GT(engine.Overdue(kStart + 20s), 10s) << "the quick one's";
  // Its end leaves the slow one, which may take 2 · (1 + 10) s.
  quick.Release();
  EXPECT_EQ(engine.Overdue(kStart + 20s), 0s);
  EXPECT_GT(engine.Overdue(kStart + 30s), 5s);
}

}  // namespace
}  // namespace router
