#include "router/limits/rate_status.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "router/limits/reservation.h"
#include "router/limits/tree.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

TEST(RateStatus, NamesTheTightestLimitsOfThePath) {
  const conf::TimePoint now = *conf::ParseTime("2026-11-20T08:30:00.250Z");
  LimitTree tree;
  ASSERT_TRUE(
      tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kRequests, 100}, {Dimension::kTokens, 1000}}},
                                        {"acme/key",
                                         {{Dimension::kRequests, 10},
                                          {Dimension::kInputTokens, 950},
                                          {Dimension::kRequests, 2, Period::kDay, "big"},
                                          {Dimension::kConcurrency, 1}}}})
          .ok());
  const NodeRef key = tree.Resolve("acme/key");
  ReserveRequest ask;
  ask.input_tokens_est = 100;
  ask.output_tokens_bound = 100;
  auto outcome = Reserve(key, tree.Model("big"), ask, now);
  ASSERT_TRUE(std::holds_alternative<Grant>(outcome));
  const RateStatus big = Rates(key, tree.Model("big"), now + 1s);
  EXPECT_EQ(big.requests->limit, 2);
  EXPECT_EQ(big.requests->remaining, 1);
  EXPECT_EQ(big.requests->reset, 59s + 750ms);
  EXPECT_EQ(big.tokens->limit, 1000);
  EXPECT_EQ(big.tokens->remaining, 800);
  EXPECT_EQ(Rates(key, tree.Model("other"), now).requests->remaining, 9);
  EXPECT_EQ(Rates(key, {}, now + 61s).requests->reset, 0s);
}

TEST(RateStatus, OmitsUnlimitedDimensions) {
  LimitTree tree;
  ASSERT_TRUE(tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kBudget, 5, Period::kDay}}}}).ok());
  const RateStatus status = Rates(tree.Resolve("acme"), {}, conf::TimePoint(5s));
  EXPECT_FALSE(status.requests);
  EXPECT_FALSE(status.tokens);
}

TEST(RateStatus, PrintsResetsAsOpenAiDoes) {
  struct Case {
    conf::Duration reset;
    const char* text;
  };
  const Case cases[] = {{0s, "0s"},           {-1s, "0s"},           {1ns, "1ms"},
                        {12ms, "12ms"},       {999ms, "999ms"},      {999ms + 1ns, "1s"},
                        {6s, "6s"},           {1500ms, "1.5s"},      {1050ms, "1.05s"},
                        {59999ms, "59.999s"}, {60s, "1m0s"},         {72172ms, "1m12.172s"},
                        {3600s, "1h0m0s"},    {2h + 30s, "2h0m30s"}, {26h + 5min, "26h5m0s"}};
  ResetText text;
  for (const Case& c : cases) EXPECT_EQ(FormatReset(c.reset, text), c.text) << c.reset.count();
  EXPECT_EQ(FormatReset(conf::Duration::max(), text), "2562047h47m16.855s") << "the longest fits";
}

}  // namespace
}  // namespace router::limits
