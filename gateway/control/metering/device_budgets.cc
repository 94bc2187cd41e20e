#include "gateway/control/metering/device_budgets.h"

#include <fmt/format.h>

#include <utility>

#include "router/limits/reservation.h"

namespace gateway {
namespace {

namespace limits = router::limits;

class OfLedger final : public control::MeterLedger {
 public:
  OfLedger(ledger::Ledger& ledger, std::string dir, conf::TimePoint opened)
      : ledger_(ledger), dir_(std::move(dir)), opened_(opened) {}

  absl::StatusOr<std::vector<ledger::LastHeld>> Last() override {
    if (absl::Status flushed = ledger_.Flush(); !flushed.ok()) return flushed;
    return ledger::LastDevices(dir_);
  }

  absl::StatusOr<std::vector<ledger::Served>> TakeServed() override { return ledger_.TakeServed(); }

  absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint since) override {
    std::vector<ledger::Served> served;
    if (since >= opened_) return served;
    ledger::UsageQuery query;
    query.by = {ledger::UsageBy::kTenant, ledger::UsageBy::kReplica};
    query.since_us = conf::ToUnixMicros(since);
    query.until_us = conf::ToUnixMicros(opened_);
    const absl::StatusOr<std::vector<ledger::UsageRow>> rows = ledger::QueryUsage(dir_, query);
    if (!rows.ok()) return rows.status();
    for (const ledger::UsageRow& row : *rows) {
      served.push_back(
          {row.group[0], row.group[1],
           ledger::DeviceWeight(static_cast<uint64_t>(row.input), static_cast<uint64_t>(row.cached),
                                static_cast<uint64_t>(row.output))});
    }
    return served;
  }

  absl::Status Append(std::vector<ledger::DeviceRecord> records) override {
    return ledger_.Append(std::move(records));
  }

 private:
  ledger::Ledger& ledger_;
  const std::string dir_;
  const conf::TimePoint opened_;
};

}  // namespace

std::unique_ptr<control::MeterLedger> MeterLedgerOf(ledger::Ledger& ledger, std::string dir,
                                                    conf::TimePoint opened) {
  return std::make_unique<OfLedger>(ledger, std::move(dir), opened);
}

void DeviceCharges::Charge(std::span<const ledger::DeviceRecord> records, conf::TimePoint now) {
  for (const ledger::DeviceRecord& record : records) {
    const limits::NodeRef node = limits_.Resolve(record.tenant);
    if (!node) continue;
    int64_t& left_us = left_us_[{record.tenant, record.model, record.device}];
    left_us += record.device_us;
    const int64_t ms = left_us / 1000;
    left_us %= 1000;
    const limits::ModelRef model =
        record.model.empty() ? limits::ModelRef::kUnnamed : limits_.Model(record.model);
    limits::ChargeDevices(node, model, record.device, ms, conf::FromUnixMicros(record.from_us), now);
  }
}

std::string WhyDevicesUsedUp(const limits::LimitTree& limits, const std::string& tenant,
                             std::span<const std::string> kinds, conf::TimePoint now) {
  const limits::NodeRef node = limits.Resolve(tenant);
  if (!node) return {};
  const std::optional<limits::Refusal> refusal = limits::DevicesUsedUp(node, kinds, now);
  if (!refusal) return {};
  return fmt::format("{}; it starts again at {}", refusal->Message(),
                     conf::FormatTime(now + refusal->retry_after));
}

}  // namespace gateway
