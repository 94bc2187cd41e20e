// Metering over a ledger that does not always say what became of a write.
#include "gateway/control/metering/metering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "tests/support/loop_test.h"

namespace gateway::control {
namespace {

using ledger::DeviceRecord;
using tests::TestLoop;

enum class Write { kWorks, kFails, kIsNotConfirmed, kIsCut };

struct Disk {
  std::vector<DeviceRecord> records;
  Write write = Write::kWorks;
  std::vector<ledger::Served> served;
};

class ShakyLedger final : public MeterLedger {
 public:
  explicit ShakyLedger(Disk& disk) : disk_(disk) {}

  absl::StatusOr<std::vector<ledger::LastHeld>> Last() override {
    std::vector<ledger::LastHeld> last;
    for (const DeviceRecord& record : disk_.records) {
      if (last.empty() || last[0].from_us != record.from_us) {
        last = {{.model = record.model,
                 .job = record.job,
                 .device = record.device,
                 .from_us = record.from_us,
                 .until_us = record.until_us,
                 .held_us = record.held_us}};
      }
      last[0].device_us += record.device_us;
    }
    return last;
  }
  absl::StatusOr<std::vector<ledger::Served>> TakeServed() override {
    return std::exchange(disk_.served, {});
  }
  absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint) override {
    return std::vector<ledger::Served>();
  }
  absl::Status Append(std::vector<DeviceRecord> records) override {
    const Write write = std::exchange(disk_.write, Write::kWorks);
    if (write == Write::kFails) return absl::UnavailableError("disk full");
    if (write == Write::kIsCut) records.resize(1);
    for (DeviceRecord& record : records) disk_.records.push_back(std::move(record));
    return write == Write::kWorks ? absl::OkStatus() : absl::UnavailableError("not in time");
  }

 private:
  Disk& disk_;
};

TEST(Metering, CountsEveryMomentOnceWhateverBecomesOfAWrite) {
  for (const Write write : {Write::kWorks, Write::kFails, Write::kIsNotConfirmed, Write::kIsCut}) {
    tests::RunOnLoop([write](TestLoop& loop) -> net::Task<void> {
      Disk disk;
      std::vector<HeldDevices> held;
      int64_t charged = 0;
      Metering metering(
          loop, std::make_unique<ShakyLedger>(disk), [&] { return held; },
          [&](std::span<const DeviceRecord> records) {
            for (const DeviceRecord& record : records) charged += record.device_us;
          });
      // Within one minute: there is one interval to a write.
      const auto in_minute = [] { return net::Now() - DeviceMeter::MinuteOf(net::Now()); };
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return in_minute() < std::chrono::seconds(58); }));
      const conf::TimePoint since = net::Now();
      held.push_back({.run = "r-1", .model = "chat", .kind = "h100", .milli = 2000, .since = since});
      EXPECT_TRUE(co_await tests::Eventually(
          loop, [&] { return net::Now() - since > std::chrono::milliseconds(20); }));
      disk.served = {{"acme", "r-1", 10}, {"beta", "r-1", 30}};
      disk.write = write;
      EXPECT_EQ(co_await metering.UpToNow(HeldBy()), write == Write::kWorks);
      EXPECT_TRUE(co_await tests::Eventually(
          loop, [&] { return net::Now() - since > std::chrono::milliseconds(40); }));
      EXPECT_TRUE(co_await metering.UpToNow(HeldBy()));

      int64_t sum = 0;
      std::map<std::string, int64_t> by_tenant;
      for (const DeviceRecord& record : disk.records) {
        sum += record.device_us;
        by_tenant[record.tenant] += record.device_us;
      }
      const int64_t from_us = disk.records.front().from_us;
      EXPECT_EQ(sum, 2 * (disk.records.back().until_us - from_us)) << static_cast<int>(write);
      EXPECT_EQ(charged, sum) << "and each is told of once";
      EXPECT_GT(by_tenant["acme"], 0) << static_cast<int>(write);
      EXPECT_EQ(by_tenant.contains("beta"), write != Write::kIsCut) << "its part was not written";
      int64_t totals = 0;
      for (const auto& [of, us] : metering.totals()) totals += us;
      EXPECT_EQ(totals, sum);
      metering.Close();
    });
  }
}

}  // namespace
}  // namespace gateway::control
