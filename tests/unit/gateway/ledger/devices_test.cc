// Device time in the ledger: the records, their sums, retention, a rebuilt index, and the tenants that replicas
// served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/ledger/export.h"
#include "gateway/ledger/index.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kNoon = 490'000 * kHour;

DeviceRecord Devices(const std::string& tenant, int64_t from_us, int64_t until_us, int64_t device_us,
                     int64_t held_us) {
  return {.from_us = from_us,
          .until_us = until_us,
          .tenant = tenant,
          .model = "chat",
          .job = "",
          .device = "h100",
          .device_us = device_us,
          .held_us = held_us,
          .weight = tenant == kIdle ? 0u : 7u};
}

class DevicesTest : public ::testing::Test {
 protected:
  void Start() {
    Options options = SmallOptions(dir_);
    options.counts_served = true;
    ledger_ = MustOpen(options);
  }
  void Restart() {
    ledger_.reset();
    Start();
  }
  void Append(std::vector<DeviceRecord> records) {
    const absl::Status appended = ledger_->Append(std::move(records));
    ASSERT_TRUE(appended.ok()) << appended;
  }
  std::vector<UsageRow> Ask(const UsageQuery& query) {
    absl::StatusOr<std::vector<UsageRow>> rows = QueryUsage(dir_, query);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? *rows : std::vector<UsageRow>{};
  }
  void ForgetIndex() { EXPECT_TRUE(Index::Remove(dir_).ok()); }

  TempDir tmp_;
  const std::string dir_ = tmp_.Sub("ledger");
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(DevicesTest, AreInTheChainUnchangedAndVerify) {
  Start();
  Append({Devices("acme/search", kNoon, kNoon + kMinute, 40 * kSecond, kMinute),
          Devices(std::string(kIdle), kNoon, kNoon + kMinute, 20 * kSecond, kMinute)});
  ledger_.reset();
  std::string lines;
  ASSERT_TRUE(Export(dir_, {.kinds = {Kind::kDevices}}, [&](std::string_view text) {
                lines += text;
                return true;
              }).ok());
  EXPECT_THAT(lines,
              testing::HasSubstr(
                  R"("kind":"devices","until_us":1764000060000000,"tenant":"acme/search","model":"chat",)"
                  R"("device":"h100","device_us":40000000,"held_us":60000000,"weight":7,"chain":)"));
  EXPECT_THAT(lines, testing::HasSubstr(R"x("tenant":"(idle)")x"));
  std::string csv = CsvHeader();
  Record record;
  RecordParser parser;
  ASSERT_TRUE(parser.Parse(Lines(lines).at(0), &record).ok());
  EXPECT_EQ(record.time_us, kNoon);
  EXPECT_EQ(record.device_us, 40 * kSecond);
  AppendCsv(&csv, record);
  EXPECT_THAT(csv, testing::HasSubstr(",h100,1764000060000000,40000000,60000000,7,0,0,0,,\r\n"));
  const VerifyReport report = MustVerify(dir_);
  EXPECT_TRUE(report.ok()) << Why(report);
}

TEST_F(DevicesTest, UsageShowsThemBesideTokensAndByKind) {
  Start();
  OpenRecord open = SomeOpen("req_1");
  open.tenant = "acme";
  open.model = "chat";
  open.time_us = kNoon;
  CloseRecord close = SomeClose();
  close.time_us = kNoon + kSecond;
  ledger_->Shard(0).Open(open)->Close(close);
  DeviceRecord ascend = Devices("acme", kNoon, kNoon + kMinute, 5 * kSecond, 5 * kSecond);
  ascend.device = "ascend-910b";
  DeviceRecord job = Devices("acme", kNoon + kHour, kNoon + kHour + kMinute, kMinute, kMinute);
  job.model = "";
  job.job = "train-1";
  Append({Devices("acme", kNoon, kNoon + kMinute, 40 * kSecond, kMinute), ascend, job,
          Devices(std::string(kIdle), kNoon, kNoon + kMinute, 20 * kSecond, kMinute)});

  const std::vector<UsageRow> rows = Ask({.by = {UsageBy::kTenant, UsageBy::kModel}});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0].group, ElementsAre("(idle)", "chat"));
  EXPECT_EQ(rows[0].requests, 0);
  EXPECT_THAT(rows[1].group, ElementsAre("acme", ""));
  EXPECT_THAT(rows[1].device_us, ElementsAre(Pair("h100", kMinute)));
  EXPECT_THAT(rows[2].group, ElementsAre("acme", "chat"));
  EXPECT_EQ(rows[2].requests, 1);
  EXPECT_EQ(rows[2].input, 100);
  EXPECT_THAT(rows[2].device_us, ElementsAre(Pair("ascend-910b", 5 * kSecond), Pair("h100", 40 * kSecond)));

  const std::vector<UsageRow> all = Ask({});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].requests, 1);
  EXPECT_THAT(all[0].device_us, ElementsAre(Pair("ascend-910b", 5 * kSecond), Pair("h100", 2 * kMinute)));
  EXPECT_THAT(Ask({.tenant = "acme"}).at(0).device_us.at("h100"), kMinute + 40 * kSecond);
  EXPECT_EQ(Ask({.by = {UsageBy::kJob}}).at(1).group, std::vector<std::string>{"train-1"});
  EXPECT_EQ(Ask({.by = {UsageBy::kHour}}).size(), 2u);
  // An interval counts where it begins, even if a query's window cuts its minute.
  EXPECT_THAT(Ask({.since_us = kNoon, .until_us = kNoon + 1}).at(0).device_us.at("h100"), kMinute);
  EXPECT_THAT(Ask({.since_us = kNoon + 1, .until_us = kNoon + kMinute - 1}).at(0).device_us, IsEmpty());
}

