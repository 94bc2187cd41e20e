#include "scheduler/autoscale/wake.h"

#include <gtest/gtest.h>

#include <vector>

namespace scheduler::autoscale {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Devices = Sleeper::Devices;

TEST(ChooseSleeper, TakesTheOneWhoseDevicesAreFreeThenTheOneThatSleptTheShortest) {
  const std::vector<Sleeper> sleepers = {{1, Devices::kHeldByOthers, seconds(1)},
                                         {2, Devices::kFree, minutes(9)},
                                         {3, Devices::kFree, minutes(2)}};
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2), .room = seconds(10), .cold = {}}), 3u);
  EXPECT_EQ(ChooseSleeper({}, {}), std::nullopt);
}

TEST(ChooseSleeper, TakesDevicesOfAnIdleHolderBeforeThoseOfABusyOne) {
  const std::vector<Sleeper> sleepers = {{1, Devices::kHeldByBusy, seconds(1)},
                                         {2, Devices::kHeldByOthers, minutes(9)}};
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2), .room = seconds(10), .cold = {}}), 2u);
}

TEST(ChooseSleeper, OfDevicesOfBusyModelsTakesThoseWithTheLeastLoad) {
  std::vector<Sleeper> sleepers = {
      {.id = 1, .devices = Devices::kHeldByBusy, .load = 0.5},
      {.id = 2, .devices = Devices::kHeldByBusy, .asleep = minutes(9), .load = 0.3}};
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2)}), 2u);
  sleepers[0].waits = true;
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2)}), 2u) << "so much less is no chance";
  sleepers[1].load = 0.45;
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2)}), 1u) << "it stays where it waits";
}

TEST(ChooseSleeper, AColdStartElsewhereIsChosenWhereItIsSooner) {
  const std::vector<Sleeper> held = {{1, Devices::kHeldByOthers, seconds(1)}};
  const StartTimes quick{.wake = seconds(2), .room = seconds(10), .cold = seconds(5)};
  EXPECT_EQ(ChooseSleeper(held, quick), std::nullopt);
  const StartTimes slow{.wake = seconds(2), .room = seconds(10), .cold = minutes(2)};
  EXPECT_EQ(ChooseSleeper(held, slow), 1u);
  const std::vector<Sleeper> free = {{1, Devices::kFree, seconds(1)}};
  EXPECT_EQ(ChooseSleeper(free, quick), 1u);
}

TEST(ChooseSleeper, NoSleeperWaitsForDevicesThatStayHeld) {
  const std::vector<Sleeper> sleepers = {{1, Devices::kHeldForLong, seconds(1)}};
  EXPECT_EQ(ChooseSleeper(sleepers, {.wake = seconds(2), .room = seconds(10), .cold = {}}), std::nullopt);
}

TEST(ChooseStart, WakesASleeperAndStartsAnewWhereNoneSleeps) {
  using Kind = StartChoice::Kind;
  const std::vector<Sleeper> sleepers = {{7, Devices::kFree, minutes(2)}};
  const StartChoice woken = ChooseStart({.sleepers = sleepers});
  EXPECT_EQ(woken.kind, Kind::kWake);
  EXPECT_EQ(woken.sleeper, 7u);
  EXPECT_EQ(ChooseStart({}).kind, Kind::kNew);
}

TEST(ChooseStart, WaitsForAReplicaThatIsFallingAsleep) {
  EXPECT_EQ(ChooseStart({.falls_asleep = true}).kind, StartChoice::Kind::kNothing);
}

TEST(ChooseStart, AForeseenNeedTakesNothingFromOthers) {
  using Kind = StartChoice::Kind;
  const std::vector<Sleeper> held = {{7, Devices::kHeldByOthers, minutes(2)}};
  OneMore wanted{.sleepers = held, .times = {.wake = seconds(1)}, .need = Need::kForeseen};
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kNothing) << "it would sleep on";
  wanted.times.cold = minutes(1);
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kNew) << "other devices are free";
  wanted.others_wait = true;
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kNothing);
  wanted.need = Need::kNow;
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kWake);
}

