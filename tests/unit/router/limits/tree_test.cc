#include "router/limits/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "router/limits/reservation.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const conf::TimePoint kMorning = *conf::ParseTime("2026-11-20T08:30:00Z");

ReserveRequest OneToken() {
  ReserveRequest ask;
  ask.output_tokens_bound = 1;
  ask.price.output = 1'000'000;
  return ask;
}
bool Admits(const NodeRef& node, ModelRef model = {}) {
  return std::holds_alternative<Grant>(Reserve(node, model, OneToken(), kMorning));
}
Grant Take(const NodeRef& node) {
  return std::get<Grant>(Reserve(node, {}, OneToken(), kMorning));
}

absl::Status Update(LimitTree& tree, std::vector<NodeSpec> nodes) {
  return tree.Update(nodes);
}

TEST(LimitTree, RefusesInvalidSpecsAndNamesThem) {
  struct Case {
    std::vector<NodeSpec> nodes;
    const char* message;
  };
  const Case cases[] = {
      {{{"", {}}}, "limits of \"\": the path must be names joined by single slashes"},
      {{{"a//b", {}}}, "limits of \"a//b\": the path"},
      {{{"a/", {}}}, "limits of \"a/\": the path"},
      {{{"a", {{Dimension::kTokens, -1}}}}, "tokens_per_minute is -1; it must be from 0"},
      {{{"a", {{Dimension::kBudget, kMaxCapacity + 1, Period::kDay}}}}, "budget_per_day is 1000000000000001"},
      {{{"a", {{Dimension::kTokens, 1}, {Dimension::kTokens, 2}}}},
       "tokens_per_minute for any model is given twice"},
      {{{"a", {}}, {"a", {}}}, "limits of \"a\" are given twice; give all of them in one place"},
  };
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"kept", {{Dimension::kTokens, 5}}}}).ok());
  for (const Case& c : cases) {
    EXPECT_THAT(std::string(Update(tree, c.nodes).message()), HasSubstr(c.message));
    EXPECT_EQ(tree.Snapshot(kMorning).size(), 1u) << "a refused update changes nothing";
  }
}

TEST(LimitTree, AReloadKeepsTheCountersOfLimitsThatStay) {
  LimitTree tree;
  ASSERT_TRUE(
      Update(tree, {{"acme", {{Dimension::kConcurrency, 2}, {Dimension::kRequests, 10}}}, {"acme/k", {}}})
          .ok());
  const NodeRef key = tree.Resolve("acme/k");
  const Grant a = Take(key);
  const Grant b = Take(key);
  EXPECT_FALSE(Admits(key));
  ASSERT_TRUE(Update(tree, {{"acme", {{Dimension::kConcurrency, 3}}}, {"acme/k", {}}}).ok());
  const Grant c = Take(key);
  EXPECT_FALSE(Admits(key));
  ASSERT_TRUE(Update(tree, {{"acme", {{Dimension::kConcurrency, 1}}}, {"acme/k", {}}}).ok());
  const std::vector<LimitState> states = tree.Snapshot(kMorning);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].capacity, 1);
  EXPECT_EQ(states[0].used, 3);
}

TEST(LimitTree, RequestsInFlightSettleWhatAReloadRemoved) {
  LimitTree tree;
  ASSERT_TRUE(
      Update(tree, {{"acme", {{Dimension::kConcurrency, 1}}}, {"acme/k", {{Dimension::kRequests, 5}}}}).ok());
  NodeRef key = tree.Resolve("acme/k");
  Grant running = Take(key);
  ASSERT_TRUE(Update(tree, {{"acme", {{Dimension::kConcurrency, 1}}}}).ok());
  EXPECT_FALSE(tree.Resolve("acme/k"));
  const ReserveResult outcome = Reserve(key, {}, OneToken(), kMorning);
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_EQ(std::get<Refusal>(outcome).limit, kRemoved);
  EXPECT_EQ(std::get<Refusal>(outcome).Message(), "acme/k: no longer exists");
  EXPECT_EQ(tree.Snapshot(kMorning).at(0).used, 1);
  running.reservation.Settle({});
  EXPECT_EQ(tree.Snapshot(kMorning).at(0).used, 0);

  Grant last = Take(tree.Resolve("acme"));
  ASSERT_TRUE(Update(tree, {}).ok());
  last.reservation.Settle({.output = 1});  // the reservation kept all that it needs alive
}

TEST(LimitTree, KeysComeAndGoAtRunTime) {
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"acme/search", {{Dimension::kConcurrency, 2}}}}).ok());
  EXPECT_FALSE(tree.AddKey({"nobody/key", {}}).ok());
  const auto key = tree.AddKey({"acme/search/key", {{Dimension::kConcurrency, 1}}});
  ASSERT_TRUE(key.ok());
  const auto other = tree.AddKey({"acme/search/other", {}});
  ASSERT_TRUE(other.ok());
  const Grant a = Take(*key);
  EXPECT_FALSE(Admits(*key));
  const Grant b = Take(*other);
  EXPECT_FALSE(Admits(*other)) << "the team's limit";

  ASSERT_TRUE(Update(tree, {{"acme/search", {{Dimension::kConcurrency, 3}}}}).ok());
  EXPECT_TRUE(Admits(*other)) << "keys outlive a reload and see the new limits";
  EXPECT_FALSE(Admits(*key));
  ASSERT_TRUE(tree.AddKey({"acme/search/key", {{Dimension::kConcurrency, 2}}}).ok());
  EXPECT_TRUE(Admits(*key)) << "a new limit for a known key, its counter kept";
  tree.KeepKeys({"acme/search/other"});
  EXPECT_FALSE(tree.Resolve("acme/search/key"));
  EXPECT_FALSE(Admits(*key));
  EXPECT_TRUE(Admits(*other));
  EXPECT_TRUE(tree.Resolve("acme/search")) << "a tenant is no key";

  ASSERT_TRUE(Update(tree, {{"zeta", {}}}).ok());
  EXPECT_FALSE(tree.Resolve("acme/search/other")) << "its tenant is gone";
}

