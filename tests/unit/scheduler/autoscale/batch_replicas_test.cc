#include "scheduler/autoscale/batch_replicas.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::TimePoint kBegin{std::chrono::hours(1'000)};

TEST(BatchReplicas, OneStartsAfterTheOtherWhileLinesWaitLong) {
  BatchReplicas law;
  const BatchStarts policy{.may_start = true, .max_replicas = 2};
  EXPECT_FALSE(law.Tick(policy, {.lines = 5, .oldest_wait = seconds(9)}, kBegin).start);
  const BatchReplicas::Decision first = law.Tick(policy, {.lines = 5, .oldest_wait = seconds(10)}, kBegin);
  EXPECT_TRUE(first.start);
  EXPECT_EQ(first.why,
            "5 lines of batches to run, of which one has waited 10s; 1 of at most 2 replicas for batches");
  BatchReplicas::Seen seen{.lines = 5, .oldest_wait = seconds(20), .there = 1, .coming = 1};
  EXPECT_FALSE(law.Tick(policy, seen, kBegin).start) << "one is on its way";
  seen.coming = 0;
  EXPECT_TRUE(law.Tick(policy, seen, kBegin).start);
  seen.there = 2;
  EXPECT_FALSE(law.Tick(policy, seen, kBegin).start) << "there are two";
}

TEST(BatchReplicas, AllEndWhenNoLineIsThereForAWhileOrThePolicyForbidsThem) {
  BatchReplicas law;
  const BatchStarts policy{.may_start = true, .max_replicas = 2};
  EXPECT_FALSE(law.Tick(policy, {.lines = 1, .there = 2}, kBegin).end);
  EXPECT_FALSE(law.Tick(policy, {.there = 2}, kBegin + seconds(59)).end);
  EXPECT_TRUE(law.Tick(policy, {.there = 2}, kBegin + seconds(60)).end);
  EXPECT_FALSE(law.Tick(policy, {}, kBegin + seconds(60)).end) << "there are none";
  EXPECT_TRUE(law.Tick({}, {.lines = 1, .there = 1}, kBegin).end);
  EXPECT_FALSE(law.Tick({}, {.lines = 1, .oldest_wait = seconds(60)}, kBegin).start);
}

}  // namespace
}  // namespace scheduler::autoscale
