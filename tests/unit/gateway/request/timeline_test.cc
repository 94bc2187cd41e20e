#include "gateway/request/timeline.h"

#include <gtest/gtest.h>

namespace gateway {
namespace {

using std::chrono::milliseconds;

TEST(Timeline, OverheadExcludesAllWaits) {
  const conf::TimePoint start = conf::TimePoint() + std::chrono::hours(1);
  Timeline at;
  at.started = start;
  at.body_wait = milliseconds(100);
  at.queued = start + milliseconds(101);
  at.dispatched = start + milliseconds(301);
  at.prefill = milliseconds(50);
  at.sent = start + milliseconds(353);
  at.upstream_wait = milliseconds(400);
  EXPECT_EQ(at.QueueTime(), milliseconds(200));
  EXPECT_EQ(at.OverheadBeforeSend(), milliseconds(3));
  EXPECT_EQ(at.Overhead(start + milliseconds(755)), milliseconds(5));
}

TEST(Timeline, AZeroMomentHasNotHappened) {
  const Timeline at;
  EXPECT_FALSE(Happened(at.first_token));
}

}  // namespace
}  // namespace gateway
