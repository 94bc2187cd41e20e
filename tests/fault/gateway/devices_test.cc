// Device time through the real gateway: the time of a replica and of a job is in the ledger to the
// millisecond, kills included, and a used-up budget in device-hours ends its work.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::HasSubstr;

constexpr milliseconds kLong{40'000};
constexpr std::string_view kCluster = "cluster: [{kind: gpu, count: 8}]";
constexpr std::string_view kTwoGpus = "placement: {devices: [{kind: gpu, count: 2}]}\n";

std::vector<Record> Devices(const GatewayProcess& gateway) {
  std::vector<Record> devices;
  for (Record& record : gateway.Records()) {
    if (record.kind == Kind::kDevices) devices.push_back(std::move(record));
  }
  return devices;
}

// Whose intervals follow each other without a gap and overlap nowhere, and whose parts are all that was held.
struct Line {
  int64_t from_us = 0;
  int64_t until_us = 0;
  int64_t held_us = 0;
  bool whole = true;
};
Line LineOf(const std::vector<Record>& devices, const std::string& model, const std::string& job) {
  std::map<int64_t, std::vector<const Record*>> intervals;
  for (const Record& record : devices) {
    if (record.model == model && record.job == job) intervals[record.time_us].push_back(&record);
  }
  Line line;
  for (const auto& [from, records] : intervals) {
    int64_t parts = 0;
    for (const Record* record : records) {
      parts += record->device_us;
      line.whole &= record->held_us == records[0]->held_us && record->until_us == records[0]->until_us;
    }
    line.whole &= parts == records[0]->held_us;
    if (line.until_us != 0) line.whole &= from == line.until_us;
    if (line.from_us == 0) line.from_us = from;
    line.until_us = records[0]->until_us;
    line.held_us += records[0]->held_us;
  }
  return line;
}

int64_t TimeOf(const GatewayProcess& gateway, std::string_view action) {
  for (const Record& record : gateway.Records()) {
    if (record.action == action) return record.time_us;
  }
  return 0;
}

double Seconds(int64_t us) {
  return static_cast<double>(us) * 1e-6;
}

TEST(Devices, UsageShowsTheHoursOfAReplicaBesideTheTokensItServed) {
  const Scaled scaled({.more = std::string(kTwoGpus)}, std::string(kCluster));
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: first\r\n")).status, 200);
  ASSERT_TRUE(scaled.Becomes(0, "ready")) << scaled.Replicas();
  const std::vector<Record> devices = Devices(scaled.gateway);
  const Line line = LineOf(devices, "chat-small", "");
  EXPECT_TRUE(line.whole);
  EXPECT_EQ(line.held_us, 2 * (line.until_us - line.from_us));
  EXPECT_GE(line.from_us + 1000, scaled.gateway.CloseOf("first").open_time_us) << "for this request";
  EXPECT_LE(line.from_us, TimeOf(scaled.gateway, "replica.ready")) << "held before it served";
  EXPECT_GE(line.until_us + 1000, TimeOf(scaled.gateway, "replica.stop")) << "held until it had stopped";
  int64_t demo = 0;
  for (const Record& record : devices) demo += record.tenant == "demo" ? record.device_us : 0;
  EXPECT_GT(demo, 0);

  const Json usage = scaled.Admin("/admin/v1/usage?by=model")["data"][0];
  EXPECT_EQ(usage["requests"], 1);
  EXPECT_DOUBLE_EQ(usage["device_seconds"]["gpu"], Seconds(line.held_us));
  const CliResult table = RunCli({"usage", "--config", scaled.gateway.config_path()});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("gpu (HOURS)"));
  EXPECT_THAT(table.out, HasSubstr(fmt::format("{:.4f}", Seconds(demo) / 3600)));
  const CliResult csv =
      RunCli({"usage", "--config", scaled.gateway.config_path(), "--by", "model", "--format", "csv"});
  EXPECT_THAT(csv.out, HasSubstr("cost_micro_usd,device_seconds gpu\r\n"));
  EXPECT_THAT(csv.out, HasSubstr(fmt::format(",{:.6f}\r\n", Seconds(line.held_us))));
  EXPECT_NEAR(
      scaled.gateway
          .Metric("tidegate_device_seconds_total{tenant=\"demo\",model=\"chat-small\",device_kind=\"gpu\"}")
          .value_or(0),
      Seconds(demo), 1e-6);
  EXPECT_TRUE(scaled.gateway.Verify().ok());
}

