#include "router/sim/late_last.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace router::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr conf::TimePoint kBegin{seconds(100)};

Waiting Who(uint32_t request, conf::Duration arrived, double prefill = 0) {
  return {.request = request, .arrived = kBegin + arrived, .work = 2, .prefill = prefill, .cost = 1};
}

std::vector<uint32_t> CallAll(LateLast& queue, conf::TimePoint now) {
  std::vector<uint32_t> called;
  while (const auto next = queue.Next(now)) {
    called.push_back(next->who.request);
    queue.Leave(next->ticket, now);
  }
  return called;
}

TEST(LateLast, LateRequestsWaitBehindOthersExceptForAReservedPart) {
  LateLast queue(seconds(2), seconds(60));
  const conf::TimePoint now = kBegin + seconds(3);
  EXPECT_TRUE(queue.Enter(Who(100, seconds(0)), kBegin));
  EXPECT_TRUE(queue.Enter(Who(101, seconds(0)), kBegin));
  for (uint32_t i = 0; i < 30; ++i) EXPECT_TRUE(queue.Enter(Who(i, seconds(3)), now));
  queue.MoveLate(now);
  EXPECT_EQ(queue.size(), 32u);
  EXPECT_EQ(queue.work(), 64);
  const std::vector<uint32_t> called = CallAll(queue, now);
  ASSERT_EQ(called.size(), 32u);
  EXPECT_EQ(called.front(), 0u);
  EXPECT_EQ(std::ranges::count_if(called.begin(), called.begin() + 20, [](uint32_t id) { return id >= 100; }),
            1);
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.work(), 0);
}

TEST(LateLast, PredictsLatenessByPrefillAndTheLearntExtraTime) {
  LateLast queue(seconds(2), seconds(60));
  const conf::TimePoint now = kBegin + seconds(1);
  EXPECT_TRUE(queue.Enter(Who(1, seconds(0), 0.5), now));
  EXPECT_TRUE(queue.Enter(Who(2, seconds(0), 0.1), now));
  for (int i = 0; i < 60; ++i) queue.LearnBesidePrefill(1);  // as far as it goes: half of the objective
  queue.MoveLate(now);
  EXPECT_TRUE(queue.Enter(Who(3, seconds(1)), now));
  EXPECT_THAT(CallAll(queue, now), ElementsAre(3, 1, 2));
}

TEST(LateLast, DropsRequestsAfterTheLongestWait) {
  LateLast queue(seconds(2), seconds(60));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(queue.Enter(Who(i, seconds(i)), kBegin + seconds(i)));
  queue.MoveLate(kBegin + seconds(10));
  const conf::TimePoint now = kBegin + seconds(61) + milliseconds(1);
  EXPECT_EQ(queue.oldest(now), seconds(61) + milliseconds(1));
  std::vector<uint32_t> dropped;
  queue.DropExpired(now, [&](const Waiting& who) { dropped.push_back(who.request); });
  EXPECT_THAT(dropped, ElementsAre(0, 1));
  EXPECT_EQ(queue.oldest(now), seconds(59) + milliseconds(1));
  EXPECT_THAT(CallAll(queue, now), ElementsAre(2));
  EXPECT_EQ(queue.oldest(now), seconds(0));
  EXPECT_THAT(CallAll(queue, now), IsEmpty());
}

// What waits for a cold start is dispatched slowly at first, and its place among the late ones is far behind.
TEST(LateLast, ARequestThatWaitsIsKeptForTheWholeHold) {
  LateLast queue(seconds(2), seconds(600));
  queue.SetStarting(true);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_TRUE(queue.Enter(Who(i, seconds(0)), kBegin));
  queue.SetStarting(false);
  conf::TimePoint now = kBegin + seconds(1);
  for (int i = 0; i < 10; ++i) {
    now += milliseconds(500);
    const auto next = queue.Next(now);
    ASSERT_TRUE(next);
    queue.Leave(next->ticket, now);
  }
  queue.MoveLate(now);
  EXPECT_EQ(queue.size(), 990u);
  uint32_t dropped = 0;
  queue.DropExpired(kBegin + seconds(599), [&](const Waiting&) { ++dropped; });
  EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace router::sim
