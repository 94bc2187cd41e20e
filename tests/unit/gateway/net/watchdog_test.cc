#include "gateway/net/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "gateway/net/clock.h"

namespace gateway::net {
namespace {

using std::chrono::milliseconds;

class Noted final : public Alarm {
 public:
  Noted(Watchdog& watchdog, std::vector<Noted*>& order) : Alarm(watchdog), order_(order) {}
  conf::TimePoint fired;

 private:
  void OnAlarm() override {
    fired = Now();
    order_.push_back(this);
  }
  std::vector<Noted*>& order_;
};

struct WatchdogTest : testing::Test {
  Noted& Make() { return *alarms.emplace_back(std::make_unique<Noted>(watchdog, order)); }

  IoContext io{1};
  Watchdog watchdog{io};
  std::vector<Noted*> order;
  std::vector<std::unique_ptr<Noted>> alarms;
};

TEST_F(WatchdogTest, FiresEachInItsTurnAndNoneEarly) {
  const conf::TimePoint begin = Now();
  Noted& late = Make();
  Noted& soon = Make();
  Noted& at_once = Make();
  late.SetAfter(milliseconds(120));
  soon.SetAfter(milliseconds(50));
  at_once.Set(begin - milliseconds(5));
  io.run();
  EXPECT_EQ(order, (std::vector<Noted*>{&at_once, &soon, &late}));
  EXPECT_GE(soon.fired - begin, milliseconds(50));
  EXPECT_GE(late.fired - begin, milliseconds(120));
}

TEST_F(WatchdogTest, FollowsAnAlarmThatIsMovedOrCleared) {
  const conf::TimePoint begin = Now();
  Noted& earlier = Make();
  Noted& later = Make();
  Noted& cleared = Make();
  earlier.SetAfter(std::chrono::hours(1));
  earlier.SetAfter(milliseconds(30));
  later.SetAfter(milliseconds(20));
  later.SetAfter(milliseconds(90));
  cleared.SetAfter(milliseconds(40));
  cleared.Clear();
  io.run();
  EXPECT_EQ(order, (std::vector<Noted*>{&earlier, &later}));
  EXPECT_GE(earlier.fired - begin, milliseconds(30));
  EXPECT_GE(later.fired - begin, milliseconds(90));
}

TEST_F(WatchdogTest, SleepsThroughTicksAtWhichNothingStands) {
  Make().SetAfter(milliseconds(300));
  EXPECT_LE(io.run(), 4u) << "wakes in 30 ticks";
  EXPECT_EQ(order.size(), 1u);
}

TEST_F(WatchdogTest, AnAlarmThatIsDestroyedNeverFires) {
  Make().SetAfter(milliseconds(20));
  Make().SetAfter(milliseconds(40));
  alarms.erase(alarms.begin());
  io.run();
  EXPECT_EQ(order, std::vector<Noted*>{alarms.front().get()});
}

}  // namespace
}  // namespace gateway::net