TEST(Devices, AReplicaHoldsThemWhileTheGatewayIsDeadAndNothingIsCountedTwice) {
  Scaled scaled({.replicas = "{min: 1, max: 1}", .more = std::string(kTwoGpus)}, std::string(kCluster));
  ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
  ASSERT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  for (int kill = 0; kill < 3; ++kill) {
    scaled.gateway.Kill();
    Pause(milliseconds(700));
    scaled.gateway.Start();
    ASSERT_TRUE(scaled.Becomes(1, "ready")) << scaled.Replicas();
    ASSERT_TRUE(Within(kLong, [&] {
      return LineOf(Devices(scaled.gateway), "chat-small", "").until_us >
             TimeOf(scaled.gateway, "replica.launch");
    }));
  }
  EXPECT_EQ(scaled.Names("replica.launch"), 1);
  ASSERT_EQ(scaled.gateway.Stop(kLong), 0);
  const std::vector<Record> devices = Devices(scaled.gateway);
  const Line line = LineOf(devices, "chat-small", "");
  EXPECT_TRUE(line.whole);
  EXPECT_EQ(line.held_us, 2 * (line.until_us - line.from_us)) << "every moment once, dead or alive";
  EXPECT_LE(line.from_us, TimeOf(scaled.gateway, "replica.ready")) << "held before it served";
  EXPECT_GE(line.until_us + 1000, TimeOf(scaled.gateway, "replica.stop"));
  EXPECT_GT(line.held_us, 2 * 3 * 700'000);
  EXPECT_TRUE(scaled.gateway.Verify().ok());
}

// A tenant whose budget pays for less than a second of two devices.
class DeviceBudget : public testing::Test {
 protected:
  DeviceBudget()
      : scaled_({.more = std::string(kTwoGpus)}, std::string(kCluster),
                {.replicas = {}, .tenant = "budget: {device_hours: 0.0004, device: gpu, period: month}"}) {}
  ~DeviceBudget() override { EXPECT_TRUE(commands_.CancelAll()); }

  CliResult Tidegate(std::vector<std::string> args) const { return commands_.Run(std::move(args)); }
  CliResult Submit() {
    const std::string file = folder_ / "job.yaml";
    std::ofstream(file) << "name: work\ntenant: demo\ncommand: [/bin/sleep, \"1000\"]\n"
                        << "devices: [{kind: gpu, count: 8}]\n";
    return Tidegate({"jobs", "submit", file});
  }
  std::string StateOf(const std::string& id) const { return commands_.StateOf(id); }
  Json Limit() const { return scaled_.Admin("/admin/v1/limits?tenant=demo")["data"][0]; }
  void Budget(const std::string& from, const std::string& to) {
    std::string text = ReadFile(scaled_.gateway.config_path());
    const size_t at = text.find("device_hours: " + from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, 14 + from.size(), "device_hours: " + to);
    std::ofstream(scaled_.gateway.config_path()) << text;
    scaled_.gateway.Reload();
  }

  TempDir folder_;
  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
};

TEST_F(DeviceBudget, ThatIsUsedUpRefusesRequestsAndJobsAlsoAfterARestartUntilItGrows) {
  ASSERT_EQ(scaled_.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  // A minute that ends meanwhile leaves what is held after it to nobody.
  ASSERT_TRUE(Within(kLong, [&] {
    if (scaled_.Becomes(0, "ready") && Limit()["used"] >= 1440) return true;
    scaled_.gateway.Ask(Chat({{"max_tokens", 3}}));
    return false;
  })) << "what it held is charged";
  const int launches = scaled_.Names("replica.launch");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Within(kLong, [&] { return Tidegate({"jobs", "list"}).code == 0; })) << "it knows what runs";
    const Answer refused = scaled_.gateway.Ask(Chat({{"max_tokens", 3}}));
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.code(), "insufficient_quota");
    EXPECT_EQ(refused.header("x-should-retry"), "false");
    EXPECT_THAT(refused.body, HasSubstr("demo: device_budget_per_month is 0.0004 device-hours of gpu, 0.0"));
    const CliResult job = Submit();
    EXPECT_NE(job.code, 0);
    EXPECT_THAT(job.err, HasSubstr("device_budget_per_month"));
    if (i == 0) scaled_.gateway.Restart();
  }
  const Json limit = Limit();
  EXPECT_EQ(limit["device"], "gpu");
  EXPECT_EQ(limit["unit"], "device_milliseconds");
  EXPECT_EQ(limit["capacity"], 1440);
  EXPECT_GE(limit["used"], 1440);
  EXPECT_EQ(scaled_.Names("replica.launch"), launches) << "nothing is started for who is refused";
  Budget("0.0004", "1000");
  EXPECT_EQ(scaled_.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
}

