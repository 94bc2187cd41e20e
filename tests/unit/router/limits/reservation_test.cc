#include "router/limits/reservation.h"

#include <gtest/gtest.h>

#include <utility>

#include "router/limits/tree.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00.250Z");
constexpr Price kPrice{
    .input = 1'000'000, .cached_input = 500'000, .output = 2'000'000};  // 1 and 2 micro-USD

class Reservations : public testing::Test {
 protected:
  NodeRef Tree(std::vector<NodeSpec> specs, std::string_view leaf = "acme/search/key") {
    EXPECT_TRUE(tree_.Update(specs).ok());
    return tree_.Resolve(leaf);
  }
  static Grant Granted(ReserveResult outcome) {
    if (auto* refusal = std::get_if<Refusal>(&outcome)) {
      ADD_FAILURE() << refusal->Message();
      return {};
    }
    return std::get<Grant>(std::move(outcome));
  }
  static Refusal Refused(ReserveResult outcome) {
    EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << "was granted";
    return std::holds_alternative<Refusal>(outcome) ? std::get<Refusal>(std::move(outcome)) : Refusal();
  }
  int64_t Used(std::string_view scope, std::string_view name, conf::TimePoint now = kNow) const {
    for (const LimitState& s : tree_.Snapshot(now)) {
      if (s.scope == scope && s.name == name) return s.used;
    }
    ADD_FAILURE() << "no limit " << name << " of " << scope;
    return -1;
  }

  LimitTree tree_;
};

ReserveRequest Bounded(int64_t input, int64_t output) {
  ReserveRequest ask;
  ask.input_tokens_est = input;
  ask.output_tokens_bound = output;
  ask.price = kPrice;
  return ask;
}

ReserveRequest Unbounded(int64_t input, int64_t model_max) {
  ReserveRequest ask;
  ask.input_tokens_est = input;
  ask.model_max_output = model_max;
  ask.price = kPrice;
  return ask;
}

TEST_F(Reservations, ChargeEveryDimensionFromKeyToOrganisation) {
  const NodeRef key =
      Tree({{"acme", {{Dimension::kRequests, 10}, {Dimension::kBudget, 1000, Period::kMonth}}},
            {"acme/search", {{Dimension::kTokens, 1000}, {Dimension::kConcurrency, 4}}},
            {"acme/search/key",
             {{Dimension::kInputTokens, 500},
              {Dimension::kOutputTokens, 500},
              {Dimension::kTokenBudget, 5000, Period::kDay}}}});
  Reservation r = Granted(Reserve(key, {}, Bounded(100, 50), kNow)).reservation;
  EXPECT_EQ(Used("acme", "requests_per_minute"), 1);
  EXPECT_EQ(Used("acme", "budget_per_month"), 200);
  EXPECT_EQ(Used("acme/search", "tokens_per_minute"), 150);
  EXPECT_EQ(Used("acme/search", "concurrency"), 1);
  EXPECT_EQ(Used("acme/search/key", "input_tokens_per_minute"), 100);
  EXPECT_EQ(Used("acme/search/key", "output_tokens_per_minute"), 50);
  EXPECT_EQ(Used("acme/search/key", "token_budget_per_day"), 150);

  r.MarkForwarded();
  EXPECT_EQ(r.Settle({.input = 90, .cached_input = 40, .output = 10}), 90);  // 50 + 20 + 20
  EXPECT_FALSE(r);
  EXPECT_EQ(Used("acme", "requests_per_minute"), 1);
  EXPECT_EQ(Used("acme", "budget_per_month"), 90);
  EXPECT_EQ(Used("acme/search", "tokens_per_minute"), 100);
  EXPECT_EQ(Used("acme/search", "concurrency"), 0);
  EXPECT_EQ(Used("acme/search/key", "output_tokens_per_minute"), 10);
  EXPECT_EQ(Used("acme/search/key", "token_budget_per_day"), 100);
}

TEST_F(Reservations, ARefusedRequestBurnsNothing) {
  const NodeRef key =
      Tree({{"acme", {{Dimension::kConcurrency, 0}}},
            {"acme/search/key",
             {{Dimension::kRequests, 10}, {Dimension::kTokens, 1000}, {Dimension::kConcurrency, 2}}}});
  for (int i = 0; i < 100; ++i) Refused(Reserve(key, {}, Bounded(10, 10), kNow));
  EXPECT_EQ(Used("acme/search/key", "requests_per_minute"), 0);
  EXPECT_EQ(Used("acme/search/key", "tokens_per_minute"), 0);
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 0);
}

