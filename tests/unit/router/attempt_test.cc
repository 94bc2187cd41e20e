#include "router/attempt.h"

#include <gtest/gtest.h>

#include "router/outlier_detection.h"
#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using Kind = Step::Kind;
using Of = Event::Kind;

ModelSpec Prompt(ModelSpec spec) {
  spec.retry.backoff = 0ms;
  return spec;
}

struct Driver {
  explicit Driver(std::vector<ModelSpec> models, std::optional<conf::TimePoint> deadline = {})
      : routing(std::move(models)),
        attempt(routing.table, routing.load, ModelId{0}, {.tokens = 10}, deadline, rng) {}

  Step Send(Of kind) { return attempt.Resume(Event::Of(kind), now); }
  Step Answer(int status, std::optional<conf::Duration> retry_after = {}, bool context = false) {
    return attempt.Resume(Event::Status(status, retry_after, context), now);
  }
  int64_t Outstanding() const {
    int64_t sum = 0;
    for (const Replica& replica : routing.table.replicas()) sum += routing.load[replica.id].load.requests();
    return sum;
  }

  Routing routing;
  scheduler::Rng rng{3};
  conf::TimePoint now = kStart;
  Attempt attempt;
};

TEST(Attempt, RelaysAGoodAnswerAndSettles) {
  Driver d({Serving("m", {1})});
  const Step first = d.Send(Of::kStart);
  EXPECT_EQ(first.kind, Kind::kTry);
  EXPECT_FALSE(first.fresh_connection);
  EXPECT_EQ(first.why, "fewest outstanding tokens per weight");
  EXPECT_EQ(d.Outstanding(), 1);
  EXPECT_EQ(d.Answer(200).kind, Kind::kRelay);
  EXPECT_EQ(d.Send(Of::kFirstByte).kind, Kind::kRelay);
  EXPECT_EQ(d.Outstanding(), 1);
  EXPECT_EQ(d.Send(Of::kCompleted).kind, Kind::kDone);
  EXPECT_EQ(d.Outstanding(), 0);
  EXPECT_EQ(d.attempt.tries(), 1U);
}

std::vector<ModelSpec> AdapterOnTwo(std::vector<FallbackSpec> fallbacks = {}) {
  ModelSpec adapter = Prompt(Serving("adapter", {}));
  adapter.base = "base";
  adapter.adapter = "sql";
  adapter.fallbacks = std::move(fallbacks);
  return {adapter, Prompt(Serving("base", {1, 1}))};
}

struct Unknown : Driver {
  using Driver::Driver;
  Step SaysUnknown() { return attempt.Resume(Event::Status(404, {}, false, true), now); }
};

TEST(Attempt, AMissingAdapterIsRetriedElsewhereAndTheReplicaAvoidedForAWhile) {
  Unknown d(AdapterOnTwo());
  const ReplicaId missing = d.Send(Of::kStart).replica;
  const Step second = d.SaysUnknown();
  ASSERT_EQ(second.kind, Kind::kTry);
  EXPECT_NE(second.replica, missing);
  EXPECT_EQ(d.Answer(200).kind, Kind::kRelay);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(d.routing.PickOf(ModelId{0}).replica, second.replica);
  EXPECT_EQ(d.routing.load[missing].breaker.phase(d.now), Breaker::Phase::kClosed);
  EXPECT_EQ(d.routing.PickOf(ModelId{1}).replica, missing) << "its base is served there";
  d.now += kMissingFor;
  EXPECT_EQ(d.routing.PickOf(ModelId{0}, 1, {}, d.now).replica, missing);
}

TEST(Attempt, AnUnreachableReplicaHasNoAdapterLoaded) {
  Unknown d(AdapterOnTwo());
  const ReplicaId home = d.Send(Of::kStart).replica;
  d.routing.state(static_cast<uint32_t>(home)).adapters.OnReport({.in_use = {}, .slots = 4}, d.now);
  d.attempt.charge().FirstToken(d.now);
  EXPECT_EQ(d.routing.load[home].adapters.ReadContents(d.now).loaded.size(), 1u);
  d.Send(Of::kConnectFailed);
  EXPECT_TRUE(d.routing.load[home].adapters.ReadContents(d.now).loaded.empty());
}

