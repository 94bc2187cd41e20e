#include "router/prefill_transfer.h"

#include <gtest/gtest.h>

#include <vector>

#include "router/attempt.h"
#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using Kind = Step::Kind;
using Of = Event::Kind;

// m/0 and m/1 prefill, m/2 and m/3 decode.
ModelSpec Split(PrefillTransferSpec handover = {}, PolicyKind policy = PolicyKind::kCost) {
  ModelSpec spec = Serving("m", {1, 1, 1, 1}, policy);
  for (size_t i = 0; i < 4; ++i) spec.replicas[i].role = i < 2 ? Role::kPrefill : Role::kDecode;
  spec.prefill_transfer = handover;
  spec.retry.backoff = 0ms;
  return spec;
}

constexpr PrefillTransferSpec kAsSglang{.decodes_whole = false, .at_once = true};

PickFacts Prompt(int64_t tokens) {
  return {.tokens = tokens + 10, .prompt_tokens = tokens, .output_tokens = 10, .may_split = true};
}

struct Pairing : Routing {
  explicit Pairing(ModelSpec spec) : Routing({std::move(spec)}) {}
  ReplicaPair Of(const PickFacts& facts) {
    return PickReplicaPair(table, ModelId{0}, load, facts, {}, {}, kStart, rng);
  }
};

bool IsPrefill(std::optional<ReplicaId> id) {
  return id && *id < ReplicaId{2};
}
bool IsDecode(std::optional<ReplicaId> id) {
  return id && *id >= ReplicaId{2};
}

TEST(PickReplicaPair, TakesTwoReplicasForALongPromptUnderEveryPolicy) {
  for (size_t kind = 0; kind < kPolicyKinds; ++kind) {
    Pairing pool(Split({}, static_cast<PolicyKind>(kind)));
    const ReplicaPair pair = pool.Of(Prompt(1024));
    EXPECT_TRUE(IsPrefill(pair.prefill.replica)) << PolicyName(static_cast<PolicyKind>(kind));
    EXPECT_TRUE(IsDecode(pair.answer.replica)) << PolicyName(static_cast<PolicyKind>(kind));
    EXPECT_TRUE(pair.answer.remote_prefill);
  }
}

TEST(PickReplicaPair, TakesOneWhereATransferDoesNotPay) {
  struct Case {
    const char* name;
    int64_t prompt;
    int64_t held;  // by m/3
    bool may;
    bool transferred;
  };
  for (const Case& c :
       {Case{"long", 1024, 0, true, true}, Case{"short", 1023, 0, true, false},
        Case{"unknown", 0, 0, true, false}, Case{"cannot be split", 5000, 0, false, false},
        Case{"held", 1024, 513, true, false}, Case{"held too little", 1024, 512, true, true}}) {
    Pairing pool(Split());
    const std::vector<PrefixMatch> cached{{ReplicaId{3}, c.held}};
    PickFacts facts = Prompt(c.prompt);
    facts.cached = cached;
    facts.may_split = c.may;
    // Whoever holds nothing is busy.
    const Charge other(pool.load.shared(ReplicaId{2}),
                       Work{.tokens = 1, .uncached = 100'000, .context = 100'000}, Admission::kAdmitted,
                       kStart);
    const ReplicaPair pair = pool.Of(facts);
    EXPECT_EQ(pair.prefill.replica.has_value(), c.transferred) << c.name;
    EXPECT_EQ(pair.answer.replica, ReplicaId{3}) << c.name;
    EXPECT_EQ(pair.answer.remote_prefill, c.transferred) << c.name;
    EXPECT_EQ(pool.state(0).load.requests() + pool.state(1).load.requests(), c.transferred ? 1 : 0) << c.name;
  }
}

TEST(PickReplicaPair, ChargesEachReplicaForItsPart) {
  Pairing pool(Split());
  const ReplicaPair pair = pool.Of(Prompt(2000));
  const ReplicaSignals prefill = pool.load[*pair.prefill.replica].engine.Read(kStart);
  const ReplicaSignals decode = pool.load[*pair.answer.replica].engine.Read(kStart);
  EXPECT_EQ(prefill.backlog, 2000);
  EXPECT_EQ(decode.backlog, 0);
  EXPECT_EQ(decode.context, 2010);
  EXPECT_EQ(decode.waiting, 0) << "it has not been sent yet";
  EXPECT_EQ(decode.requests, 1);
}