TEST_F(Reservations, ADestroyedReservationGivesEverythingBack) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kRequests, 1}, {Dimension::kConcurrency, 1}}}});
  {
    const Grant grant = Granted(Reserve(key, {}, Bounded(1, 1), kNow));
  }
  EXPECT_EQ(Used("acme/search/key", "requests_per_minute"), 0);
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 0);
}

TEST_F(Reservations, AForwardedRequestKeepsItsCountWhenItIsRefunded) {
  const NodeRef key =
      Tree({{"acme/search/key",
             {{Dimension::kRequests, 5}, {Dimension::kTokens, 100}, {Dimension::kConcurrency, 1}}}});
  {
    Grant grant = Granted(Reserve(key, {}, Bounded(10, 10), kNow));
    grant.reservation.MarkForwarded();
  }
  EXPECT_EQ(Used("acme/search/key", "requests_per_minute"), 1);
  EXPECT_EQ(Used("acme/search/key", "tokens_per_minute"), 0);
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 0);
}

TEST_F(Reservations, MovingOneRefundsOnlyTheReplacedOne) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kConcurrency, 5}}}});
  Reservation a = Granted(Reserve(key, {}, Bounded(1, 1), kNow)).reservation;
  Reservation b = Granted(Reserve(key, {}, Bounded(1, 1), kNow)).reservation;
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 2);
  a = std::move(b);
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 1);
  a.Refund();
  a.Refund();
  EXPECT_EQ(a.Settle({.input = 7}), 7) << "the cost, charged to nothing";
  EXPECT_EQ(Used("acme/search/key", "concurrency"), 0);
}

TEST_F(Reservations, ARequestWithoutABoundGetsTheRemainingCapacityAsItsBound) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kTokens, 1000}}}});
  Grant first = Granted(Reserve(key, {}, Unbounded(100, 4096), kNow));
  EXPECT_EQ(first.output_cap, 900);
  EXPECT_EQ(Used("acme/search/key", "tokens_per_minute"), 1000);
  first.reservation.Settle({.input = 100, .output = 100});
  EXPECT_EQ(Granted(Reserve(key, {}, Unbounded(100, 4096), kNow)).output_cap, 700);
  EXPECT_EQ(Granted(Reserve(key, {}, Unbounded(100, 500), kNow)).output_cap, std::nullopt)
      << "the model's own";
  EXPECT_EQ(Granted(Reserve(key, {}, Unbounded(100, 0), kNow)).output_cap, 700)
      << "a model of unknown maximum";
}

TEST_F(Reservations, TheTightestOfAllLimitsBoundsTheOutput) {
  struct Case {
    LimitSpec limit;
    int64_t cap;
  };
  const Case cases[] = {
      {{Dimension::kTokens, 300}, 200},
      {{Dimension::kOutputTokens, 300}, 300},
      {{Dimension::kTokenBudget, 300, Period::kDay}, 200},
      {{Dimension::kBudget, 301, Period::kWeek}, 100},  // 100 of it for the input
  };
  for (const Case& c : cases) {
    LimitTree tree;
    ASSERT_TRUE(
        tree.Update(std::vector<NodeSpec>{{"a", {{Dimension::kTokens, 900}}}, {"a/k", {c.limit}}}).ok());
    const Grant grant = Granted(Reserve(tree.Resolve("a/k"), {}, Unbounded(100, 4096), kNow));
    EXPECT_EQ(grant.output_cap, c.cap) << LimitName(c.limit.dimension, c.limit.period);
  }
}

TEST_F(Reservations, NoBoundIsSetWhereNoLimitCountsOutput) {
  const NodeRef key =
      Tree({{"acme/search/key", {{Dimension::kRequests, 9}, {Dimension::kInputTokens, 900}}}});
  EXPECT_EQ(Granted(Reserve(key, {}, Unbounded(100, 0), kNow)).output_cap, std::nullopt);

  const NodeRef paid = Tree({{"acme/search/key", {{Dimension::kBudget, 0, Period::kDay}}}});
  ReserveRequest free = Unbounded(100, 0);
  free.price = {};
  EXPECT_EQ(Granted(Reserve(paid, {}, free, kNow)).output_cap, std::nullopt) << "a free model under a budget";
}

