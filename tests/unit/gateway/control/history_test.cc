#include "gateway/control/scaling/history.h"

#include <gtest/gtest.h>

namespace gateway::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr conf::TimePoint kHistoryBegin{seconds(1'000)};

TEST(History, StepsAreMeansOfTheirTicks) {
  History history;
  scheduler::autoscale::Signals signals;
  conf::TimePoint now = kHistoryBegin;
  history.Add({.signals = signals, .came = 100}, now);
  for (int tick = 1; tick <= 20; ++tick) {
    signals.demand.work = tick <= 10 ? 1.0 : 3.0;
    signals.in_flight = 8;
    signals.held = tick <= 10 ? 4 : 0;
    signals.demand.occupied = 0.5;
    now += milliseconds(100);
    history.Add({.signals = signals,
                 .came = 100 + static_cast<uint64_t>(tick),
                 .ready = 2,
                 .there = 3,
                 .demand = 1.5},
                now);
  }
  ASSERT_EQ(history.steps().size(), 1u);
  const scheduler::autoscale::Observed& step = history.steps().front();
  EXPECT_EQ(step.at, kHistoryBegin + seconds(2));
  EXPECT_DOUBLE_EQ(step.seconds, 2);
  EXPECT_NEAR(step.work, 2, 1e-9);
  EXPECT_NEAR(step.arrivals, 10, 1e-9);
  EXPECT_NEAR(step.in_flight, 8, 1e-9);
  EXPECT_NEAR(step.held, 2, 1e-9);
  EXPECT_NEAR(step.occupied, 0.5, 1e-9);
  EXPECT_NEAR(step.ready, 2, 1e-9);
  EXPECT_NEAR(step.there, 3, 1e-9);
  EXPECT_NEAR(step.demand, 1.5, 1e-9);
}

TEST(History, KeepsAnHourAndNoMore) {
  History history;
  const scheduler::autoscale::Signals signals;
  conf::TimePoint now = kHistoryBegin;
  for (size_t i = 0; i < History::kSteps + 50; ++i) {
    history.Add({.signals = signals}, now);
    now += History::kStep;
  }
  EXPECT_EQ(history.steps().size(), History::kSteps);
  EXPECT_EQ(history.steps().back().at - history.steps().front().at, std::chrono::hours(1) - History::kStep);
}

TEST(History, ARequestThatIsCountedTwiceForAMomentArrivesOnce) {
  History history;
  const scheduler::autoscale::Signals signals;
  conf::TimePoint now = kHistoryBegin;
  double arrivals = 0;
  for (const uint64_t came : {10U, 12U, 11U, 12U, 12U}) {
    history.Add({.signals = signals, .came = came}, now);
    if (!history.steps().empty()) arrivals += 2 * history.steps().back().arrivals;
    now += seconds(2);
  }
  EXPECT_NEAR(arrivals, 2, 1e-9);
}

TEST(History, AnEarlierCountOfRequestsIsNoArrival) {
  History history;
  const scheduler::autoscale::Signals signals;
  history.Add({.signals = signals, .came = 50}, kHistoryBegin);
  history.Add({.signals = signals, .came = 10}, kHistoryBegin + seconds(2));
  EXPECT_EQ(history.steps().front().arrivals, 0);
}

}  // namespace
}  // namespace gateway::control
