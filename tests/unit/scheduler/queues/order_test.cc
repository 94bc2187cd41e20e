#include "scheduler/queues/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

conf::TimePoint At(int64_t seconds) {
  return conf::TimePoint(std::chrono::seconds(seconds));
}

class OrderTest : public ::testing::Test {
 protected:
  JobIndex Submit(const char* queue, int32_t priority, int64_t at, uint16_t devices, int estimate_hours,
                  const char* user = "u") {
    Job job{.id = fmt::format("j{}", jobs_.bound()), .queue = queue, .user = user};
    job.priority = priority;
    job.roles = {{.name = "w", .ask = testing::Devices(devices)}};
    job.submitted = At(at);
    job.estimate = std::chrono::hours(estimate_hours);
    return jobs_.Add(std::move(job), tree_.Find(queue));
  }

  // `expected`: hours by job, 0 where there are no more.
  std::vector<JobIndex> Sorted(std::vector<OrderTerm> terms, std::vector<double> expected = {},
                               conf::TimePoint now = At(1'000)) {
    const Order order(terms);
    std::vector<std::pair<Rank, JobIndex>> ranked;
    for (JobIndex j = 0; j < jobs_.bound(); ++j) {
      const JobEntry& entry = jobs_[j];
      const AccountId account = tree_.Account(entry.queue, entry.job.user);
      ranked.emplace_back(order.RankOf(entry, tree_, account, RankedBy(entry, shapes_),
                                       j < expected.size() ? expected[j] : 0, now),
                          j);
    }
    std::ranges::sort(ranked, [](const auto& a, const auto& b) { return a.first.Before(b.first); });
    std::vector<JobIndex> sorted;
    for (const auto& [rank, job] : ranked) sorted.push_back(job);
    return sorted;
  }

  Cluster cluster_ = testing::EightWay(4);
  ShapeTable shapes_{cluster_};
  JobTable jobs_{shapes_};
  QueueTree tree_{cluster_,
                  {{.name = "a", .parent = "", .deserved = {{"*", 16'000}}},
                   {.name = "b", .parent = "", .deserved = {{"*", 16'000}}}},
                  std::chrono::hours(1)};
};

using Jobs = std::vector<JobIndex>;

TEST_F(OrderTest, EachTermRanksByItsName) {
  Submit("a", 0, 100, 8, 1);
  Submit("a", 5, 200, 1, 9);
  Submit("b", 0, 50, 4, 5);
  EXPECT_EQ(Sorted({{"priority", 1}}), Jobs({1, 0, 2}));
  EXPECT_EQ(Sorted({{"age", 1}}), Jobs({2, 0, 1}));
  EXPECT_EQ(Sorted({{"size", 1}}), Jobs({1, 2, 0}));
  EXPECT_EQ(Sorted({{"size", -1}}), Jobs({0, 2, 1}));
  EXPECT_EQ(Sorted({{"shortest", 1}}), Jobs({0, 2, 1}));
  EXPECT_EQ(Sorted({}), Jobs({0, 1, 2}));  // as submitted
  EXPECT_EQ(Sorted({{"expected", 1}}, {3, 2, 1}), Jobs({2, 1, 0}));
}

TEST_F(OrderTest, AnOlderJobGoesBeforeAShorterOneOnceItsAgeOutweighsTheRun) {
  Submit("a", 0, 0, 1, 1);
  Submit("a", 0, 9 * 3'600, 1, 1);
  EXPECT_EQ(Sorted({{"expected", 1}, {"age", 1}}, {10, 0}), Jobs({1, 0}));
  EXPECT_EQ(Sorted({{"expected", 1}, {"age", 1}}, {8, 0}), Jobs({0, 1}));
}

TEST_F(OrderTest, OverdueJobsGoFirstTheLongestWaitFirst) {
  Submit("a", 0, 0, 1, 1);
  Submit("a", 0, 3'600, 1, 1);
  Submit("a", 0, 2 * 3'600, 1, 1);
  const std::vector<OrderTerm> terms = {{"expected", 16}, {"overdue", 10'000}};
  const std::vector<double> expected = {168, 100, 1};
  EXPECT_EQ(Sorted(terms, expected, At(14 * 86'400)), Jobs({2, 1, 0}));
  EXPECT_EQ(Sorted(terms, expected, At(14 * 86'400 + 3'600)), Jobs({0, 2, 1}));
  EXPECT_EQ(Sorted(terms, expected, At(14 * 86'400 + 7'200)), Jobs({0, 1, 2}));
}

TEST_F(OrderTest, ItsPartsAddUpToTheRankButForTheAge) {
  Submit("a", 3, 0, 8, 1);
  const Order order(std::vector<OrderTerm>{
      {"age", 2}, {"expected", 16}, {"priority", 10}, {"overdue", 5}, {"fair-share", 7}, {"size", 1}});
  const AccountId account = tree_.Account(jobs_[0].queue, "u");
  const conf::TimePoint now = At(15 * 86'400);
  const std::vector<OrderPart> parts = order.PartsOf(jobs_[0], tree_, account, 0, 4, now);
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0].name, "age");
  EXPECT_DOUBLE_EQ(parts[0].value, 15 * 24);
  EXPECT_DOUBLE_EQ(parts[1].value, -4);
  EXPECT_DOUBLE_EQ(parts[3].value, 24);
  double sum = 0;
  for (const OrderPart& part : parts) sum += part.name == "age" ? 0 : part.weight * part.value;
  EXPECT_DOUBLE_EQ(order.RankOf(jobs_[0], tree_, account, 0, 4, now).score, sum);
}

TEST_F(OrderTest, TheLessSaturatedQueueGoesFirst) {
  Submit("a", 0, 1, 8, 1);
  Submit("b", 0, 2, 8, 1);
  for (JobIndex j = 0; j < jobs_.bound(); ++j) {
    const std::vector<Amount> wanted = DemandOf(jobs_[j], shapes_, Extent::kWanted);
    tree_.Request(tree_.Account(jobs_[j].queue, "u"), wanted);
  }
  tree_.ComputeShares();
  EXPECT_EQ(Sorted({{"fair-share", 1000}, {"age", 1}}), Jobs({0, 1}));
  tree_.Charge(tree_.Account(0, "u"), {0, 1'000});
  EXPECT_EQ(Sorted({{"fair-share", 1000}, {"age", 1}}), Jobs({1, 0}));
}

TEST_F(OrderTest, TheUserWithLessUsageGoesFirst) {
  tree_.RestoreUsage({{{"a", "heavy"}, 2e6}, {{"a", "light"}, 1e6}}, At(0));
  tree_.ComputeShares();
  Submit("a", 0, 1, 8, 1, "heavy");
  Submit("a", 0, 1, 8, 1, "light");
  EXPECT_EQ(Sorted({{"fair-share", 1000}}), Jobs({1, 0}));
}

TEST(OrderTerms, HaveNamesOfTheirOwnAndAreFoundByThem) {
  std::set<std::string_view> names;
  for (const OrderTermInfo& term : OrderTerms()) {
    EXPECT_TRUE(names.insert(term.name).second);
    EXPECT_FALSE(term.what.empty());
    EXPECT_EQ((term.of_job != nullptr) + (term.of_account != nullptr) + (term.of_run != nullptr) +
                  (term.of_wait != nullptr),
              1)
        << term.name;
    EXPECT_EQ(FindOrderTerm(term.name), &term);
  }
  EXPECT_EQ(FindOrderTerm("prioritty"), nullptr);
  for (const OrderTerm& term : Policy().order) EXPECT_NE(FindOrderTerm(term.name), nullptr);
}

}  // namespace
}  // namespace scheduler