TEST_F(Reservations, ADefaultBoundLeavesCapacityForOthersAndAFloorWaitsForIt) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kTokens, 1000}}}});
  ReserveRequest ask = Unbounded(100, 4096);
  ask.output_tokens_default = 300;
  ask.output_tokens_floor = 200;
  const Grant a = Granted(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(a.output_cap, 300);
  const Grant b = Granted(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(b.output_cap, 300);
  const Refusal no = Refused(Reserve(key, {}, ask, kNow));  // 200 left: 100 tokens of output at most
  EXPECT_EQ(no.asked, 300);
  EXPECT_EQ(no.used, 800);
  EXPECT_EQ(no.retry, Retry::kAfter);
  ask.output_tokens_floor = 5000;  // more than ever fits: then what fits
  EXPECT_EQ(Refused(Reserve(key, {}, ask, kNow)).retry, Retry::kAfter);
  EXPECT_EQ(Granted(Reserve(key, {}, ask, kNow + 61s)).output_cap, 300);
}

TEST_F(Reservations, SeveralChoicesEachTakeTheirBound) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kTokens, 1000}}}});
  ReserveRequest ask = Unbounded(100, 4096);
  ask.choices = 4;
  EXPECT_EQ(Granted(Reserve(key, {}, ask, kNow)).output_cap, 225);
  ask.output_tokens_bound = 226;
  EXPECT_EQ(Refused(Reserve(key, {}, ask, kNow)).asked, 1004);
  ask.output_tokens_bound = 225;
  Granted(Reserve(key, {}, ask, kNow));
}

TEST_F(Reservations, ARequestLargerThanItsLimitIsRefusedForGood) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kTokens, 100}}}});
  const Refusal no = Refused(Reserve(key, {}, Bounded(63, 600), kNow));
  EXPECT_EQ(no.limit, "tokens_per_minute");
  EXPECT_EQ(no.scope, "acme/search/key");
  EXPECT_EQ(no.capacity, 100);
  EXPECT_EQ(no.asked, 663);
  EXPECT_EQ(no.retry, Retry::kNever);
  EXPECT_FALSE(no.RetryHelps());
  EXPECT_EQ(no.Message(), "acme/search/key: tokens_per_minute is 100, 0 used, 663 asked");
}

TEST_F(Reservations, RetryAfterIsExact) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kRequests, 2}, {Dimension::kTokens, 1000}}}});
  Granted(Reserve(key, {}, Bounded(300, 300), kNow)).reservation.Settle({.input = 300, .output = 300});
  Granted(Reserve(key, {}, Bounded(100, 100), kNow + 10s)).reservation.Settle({.input = 100, .output = 100});
  const conf::TimePoint now = kNow + 20s + 1ms;
  const Refusal no = Refused(Reserve(key, {}, Bounded(400, 500), now));
  EXPECT_EQ(no.limit, "tokens_per_minute") << "it takes longer than requests_per_minute";
  EXPECT_EQ(no.retry_after, (kNow + 10s - 250ms + 61s) - now);
  Refused(Reserve(key, {}, Bounded(400, 500), now + no.retry_after - 1ns));
  Granted(Reserve(key, {}, Bounded(400, 500), now + no.retry_after));
}

TEST_F(Reservations, ASpentBudgetComesBackWithItsNextPeriod) {
  const NodeRef key = Tree({{"acme", {{Dimension::kBudget, 1000, Period::kWeek}}}, {"acme/search/key", {}}});
  Granted(Reserve(key, {}, Bounded(900, 0), kNow)).reservation.Settle({.input = 900});
  const Refusal no = Refused(Reserve(key, {}, Bounded(200, 0), kNow));
  EXPECT_EQ(no.limit, "budget_per_week");
  EXPECT_EQ(no.scope, "acme");
  EXPECT_EQ(no.Message(), "acme: budget_per_week is 0.001 USD, 0.0009 USD used, 0.0002 USD asked");
  EXPECT_EQ(no.retry, Retry::kAtPeriodEnd);
  EXPECT_FALSE(no.RetryHelps());
  EXPECT_EQ(kNow + no.retry_after, *conf::ParseTime("2026-11-23"));
  Granted(Reserve(key, {}, Bounded(200, 0), kNow + no.retry_after));
}