TEST_F(DevicesTest, UsageShowsEnergyItsCostAndItsEmissions) {
  Start();
  DeviceRecord used = Devices("acme", kNoon, kNoon + kMinute, 40 * kSecond, kMinute);
  used.energy_mj = 28'000'000;
  used.energy_micro_usd = 1944;
  used.co2_mg = 3111;
  DeviceRecord idle;  // of devices that nobody holds
  idle.from_us = kNoon;
  idle.until_us = kNoon + kMinute;
  idle.tenant = kIdle;
  idle.device = "h100";
  idle.energy_mj = 4'200'000;
  Append({used, Devices(std::string(kIdle), kNoon, kNoon + kMinute, 20 * kSecond, kMinute), idle});
  for (int i = 0; i < 2; ++i) {
    const std::vector<UsageRow> rows = Ask({.by = {UsageBy::kTenant, UsageBy::kModel}});
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_THAT(rows[0].group, ElementsAre("(idle)", ""));
    EXPECT_EQ(rows[0].energy_mj, 4'200'000);
    EXPECT_THAT(rows[0].device_us, IsEmpty());
    EXPECT_EQ(rows[2].energy_mj, 28'000'000);
    EXPECT_EQ(rows[2].energy_micro_usd, 1944);
    EXPECT_EQ(rows[2].co2_mg, 3111);
    EXPECT_EQ(Ask({}).at(0).energy_mj, 32'200'000);
    EXPECT_EQ(Ask({.since_us = kNoon, .until_us = kNoon + 1}).at(0).energy_mj, 32'200'000);
    ForgetIndex();
  }
  ledger_.reset();
  const VerifyReport report = MustVerify(dir_);
  EXPECT_TRUE(report.ok()) << Why(report);
}

TEST_F(DevicesTest, ARebuiltIndexKnowsTheLastIntervals) {
  Start();
  EXPECT_THAT(*LastDevices(dir_), IsEmpty());
  Append({Devices("acme", kNoon, kNoon + kMinute, 40 * kSecond, kMinute),
          Devices(std::string(kIdle), kNoon, kNoon + kMinute, 20 * kSecond, kMinute)});
  Append({Devices("acme", kNoon + kMinute, kNoon + 2 * kMinute, 10 * kSecond, kMinute),
          Devices("beta", kNoon + kMinute, kNoon + 2 * kMinute, 10 * kSecond, kMinute)});
  for (int i = 0; i < 2; ++i) {
    const std::vector<LastHeld> last = *LastDevices(dir_);
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last[0].model, "chat");
    EXPECT_EQ(last[0].from_us, kNoon + kMinute);
    EXPECT_EQ(last[0].until_us, kNoon + 2 * kMinute);
    EXPECT_EQ(last[0].held_us, kMinute);
    EXPECT_EQ(last[0].device_us, 20 * kSecond) << "the process died after two of its records";
    ForgetIndex();
  }
}