TEST(PickReplicaPair, TheAnsweringReplicaIsNotOverdueWhileThePromptIsComputedElsewhere) {
  Pairing pool(Split());
  ReplicaPair pair = pool.Of(Prompt(2000));
  ReplicaState& decode = pool.load[*pair.answer.replica];
  EXPECT_EQ(decode.engine.Overdue(kStart + 100s), conf::Duration::zero());
  EXPECT_EQ(decode.engine.Read(kStart + 100s).stalled, 0);
  pair.answer.charge.PrefillArrived(kStart + 100s);
  EXPECT_EQ(decode.engine.Overdue(kStart + 105s), 5s);
  pair.answer.charge.Release();
  EXPECT_EQ(decode.engine.Read(kStart + 106s).requests, 0);
  EXPECT_EQ(decode.engine.Overdue(kStart + 206s), conf::Duration::zero());
}

TEST(PickReplicaPair, TakesThePrefillReplicaThatHoldsThePrompt) {
  for (uint32_t holder : {0U, 1U}) {
    Pairing pool(Split());
    const std::vector<PrefixMatch> cached{{ReplicaId{holder}, 1500}};
    PickFacts facts = Prompt(2000);
    facts.cached = cached;
    EXPECT_EQ(pool.Of(facts).prefill.replica, ReplicaId{holder});
  }
}