TEST_F(Reservations, ABudgetThatIsReservedButNotSpentIsRetriedSoon) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kBudget, 1000, Period::kDay}}}});
  Grant running = Granted(Reserve(key, {}, Bounded(900, 0), kNow));
  EXPECT_EQ(Refused(Reserve(key, {}, Bounded(200, 0), kNow)).retry, Retry::kAfter);
  running.reservation.Refund();
  Granted(Reserve(key, {}, Bounded(200, 0), kNow));
}

TEST_F(Reservations, ADeviceBudgetIsUsedUpByTimeAndAppliesToItsHoldersOnly) {
  const NodeRef key = Tree(
      {{"acme", {{Dimension::kDeviceBudget, 7'200'000, Period::kDay, "", "h100"}}}, {"acme/search/key", {}}});
  const std::vector<std::string> h100 = {"ascend-910b", "h100"};
  const std::vector<std::string> ascend = {"ascend-910b"};
  ReserveRequest ask = Bounded(10, 10);
  ask.devices = h100;
  ChargeDevices(key, ModelRef::kUnnamed, "ascend-910b", 7'200'000, kNow, kNow);
  ChargeDevices(key, ModelRef::kUnnamed, "h100", 7'199'999, kNow - 1min, kNow);
  EXPECT_EQ(Used("acme", "device_budget_per_day"), 7'199'999);
  Granted(Reserve(key, {}, ask, kNow)).reservation.Settle({.input = 10});
  EXPECT_EQ(Used("acme", "device_budget_per_day"), 7'199'999) << "a request takes none of it";
  EXPECT_FALSE(DevicesUsedUp(key, h100, kNow));
  ChargeDevices(key, ModelRef::kUnnamed, "h100", 900'001, kNow, kNow);
  const Refusal no = Refused(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(no.limit, "device_budget_per_day");
  EXPECT_EQ(no.Message(), "acme: device_budget_per_day is 2 device-hours of h100, 2.250 used");
  EXPECT_FALSE(no.RetryHelps());
  EXPECT_EQ(kNow + no.retry_after, *conf::ParseTime("2026-11-21"));
  EXPECT_EQ(DevicesUsedUp(key, h100, kNow)->limit, "device_budget_per_day");
  EXPECT_FALSE(DevicesUsedUp(key, ascend, kNow));
  EXPECT_FALSE(DevicesUsedUp(key, {}, kNow)) << "work without devices";
  ask.devices = ascend;
  Granted(Reserve(key, {}, ask, kNow));
  ask.devices = {};
  Granted(Reserve(key, {}, ask, kNow));
  ask.devices = h100;
  Granted(Reserve(key, {}, ask, kNow + no.retry_after));
  ChargeDevices(key, ModelRef::kUnnamed, "h100", 9'000'000, kNow, kNow + no.retry_after);
  EXPECT_EQ(Used("acme", "device_budget_per_day", kNow + no.retry_after), 0) << "it was in yesterday's";
}

TEST_F(Reservations, ADeviceBudgetOfOneModelCountsThatModelOnly) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kDeviceBudget, 1000, Period::kDay, "large"}}}});
  const std::vector<std::string> kinds = {"h100"};
  ReserveRequest ask = Bounded(10, 10);
  ask.devices = kinds;
  ChargeDevices(key, tree_.Model("large"), "h100", 600, kNow, kNow);
  ChargeDevices(key, tree_.Model("large"), "ascend-910b", 600, kNow, kNow);
  ChargeDevices(key, tree_.Model("small"), "h100", 600, kNow, kNow);
  EXPECT_EQ(Used("acme/search/key", "device_budget_per_day"), 1200);
  Refused(Reserve(key, tree_.Model("large"), ask, kNow));
  Granted(Reserve(key, tree_.Model("small"), ask, kNow));
  EXPECT_FALSE(DevicesUsedUp(key, kinds, kNow)) << "jobs are no model's";
}