TEST(ChooseStart, StartsAnewRatherThanTakeTurnsWithABusyModelWhileAnotherIsIdle) {
  using Kind = StartChoice::Kind;
  const std::vector<Sleeper> held = {{7, Devices::kHeldByBusy, minutes(2)}};
  EXPECT_EQ(ChooseStart({.sleepers = held}).kind, Kind::kWake);
  const std::vector<Holder> idle = {{.id = 1, .awake = minutes(9), .idle = minutes(1), .change = seconds(5)}};
  EXPECT_EQ(ChooseStart({.sleepers = held, .holders = idle}).kind, Kind::kNew);
  const StartTimes free{.wake = seconds(1), .room = seconds(10), .cold = minutes(1)};
  EXPECT_EQ(ChooseStart({.sleepers = held, .times = free}).kind, Kind::kNew)
      << "a turn is longer than a start";
}

TEST(ChooseStart, StartsAnewWhereAModelWithLessLoadMakesRoom) {
  using Kind = StartChoice::Kind;
  std::vector<Sleeper> sleepers = {{.id = 7, .devices = Devices::kHeldByBusy, .load = 0.5}};
  std::vector<Holder> holders = {{.id = 1, .awake = minutes(9), .change = seconds(1), .load = 0.5},
                                 {.id = 2, .awake = minutes(9), .change = seconds(1), .load = 0.2}};
  const OneMore wanted{
      .sleepers = sleepers, .holders = holders, .claim = {.load = 0.3}, .start = seconds(20)};
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kNew);
  holders[1].awake = minutes(3);
  EXPECT_EQ(ChooseStart(wanted).kind, Kind::kWake) << "its turn is not over";
  holders[1].awake = minutes(9);
  sleepers.push_back({.id = 8, .devices = Devices::kHeldByBusy, .load = 0.2});
  const StartChoice woken =
      ChooseStart({.sleepers = sleepers, .holders = holders, .claim = wanted.claim, .start = wanted.start});
  EXPECT_EQ(woken.kind, Kind::kWake) << "one sleeps there already";
  EXPECT_EQ(woken.sleeper, 8u);
}

TEST(IsOvertaken, AReplicaThatWaitsYieldsToABetterChoice) {
  using Kind = StartChoice::Kind;
  EXPECT_TRUE(IsOvertaken(7, {.kind = Kind::kWake, .sleeper = 8}));
  EXPECT_TRUE(IsOvertaken(7, {.kind = Kind::kNew}));
  EXPECT_FALSE(IsOvertaken(7, {.kind = Kind::kWake, .sleeper = 7}));
  EXPECT_FALSE(IsOvertaken(7, {.kind = Kind::kNothing}));
  EXPECT_TRUE(IsOvertaken({}, {.kind = Kind::kWake, .sleeper = 7})) << "it would start, and one can wake";
  EXPECT_FALSE(IsOvertaken({}, {.kind = Kind::kNew}));
}

TEST(ChooseIdle, TakesTheHolderThatIsNotNeededForTheLongest) {
  const std::vector<Holder> holders = {
      {.id = 1, .awake = minutes(9), .idle = seconds(20), .change = seconds(5)},
      {.id = 2, .awake = minutes(9), .idle = seconds(40), .change = seconds(5)},
      {.id = 3, .awake = seconds(9), .idle = seconds(4), .change = seconds(5)}};
  EXPECT_EQ(ChooseIdle(holders).value().id, 2u);
  EXPECT_FALSE(ChooseIdle(std::span(holders).last(1))) << "it is needed";
}

// Or a model that never ran would wait for as long as two others are busy on two devices.
TEST(ChooseForStart, WhereAllAreBusyTheOneWithTheLeastLoadGivesWayOnceItsTurnIsOver) {
  std::vector<Holder> holders = {{.id = 1, .awake = minutes(7), .change = seconds(5), .load = 0.2},
                                 {.id = 2, .awake = minutes(8), .change = seconds(5), .load = 0.1}};
  const Claim claim{.load = 0.5};
  EXPECT_FALSE(ChooseForStart(holders, claim, seconds(45))) << "a turn is ten times 50 s";
  holders[0].awake = minutes(10);
  EXPECT_EQ(ChooseForStart(holders, claim, seconds(45)).value().id, 1u);
  holders[1].awake = minutes(9);
  EXPECT_EQ(ChooseForStart(holders, claim, seconds(45)).value().id, 2u);
  holders[0].idle = seconds(6);
  EXPECT_EQ(ChooseForStart(holders, claim, seconds(45)).value().id, 1u) << "it is not needed";
}

