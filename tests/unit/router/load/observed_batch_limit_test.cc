#include "router/load/observed_batch_limit.h"

#include <gtest/gtest.h>

namespace router {
namespace {

using namespace std::chrono_literals;

struct Engine {
  // A scrape a second later, of an engine that serves nobody but us.
  double Report(double running, double waiting, double ended_since = 0) {
    ended += ended_since;
    batch.Observe({.running = running, .waiting = waiting, .ours = running + waiting, .ended = ended},
                  now += 1s);
    return batch.requests();
  }

  ObservedBatchLimit batch{};
  double ended = 0;
  conf::TimePoint now{1h};
};

TEST(ObservedBatchLimit, IsTheNumberThatRanWhileOthersQueuedTwiceInARow) {
  Engine engine;
  EXPECT_EQ(engine.Report(10, 0), 0);
  EXPECT_EQ(engine.Report(16, 40), 0) << "they may have come just now";
  EXPECT_EQ(engine.Report(16, 40, 2), 16);
  EXPECT_EQ(engine.Report(3, 0, 60), 16) << "that it has fewer says nothing";
  EXPECT_EQ(engine.Report(17, 3), 17) << "it can run more than was thought";
}

TEST(ObservedBatchLimit, RequestsThatWaitForAStepAreNoQueue) {
  Engine engine;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(engine.Report(20, 20, 400), 0) << "50 ms, at 400 a second";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(engine.Report(4, 7), 0) << "too few to matter";
}

TEST(ObservedBatchLimit, GrowsWhenAFullEngineHasNoQueue) {
  Engine engine;
  engine.Report(20, 100);
  engine.Report(20, 100);
  EXPECT_EQ(engine.Report(20, 100), 20) << "long contexts";
  EXPECT_EQ(engine.Report(28, 0, 50), 56);
  EXPECT_EQ(engine.Report(56, 0, 50), 112);
}

TEST(ObservedBatchLimit, CountsRequestsOfOthersBesideOurs) {
  ObservedBatchLimit batch;
  conf::TimePoint now{1h};
  double ended = 0;
  for (int i = 0; i < 5; ++i) {
    // Ten of ours end in a second, and ninety of others: twenty that wait do so for a fifth of a second.
    batch.Observe({.running = 80, .waiting = 20, .ours = 10, .ended = ended += 10}, now += 1s);
    EXPECT_EQ(batch.requests(), 0);
  }
}

TEST(ObservedBatchLimit, TelemetryOfOnePodBehindABalancerLimitsNothing) {
  ObservedBatchLimit batch;
  conf::TimePoint now{1h};
  for (int i = 0; i < 5; ++i) {
    batch.Observe({.running = 16, .waiting = 20, .ours = 160}, now += 1s);
    EXPECT_EQ(batch.requests(), 0);
    EXPECT_EQ(batch.partial(), i > 0) << "once may be a burst on its way";
  }
  batch.Observe({.running = 160, .waiting = 0, .ours = 160}, now += 1s);
  EXPECT_FALSE(batch.partial());
}

}  // namespace
}  // namespace router