TEST_F(Reservations, AStreamOverMidnightIsPaidByTheDayOnWhichItBegan) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kBudget, 1000, Period::kDay}}}});
  const conf::TimePoint midnight = *conf::ParseTime("2026-11-21");
  Grant late = Granted(Reserve(key, {}, Bounded(900, 0), midnight - 1s));
  Grant early = Granted(Reserve(key, {}, Bounded(500, 0), midnight));
  late.reservation.Settle({.input = 5000});
  EXPECT_EQ(Used("acme/search/key", "budget_per_day", midnight), 500);
  early.reservation.Settle({.input = 100});
  EXPECT_EQ(Used("acme/search/key", "budget_per_day", midnight), 100);
}

TEST_F(Reservations, ALowEstimateIsChargedInFullAndCounted) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kTokens, 1000}}}});
  Granted(Reserve(key, {}, Bounded(10, 490), kNow)).reservation.Settle({.input = 800, .output = 490});
  const LimitState state = tree_.Snapshot(kNow).front();
  EXPECT_EQ(state.used, 1290);
  EXPECT_EQ(state.overrun, 790u);
  EXPECT_EQ(state.reserved, 0);
  EXPECT_EQ(Refused(Reserve(key, {}, Bounded(1, 0), kNow)).retry_after, 60s + 750ms);
  Granted(Reserve(key, {}, Bounded(0, 0), kNow));
}

TEST_F(Reservations, ALimitForOneModelCountsOnlyThatModel) {
  const NodeRef key = Tree(
      {{"acme", {{Dimension::kRequests, 1, Period::kDay, "big"}}},
       {"acme/search/key", {{Dimension::kRequests, 3}, {Dimension::kRequests, 1, Period::kDay, "odd"}}}});
  const ModelRef big = tree_.Model("big");
  const ModelRef small = tree_.Model("small");
  const Grant a = Granted(Reserve(key, big, Bounded(1, 1), kNow));
  const Refusal no = Refused(Reserve(key, big, Bounded(1, 1), kNow));
  EXPECT_EQ(no.model, "big");
  EXPECT_EQ(no.scope, "acme");
  EXPECT_EQ(no.Message(), "acme for model big: requests_per_minute is 1, 1 used, 1 asked");
  const Grant b = Granted(Reserve(key, small, Bounded(1, 1), kNow));
  const Grant c = Granted(Reserve(key, tree_.Model("odd"), Bounded(1, 1), kNow));
  EXPECT_EQ(Refused(Reserve(key, small, Bounded(1, 1), kNow)).model, "");
}

TEST_F(Reservations, ZeroAllowsNothingAndAbsentEverything) {
  for (const Dimension d :
       {Dimension::kRequests, Dimension::kTokens, Dimension::kInputTokens, Dimension::kOutputTokens,
        Dimension::kConcurrency, Dimension::kBudget, Dimension::kTokenBudget}) {
    LimitTree tree;
    ASSERT_TRUE(tree.Update(std::vector<NodeSpec>{{"a", {{d, 0}}}, {"b", {}}}).ok());
    EXPECT_EQ(Refused(Reserve(tree.Resolve("a"), {}, Bounded(1, 1), kNow)).retry, Retry::kNever);
    if (d != Dimension::kRequests && d != Dimension::kConcurrency && d != Dimension::kInputTokens) {
      EXPECT_EQ(Refused(Reserve(tree.Resolve("a"), {}, Unbounded(1, 10), kNow)).retry, Retry::kNever);
    }
    Granted(Reserve(tree.Resolve("b"), {}, Bounded(kMaxTokens, kMaxTokens), kNow));
  }
}

TEST_F(Reservations, TimesThatArriveOutOfOrderDoNotReopenTheWindow) {
  const NodeRef key = Tree({{"acme/search/key", {{Dimension::kRequests, 2}}}});
  Granted(Reserve(key, {}, Bounded(0, 0), kNow)).reservation.Settle({});
  Granted(Reserve(key, {}, Bounded(0, 0), kNow - 5s)).reservation.Settle({});
  Refused(Reserve(key, {}, Bounded(0, 0), kNow + 56s));
  Granted(Reserve(key, {}, Bounded(0, 0), kNow + 61s));
}