TEST(PickReplicaPair, ComputesOnTheDecodeReplicaWhenPrefillReplicasAreBusy) {
  for (const int64_t backlog : {0, 200'000}) {
    Pairing pool(Split());
    std::vector<Charge> others;
    for (const uint32_t id : {0U, 1U}) {
      others.emplace_back(pool.load.shared(ReplicaId{id}), Work{.tokens = 1, .uncached = backlog},
                          Admission::kAdmitted, kStart);
    }
    const ReplicaPair pair = pool.Of(Prompt(2000));
    EXPECT_EQ(pair.prefill.replica.has_value(), backlog == 0);
    EXPECT_EQ(pair.answer.remote_prefill, backlog == 0);
    EXPECT_EQ(pool.state(0).load.requests() + pool.state(1).load.requests(), backlog == 0 ? 3 : 2);
  }
}

TEST(PickReplicaPair, ComputesOnTheDecodeReplicaWithoutPrefillReplicas) {
  Pairing pool(Split());
  pool.Break(0);
  pool.Break(1);
  const ReplicaPair pair = pool.Of(Prompt(2000));
  EXPECT_FALSE(pair.prefill.replica);
  EXPECT_TRUE(IsDecode(pair.answer.replica));
  EXPECT_FALSE(pair.answer.remote_prefill);
}

TEST(Pick, PrefillReplicasServeWholeRequestsOnlyWhenNoOtherCan) {
  Routing pool({Split()});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(IsDecode(pool.PickOf().replica));
  pool.Break(2);
  pool.TakeDown(3);
  const Decision decision = pool.PickOf();
  EXPECT_TRUE(IsPrefill(decision.replica));
  EXPECT_TRUE(decision.by_prefill);
  EXPECT_EQ(decision.reason, "prefill replica, because no other can be used");
}

TEST(Pick, DecodeReplicasThatCannotComputePromptsGetNone) {
  Routing pool({Split(kAsSglang)});
  EXPECT_FALSE(pool.PickOf().replica);
  Pairing pairs(Split(kAsSglang));
  const ReplicaPair pair = pairs.Of(Prompt(1));
  EXPECT_TRUE(IsPrefill(pair.prefill.replica)) << "nobody could serve it whole, however short it is";
  EXPECT_TRUE(IsDecode(pair.answer.replica));
}

struct Driver {
  explicit Driver(PrefillTransferSpec handover = {}, const PickFacts& facts = Prompt(2000))
      : routing({Split(handover)}), attempt(routing.table, routing.load, ModelId{0}, facts, {}, rng) {}

  Step Start() { return attempt.Resume(Event::Of(Of::kStart), kStart); }
  Step Send(Of kind) { return attempt.Resume(Event::Of(kind), kStart); }
  Step Prefill(Of kind) { return attempt.ResumePrefill(Event::Of(kind), kStart); }
  Step Prefill(int status) { return attempt.ResumePrefill(Event::Status(status), kStart); }
  int64_t Outstanding() const {
    int64_t sum = 0;
    for (const Replica& replica : routing.table.replicas()) sum += routing.load[replica.id].load.requests();
    return sum;
  }

  Routing routing;
  scheduler::Rng rng{3};
  Attempt attempt;
};

TEST(AttemptWithPrefill, SendsTheTransferredPromptToTheAnsweringReplica) {
  Driver d;
  const Step first = d.Start();
  EXPECT_EQ(first.kind, Kind::kTry);
  EXPECT_TRUE(IsPrefill(first.prefill));
  EXPECT_TRUE(IsDecode(first.replica));
  EXPECT_EQ(d.Outstanding(), 2);
  const Step second = d.Prefill(Of::kCompleted);
  EXPECT_EQ(second.kind, Kind::kTry);
  EXPECT_EQ(second.replica, first.replica);
  EXPECT_FALSE(second.prefill);
  EXPECT_TRUE(d.attempt.prefilled());
  EXPECT_EQ(d.Outstanding(), 1) << "the prefill replica is done";
  EXPECT_TRUE(d.routing.load[*first.prefill].engine.Read(kStart).requests == 0);
  d.attempt.Resume(Event::Status(200), kStart);
  EXPECT_EQ(d.Send(Of::kCompleted).kind, Kind::kDone);
  EXPECT_EQ(d.Outstanding(), 0);
  EXPECT_FALSE(d.attempt.fell_back());
}

TEST(AttemptWithPrefill, TriesAnotherPrefillReplicaAndThenComputesOnTheAnsweringOne) {
  for (const Of failure : {Of::kConnectFailed, Of::kBroken, Of::kTimedOut, Of::kHung}) {
    Driver d;
    const Step first = d.Start();
    const Step second = d.Prefill(failure);
    EXPECT_TRUE(IsPrefill(second.prefill));
    EXPECT_NE(second.prefill, first.prefill);
    EXPECT_EQ(second.replica, first.replica);
    const Step third = d.Prefill(failure);
    EXPECT_EQ(third.kind, Kind::kTry);
    EXPECT_FALSE(third.prefill);
    EXPECT_EQ(third.replica, first.replica);
    EXPECT_TRUE(d.attempt.fell_back());
    EXPECT_EQ(d.routing.load[third.replica].engine.Read(kStart).backlog, 2000);
    EXPECT_EQ(d.Outstanding(), 1);
  }
}

TEST(AttemptWithPrefill, LeavesFaultsOfTheRequestToTheAnsweringReplica) {
  Driver d;
  const Step first = d.Start();
  const Step second = d.Prefill(400);
  EXPECT_FALSE(second.prefill);
  EXPECT_EQ(second.replica, first.replica);
  EXPECT_EQ(d.routing.load[*first.prefill].breaker.phase(kStart), Breaker::Phase::kClosed);
}

TEST(AttemptWithPrefill, KeepsThePromptUnlessItMayHaveBeenFetched) {
  struct Case {
    Event event;
    bool kept;
  };
  for (const Case& c : {Case{Event::Of(Of::kConnectFailed), true}, Case{Event::Status(429), true},
                        Case{Event::Status(503), true}, Case{Event::Status(500), false},
                        Case{Event::Of(Of::kBroken), false}, Case{Event::Of(Of::kTimedOut), false}}) {
    Driver d;
    const Step first = d.Start();
    d.Prefill(Of::kCompleted);
    const Step next = d.attempt.Resume(c.event, kStart);
    EXPECT_EQ(next.kind, Kind::kTry) << Event::NameOf(c.event.kind);
    EXPECT_NE(next.replica, first.replica);
    EXPECT_EQ(next.prefill.has_value(), !c.kept) << Event::NameOf(c.event.kind) << c.event.status;
    EXPECT_EQ(d.attempt.prefilled(), c.kept);
  }
}

TEST(AttemptWithPrefill, NeverReusesABootstrapRoom) {
  Driver d(kAsSglang);
  d.Start();
  d.Prefill(Of::kCompleted);
  const Step next = d.Send(Of::kConnectFailed);
  EXPECT_TRUE(IsPrefill(next.prefill));
}

TEST(AttemptWithPrefill, FailsWhenNoOtherReplicaCanComputeThePrompt) {
  Driver d(kAsSglang);
  d.Start();
  d.Prefill(500);
  const Step last = d.Prefill(500);
  EXPECT_EQ(last.kind, Kind::kFail);
  EXPECT_EQ(last.error, AttemptError::kUpstreamBroke);
  EXPECT_EQ(d.Outstanding(), 0);
}

TEST(AttemptWithPrefill, AClientThatLeavesFreesBothReplicas) {
  Driver d;
  d.Start();
  EXPECT_EQ(d.Prefill(Of::kClientGone).kind, Kind::kCancel);
  EXPECT_EQ(d.Outstanding(), 0);
}

TEST(AttemptWithPrefill, NeverRestartsAStreamThatHasBegun) {
  Driver d(kAsSglang);
  d.Start();
  d.attempt.Resume(Event::Status(200), kStart);
  d.Send(Of::kFirstByte);
  const Step step = d.Prefill(Of::kBroken);
  EXPECT_EQ(step.kind, Kind::kFail);
  EXPECT_EQ(step.error, AttemptError::kBrokenStream);
}

}  // namespace
}  // namespace router