// Or its requests would be refused before ten times a long start have passed.
TEST(ChooseForStart, WhereRequestsHaveWaitedTooLongTheStartCountsOnce) {
  std::vector<Holder> holders = {{.id = 1, .awake = seconds(94), .change = seconds(5), .load = 0.2}};
  const Claim claim{.load = 0.1, .oldest = minutes(8), .longest_wait = minutes(10)};
  EXPECT_FALSE(ChooseForStart(holders, claim, seconds(45)));
  holders[0].awake = seconds(95);
  EXPECT_TRUE(ChooseForStart(holders, claim, seconds(45)));
}

TEST(MakesRoom, AnIdleHolderDoesAfterItsLeastTime) {
  Holder holder{.awake = seconds(29), .idle = seconds(9), .min_awake = seconds(30), .change = seconds(5)};
  EXPECT_FALSE(MakesRoom(holder, {}));
  holder.awake = seconds(30);
  EXPECT_TRUE(MakesRoom(holder, {}));
}

TEST(MakesRoom, OneThatHadARequestLessThanAChangeAgoIsBusy) {
  Holder holder{.awake = seconds(40), .idle = seconds(5), .min_awake = seconds(30), .change = seconds(5)};
  EXPECT_FALSE(IsIdle(holder));
  EXPECT_FALSE(MakesRoom(holder, {}));
  holder.idle = seconds(6);
  EXPECT_TRUE(IsIdle(holder));
}

TEST(MakesRoom, ABusyHolderKeepsItsTurnForTenTimesWhatTheChangeCosts) {
  const Claim claim{.load = 1};
  Holder holder{.awake = seconds(49), .min_awake = seconds(30), .change = seconds(5)};
  EXPECT_FALSE(MakesRoom(holder, claim));
  holder.awake = seconds(50);
  EXPECT_TRUE(MakesRoom(holder, claim));
  holder.drain = seconds(10);
  EXPECT_FALSE(MakesRoom(holder, claim)) << "it serves nothing new while its last requests end";
  holder.awake = seconds(150);
  EXPECT_TRUE(MakesRoom(holder, claim));
}

TEST(MakesRoom, ABusyHolderKeepsItsDevicesBesideAModelWithLessLoad) {
  const Holder holder{.awake = minutes(60), .min_awake = seconds(30), .change = seconds(5), .load = 0.4};
  Claim claim{.load = 0.4, .longest_wait = minutes(10)};
  EXPECT_FALSE(MakesRoom(holder, claim)) << "each change makes requests of both late";
  claim.load = 0.45;
  EXPECT_FALSE(MakesRoom(holder, claim)) << "that is chance";
  claim.load = 0.6;
  EXPECT_TRUE(MakesRoom(holder, claim));
}

TEST(MakesRoom, AModelWhoseRequestsWaitTooLongGetsATurnWhateverItsLoad) {
  Holder holder{.awake = minutes(60), .min_awake = seconds(30), .change = seconds(5), .load = 0.4};
  Claim claim{.load = 0.01, .oldest = minutes(8) - seconds(1), .longest_wait = minutes(10)};
  EXPECT_FALSE(MakesRoom(holder, claim));
  claim.oldest = minutes(8);
  EXPECT_TRUE(MakesRoom(holder, claim));
  holder.awake = seconds(40);
  EXPECT_FALSE(MakesRoom(holder, claim)) << "the others' turns are not cut short";
}

TEST(MakesRoom, AModelThatAnOperatorWantsGetsATurnWithoutRequests) {
  const Holder holder{.awake = minutes(60), .change = seconds(5), .load = 0.4};
  EXPECT_FALSE(MakesRoom(holder, {}));
  EXPECT_TRUE(MakesRoom(holder, {.is_owed = true}));
}

// Three models that are always busy on one device: each change costs 2 s, so at most a tenth of the time goes
// to changes.
TEST(MakesRoom, ModelsThatAreAllBusyLoseAtMostATenthOfTheDeviceToChanges) {
  const conf::Duration change = seconds(2);
  conf::Duration now{};
  conf::Duration lost{};
  Holder holder{.min_awake = seconds(1), .change = change};
  while (now < minutes(60)) {
    now += seconds(1);
    holder.awake += seconds(1);
    if (!MakesRoom(holder, {.oldest = seconds(9), .longest_wait = seconds(10)})) continue;
    now += change;
    lost += change;
    holder.awake = {};
  }
  EXPECT_LE(lost * 10, now);
  EXPECT_GE(lost * 12, now) << "and all of them get their turns";
}

}  // namespace
}  // namespace scheduler::autoscale
