// What requests do to their shards' cells, and what the control loop makes of them.
#include "gateway/control/scaling/signals.h"

#include <gtest/gtest.h>

#include <optional>

#include "gateway/shard/demand.h"
#include "tests/unit/gateway/admin/world.h"

namespace gateway::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr conf::Duration kTtft = seconds(2);

class SignalsTest : public testing::Test {
 protected:
  // A request of the band's class, of 1,000 tokens and half a second of a replica.
  RequestDemand AskOn(ShardMetrics& shard, size_t band, bool hopeless = false) {
    return {.model = &shard.model(world_.runtime->names(), id_).demand,
            .of_class = &shard.of_class(world_.runtime->names(), id_, band),
            .work_ns = 500'000'000,
            .prompt_tokens = 1000,
            .ttft = kTtft,
            .hopeless = hopeless};
  }
  Asked Now() {
    const std::vector<const ShardMetrics*> shards = {&world_.shard, &second_};
    return AddUp(shards, *world_.runtime).at("chat-small");
  }
  void SetUp() override { second_.Bind(world_.runtime->names()); }

  tests::World world_;
  ShardMetrics second_;
  ModelId id_ = *world_.runtime->routes().Find("chat-small");
};

TEST_F(SignalsTest, RunningWaitingAndArrivedRequestsAreCountedByClassOverAllShards) {
  std::optional<Demand> high(std::in_place);
  std::optional<Demand> low(std::in_place);
  std::optional<Demand> other(std::in_place);
  high->Begin(AskOn(world_.shard, 0));
  low->Begin(AskOn(world_.shard, 2));
  other->Begin(AskOn(second_, 2));
  low->Hold();
  low->Hold();
  const Asked during = Now();
  EXPECT_EQ(during.active, 3u);
  EXPECT_EQ(during.work_ns, 1'500'000'000u);
  EXPECT_EQ(during.held_work_ns, 500'000'000u);
  ASSERT_EQ(during.classes.size(), 3u);
  EXPECT_EQ(during.classes.at("high").came, 1u);
  EXPECT_EQ(during.classes.at("high").waiting, 0u);
  EXPECT_EQ(during.classes.at("normal").came, 0u);
  EXPECT_EQ(during.classes.at("low").came, 2u);
  EXPECT_EQ(during.classes.at("low").came_tokens, 2000u);
  EXPECT_EQ(during.classes.at("low").active, 2u);
  EXPECT_EQ(during.classes.at("low").waiting, 1u);
  EXPECT_EQ(during.classes.at("low").waiting_tokens, 1000u);

  low->Refused();
  low.reset();  // it still waited
  other.reset();
  const Asked after = Now();
  EXPECT_EQ(after.active, 1u);
  EXPECT_EQ(after.held_work_ns, 0u);
  EXPECT_EQ(after.classes.at("low").came, 2u);
  EXPECT_EQ(after.classes.at("low").refused, 1u);
  EXPECT_EQ(after.classes.at("low").active, 0u);
  EXPECT_EQ(after.classes.at("low").waiting, 0u);
  EXPECT_EQ(after.classes.at("low").waiting_tokens, 0u);
}

TEST_F(SignalsTest, FirstTokensCountOnceAgainstTheSloAndAnIdleReplica) {
  Demand in_time;
  in_time.Begin(AskOn(world_.shard, 1));
  in_time.FirstToken(kTtft);
  in_time.FirstToken(seconds(9));  // of the same answer, begun again
  Demand late;
  late.Begin(AskOn(second_, 0));
  late.FirstToken(kTtft + milliseconds(1));
  Demand hopeless;
  hopeless.Begin(AskOn(second_, 0, true));
  hopeless.FirstToken(milliseconds(1));
  Demand of_no_policy;
  of_no_policy.Begin({.of_class = &second_.of_class(world_.runtime->names(), id_, 0)});
  of_no_policy.FirstToken(seconds(9));
  const Asked asked = Now();
  EXPECT_EQ(asked.in_time, 1u);
  EXPECT_EQ(asked.late, 1u);
  EXPECT_EQ(asked.hopeless, 1u);
  EXPECT_EQ(asked.classes.at("normal").in_time, 1u);
  EXPECT_EQ(asked.classes.at("high").late, 1u);
  EXPECT_EQ(asked.classes.at("high").hopeless, 1u);
}

TEST_F(SignalsTest, ATickCountsArrivalsSinceTheLastOne) {
  const std::function<void()> on_waiting = [] {};
  const ModelQueue queue("chat-small", on_waiting);
  Meter meter;
  conf::TimePoint now{seconds(1000)};
  const auto ask = [&](Demand& demand, conf::Duration first_token) {
    demand.Begin(AskOn(world_.shard, 1));
    demand.FirstToken(first_token);
  };
  Demand before;
  ask(before, seconds(3));
  EXPECT_EQ(meter.Next(Now(), queue, now).demand.first_tokens.came, 0) << "nobody knows when that was";
  Demand in_time;
  Demand late;
  ask(in_time, seconds(1));
  ask(late, seconds(3));
  const auto signals = meter.Next(Now(), queue, now += Meter::kTick);
  EXPECT_EQ(signals.demand.first_tokens.came, 2);
  EXPECT_EQ(signals.demand.first_tokens.late, 1);
  EXPECT_NEAR(signals.demand.work, 10, 1e-9) << "a second of a replica in a tenth of a second";
  EXPECT_EQ(meter.Next(Now(), queue, now += Meter::kTick).demand.first_tokens.came, 0);
}

TEST_F(SignalsTest, CellsOfAClassOutliveReloadsByItsName) {
  Demand demand;
  demand.Begin(AskOn(world_.shard, 0));
  const tests::World other("admin: {bootstrap_key: env:BOOT}\n");
  ClassCells& before = world_.shard.of_class(world_.runtime->names(), id_, 0);
  world_.shard.Bind(other.runtime->names());
  EXPECT_EQ(&before, &world_.shard.of_class(other.runtime->names(), id_, 0));
  EXPECT_EQ(&before, &world_.shard.of_class(world_.runtime->names(), id_, 0)) << "of the runtime before";
}

TEST_F(SignalsTest, ALineOfABatchIsNoDemand) {
  std::optional<Demand> line(std::in_place);
  line->BeginLine(world_.shard.model(world_.runtime->names(), id_).demand);
  const Asked during = Now();
  EXPECT_EQ(during.lines, 1u);
  EXPECT_EQ(during.active, 0u);
  EXPECT_EQ(during.came, 0u);
  EXPECT_EQ(during.work_ns, 0u);
  line.reset();
  EXPECT_EQ(Now().lines, 0u);
}

}  // namespace
}  // namespace gateway::control
