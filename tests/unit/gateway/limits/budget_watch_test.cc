#include "gateway/limits/budget_watch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/net/clock.h"
#include "gateway/process/open_state.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace {

using gateway::BudgetWatch;
using gateway::BurnRate;
using router::limits::Dimension;
using router::limits::LimitRef;
using router::limits::LimitSpec;
using router::limits::LimitState;
using router::limits::LimitTree;
using router::limits::NodeSpec;
using router::limits::Period;
using std::chrono::hours;

class BudgetWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *gateway::OpenState(loop_, dir_.path());
    ASSERT_TRUE(limits_
                    .Update(std::vector<NodeSpec>{
                        {"acme", {LimitSpec{Dimension::kTokenBudget, 100, Period::kMonth}}}})
                    .ok());
    watch_ = Open();
  }
  void TearDown() override {
    watch_->Stop();
    if (other_) other_->Stop();
    loop_.Stop();
    loop_.Run();
  }
  std::unique_ptr<BudgetWatch> Open() {
    return std::make_unique<BudgetWatch>(
        loop_, *store_, limits_, [] { return std::vector<uint32_t>{50, 80, 100}; },
        [this](const LimitState&, uint32_t percent) { told_.push_back(percent); });
  }
  void Use(int64_t tokens) {
    const conf::TimePoint now = gateway::net::Now();
    const LimitRef budget = limits_.Limits().front();
    ASSERT_TRUE(budget.Restore(budget.State(now).period->start, tokens, budget.Settled(now), now));
  }
  size_t Stored(const char* kind) { return gateway::net::Await(loop_, store_->List(kind))->objects.size(); }

  tests::TempDir dir_;
  tests::TestLoop loop_{[](const std::exception_ptr&) { ADD_FAILURE() << "a task threw"; }};
  std::unique_ptr<gateway::store::Store> store_;
  LimitTree limits_;
  std::vector<uint32_t> told_;
  std::unique_ptr<BudgetWatch> watch_;
  std::unique_ptr<BudgetWatch> other_;
};

TEST_F(BudgetWatchTest, EachThresholdIsNotifiedOnceWhicheverGatewaySeesItFirst) {
  Use(85);
  watch_->Start();
  other_ = Open();
  other_->Start();
  ASSERT_TRUE(gateway::net::Await(loop_, tests::Eventually(loop_, [&] { return told_.size() >= 2; })));
  std::ranges::sort(told_);
  EXPECT_EQ(told_, (std::vector<uint32_t>{50, 80}));
  EXPECT_EQ(Stored(gateway::store::kThreshold), 2u);
  EXPECT_EQ(Stored(gateway::store::kLedgerEvent), 2u);
}

TEST_F(BudgetWatchTest, ARateSaysWhenABudgetIsUsedUp) {
  const conf::TimePoint now = gateway::net::Now();
  LimitState budget;
  budget.scope = "acme";
  budget.capacity = 100;
  budget.used = 50;
  budget.period = {now - hours(10), now + hours(14)};
  std::optional<BurnRate> rate = watch_->RateOf(budget, now);
  ASSERT_TRUE(rate);
  EXPECT_NEAR(rate->per_hour, 5, 1e-6);
  ASSERT_TRUE(rate->used_up);
  EXPECT_LT(std::chrono::abs(*rate->used_up - (now + hours(10))), std::chrono::seconds(1));
  budget.used = 10;
  rate = watch_->RateOf(budget, now);
  EXPECT_FALSE(rate->used_up) << "the budget lasts until the period ends";
  budget.period.reset();
  EXPECT_FALSE(watch_->RateOf(budget, now)) << "the limit is not a budget";
}

}  // namespace
