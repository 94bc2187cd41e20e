#include "gateway/net/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
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

TEST_F(WatchdogTest, SleepsThroughTicksWithoutDeadlines) {
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

conf::TimePoint manual_now;

// Fires over and over, each time a little later.
class Ticking final : public Alarm {
 public:
  explicit Ticking(Watchdog& watchdog) : Alarm(watchdog) { SetAfter(Watchdog::kTick); }
  int fired = 0;

 private:
  void OnAlarm() override {
    ++fired;
    SetAfter(Watchdog::kTick);
  }
};

// As after a SIGSTOP, or in a machine that was suspended: longer than the wheel's whole turn.
TEST(FrozenWatchdog, CatchesUpAtOnceAndMissesNothing) {
  for (const auto frozen : {milliseconds(5'000), milliseconds(10'300), milliseconds(60'000)}) {
    SCOPED_TRACE(frozen.count());
    manual_now = conf::TimePoint(std::chrono::hours(1));
    IoContext io{1};
    Watchdog watchdog(io, [] { return manual_now; });
    std::vector<Noted*> order;
    Noted soon(watchdog, order), later(watchdog, order), after(watchdog, order);
    Ticking ticking(watchdog);
    soon.SetAfter(milliseconds(20));
    later.SetAfter(milliseconds(4'000));
    after.SetAfter(frozen + milliseconds(2'000));
    manual_now += frozen;
    io.run_one();
    EXPECT_THAT(order, testing::UnorderedElementsAre(&soon, &later));
    EXPECT_LE(ticking.fired, 2) << "once for all that it has missed";
    EXPECT_TRUE(after.armed());
    manual_now += milliseconds(1'900);
    io.run_one();
    EXPECT_EQ(order.size(), 2u) << "not early";
    manual_now += milliseconds(200);
    io.run_one();
    EXPECT_EQ(order.back(), &after);
  }
}

int readings = 0;

class Beat final : public Alarm {
 public:
  explicit Beat(Watchdog& watchdog) : Alarm(watchdog) { SetAfter(Watchdog::kTick); }

 private:
  void OnAlarm() override { SetAfter(std::chrono::seconds(5)); }
};

// What it puts back lands in a slot that the same turn still has to empty, if the turn is as long as the
// wheel.
TEST(FrozenWatchdog, DoesNotSpinOverAnAlarmThatIsAlone) {
  for (int frozen = 10'300; frozen <= 20'600; frozen += 700) {
    SCOPED_TRACE(frozen);
    manual_now = conf::TimePoint(std::chrono::hours(1));
    IoContext io{1};
    Watchdog watchdog(io, [] {
      if (++readings > 1000) throw std::runtime_error("it spins");
      return manual_now;
    });
    Beat beat(watchdog);
    manual_now += milliseconds(frozen);
    readings = 0;
    io.run_one();
    EXPECT_LT(readings, 10);
    EXPECT_TRUE(beat.armed());
  }
}

}  // namespace
}  // namespace gateway::net