TEST_F(DeviceBudget, ThatIsUsedUpKeepsAJobFromStartingAndSaysSo) {
  Budget("0.0004", "1000");
  ASSERT_TRUE(Within(kLong, [&] { return Tidegate({"jobs", "list"}).code == 0; })) << "it knows what runs";
  const CliResult first = Submit();
  ASSERT_EQ(first.code, 0) << first.err;
  const CliResult second = Submit();
  ASSERT_EQ(second.code, 0) << second.err;
  const std::string runs = first.out.substr(0, first.out.find('\n'));
  const std::string waits = second.out.substr(0, second.out.find('\n'));
  ASSERT_TRUE(Within(kLong, [&] { return StateOf(runs) == "running"; }));
  Pause(milliseconds(500));  // four device-seconds, which is more than there will be
  ASSERT_EQ(Tidegate({"jobs", "suspend", runs}).code, 0);
  ASSERT_TRUE(Within(kLong, [&] { return StateOf(waits) == "running"; }));
  ASSERT_EQ(Tidegate({"jobs", "resume", runs}).code, 0);
  Budget("1000", "0.0004");
  ASSERT_TRUE(Within(kLong, [&] {
    return Tidegate({"jobs", "explain", runs}).out.find("It is not placed: demo: device_budget_per_month") !=
           std::string::npos;
  })) << Tidegate({"jobs", "explain", runs}).out;
  ASSERT_EQ(Tidegate({"jobs", "cancel", waits}).code, 0);
  ASSERT_TRUE(Within(kLong, [&] { return StateOf(waits) == "cancelled"; }));
  EXPECT_FALSE(Within(milliseconds(1500), [&] { return StateOf(runs) != "pending"; }));
  Budget("0.0004", "1000");
  EXPECT_TRUE(Within(kLong, [&] { return StateOf(runs) == "running"; }))
      << Tidegate({"jobs", "explain", runs}).out;
  ASSERT_EQ(Tidegate({"jobs", "cancel", runs}).code, 0);
  ASSERT_TRUE(Within(kLong, [&] { return StateOf(runs) == "cancelled"; }));

  const std::vector<Record> devices = Devices(scaled_.gateway);
  int64_t jobs = 0;
  for (const Record& record : devices) {
    EXPECT_EQ(record.tenant, "demo");
    jobs += record.job == runs ? record.device_us : 0;
  }
  EXPECT_GT(jobs, 8 * 500'000) << "both times that it ran";
  const Line line = LineOf(devices, "", waits);
  EXPECT_TRUE(line.whole);
  EXPECT_EQ(line.held_us, 8 * (line.until_us - line.from_us));
  const Json usage = scaled_.Admin("/admin/v1/usage?by=job")["data"];
  for (const Json& row : usage) {
    if (row["job"] == runs) EXPECT_DOUBLE_EQ(row["device_seconds"]["gpu"], Seconds(jobs));
  }
}

}  // namespace
}  // namespace tests
