#include "scheduler/autoscale/batch_replicas.h"

#include <gtest/gtest.h>

namespace scheduler::autoscale {
namespace {

using std::chrono::seconds;

constexpr conf::TimePoint kBatchesBegin{std::chrono::hours(1'000)};

TEST(BatchReplicas, OneStartsAfterTheOtherWhileLinesWaitLong) {
  BatchReplicas law;
  const BatchStarts policy{.may_start = true, .max_replicas = 2};
  EXPECT_FALSE(law.Tick(policy, {.lines = 5, .oldest_wait = seconds(9)}, kBatchesBegin).start);
  const BatchReplicas::Decision first =
      law.Tick(policy, {.lines = 5, .oldest_wait = seconds(10)}, kBatchesBegin);
  EXPECT_TRUE(first.start);
  EXPECT_EQ(first.why,
            "5 lines of batches to run, of which one has waited 10s; 1 of at most 2 replicas for batches");
  BatchReplicas::Seen seen{.lines = 5, .oldest_wait = seconds(20), .there = 1, .coming = 1};
  EXPECT_FALSE(law.Tick(policy, seen, kBatchesBegin).start) << "one is on its way";
  seen.coming = 0;
  EXPECT_TRUE(law.Tick(policy, seen, kBatchesBegin).start);
  seen.there = 2;
  EXPECT_FALSE(law.Tick(policy, seen, kBatchesBegin).start) << "there are two";
}

TEST(BatchReplicas, AllEndWhenNoLineIsThereForAWhileOrThePolicyForbidsThem) {
  BatchReplicas law;
  const BatchStarts policy{.may_start = true, .max_replicas = 2};
  EXPECT_FALSE(law.Tick(policy, {.lines = 1, .there = 2}, kBatchesBegin).end);
  EXPECT_FALSE(law.Tick(policy, {.there = 2}, kBatchesBegin + seconds(59)).end);
  EXPECT_TRUE(law.Tick(policy, {.there = 2}, kBatchesBegin + seconds(60)).end);
  EXPECT_FALSE(law.Tick(policy, {}, kBatchesBegin + seconds(60)).end) << "there are none";
  EXPECT_TRUE(law.Tick({}, {.lines = 1, .there = 1}, kBatchesBegin).end);
  EXPECT_FALSE(law.Tick({}, {.lines = 1, .oldest_wait = seconds(60)}, kBatchesBegin).start);
}

TEST(BatchReplicas, OnesThatTheAutoscalerLetsGoStayWhileLinesWait) {
  const BatchStarts policy{.may_start = true, .max_replicas = 3};
  BatchReplicas::Seen seen{.lines = 5, .oldest_wait = seconds(10), .there = 1};
  EXPECT_EQ(BatchReplicas::Keep(policy, seen, 1), 1u);
  EXPECT_EQ(BatchReplicas::Keep(policy, seen, 4), 2u) << "at most three";
  seen.there = 4;
  EXPECT_EQ(BatchReplicas::Keep(policy, seen, 1), 0u);
  seen = {.lines = 5, .oldest_wait = seconds(9)};
  EXPECT_EQ(BatchReplicas::Keep(policy, seen, 1), 0u) << "lines find room";
  seen.oldest_wait = seconds(10);
  EXPECT_EQ(BatchReplicas::Keep({}, seen, 1), 0u) << "its policy starts none";
}

TEST(BatchReplicas, TheAutoscalerGetsTheOnesThatServe) {
  const BatchReplicas::Seen seen{.there = 3, .coming = 1};
  EXPECT_EQ(BatchReplicas::Give(seen, 1), 1u);
  EXPECT_EQ(BatchReplicas::Give(seen, 5), 2u);
  EXPECT_EQ(BatchReplicas::Give({}, 5), 0u);
}

}  // namespace
}  // namespace scheduler::autoscale
