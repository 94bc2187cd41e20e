#include "gateway/control/device_meter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::control {
namespace {

using ledger::DeviceRecord;
using ledger::LastHeld;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const conf::TimePoint kNoon = *conf::ParseTime("2027-03-01T12:00:00Z");

conf::TimePoint At(conf::Duration after_noon) {
  return kNoon + after_noon;
}

HeldDevices Replica(const std::string& run, int64_t milli, conf::Duration since,
                    const std::string& kind = "h100") {
  return {.run = run, .model = "chat", .kind = kind, .milli = milli, .since = At(since)};
}

HeldDevices OfJob(const std::string& job, int64_t milli, conf::Duration since) {
  return {.job = job, .tenant = "acme/research", .kind = "h100", .milli = milli, .since = At(since)};
}

// "acme 60+60=120": who, from which second after noon, how long, and the device-seconds.
std::vector<std::string> InWords(const std::vector<DeviceRecord>& records) {
  std::vector<std::string> said;
  for (const DeviceRecord& r : records) {
    said.push_back(fmt::format("{} {}{} {} {:g}+{:g}={:g}", r.tenant, r.model, r.job, r.device,
                               static_cast<double>(r.from_us - conf::ToUnixMicros(kNoon)) * 1e-6,
                               static_cast<double>(r.until_us - r.from_us) * 1e-6,
                               static_cast<double>(r.device_us) * 1e-6));
  }
  return said;
}

int64_t Sum(const std::vector<DeviceRecord>& records) {
  int64_t sum = 0;
  for (const DeviceRecord& record : records) sum += record.device_us;
  return sum;
}

struct DeviceMeterTest : testing::Test {
  void Begin(conf::Duration at, const std::vector<LastHeld>& last = {}) { meter.GoOn(last, At(at)); }
  std::vector<DeviceRecord> Count(const std::vector<HeldDevices>& held, conf::Duration until,
                                  const HeldBy& by = {}) {
    std::vector<DeviceRecord> records = meter.Next(held, by, At(until));
    meter.Written(records);
    return records;
  }

