#include "gateway/control/scaling/recent_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/net/clock.h"
#include "tests/unit/gateway/admin/world.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(QuantileOf, IsExactToABucketAndSpreadWithinIt) {
  const std::vector<double> bounds = {1, 2, 4};
  EXPECT_FALSE(QuantileOf(bounds, std::vector<uint64_t>{0, 0, 0, 0}, 0.5));
  EXPECT_DOUBLE_EQ(*QuantileOf(bounds, std::vector<uint64_t>{0, 10, 0, 0}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(*QuantileOf(bounds, std::vector<uint64_t>{5, 0, 5, 0}, 0.5), 1);
  EXPECT_DOUBLE_EQ(*QuantileOf(bounds, std::vector<uint64_t>{5, 0, 5, 0}, 0.9), 3.6);
  EXPECT_DOUBLE_EQ(*QuantileOf(bounds, std::vector<uint64_t>{0, 0, 0, 3}, 0.5), 4) << "above all bounds";
}

class RecentTrafficTest : public testing::Test {
 protected:
  static constexpr conf::TimePoint kBegin{seconds(1'000)};

  ModelCells& cells() {
    return world_.shard.model(world_.runtime->names(), *world_.runtime->routes().Find("chat-small"));
  }
  RecentTraffic::Row At(conf::TimePoint now) {
    for (const RecentTraffic::Row& row : traffic_.Rows(now)) {
      if (row.model == "chat-small") return row;
    }
    ADD_FAILURE();
    return {};
  }
  ClassCells& of_class(size_t band) {
    return world_.shard.of_class(world_.runtime->names(), *world_.runtime->routes().Find("chat-small"), band);
  }
  void Answer(milliseconds first_token) {
    cells().requests[static_cast<size_t>(ledger::EndReason::kDone)].Add();
    cells().output_flow.Add(10);
    cells().time_to_first_token.Observe(first_token);
  }

  tests::World world_;
  net::IoContext io_{1};
  net::Watchdog watchdog_{io_};
  RecentTraffic traffic_{watchdog_, world_.operations.shards};
};

TEST_F(RecentTrafficTest, CoversTheLastMinuteOnly) {
  conf::TimePoint now = kBegin;
  traffic_.Step(now);
  EXPECT_FALSE(At(now).first_token);
  Answer(milliseconds(100));
  cells().requests[static_cast<size_t>(ledger::EndReason::kUpstreamFailed)].Add();
  const RecentTraffic::Row fresh = At(now + seconds(2));
  EXPECT_EQ(fresh.requests, 2u);
  EXPECT_EQ(fresh.errors, 1u);
  EXPECT_EQ(fresh.output_tokens, 10u);
  EXPECT_DOUBLE_EQ(fresh.seconds, 2);
  ASSERT_TRUE(fresh.first_token);
  EXPECT_GT(fresh.first_token->p50, 0.08);
  EXPECT_LE(fresh.first_token->p99, 0.16);
  EXPECT_FALSE(fresh.inter_token);

  for (size_t i = 0; i < RecentTraffic::kSteps; ++i) traffic_.Step(now += RecentTraffic::kStep);
  const RecentTraffic::Row later = At(now + seconds(4));
  EXPECT_EQ(later.requests, 0u) << "longer ago than a window";
  EXPECT_FALSE(later.first_token);
  EXPECT_DOUBLE_EQ(later.seconds, 59);
}

TEST_F(RecentTrafficTest, TellsClassesApart) {
  conf::TimePoint now = kBegin;
  traffic_.Step(now);
  of_class(0).came.Add(3);
  of_class(0).came_tokens.Add(3000);
  of_class(0).time_to_first_token.Observe(milliseconds(100));
  of_class(2).came.Add(5);
  of_class(2).refused.Add(2);
  of_class(2).time_to_first_token.Observe(seconds(4));
  of_class(2).time_per_output_token.Observe(milliseconds(30));
  const auto row_of = [](const RecentTraffic::Row& row, std::string_view name) {
    const auto found = std::ranges::find(row.classes, name, &RecentTraffic::ClassRow::name);
    return found == row.classes.end() ? RecentTraffic::ClassRow() : *found;
  };
  const RecentTraffic::Row row = At(now + seconds(2));
  ASSERT_EQ(row.classes.size(), 3u);
  EXPECT_EQ(row_of(row, "high").requests, 3u);
  EXPECT_EQ(row_of(row, "high").prompt_tokens, 3000u);
  EXPECT_LE(row_of(row, "high").first_token->p99, 0.16);
  EXPECT_FALSE(row_of(row, "high").inter_token);
  EXPECT_EQ(row_of(row, "normal").requests, 0u);
  EXPECT_FALSE(row_of(row, "normal").first_token);
  EXPECT_EQ(row_of(row, "low").requests, 5u);
  EXPECT_EQ(row_of(row, "low").refused, 2u);
  EXPECT_GT(row_of(row, "low").first_token->p50, 2.56);
  EXPECT_TRUE(row_of(row, "low").inter_token);

  for (size_t i = 0; i < RecentTraffic::kSteps; ++i) traffic_.Step(now += RecentTraffic::kStep);
  EXPECT_EQ(row_of(At(now), "low").requests, 0u) << "longer ago than a window";
}

}  // namespace
}  // namespace gateway