TEST_F(DevicesTest, DeviceTimeOfRemovedSegmentsCountsForBudgets) {
  const auto now = conf::FromUnixMicros(kNoon + 10 * kHour);
  Options options = SmallOptions(dir_);
  options.segment_bytes = 4096;
  options.retain_bytes = 12'000;
  options.retention_interval = conf::Duration::zero();
  options.clock = [now] { return now; };
  ledger_ = MustOpen(options);
  constexpr int kTimes = 200;
  for (int i = 0; i < kTimes; ++i) {
    const int64_t from = kNoon + i * kMinute;
    Append({Devices("acme", from, from + kMinute, 40 * kSecond, kMinute),
            Devices(std::string(kIdle), from, from + kMinute, 20 * kSecond, kMinute)});
  }
  ASSERT_TRUE(ledger_->Stop().ok());
  EXPECT_GT(ListSegments(dir_)->at(0).first_seq, 100u) << "segments were removed";
  for (int i = 0; i < 2; ++i) {
    int64_t acme = 0;
    const auto spent = SpentSince(dir_, conf::FromUnixMicros(kNoon / (24 * kHour) * 24 * kHour));
    ASSERT_TRUE(spent.ok()) << spent.status();
    for (const SpendRow& row : *spent) {
      if (row.tenant != "acme") continue;
      EXPECT_EQ(row.device, "h100");
      EXPECT_EQ(row.model, "chat");
      acme += row.device_us;
    }
    EXPECT_EQ(acme, kTimes * 40 * kSecond);
    ForgetIndex();
  }
}

TEST_F(DevicesTest, ServedTokensAreReportedOnceIncludingRunningRequests) {
  Start();
  OpenRecord open = SomeOpen("req_1");
  open.tenant = "acme";
  std::optional<Ticket> stream = ledger_->Shard(0).Open(open);
  stream->SetReplica("r-chat-1");
  stream->Progress({.input = 100, .cached = 40, .output = 5});
  CloseRecord close = SomeClose();
  close.replica = "r-chat-2";
  open.tenant = "beta";
  ledger_->Shard(0).Open(open)->Close(close);
  const auto told = [&] {
    std::vector<std::string> out;
    const auto served = ledger_->TakeServed();
    if (!served.ok()) return out;
    for (const Served& one : *served)
      out.push_back(one.tenant + " " + one.replica + " " + std::to_string(one.weight));
    return out;
  };
  EXPECT_THAT(told(), ElementsAre("acme r-chat-1 80", "beta r-chat-2 140")) << "60 + 4 * 5, 60 + 4 * 20";
  EXPECT_THAT(told(), IsEmpty());
  stream->Progress({.input = 100, .cached = 40, .output = 8});
  EXPECT_THAT(told(), ElementsAre("acme r-chat-1 12"));
  close.replica = "r-chat-1";
  close.counts.output = 10;
  stream->Close(close);
  EXPECT_THAT(told(), ElementsAre("acme r-chat-1 8")) << "the use since the last report";
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(DevicesTest, ServedTokensOfAnEarlierProcessComeFromTheIndexOnce) {
  Start();
  OpenRecord open = SomeOpen("req_1");
  CloseRecord close = SomeClose();
  close.replica = "r-chat-1";
  ledger_->Shard(0).Open(open)->Close(close);
  Restart();
  EXPECT_THAT(*ledger_->TakeServed(), IsEmpty());
  const std::vector<UsageRow> rows = Ask({.by = {UsageBy::kTenant, UsageBy::kReplica}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].group, ElementsAre("acme/search", "r-chat-1"));
}

}  // namespace
}  // namespace gateway::ledger