TEST(Attempt, AnAdapterMissingEverywhereIsAnsweredWithTheUpstreams404) {
  Unknown d(AdapterOnTwo());
  d.Send(Of::kStart);
  EXPECT_EQ(d.SaysUnknown().kind, Kind::kTry);
  EXPECT_EQ(d.SaysUnknown().kind, Kind::kRelay);
  d.attempt.charge().Answered(d.now);  // with a refusal
  d.Send(Of::kCompleted);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(d.routing.state(i).adapters.IsMissing(AdapterIdOf("sql"), d.now));
    EXPECT_TRUE(d.routing.state(i).adapters.ReadContents(d.now).loaded.empty());
  }
  EXPECT_TRUE(d.routing.PickOf(ModelId{0}).replica) << "the next one asks again: it may be there by now";
}

TEST(Attempt, AnAdapterMissingEverywhereMayFallBackToItsBaseOnTheSameReplicas) {
  Unknown d(AdapterOnTwo({{.model = "base"}}));
  d.Send(Of::kStart);
  EXPECT_EQ(d.SaysUnknown().model, ModelId{0});
  const Step fallback = d.SaysUnknown();
  ASSERT_EQ(fallback.kind, Kind::kTry);
  EXPECT_EQ(fallback.model, ModelId{1});
}

TEST(Attempt, AnUnknownModelWithoutAnAdapterIsNotRetried) {
  Unknown d({Prompt(Serving("m", {1, 1}))});
  d.Send(Of::kStart);
  EXPECT_EQ(d.SaysUnknown().kind, Kind::kRelay);
}

struct OnAHungReplica : testing::Test {
  static std::vector<ModelSpec> Three() {
    ModelSpec spec = Prompt(Serving("m", {1, 1, 1}, PolicyKind::kLeastRequests));
    spec.outliers.hung_after = 10s;
    return {spec};
  }
  void UpdateOutliers() {
    std::vector<OutlierChange> changes;
    DetectOutliers(d.routing.table, ModelId{0}, d.routing.load, d.now, changes);
  }
  Driver d{Three()};
};

TEST_F(OnAHungReplica, ARequestWithoutAFirstByteLeavesOnce) {
  UpdateOutliers();
  const Step first = d.Send(Of::kStart);
  EXPECT_FALSE(d.attempt.MayLeave(d.now));
  d.now += 11s;
  UpdateOutliers();
  ASSERT_TRUE(d.attempt.MayLeave(d.now));
  const Step second = d.Send(Of::kHung);
  ASSERT_EQ(second.kind, Kind::kTry);
  EXPECT_NE(second.replica, first.replica);
  EXPECT_EQ(d.Outstanding(), 1);
  d.now += 11s;
  UpdateOutliers();
  EXPECT_FALSE(d.attempt.MayLeave(d.now)) << "the second one hangs too; it stays where it is";
}

TEST_F(OnAHungReplica, NoRequestLeavesWithoutAnotherReplicaOrAfterTheFirstByte) {
  UpdateOutliers();
  const Step first = d.Send(Of::kStart);
  d.now += 11s;
  UpdateOutliers();
  for (uint32_t i = 0; i < 3; ++i) {
    if (ReplicaId{i} != first.replica) d.routing.Break(i, d.now);
  }
  EXPECT_FALSE(d.attempt.MayLeave(d.now)) << "nobody else can take it";
  d.now += 6s;
  ASSERT_TRUE(d.attempt.MayLeave(d.now));
  d.Answer(200);
  EXPECT_TRUE(d.attempt.MayLeave(d.now)) << "a head is no byte of the answer";
  d.Send(Of::kFirstByte);
  EXPECT_FALSE(d.attempt.MayLeave(d.now));
}