ReserveRequest Usual(int64_t input, int64_t usual, int64_t model_max = 0) {
  ReserveRequest ask = Unbounded(input, model_max);
  ask.output_tokens_usual = usual;
  ask.output_tokens_default = 4096;
  return ask;
}

TEST_F(Reservations, ALimitPerMinuteGivesAnAnswerWithoutABoundAPartOfWhatItHas) {
  const NodeRef key = Tree({{"acme", {{Dimension::kTokens, 1000}}}}, "acme");
  Grant first = Granted(Reserve(key, {}, Usual(100, 200), kNow));
  EXPECT_EQ(first.output_cap, 200 + 350) << "what is usual, and half of the rest";
  EXPECT_EQ(Used("acme", "tokens_per_minute"), 650);
  Grant second = Granted(Reserve(key, {}, Usual(100, 200), kNow));
  EXPECT_EQ(second.output_cap, 225);
  const Refusal no = Refused(Reserve(key, {}, Usual(100, 200), kNow));
  EXPECT_EQ(no.retry, Retry::kAfter) << "it waits rather than be cut to less than is usual";
  EXPECT_EQ(no.asked, 300);
  first.reservation.Settle({.input = 100, .output = 150});
  EXPECT_EQ(Used("acme", "tokens_per_minute"), 575);
}

