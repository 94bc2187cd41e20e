#include "router/admission/dispatch_plan.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kLater = kStart + 10s;

ModelSpec Pool(size_t replicas, PolicyKind policy = PolicyKind::kCost) {
  ModelSpec spec = Serving("m", std::vector<double>(replicas, 1), policy);
  spec.headroom = HeadroomLimits{};
  return spec;
}

// Replicas whose rate is measured: 10,000 tokens a second.
struct Busy : Routing {
  explicit Busy(ModelSpec spec) : Busy(std::vector{std::move(spec)}) {}
  explicit Busy(std::vector<ModelSpec> specs) : Routing(std::move(specs)) {
    for (uint32_t id = 0; id < table.replicas(ModelId{0}).size(); ++id) {
      for (const int64_t tokens : {10'000, 1'000}) {
        Charge charge(load.shared(ReplicaId{id}), Work{.uncached = tokens}, Admission::kAdmitted, kStart);
        charge.FirstToken(kStart + std::chrono::microseconds(100 * tokens));
      }
    }
  }
  void Prompt(uint32_t id, int64_t tokens) {
    there.emplace_back(load.shared(ReplicaId{id}), Work{.uncached = tokens}, Admission::kAdmitted, kLater);
  }
  DispatchPlan Plan() { return {table, ModelId{0}, load, kLater, rng}; }

  std::vector<Charge> there{};
};

PickFacts Prompt(int64_t tokens, std::span<const PrefixMatch> cached = {}) {
  return {.tokens = tokens + 100, .prompt_tokens = tokens, .output_tokens = 100, .cached = cached};
}