TEST_F(OnAHungReplica, ATrialWaitsForHungAfter) {
  UpdateOutliers();
  const Charge stuck(d.routing.load.shared(ReplicaId{0}), Work{.uncached = 10}, Admission::kAdmitted, d.now);
  d.now += 15s;
  UpdateOutliers();
  d.now += 5s;
  const Step trial = d.Send(Of::kStart);
  ASSERT_EQ(trial.replica, ReplicaId{0});
  EXPECT_EQ(trial.why, "trial of a replica that hung");
  EXPECT_FALSE(d.attempt.MayLeave(d.now + 9s));
  EXPECT_TRUE(d.attempt.MayLeave(d.now + 10s));
}

TEST(Attempt, RetriesOnAnotherReplicaAtMostTwice) {
  for (Of failure : {Of::kConnectFailed, Of::kBroken, Of::kTimedOut}) {
    Driver d({Prompt(Serving("m", {1, 1, 1, 1, 1}))});
    std::vector<ReplicaId> seen;
    Step step = d.Send(Of::kStart);
    while (step.kind == Kind::kTry) {
      EXPECT_EQ(std::count(seen.begin(), seen.end(), step.replica), 0);
      seen.push_back(step.replica);
      EXPECT_EQ(d.Outstanding(), 1);
      step = d.Send(failure);
    }
    EXPECT_EQ(seen.size(), 3U);
    EXPECT_EQ(step.kind, Kind::kFail);
    EXPECT_EQ(step.error, failure == Of::kConnectFailed ? AttemptError::kConnectFailed
                          : failure == Of::kBroken      ? AttemptError::kUpstreamBroke
                                                        : AttemptError::kTimedOut);
    EXPECT_EQ(d.Outstanding(), 0);
    EXPECT_EQ(d.attempt.retries(), 2U);
  }
}

TEST(Attempt, RetriesServerErrorsAndRelaysTheLastOne) {
  Driver d({Prompt(Serving("m", {1, 1}))});
  const Step first = d.Send(Of::kStart);
  const Step second = d.Answer(500);
  ASSERT_EQ(second.kind, Kind::kTry);
  EXPECT_NE(second.replica, first.replica);
  EXPECT_EQ(d.Answer(502).kind, Kind::kRelay);
  EXPECT_EQ(d.Outstanding(), 1);
  EXPECT_EQ(d.Send(Of::kCompleted).kind, Kind::kDone);
}

TEST(Attempt, ClientErrorsAreRelayedAndCountAgainstNoReplica) {
  for (int status : {400, 401, 404, 409, 413, 422, 501}) {
    Driver d({Serving("m", {1, 1})});
    for (int i = 0; i < 20; ++i) {
      Attempt attempt(d.routing.table, d.routing.load, ModelId{0}, {}, {}, d.rng);
      attempt.Resume(Event::Of(Of::kStart), kStart);
      EXPECT_EQ(attempt.Resume(Event::Status(status), kStart).kind, Kind::kRelay);
    }
    EXPECT_EQ(d.routing.state(0).breaker.phase(kStart), Breaker::Phase::kClosed);
    EXPECT_EQ(d.routing.state(1).breaker.phase(kStart), Breaker::Phase::kClosed);
  }
}

TEST(Attempt, AnOverloadedReplicaRestsAsLongAsItAsks) {
  Driver d({Prompt(Serving("m", {1, 1}))});
  const Step first = d.Send(Of::kStart);
  const Step second = d.Answer(429, 30s);
  ASSERT_EQ(second.kind, Kind::kTry);
  EXPECT_EQ(d.Answer(200).kind, Kind::kRelay);
  EXPECT_TRUE(d.routing.load[first.replica].breaker.IsResting(kStart + 29s));
  EXPECT_EQ(d.routing.load[first.replica].breaker.phase(kStart), Breaker::Phase::kClosed);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(d.routing.PickOf().replica, second.replica);
}

TEST(Attempt, RelaysTheUpstreamsRefusalWhenNoOtherReplicaIsLeft) {
  for (int status : {429, 503}) {
    Driver d({Prompt(Serving("m", {1, 1}))});
    d.Send(Of::kStart);
    ASSERT_EQ(d.Answer(status, 5s).kind, Kind::kTry);
    EXPECT_EQ(d.Answer(status, 5s).kind, Kind::kRelay);
  }
}

