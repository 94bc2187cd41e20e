// Metering: writes down whose the devices are that replicas and jobs hold: once a minute, and before any are
// given back.
//
// What is counted is what the plan has given, from when it is asked for until it is given back, a restart of
// the gateway in between included. Everything follows from the ledger: who was served (DeviceMeter says how
// that is shared out), and where to go on, after a start and after a write of which nobody knows whether it
// came about. While the ledger cannot write, nothing is given back, and nothing is lost.
//
// Owner: the ControlLoop. Thread: the control loop's; the ledger is asked on another.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gateway/control/device_meter.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/loop.h"

namespace gateway::control {

// What it asks of the ledger; these block.
struct MeterLedger {
  virtual ~MeterLedger() = default;
  // All that was recorded before is decided when it returns.
  virtual absl::StatusOr<std::vector<ledger::LastHeld>> Last() = 0;
  virtual absl::StatusOr<std::vector<ledger::Served>> TakeServed() = 0;
  // By requests that ended from `since` on, before TakeServed began to count.
  virtual absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint since) = 0;
  virtual absl::Status Append(std::vector<ledger::DeviceRecord> records) = 0;
};

// Time of devices since the process began, in microseconds, by tenant, model (empty: jobs) and kind.
using DeviceTotals = std::map<std::tuple<std::string, std::string, std::string>, int64_t>;

class Metering {
 public:
  // `holdings` is what is held now; `charge` is told of records that are on disk.
  Metering(net::Loop& loop, std::unique_ptr<MeterLedger> ledger,
           std::function<std::vector<HeldDevices>()> holdings,
           std::function<void(std::span<const ledger::DeviceRecord>)> charge);

  // Counts until it is closed. To be begun when it is known what is held.
  net::Task<void> Run();
  // All that `by` holds is on disk up to now when it returns true; on false it is to be asked again.
  net::Task<bool> UpToNow(HeldBy by);
  void Close();

  const DeviceTotals& totals() const { return totals_; }

 private:
  net::Task<bool> Count(HeldBy by, conf::TimePoint until);
  net::Task<bool> CountInTurn(HeldBy by, conf::TimePoint until);
  net::Task<bool> GoOn();
  net::Task<bool> Write(std::vector<ledger::DeviceRecord> records);
  void Tell(std::span<const ledger::DeviceRecord> written);
  void Decide(std::span<const ledger::LastHeld> last);

  net::Loop& loop_;
  const std::unique_ptr<MeterLedger> ledger_;
  const std::function<std::vector<HeldDevices>()> holdings_;
  const std::function<void(std::span<const ledger::DeviceRecord>)> charge_;
  const conf::TimePoint begun_;
  DeviceMeter meter_;
  DeviceTotals totals_;
  net::AsyncMutex turns_;
  net::Sleep pause_;
  std::vector<ledger::DeviceRecord> undecided_;  // which may be on disk, from the front
  bool first_ = true;                            // nothing has been counted yet
  bool known_ = false;                           // what is on disk
  bool failing_ = false;
  bool closed_ = false;
};

}  // namespace gateway::control
