// Device time on its way from the control loop, which counts it, through the ledger, which keeps it, to the
// tenants' budgets in device-hours.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "conf/time.h"
#include "gateway/control/metering/metering.h"
#include "gateway/ledger/ledger.h"
#include "router/limits/tree.h"

namespace gateway {

// The ledger, as metering uses it. `opened` is the time when it was opened: requests that ended before that
// time are looked up in its index. The ledger outlives this.
std::unique_ptr<control::MeterLedger> MeterLedgerOf(ledger::Ledger& ledger, std::string dir,
                                                    conf::TimePoint opened);

// Charges durable records to the budgets of the tenants that pay. Budgets count milliseconds; what remains below a
// millisecond is carried to the next record. One thread.
class DeviceCharges {
 public:
  explicit DeviceCharges(router::limits::LimitTree& limits) : limits_(limits) {}

  void Charge(std::span<const ledger::DeviceRecord> records, conf::TimePoint now);

 private:
  router::limits::LimitTree& limits_;
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> left_us_;  // tenant, model, kind
};

// A sentence that names the budget which keeps a tenant from holding more devices of these kinds; empty: none
// does.
std::string WhyDevicesUsedUp(const router::limits::LimitTree& limits, const std::string& tenant,
                             std::span<const std::string> kinds, conf::TimePoint now);

}  // namespace gateway