TEST(LimitTree, ANewLimitOfATeamReachesItsKeys) {
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"a/team/key", {}}}).ok());
  const NodeRef key = tree.Resolve("a/team/key");
  const ModelRef big = tree.Model("big");
  EXPECT_TRUE(Admits(key, big));
  ASSERT_TRUE(tree.AddKey({"a/team", {{Dimension::kConcurrency, 0, Period::kDay, "big"}}}).ok());
  EXPECT_FALSE(Admits(key, big));
  EXPECT_TRUE(Admits(key));
}

TEST(LimitTree, RestoringABudgetKeepsWhatIsSettledMeanwhile) {
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"acme", {{Dimension::kTokenBudget, 100, Period::kDay}}}}).ok());
  const LimitRef budget = tree.Limits().front();
  const NodeRef acme = tree.Resolve("acme");
  const auto use = [&](int64_t tokens) { Take(acme).reservation.Settle({.output = tokens}); };
  use(5);  // in the ledger, as what comes next
  const int64_t before = budget.Settled(kMorning);
  EXPECT_EQ(before, 5);
  use(7);
  EXPECT_TRUE(budget.Restore(*conf::ParseTime("2026-11-20"), 40, before, kMorning));
  EXPECT_EQ(budget.State(kMorning).used, 47);
}

TEST(LimitTree, BudgetsAreRestoredForThePresentPeriodOnly) {
  LimitTree tree;
  const LimitSpec budget{Dimension::kBudget, 10, Period::kDay};
  ASSERT_TRUE(Update(tree, {{"acme", {budget, {Dimension::kTokens, 100}}}}).ok());
  const conf::TimePoint today = *conf::ParseTime("2026-11-20");
  const std::vector<LimitRef> limits = tree.Limits();
  EXPECT_FALSE(limits[0].Restore(today - 24h, 7, 0, kMorning));
  EXPECT_FALSE(limits[0].Restore(today + 1h, 7, 0, kMorning));
  EXPECT_FALSE(limits[1].Restore(today, 7, 0, kMorning));
  EXPECT_TRUE(limits[0].Restore(today, 9, 0, kMorning));
  const Grant last = Take(tree.Resolve("acme"));
  EXPECT_FALSE(Admits(tree.Resolve("acme")));
  EXPECT_TRUE(limits[0].Restore(today, 9, 9, kMorning)) << "what is reserved stays on top";
  const LimitState state = tree.Snapshot(kMorning).front();
  EXPECT_EQ(state.used, 10);
  EXPECT_EQ(state.reserved, 1);
  EXPECT_EQ(state.period->start, today);
  EXPECT_EQ(tree.Snapshot(kMorning + 24h).front().used, 0);
}

TEST(LimitTree, TheSnapshotListsEveryLimitInOrder) {
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"b", {{Dimension::kTokens, 7, Period::kDay, "m"}, {Dimension::kRequests, 5}}},
                            {"a/k", {{Dimension::kBudget, 3, Period::kMonth}}}})
                  .ok());
  std::vector<std::string> ids;
  for (const LimitRef& limit : tree.Limits()) ids.push_back(limit.Id());
  EXPECT_THAT(
      ids, testing::ElementsAre("a/k|budget_per_month|", "b|tokens_per_minute|m", "b|requests_per_minute|"));
  const std::vector<LimitState> states = tree.Snapshot(kMorning);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[1].model, "m");
  EXPECT_EQ(states[1].effective, 7);
  EXPECT_FALSE(states[1].period);
  EXPECT_TRUE(states[0].period);
}

TEST(LimitTree, AShareBoundsThisProcessAndKeepsAmountsInUse) {
  LimitTree tree;
  ASSERT_TRUE(Update(tree, {{"a", {{Dimension::kConcurrency, 10}}}}).ok());
  const NodeRef a = tree.Resolve("a");
  const LimitRef limit = tree.Limits().front();
  EXPECT_EQ(limit.SetShare(2, kMorning), 2);
  const Grant one = Take(a);
  const Grant two = Take(a);
  const ReserveResult refused = Reserve(a, {}, OneToken(), kMorning);
  ASSERT_TRUE(std::holds_alternative<Refusal>(refused));
  EXPECT_EQ(std::get<Refusal>(refused).retry, Retry::kAfter);
  EXPECT_EQ(std::get<Refusal>(refused).capacity, 10);
  EXPECT_EQ(limit.SetShare(1, kMorning), 2) << "two are in use";
  const LimitRef::Demand demand = limit.TakeDemand(kMorning);
  EXPECT_EQ(demand.used, 2);
  EXPECT_EQ(demand.admitted, 2);
  EXPECT_EQ(demand.refused, 1);
  EXPECT_EQ(limit.TakeDemand(kMorning).refused, 0);
  limit.SetShare(Limit::kUnshared, kMorning);
  EXPECT_TRUE(Admits(a));
}

}  // namespace
}  // namespace router::limits