TEST(DispatchPlan, ARequestThatSavesMoreThanItWaitsStaysAndOthersPass) {
  Busy pool(Pool(2));
  pool.Prompt(0, 30'000);
  const std::vector<PrefixMatch> long_held{{ReplicaId{0}, 90'000}};
  const std::vector<PrefixMatch> hardly_held{{ReplicaId{0}, 500}};
  DispatchPlan plan = pool.Plan();
  // Replica 0 may be busier by the nine seconds that it saves this one.
  EXPECT_TRUE(plan.Consider(ModelId{0}, Prompt(91'000, long_held)).now);
  pool.Prompt(0, 65'000);
  DispatchPlan later = pool.Plan();
  EXPECT_TRUE(later.Consider(ModelId{0}, Prompt(1'000, hardly_held)).now)
      << "it is computed as soon elsewhere";
}

TEST(DispatchPlan, ASpareRequestGoesWhileSomeReplicaComputesNoPrompt) {
  Busy pool(Pool(8));
  PickFacts spare = Prompt(1'000);
  spare.spare = true;
  for (uint32_t id = 0; id < 8; ++id) {
    EXPECT_TRUE(pool.Plan().Consider(ModelId{0}, spare).now) << id;
    pool.Prompt(id, 1'000);
  }
  DispatchPlan plan = pool.Plan();
  EXPECT_FALSE(plan.Consider(ModelId{0}, spare).now);
  EXPECT_FALSE(plan.Consider(ModelId{0}, spare).now);
}

// Or one replica after the other, for the best of which they wait, would be taken by lines.
TEST(NextDispatch, NoSpareRequestGoesWhileAnotherWaits) {
  Busy pool(Pool(2));
  pool.Prompt(0, 92'000);
  AdmissionQueue queue({.bands = {{.name = "normal"}, {.name = "batch", .spare = true}}});
  const std::vector<PrefixMatch> held{{ReplicaId{0}, 90'000}};
  PickFacts spare = Prompt(1'000);
  spare.spare = true;
  const PickFacts waits = Prompt(200'000, held);
  const WaitTicket line = queue.Enter({.tenant = "t", .band = 1}, kLater).ticket;
  const auto next = [&] {
    return NextDispatch(
        queue, pool.table, ModelId{0}, pool.load, 0, false, kLater, pool.rng,
        [&](WaitTicket ticket) { return WaitingRequest{ModelId{0}, ticket == line ? &spare : &waits}; });
  };
  const WaitTicket request = queue.Enter({.tenant = "t", .band = 0}, kLater).ticket;
  ASSERT_FALSE(pool.Plan().Consider(ModelId{0}, waits).now)
      << "it waits for the replica that holds its prompt";
  EXPECT_FALSE(next().has_value());
  queue.Leave(request, kLater);
  const std::optional<Dispatch> turn = next();
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(turn->ticket, line);
}

TEST(DispatchPlan, OnASingleReplicaASpareRequestTakesUnusedRoom) {
  Busy pool(Pool(1));
  PickFacts spare = Prompt(1'000);
  spare.spare = true;
  EXPECT_TRUE(pool.Plan().Consider(ModelId{0}, spare).now);
  pool.Prompt(0, 1'000);
  EXPECT_FALSE(pool.Plan().Consider(ModelId{0}, spare).now) << "a prompt is being computed";
  pool.there.front().FirstToken(kLater);
  EXPECT_TRUE(pool.Plan().Consider(ModelId{0}, spare).now) << "an answer is being written";
}

TEST(DispatchPlan, RequestsThatStayCountForThoseBehindThem) {
  Busy pool(Pool(2));
  pool.Prompt(0, 5'000);
  pool.Prompt(1, 9'000);
  const PickFacts facts = Prompt(2'000);
  EXPECT_FALSE(pool.Plan().Consider(ModelId{0}, facts).now) << "both are busy";
  pool.there.pop_back();
  DispatchPlan plan = pool.Plan();
  EXPECT_TRUE(plan.Consider(ModelId{0}, facts).now);
}

TEST(DispatchPlan, SaysHowLongThePromptTakesAndItsAdapter) {
  Busy pool(Pool(2));
  EXPECT_NEAR(conf::ToSeconds(pool.Plan().Consider(ModelId{0}, Prompt(5'000)).takes), 0.5, 0.3);
  ModelSpec adapter = Pool(0);
  adapter.name = adapter.adapter = "tuned";
  adapter.base = "m";
  Busy tuned({Pool(2), std::move(adapter)});
  const double load = tuned.table.model(ModelId{1}).spec.cost.adapter_load;
  const auto takes = [&](ModelId model) {
    return conf::ToSeconds(tuned.Plan().Consider(model, Prompt(5'000)).takes);
  };
  EXPECT_NEAR(takes(ModelId{1}) - takes(ModelId{0}), load, 0.01) << "nobody has it";
}

// Nine seconds are saved where the prompt is held. An answer of 100 tokens takes 100 times the pace there.
TEST(DispatchPlan, AFullReplicaIsWaitedForWhenAnAnswerEndsSoon) {
  const std::vector<PrefixMatch> held{{ReplicaId{0}, 90'000}};
  ModelSpec spec = Pool(2);
  spec.headroom->max_running = 1;
  const auto goes_elsewhere = [&](std::optional<conf::Duration> token) {
    Busy pool(spec);
    if (token) {
      Charge charge(pool.load.shared(ReplicaId{0}), Work{.uncached = 10}, Admission::kAdmitted, kStart);
      charge.FirstToken(kStart + 1ms);
      charge.LastToken(1001, kStart + 1ms + 1000 * *token);
    }
    pool.Prompt(0, 10);
    return pool.Plan().Consider(ModelId{0}, Prompt(91'000, held)).now;
  };
  EXPECT_TRUE(goes_elsewhere(std::nullopt)) << "nobody knows when";
  EXPECT_TRUE(goes_elsewhere(1s));
  EXPECT_FALSE(goes_elsewhere(10ms));
}

TEST(DispatchPlan, OtherPoliciesGoInTheOrderOfTheQueue) {
  Busy pool(Pool(2, PolicyKind::kLeastLoad));
  pool.Prompt(0, 50'000);
  pool.Prompt(1, 50'000);
  EXPECT_TRUE(pool.Plan().Consider(ModelId{0}, Prompt(1'000)).now);
  EXPECT_TRUE(AllHaveHeadroom(pool.table, ModelId{0}, pool.load, kLater));
}

TEST(DispatchPlan, IsNotNeededWhileAllReplicasHaveHeadroom) {
  Busy pool(Pool(2));
  EXPECT_TRUE(AllHaveHeadroom(pool.table, ModelId{0}, pool.load, kLater));
  pool.Prompt(1, 50'000);
  EXPECT_FALSE(AllHaveHeadroom(pool.table, ModelId{0}, pool.load, kLater));
}

}  // namespace
}  // namespace router