TEST(Attempt, NeverRetriesAfterTheFirstByte) {
  for (Of failure : {Of::kBroken, Of::kTimedOut}) {
    Driver d({Prompt(Serving("m", {1, 1, 1}))});
    d.Send(Of::kStart);
    d.Answer(200);
    d.Send(Of::kFirstByte);
    const Step step = d.Send(failure);
    EXPECT_EQ(step.kind, Kind::kFail);
    EXPECT_EQ(step.error, AttemptError::kBrokenStream);
    EXPECT_EQ(d.attempt.tries(), 1U);
    EXPECT_EQ(d.Outstanding(), 0);
  }
}

TEST(Attempt, RetriesAnAnswerThatBreaksBeforeItsFirstByte) {
  Driver d({Prompt(Serving("m", {1, 1}))});
  d.Send(Of::kStart);
  d.Answer(200);
  EXPECT_EQ(d.Send(Of::kBroken).kind, Kind::kTry);
}

TEST(Attempt, AClosedIdleConnectionIsTriedAfreshAndNotCounted) {
  Driver d({Prompt(Serving("m", {1, 1}))});
  const Step first = d.Send(Of::kStart);
  const Step again = d.Send(Of::kReusedClosed);
  EXPECT_EQ(again.kind, Kind::kTry);
  EXPECT_EQ(again.replica, first.replica);
  EXPECT_TRUE(again.fresh_connection);
  EXPECT_EQ(d.attempt.retries(), 0U);
  EXPECT_EQ(d.Outstanding(), 1);
  const Step other = d.Send(Of::kReusedClosed);
  EXPECT_EQ(other.kind, Kind::kTry);
  EXPECT_NE(other.replica, first.replica);
  EXPECT_EQ(d.attempt.retries(), 1U);
}

TEST(Attempt, PausesBeforeARetryWithTheNextReplicaAlreadyCharged) {
  ModelSpec spec = Serving("m", {1, 1, 1});
  spec.retry.backoff = 100ms;
  Driver d({spec});
  d.Send(Of::kStart);
  const Step pause = d.Send(Of::kConnectFailed);
  ASSERT_EQ(pause.kind, Kind::kWait);
  EXPECT_GE(pause.until, kStart + 50ms);
  EXPECT_LE(pause.until, kStart + 100ms);
  EXPECT_EQ(d.routing.load[pause.replica].load.requests(), 1);
  d.now = pause.until;
  const Step step = d.Send(Of::kWoke);
  EXPECT_EQ(step.kind, Kind::kTry);
  EXPECT_EQ(step.replica, pause.replica);
  const Step longer = d.Send(Of::kConnectFailed);
  EXPECT_GE(longer.until, d.now + 100ms);
}

TEST(Attempt, ASpentBudgetEndsRetries) {
  ModelSpec spec = Prompt(Serving("m", {1, 1, 1}));
  spec.retry.budget = {.share = 0, .min_per_minute = 1, .max_saved = 1};
  Driver d({spec});
  d.Send(Of::kStart);
  EXPECT_EQ(d.Send(Of::kConnectFailed).kind, Kind::kTry);
  EXPECT_EQ(d.Send(Of::kConnectFailed).error, AttemptError::kConnectFailed);
}

TEST(Attempt, ARetryWithoutAReplicaCostsNoBudget) {
  ModelSpec spec = Prompt(Serving("m", {1}));
  spec.retry.budget = {.share = 0, .min_per_minute = 1, .max_saved = 1};
  Driver d({spec});
  d.Send(Of::kStart);
  EXPECT_EQ(d.Send(Of::kBroken).kind, Kind::kFail);
  EXPECT_EQ(d.routing.load.cell(ModelId{0}).budget.available(), 1);
}

