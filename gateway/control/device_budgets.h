// Time of devices between the control loop, which counts it, the ledger, where it stands, and the tenants'
// budgets in device-hours.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "conf/time.h"
#include "gateway/control/metering.h"
#include "gateway/ledger/ledger.h"
#include "router/limits/tree.h"

namespace gateway {

// The ledger as it is metered into. `opened` is when it was: requests that ended before are asked of its
// index. The ledger outlives it.
std::unique_ptr<control::MeterLedger> MeterLedgerOf(ledger::Ledger& ledger, std::string dir,
                                                    conf::TimePoint opened);

// Charges records that are on disk to the budgets of who pays. Budgets count milliseconds: what is less is
// kept for the next record. One thread.
class DeviceCharges {
 public:
  explicit DeviceCharges(router::limits::LimitTree& limits) : limits_(limits) {}

  void Charge(std::span<const ledger::DeviceRecord> records, conf::TimePoint now);

 private:
  router::limits::LimitTree& limits_;
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> left_us_;  // tenant, model, kind
};

// In a sentence, which budget keeps a tenant from holding more devices of these kinds; empty: none.
std::string WhyDevicesUsedUp(const router::limits::LimitTree& limits, const std::string& tenant,
                             std::span<const std::string> kinds, conf::TimePoint now);

}  // namespace gateway