  DeviceMeter meter;
};

TEST_F(DeviceMeterTest, TimeWithoutRequestsBelongsToNoTenant) {
  Begin(seconds(0));
  EXPECT_THAT(InWords(Count({Replica("r-1", 2000, seconds(10))}, seconds(60))),
              ElementsAre("(idle) chat h100 10+50=100"));
  EXPECT_THAT(Count({Replica("r-1", 2000, seconds(10))}, seconds(60)), IsEmpty()) << "once";
}

TEST_F(DeviceMeterTest, AnUnknownEndCountsUntilLastSeenAndAKnownEndIsExact) {
  Begin(seconds(0));
  HeldDevices job = OfJob("train-1", 1000, seconds(10));
  job.alive = At(seconds(50));
  EXPECT_THAT(InWords(Count({job}, seconds(60))), ElementsAre("acme/research train-1 h100 10+40=40"));
  EXPECT_THAT(Count({job}, seconds(61)), IsEmpty()) << "it has not been seen since";
  job.until = At(milliseconds(51'500));
  EXPECT_THAT(InWords(Count({job}, seconds(120))), ElementsAre("acme/research train-1 h100 50+1.5=1.5"));
  // Another replica that was seen earlier goes on until the end of the one that is counted to its end.
  HeldDevices gone = Replica("r-1", 1000, seconds(100));
  gone.until = At(seconds(110));
  HeldDevices goes_on = Replica("r-2", 1000, seconds(100));
  goes_on.alive = At(seconds(109));
  EXPECT_EQ(Sum(Count({gone, goes_on}, seconds(115), {.model = "chat"})), 20'000'000);
}

TEST_F(DeviceMeterTest, TimeCountsUntilTheEndHoweverLateItIsNoticed) {
  Begin(seconds(0));
  HeldDevices ended = OfJob("train-1", 1000, seconds(10));
  ended.until = At(seconds(40));
  EXPECT_THAT(InWords(Count({ended}, minutes(50))), ElementsAre("acme/research train-1 h100 10+30=30"));
  EXPECT_THAT(Count({ended}, minutes(51)), IsEmpty());
  // Of two replicas, the other goes on.
  HeldDevices gone = Replica("r-1", 1000, seconds(0));
  gone.until = At(seconds(20));
  const std::vector<DeviceRecord> both = Count({gone, Replica("r-2", 1000, seconds(0))}, seconds(60));
  EXPECT_EQ(Sum(both), 80'000'000);
}

TEST_F(DeviceMeterTest, ReplicasAreSharedOutByTheTokensOfEachInterval) {
  const std::vector<HeldDevices> held = {Replica("r-1", 1000, seconds(0)), Replica("r-2", 3000, seconds(30))};
  Begin(seconds(0));
  meter.Serve(std::vector<ledger::Served>{{"acme", "r-1", 30}, {"beta", "r-2", 10}, {"acme", "gone", 99}},
              held);
  EXPECT_THAT(InWords(Count(held, seconds(60))),
              ElementsAre("acme chat h100 0+60=112.5", "beta chat h100 0+60=37.5"));
  meter.Serve(std::vector<ledger::Served>{{"beta", "r-1", 1}}, held);
  EXPECT_THAT(InWords(Count(held, seconds(120))), ElementsAre("beta chat h100 60+60=240"))
      << "who came in this minute, and nobody of the last";
  EXPECT_THAT(InWords(Count(held, seconds(180))), ElementsAre("(idle) chat h100 120+60=240"));
}

TEST_F(DeviceMeterTest, KindsAreKeptApartAndEachIsOfThoseThatItServed) {
  const std::vector<HeldDevices> held = {Replica("r-1", 1000, seconds(0)),
                                         Replica("r-2", 2000, seconds(0), "ascend-910b")};
  Begin(seconds(0));
  meter.Serve(std::vector<ledger::Served>{{"acme", "r-1", 5}, {"beta", "r-2", 1}}, held);
  EXPECT_THAT(InWords(Count(held, seconds(60))),
              ElementsAre("beta chat ascend-910b 0+60=120", "acme chat h100 0+60=60"));
}

TEST_F(DeviceMeterTest, PartsSumExactlyToTheHeldTime) {
  for (const int64_t milli : {1, 333, 1000, 7000}) {
    for (const int64_t ms : {1, 7, 59'999, 60'000}) {
      for (const size_t tenants : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{100}}) {
        DeviceMeter one;
        one.GoOn({}, kNoon);
        const std::vector<HeldDevices> held = {Replica("r-1", milli, seconds(0))};
        std::vector<ledger::Served> served;
        for (size_t t = 0; t < tenants; ++t)
          served.push_back({fmt::format("t{}", t), "r-1", (t * 7919) % 1'000'003 + 1});
        one.Serve(served, held);
        const std::vector<DeviceRecord> records = one.Next(held, {}, At(milliseconds(ms)));
        EXPECT_EQ(Sum(records), milli * ms) << milli << " " << ms << " " << tenants;
        for (const DeviceRecord& record : records) EXPECT_EQ(record.held_us, milli * ms);
      }
    }
  }
}

TEST_F(DeviceMeterTest, ATenantThatUsedNextToAllOfAVeryLargeSumIsNotCutShort) {
  const std::vector<HeldDevices> held = {Replica("r-1", 10'000'000, seconds(0))};
  Begin(seconds(0));
  meter.Serve(std::vector<ledger::Served>{{"a", "r-1", uint64_t{1} << 60}, {"b", "r-1", 1}}, held);
  const std::vector<DeviceRecord> records = Count(held, seconds(60));
  EXPECT_EQ(Sum(records), int64_t{10'000'000} * 60'000);
}

TEST_F(DeviceMeterTest, AJobIsItsTenantsWithFractionsOfDevices) {
  Begin(seconds(0));
  EXPECT_THAT(
      InWords(Count({OfJob("train-1", 250, seconds(20)), OfJob("train-2", 8000, seconds(0))}, seconds(60))),
      ElementsAre("acme/research train-1 h100 20+40=10", "acme/research train-2 h100 0+60=480"));
}

TEST_F(DeviceMeterTest, AReleasedDeviceIsCountedAloneAndItsNextHolderContinuesFromThere) {
  const std::vector<HeldDevices> both = {Replica("r-1", 1000, seconds(0)),
                                         OfJob("train-1", 1000, seconds(0))};
  Begin(seconds(0));
  EXPECT_THAT(InWords(Count(both, seconds(20), {.model = {}, .job = "train-1"})),
              ElementsAre("acme/research train-1 h100 0+20=20"));
  const std::vector<HeldDevices> next = {Replica("r-1", 1000, seconds(0)),
                                         OfJob("train-1", 2000, seconds(25))};
  meter.KeepOnly(next);
  EXPECT_THAT(InWords(Count(next, seconds(60))),
              ElementsAre("acme/research train-1 h100 25+35=70", "(idle) chat h100 0+60=60"));
}

TEST_F(DeviceMeterTest, IntervalsNeverSpanAnHour) {
  Begin(minutes(0));
  const std::vector<DeviceRecord> records = Count({Replica("r-1", 1000, minutes(59))}, minutes(185));
  EXPECT_THAT(InWords(records),
              ElementsAre("(idle) chat h100 3540+60=60", "(idle) chat h100 3600+3600=3600",
                          "(idle) chat h100 7200+3600=3600", "(idle) chat h100 10800+300=300"));
}

TEST_F(DeviceMeterTest, TimeWithoutAGatewayIsCountedByTheNextAndIsIdleAfterAMinute) {
  Begin(hours(2) + seconds(30), {{.model = "chat",
                                  .job = "",
                                  .device = "h100",
                                  .from_us = conf::ToUnixMicros(kNoon),
                                  .until_us = conf::ToUnixMicros(At(seconds(10))),
                                  .held_us = 10'000'000,
                                  .device_us = 10'000'000}});
  const std::vector<HeldDevices> held = {Replica("r-1", 1000, seconds(0))};
  EXPECT_EQ(meter.GoesOnAt(held), At(seconds(10)));
  meter.Serve(std::vector<ledger::Served>{{"acme", "r-1", 5}}, held);
  EXPECT_THAT(InWords(Count(held, hours(2) + seconds(30))),
              ElementsAre("acme chat h100 10+50=50", "(idle) chat h100 60+3540=3540",
                          "(idle) chat h100 3600+3600=3600", "(idle) chat h100 7200+30=30"));
  meter.Serve(std::vector<ledger::Served>{{"beta", "r-1", 5}}, held);
  EXPECT_THAT(InWords(Count(held, hours(2) + minutes(1))), ElementsAre("beta chat h100 7230+30=30"));
}

TEST_F(DeviceMeterTest, MissingRecordsOfAnIntervalAreCompletedAfterACrash) {
  const std::vector<DeviceRecord> missing =
      meter.GoOn(std::vector<LastHeld>{{.model = "chat",
                                        .job = "",
                                        .device = "h100",
                                        .from_us = conf::ToUnixMicros(kNoon),
                                        .until_us = conf::ToUnixMicros(At(seconds(60))),
                                        .held_us = 60'000'000,
                                        .device_us = 25'000'000},
                                       {.model = "embed",
                                        .job = "",
                                        .device = "h100",
                                        .from_us = conf::ToUnixMicros(kNoon),
                                        .until_us = conf::ToUnixMicros(At(seconds(60))),
                                        .held_us = 60'000'000,
                                        .device_us = 60'000'000}},
                 At(seconds(61)));
  EXPECT_THAT(InWords(missing), ElementsAre("(idle) chat h100 0+60=35"));
}

TEST_F(DeviceMeterTest, AClockThatWasPutBackStopsNothingAndCountsNothingTwice) {
  // The process before this one was an hour ahead.
  Begin(seconds(0), {{.model = "chat",
                      .job = "",
                      .device = "h100",
                      .from_us = conf::ToUnixMicros(At(minutes(59))),
                      .until_us = conf::ToUnixMicros(At(hours(1))),
                      .held_us = 60'000'000,
                      .device_us = 60'000'000}});
  const std::vector<HeldDevices> held = {Replica("r-1", 1000, -minutes(5))};
  EXPECT_EQ(meter.GoesOnAt(held), kNoon);
  EXPECT_THAT(InWords(Count(held, seconds(60))), ElementsAre("(idle) chat h100 0+60=60"));
}

}  // namespace
}  // namespace gateway::control