TEST(Attempt, RetriesOnTheOnlyReplicaWhereNothingWasDone) {
  for (const bool refused : {true, false}) {
    ModelSpec spec = Serving("m", {1});
    spec.retry.backoff = 100ms;
    Driver d({spec});
    const auto fail = [&] { return refused ? d.Send(Of::kConnectFailed) : d.Answer(503); };
    const Step first = d.Send(Of::kStart);
    for (uint32_t i = 1; i <= spec.retry.max_retries; ++i) {
      const Step pause = fail();
      ASSERT_EQ(pause.kind, Kind::kWait);
      EXPECT_EQ(pause.replica, first.replica);
      EXPECT_GE(pause.until, d.now + 50ms) << "not at once";
      d.now = pause.until;
      EXPECT_EQ(d.Send(Of::kWoke).kind, Kind::kTry);
      EXPECT_EQ(d.attempt.retries(), i);
      EXPECT_EQ(d.attempt.tries(), i + 1);
    }
    EXPECT_EQ(fail().kind, refused ? Kind::kFail : Kind::kRelay);
    if (!refused) d.Send(Of::kCompleted);
    EXPECT_EQ(d.Outstanding(), 0);
  }
}

TEST(Attempt, DoesNotRepeatARequestThatTheOnlyReplicaMayHaveDone) {
  for (const Of failure : {Of::kTimedOut, Of::kBroken}) {
    Driver d({Prompt(Serving("m", {1}))});
    d.Send(Of::kStart);
    EXPECT_EQ(d.Send(failure).kind, Kind::kFail);
  }
  Driver failed({Prompt(Serving("m", {1}))});
  failed.Send(Of::kStart);
  EXPECT_EQ(failed.Answer(500).kind, Kind::kRelay);
  Driver resting({Prompt(Serving("m", {1}))});
  resting.Send(Of::kStart);
  EXPECT_EQ(resting.Answer(429, 20s).kind, Kind::kRelay) << "it asked for a pause";
}

TEST(Attempt, StartsNothingAfterTheDeadline) {
  Driver late({Serving("m", {1})}, kStart);
  EXPECT_EQ(late.Send(Of::kStart).error, AttemptError::kDeadline);
  Driver d({Prompt(Serving("m", {1, 1}))}, kStart + 1s);
  const Step first = d.Send(Of::kStart);
  d.now += 1s;
  EXPECT_EQ(d.Send(Of::kTimedOut).error, AttemptError::kDeadline);
  EXPECT_EQ(d.Outstanding(), 0);
  for (int i = 0; i < 4; ++i) {
    d.routing.load[first.replica].breaker.Report(Outcome::kBad, Admission::kAdmitted, d.now);
  }
  EXPECT_TRUE(d.routing.load[first.replica].breaker.Allows(d.now)) << "a client's own deadline is no fault";
}

TEST(Attempt, WaitsForARestingReplicaUpToItsLimit) {
  Driver d({Serving("m", {1})});
  d.routing.state(0).breaker.Rest(1s, kStart);
  const Step wait = d.Send(Of::kStart);
  ASSERT_EQ(wait.kind, Kind::kWait);
  EXPECT_EQ(wait.until, kStart + 1s);
  d.now = wait.until;
  d.routing.state(0).breaker.Rest(500ms, d.now);
  EXPECT_EQ(d.Send(Of::kWoke).until, kStart + 1500ms);
  d.now = kStart + 1500ms;
  EXPECT_EQ(d.Send(Of::kWoke).kind, Kind::kTry);

  Driver full({Serving("m", {1})});
  full.routing.state(0).breaker.Rest(10s, kStart);
  const Step refused = full.Send(Of::kStart);
  EXPECT_EQ(refused.error, AttemptError::kUnavailable);
  EXPECT_EQ(refused.until, kStart + 10s);
  EXPECT_EQ(refused.why, ReasonText(NoneBecause::kAllResting));

  Driver hurried({Serving("m", {1})}, kStart + 900ms);
  hurried.routing.state(0).breaker.Rest(1s, kStart);
  EXPECT_EQ(hurried.Send(Of::kStart).error, AttemptError::kUnavailable);
}

TEST(Attempt, AModelWithoutReplicasSaysSo) {
  Driver d({Serving("m", {})});
  EXPECT_EQ(d.Send(Of::kStart).error, AttemptError::kNoReplica);
}