TEST_F(Reservations, TheBoundOfAnAnswerIsReservedUnlessTheModelHasALowerOne) {
  const NodeRef key = Tree({{"acme", {{Dimension::kTokens, 200'100}}}}, "acme");
  const auto ask = [&](const ReserveRequest& request) {
    const Grant grant = Granted(Reserve(key, {}, request, kNow));
    return std::pair(grant.output_cap, grant.reservation.output_tokens());
  };
  using Cap = std::optional<int64_t>;
  EXPECT_EQ(ask(Usual(100, 200, 4000)), std::pair(Cap(), int64_t{4000})) << "no bound has to be said";
  EXPECT_EQ(ask(Usual(100, 200)), std::pair(Cap(4096), int64_t{4096})) << "the operator's guess";
  ReserveRequest long_answers = Usual(100, 200, 300'000);
  long_answers.output_tokens_default = 0;
  EXPECT_EQ(ask(long_answers), std::pair(Cap(25'175), int64_t{25'175})) << "an eighth of the rest";
  EXPECT_EQ(ask(Usual(100, 500'000, 1000)), std::pair(Cap(), int64_t{1000}));
}

TEST_F(Reservations, ConcurrentAnswersWithoutABoundNeverOvershootALimitHoweverLongTheyGet) {
  for (const int64_t limit : {500, 2'000, 200'000}) {
    for (const int64_t usual : {50, 500, 5'000}) {
      LimitTree tree;
      ASSERT_TRUE(tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kTokens, limit}}}}).ok());
      const NodeRef key = tree.Resolve("acme");
      std::vector<Grant> running;
      int64_t most = 0;
      while (true) {
        ReserveResult result = Reserve(key, {}, Usual(10, usual), kNow);
        if (std::holds_alternative<Refusal>(result)) break;
        running.push_back(std::get<Grant>(std::move(result)));
        ASSERT_TRUE(running.back().output_cap);
        most += 10 + *running.back().output_cap;
      }
      EXPECT_LE(most, limit) << limit << " " << usual;
      EXPECT_GE(running.size(), limit >= 3 * usual ? 2u : 1u) << limit << " " << usual;
      if (limit == 200'000 && usual == 50) EXPECT_GE(running.size(), 40u);
      for (Grant& grant : running) grant.reservation.Settle({.input = 10, .output = *grant.output_cap});
      EXPECT_TRUE(std::holds_alternative<Refusal>(Reserve(key, {}, Usual(10, usual), kNow + 50s)));
      EXPECT_TRUE(std::holds_alternative<Grant>(Reserve(key, {}, Usual(10, usual), kNow + 61s)));
    }
  }
}

TEST_F(Reservations, ABudgetReservesTheWholeBoundOfAnAnswer) {
  const NodeRef key = Tree(
      {{"acme", {{Dimension::kTokenBudget, 10'000, Period::kDay}, {Dimension::kTokens, 50'000}}}}, "acme");
  const Grant grant = Granted(Reserve(key, {}, Usual(100, 200), kNow));
  EXPECT_EQ(Used("acme", "token_budget_per_day"), 4196);
  EXPECT_EQ(Used("acme", "tokens_per_minute"), 4196);
  EXPECT_EQ(grant.output_cap, 4096);
}

TEST_F(Reservations, AClaimMovesToTheModelThatServes) {
  ASSERT_TRUE(tree_
                  .Update(std::vector<NodeSpec>{
                      {"acme",
                       {{Dimension::kTokens, 1000},
                        {.dimension = Dimension::kTokens, .capacity = 100, .model = "small"},
                        {.dimension = Dimension::kRequests, .capacity = 1, .model = "big"},
                        {Dimension::kConcurrency, 2}}}})
                  .ok());
  const NodeRef key = tree_.Resolve("acme");
  const ModelRef small = tree_.Model("small");
  const ModelRef big = tree_.Model("big");
  using Move = Reservation::Move;
  std::optional<int64_t> cap;
  Grant one = Granted(Reserve(key, small, Bounded(10, 50), kNow));
  EXPECT_TRUE(one.reservation.MoveTo(big, Bounded(10, 900), Move::kIfAdmitted, kNow, cap));
  EXPECT_EQ(Used("acme", "concurrency"), 1);
  Grant two = Granted(Reserve(key, small, Bounded(10, 50), kNow));
  EXPECT_FALSE(two.reservation.MoveTo(big, Bounded(10, 10), Move::kIfAdmitted, kNow, cap)) << "one a minute";
  EXPECT_TRUE(two.reservation.MoveTo(small, Bounded(10, 60), Move::kAlways, kNow, cap));
  EXPECT_EQ(Used("acme", "concurrency"), 2);
  one.reservation.Settle({.input = 10, .output = 20});
  two.reservation.Refund();
  EXPECT_EQ(Used("acme", "concurrency"), 0);
  int64_t tokens = 0;
  for (const LimitState& s : tree_.Snapshot(kNow)) {
    if (s.dimension == Dimension::kTokens) tokens += s.used;
    EXPECT_EQ(s.reserved, 0) << s.name << s.model;
  }
  EXPECT_EQ(tokens, 30) << "of the limit over all models";
}

TEST_F(Reservations, ABudgetInMoneyAdmitsNothingWithoutAPrice) {
  const NodeRef key =
      Tree({{"acme", {{Dimension::kBudget, 1000, Period::kMonth}}}, {"free", {{Dimension::kTokens, 100}}}});
  ReserveRequest ask = Bounded(1, 1);
  ask.priced = false;
  EXPECT_EQ(Refused(Reserve(tree_.Resolve("acme"), {}, ask, kNow)).limit, kUnpriced);
  EXPECT_EQ(Used("acme", "budget_per_month"), 0);
  Granted(Reserve(tree_.Resolve("free"), {}, ask, kNow));
}

TEST_F(Reservations, APromptIsReservedAsIfItWereWrittenToACacheWhereThatIsDearer) {
  const NodeRef key = Tree({{"acme", {{Dimension::kBudget, 1000, Period::kMonth}}}}, "acme");
  ReserveRequest ask = Bounded(400, 0);
  ask.price.cache_write = 2'000'000;
  Grant granted = Granted(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(Used("acme", "budget_per_month"), 800);
  granted.reservation.Settle({.input = 400});
  EXPECT_EQ(Used("acme", "budget_per_month"), 400) << "none was written";
}

TEST_F(Reservations, ImagesAndSoundAreReservedInMoney) {
  const NodeRef key = Tree({{"acme", {{Dimension::kBudget, 100'000, Period::kMonth}}}}, "acme");
  ReserveRequest ask;
  ask.output_tokens_bound = 0;
  ask.price = {.image = 40'000};
  ask.units = {.images = 2};
  Grant grant = Granted(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(Used("acme", "budget_per_month"), 80'000);
  Refused(Reserve(key, {}, ask, kNow));
  EXPECT_EQ(grant.reservation.Settle({.images = 1}), 40'000);
}

}  // namespace
}  // namespace router::limits
