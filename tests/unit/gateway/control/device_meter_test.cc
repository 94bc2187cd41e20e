#include "gateway/control/metering/device_meter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <tuple>

#include "scheduler/rng.h"

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

HeldDevices On(HeldDevices held, std::vector<HeldPlace> places) {
  held.places = std::move(places);
  return held;
}

int64_t EnergyOf(const std::vector<DeviceRecord>& records, const std::string& tenant,
                 const std::string& model = {}, const std::string& job = {}) {
  int64_t mj = 0;
  for (const DeviceRecord& r : records) {
    if (r.tenant == tenant && r.model == model && r.job == job) mj += r.energy_mj;
  }
  return mj;
}

TEST_F(DeviceMeterTest, EnergyBelongsToTheHoldersOfADeviceAndTheRestIsIdle) {
  Begin(seconds(0));
  const std::vector<HeldDevices> held = {
      On(OfJob("train-1", 1500, seconds(10)), {{"n1", 0, 1000}, {"n1", 1, 500}}),
      On(Replica("r-1", 250, seconds(10)), {{"n1", 1, 250}})};
  meter.Serve(std::vector<ledger::Served>{{"acme", "r-1", 3}, {"beta", "r-1", 1}}, held);
  meter.Draw(
      std::vector<DrawnEnergy>{{"n1", 0, "h100", 1000}, {"n1", 1, "h100", 1000}, {"n1", 2, "h100", 1000}},
      held);
  const std::vector<DeviceRecord> records = Count(held, seconds(60));
  EXPECT_EQ(EnergyOf(records, "acme/research", "", "train-1"), 1500);
  EXPECT_EQ(EnergyOf(records, "acme", "chat"), 187);
  EXPECT_EQ(EnergyOf(records, "beta", "chat"), 63);
  EXPECT_EQ(EnergyOf(records, "(idle)"), 1250);
  EXPECT_THAT(InWords(records), testing::Contains("(idle)  h100 0+60=0"));
  EXPECT_EQ(EnergyOf(Count(held, seconds(120)), "(idle)"), 0) << "once";
}

TEST_F(DeviceMeterTest, WhatAHolderDrewAfterItsLastRecordIsIdle) {
  Begin(seconds(0));
  HeldDevices job = On(OfJob("train-1", 1000, seconds(0)), {{"n1", 0, 1000}});
  meter.Draw(std::vector<DrawnEnergy>{{"n1", 0, "h100", 500}}, std::vector{job});
  EXPECT_EQ(EnergyOf(Count({job}, seconds(30), {.job = "train-1"}), "acme/research", "", "train-1"), 500);
  meter.Draw(std::vector<DrawnEnergy>{{"n1", 0, "h100", 70}}, std::vector{job});
  job.until = At(seconds(30));
  meter.Draw(std::vector<DrawnEnergy>{{"n1", 0, "h100", 7}}, std::vector{job});
  meter.KeepOnly({});
  EXPECT_EQ(EnergyOf(Count({}, seconds(60)), "(idle)"), 77);
}

TEST(DeviceMeterEnergy, HasThePriceAndTheEmissionsOfItsHour) {
  DeviceMeter meter(
      [](conf::TimePoint at) { return at < At(hours(1)) ? EnergyRate{0.5, 400} : EnergyRate{0.25, 100}; });
  meter.GoOn({}, At(seconds(0)));
  for (const auto& [at, usd, grams] : {std::tuple(minutes(30), 500'000, 400), {minutes(90), 250'000, 100}}) {
    const HeldDevices job = On(OfJob("train-1", 1000, at), {{"n1", 0, 1000}});
    meter.Draw(std::vector<DrawnEnergy>{{"n1", 0, "h100", 3'600'000'000}}, std::vector{job});
    const std::vector<DeviceRecord> records = meter.Next(std::vector{job}, {}, At(at + minutes(1)));
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].energy_micro_usd, usd);
    EXPECT_EQ(records[0].co2_mg, grams * 1000);
    meter.Written(records);
  }
}

// Random holders that come and go, share devices and serve tenants; records that are written in parts, and a process
// that is killed: what is written is what the counters say, and a kill loses at most the interval under way.
TEST(DeviceMeterProperty, RecordedEnergyIsTheCountersEnergy) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    scheduler::Rng rng(seed);
    auto meter = std::make_unique<DeviceMeter>();
    meter->GoOn({}, At(seconds(0)));
    std::map<int, HeldDevices> holders;
    int64_t drawn = 0;
    int64_t written = 0;
    int64_t lost = 0;
    int64_t since_whole = 0;  // drawn since the last whole interval was written
    const auto held = [&] {
      std::vector<HeldDevices> all;
      for (const auto& [number, holder] : holders) all.push_back(holder);
      return all;
    };
    const auto write = [&](const std::vector<DeviceRecord>& records) {
      for (const DeviceRecord& record : records) {
        ASSERT_GE(record.energy_mj, 0);
        written += record.energy_mj;
      }
      meter->Written(records);
    };
    for (int second = 1; second <= 1200; ++second) {
      if (rng.Double() < 0.05) {
        const int number = static_cast<int>(rng.Uniform(6));
        if (const auto at = holders.find(number); at != holders.end()) {
          write(meter->Next(held(), {.model = at->second.model, .job = at->second.job}, At(seconds(second))));
          holders.erase(at);
        } else {
          HeldDevices holder = number < 3 ? Replica(fmt::format("r-{}", number), 0, seconds(second))
                                          : OfJob(fmt::format("j-{}", number), 0, seconds(second));
          for (uint8_t device = 0; device < 4; ++device) {
            if (rng.Double() < 0.5) continue;
            holder.places.push_back({"n1", device, static_cast<int64_t>(100 + rng.Uniform(700))});
            holder.milli += holder.places.back().milli;
          }
          if (holder.milli > 0) holders[number] = holder;
        }
      }
      std::vector<DrawnEnergy> energy;
      for (uint8_t device = 0; device < 4; ++device) {
        const auto mj = static_cast<int64_t>(rng.Uniform(700'000));
        energy.push_back({"n1", device, "h100", mj});
        drawn += mj;
        since_whole += mj;
      }
      const std::vector<HeldDevices> now = held();
      meter->Serve(std::vector<ledger::Served>{{"acme", "r-1", rng.Uniform(5)}, {"beta", "r-1", 1}}, now);
      meter->Draw(energy, now);
      if (second % 60 != 0) continue;
      meter->KeepOnly(now);
      std::vector<DeviceRecord> records = meter->Next(now, {}, At(seconds(second)));
      if (rng.Double() < 0.2 && records.size() > 1)
        records.resize(rng.Uniform(records.size()));  // the rest failed
      const bool whole = records.size() == meter->Next(now, {}, At(seconds(second))).size();
      write(records);
      if (whole) since_whole = 0;
      if (rng.Double() < 0.1) {
        const int64_t missing = drawn - lost - written;
        EXPECT_LE(missing, since_whole) << "at most what was not written";
        lost += missing;
        meter = std::make_unique<DeviceMeter>();
        meter->GoOn({}, At(seconds(second)));
      }
    }
    meter->KeepOnly(held());
    write(meter->Next(held(), {}, At(seconds(1260))));
    EXPECT_EQ(written + lost, drawn) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gateway::control