TEST(Attempt, FallsBackInOrderByCondition) {
  ModelSpec m = Prompt(Serving("m", {1}));
  m.fallbacks = {{.model = "context", .on = kOnContext},
                 {.model = "other", .on = kOnUnavailable | kOnOverloaded}};
  const std::vector<ModelSpec> models = {m, Serving("context", {1}), Serving("other", {1})};
  const auto serves = [](Driver& d, const Step& step) {
    EXPECT_EQ(step.kind, Kind::kTry);
    EXPECT_EQ(d.Outstanding(), 1);
    return d.routing.table.model(step.model).spec.name;
  };
  {
    Driver d(models);
    d.Send(Of::kStart);
    EXPECT_EQ(serves(d, d.Send(Of::kConnectFailed)), "other");
    EXPECT_EQ(d.Send(Of::kBroken).error, AttemptError::kUpstreamBroke);
  }
  {
    Driver d(models);
    d.Send(Of::kStart);
    EXPECT_EQ(serves(d, d.Answer(429)), "other");
  }
  {
    Driver d(models);
    d.Send(Of::kStart);
    EXPECT_EQ(serves(d, d.Answer(400, {}, true)), "context");
  }
  {
    Driver d(models);
    d.Send(Of::kStart);
    EXPECT_EQ(d.Answer(400).kind, Kind::kRelay);
  }
  {
    Driver d(models);
    d.Send(Of::kStart);
    EXPECT_EQ(d.Send(Of::kTimedOut).error, AttemptError::kTimedOut);
  }
  {
    Driver d(models);
    d.routing.state(0).breaker.Rest(1s, kStart);
    EXPECT_EQ(serves(d, d.Send(Of::kStart)), "other");
    EXPECT_EQ(d.attempt.retries(), 0U);
  }
}

TEST(Attempt, ARequestRefusedByTheQueueTriesFallbacksForOverloadWithHeadroom) {
  ModelSpec m = Prompt(Serving("m", {1}));
  m.fallbacks = {{.model = "context", .on = kOnContext}, {.model = "full"}, {.model = "free"}};
  ModelSpec full = Serving("full", {1});
  full.headroom = HeadroomLimits{.max_running = 1};
  const std::vector<ModelSpec> models = {m, Serving("context", {1}), full, Serving("free", {1})};
  Driver d(models);
  const Charge holds(d.routing.load.shared(ReplicaId{2}), 1, Admission::kAdmitted);
  const Step step = d.Send(Of::kQueueRefused);
  EXPECT_EQ(step.kind, Kind::kTry);
  EXPECT_EQ(d.routing.table.model(step.model).spec.name, "free");
  EXPECT_EQ(d.routing.load[ReplicaId{0}].load.requests(), 0);

  Driver none(models);
  none.routing.TakeDown(3);
  const Charge also(none.routing.load.shared(ReplicaId{2}), 1, Admission::kAdmitted);
  EXPECT_EQ(none.Send(Of::kQueueRefused).kind, Kind::kFail);
  EXPECT_EQ(none.Outstanding(), 1);
}

TEST(Attempt, CancelsInEveryStateAndLeavesNoLoad) {
  const std::vector<std::vector<Event>> lives = {
      {Event::Of(Of::kStart)},
      {Event::Of(Of::kStart), Event::Of(Of::kConnectFailed)},
      {Event::Of(Of::kStart), Event::Status(200)},
      {Event::Of(Of::kStart), Event::Status(200), Event::Of(Of::kFirstByte)},
  };
  for (const std::vector<Event>& life : lives) {
    Driver d({Serving("m", {1, 1})});
    for (const Event& event : life) d.attempt.Resume(event, d.now);
    EXPECT_EQ(d.Outstanding(), 1);
    EXPECT_EQ(d.Send(Of::kClientGone).kind, Kind::kCancel);
    EXPECT_EQ(d.Outstanding(), 0);
    EXPECT_EQ(d.Send(Of::kStatus).kind, Kind::kCancel);
    EXPECT_EQ(d.Outstanding(), 0);
  }
}

TEST(Attempt, AnySequenceOfEventsEndsWithoutLoadAndWithinItsTries) {
  scheduler::Rng random(17);
  constexpr Of kKinds[] = {Of::kWoke,      Of::kConnectFailed, Of::kReusedClosed, Of::kStatus, Of::kTimedOut,
                           Of::kFirstByte, Of::kBroken,        Of::kCompleted,    Of::kHung};
  constexpr int kStatuses[] = {200, 400, 429, 500, 503};
  for (int round = 0; round < 3'000; ++round) {
    ModelSpec m = Serving("m", {1, 1, 1, 1});
    m.fallbacks = {{.model = "f"}};
    Driver d({m, Serving("f", {1, 1})});
    Step step = d.Send(Of::kStart);
    bool first_byte = false;
    for (int i = 0; i < 40; ++i) {
      const Of kind = kKinds[random.Uniform(std::size(kKinds))];
      if (step.kind == Kind::kWait && kind != Of::kWoke) continue;
      if (step.kind != Kind::kWait && kind == Of::kWoke) continue;
      step = kind == Of::kStatus ? d.Answer(kStatuses[random.Uniform(std::size(kStatuses))]) : d.Send(kind);
      if (first_byte) ASSERT_NE(step.kind, Kind::kTry);
      first_byte = first_byte || kind == Of::kFirstByte;
      if (step.kind == Kind::kDone || step.kind == Kind::kFail) break;
      ASSERT_LE(d.Outstanding(), 1);
    }
    d.Send(Of::kClientGone);
    ASSERT_EQ(d.Outstanding(), 0);
    ASSERT_LE(d.attempt.tries(), 4U);
  }
}

// Lets only some fallbacks serve, and tells whose limits the request claims.
struct Gate final : FallbackGate {
  bool Enter(ModelId fallback, conf::TimePoint) override {
    if (fallback != allowed) return false;
    claims = fallback;
    return true;
  }
  void Leave(conf::TimePoint) override { claims = ModelId{0}; }

  ModelId allowed{};
  ModelId claims{0};
};

TEST(Attempt, OnlyFallbacksThatTheCallerMayUseServe) {
  ModelSpec m = Prompt(Serving("m", {1}));
  m.retry.max_retries = 0;  // it would be asked again
  m.fallbacks = {{.model = "dear"}, {.model = "fair"}};
  Routing routing({m, Prompt(Serving("dear", {1})), Prompt(Serving("fair", {1}))});
  for (const ModelId allowed : {ModelId{2}, ModelId{0}}) {
    Gate gate;
    gate.allowed = allowed;
    scheduler::Rng rng{3};
    Attempt attempt(routing.table, routing.load, ModelId{0}, {.tokens = 10}, {}, rng, &gate);
    EXPECT_EQ(attempt.Resume(Event::Of(Of::kStart), kStart).model, ModelId{0});
    const Step next = attempt.Resume(Event::Of(Of::kConnectFailed), kStart);
    if (allowed == ModelId{2}) {
      EXPECT_EQ(next.kind, Kind::kTry);
      EXPECT_EQ(next.model, ModelId{2});
      EXPECT_EQ(gate.claims, ModelId{2});
    } else {
      EXPECT_EQ(next.kind, Kind::kFail);
      EXPECT_EQ(gate.claims, ModelId{0});
    }
  }
}

TEST(Attempt, AFallbackThatCannotServeGivesTheClaimBack) {
  ModelSpec m = Prompt(Serving("m", {1}));
  m.retry.max_retries = 0;
  m.fallbacks = {{.model = "empty"}};
  Routing routing({m, Prompt(Serving("empty", {}))});
  Gate gate;
  gate.allowed = ModelId{1};
  scheduler::Rng rng{3};
  Attempt attempt(routing.table, routing.load, ModelId{0}, {.tokens = 10}, {}, rng, &gate);
  attempt.Resume(Event::Of(Of::kStart), kStart);
  EXPECT_EQ(attempt.Resume(Event::Of(Of::kConnectFailed), kStart).kind, Kind::kFail);
  EXPECT_EQ(gate.claims, ModelId{0});
}

}  // namespace
}  // namespace router
