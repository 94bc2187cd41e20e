// Metering: records the device time and the energy of replicas and jobs: once a minute, and before a device is released.
//
// A device counts from the request for it until its release, across restarts of the gateway. Everything follows from
// the ledger: the served tokens (DeviceMeter shares the time by them), and the place to continue after a start and
// after a write with an unknown outcome. While the ledger cannot write, no device is released, and no time is lost.
//
// Owner: the ScalingLoop. Thread: the control loop's; the ledger works on another thread.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gateway/control/metering/device_meter.h"
#include "gateway/control/metering/metered_marks.h"
#include "gateway/net/async_mutex.h"
#include "gateway/net/loop.h"

namespace gateway::control {

// The calls to the ledger; they block.
struct MeterLedger {
  virtual ~MeterLedger() = default;
  // When it returns, every earlier record is either on disk or will never be.
  virtual absl::StatusOr<std::vector<ledger::LastHeld>> Last() = 0;
  virtual absl::StatusOr<std::vector<ledger::Served>> TakeServed() = 0;
  // Served by requests that ended from `since` on, before TakeServed began to count.
  virtual absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint since) = 0;
  virtual absl::Status Append(std::vector<ledger::DeviceRecord> records) = 0;
};

// Device time since the process began, in microseconds, by tenant, model (empty: jobs) and kind.
using DeviceTotals = std::map<std::tuple<std::string, std::string, std::string>, int64_t>;
// Energy likewise, in millijoules; idle devices have neither tenant nor model.
using EnergyTotals = DeviceTotals;

class Metering {
 public:
  // `held` returns the devices held now; `charge` is called with records that are on disk. `marks`: until when other
  // leaders have recorded; null: this gateway has its store to itself. `served_elsewhere`: what the requests of other
  // gateways have used since the last call; null: there are no other gateways.
  Metering(net::Loop& loop, std::unique_ptr<MeterLedger> ledger,
           std::function<std::vector<HeldDevices>()> held,
           std::function<void(std::span<const ledger::DeviceRecord>)> charge,
           std::unique_ptr<MeteredMarks> marks = nullptr,
           std::function<std::vector<ledger::Served>()> served_elsewhere = nullptr,
           EnergyTariff tariff = nullptr);

  // Counts until it is closed. Call it when the running workloads are known.
  net::Task<void> Run();
  // True: the device time of `by` up to now is on disk. False: call again later.
  net::Task<bool> UpToNow(HeldBy by);
  // Energy that devices have drawn: it belongs to their present holders.
  void Draw(std::span<const DrawnEnergy> drawn);
  void Close();
  // Run() has returned, or was never called.
  bool ended() const { return !running_; }

  const DeviceTotals& totals() const { return totals_; }
  const EnergyTotals& energy() const { return energy_; }

 private:
  net::Task<bool> Count(HeldBy by, conf::TimePoint until);
  net::Task<bool> CountInTurn(HeldBy by, conf::TimePoint until);
  bool Failed(const absl::Status& why);
  net::Task<bool> GoOn();
  net::Task<bool> Write(std::vector<ledger::DeviceRecord> records);
  void AddWritten(std::span<const ledger::DeviceRecord> written);
  void Decide(std::span<const ledger::LastHeld> last);

  net::Loop& loop_;
  const std::unique_ptr<MeterLedger> ledger_;
  const std::function<std::vector<HeldDevices>()> held_;
  const std::function<void(std::span<const ledger::DeviceRecord>)> charge_;
  const std::unique_ptr<MeteredMarks> marks_;
  const std::function<std::vector<ledger::Served>()> served_elsewhere_;
  const conf::TimePoint begun_;
  std::vector<ledger::LastHeld> marked_;  // as they were when this began
  DeviceMeter meter_;
  DeviceTotals totals_;
  EnergyTotals energy_;
  net::AsyncMutex turns_;
  net::Sleep pause_;
  std::vector<ledger::DeviceRecord> undecided_;  // the first ones may be on disk
  bool first_ = true;                            // nothing has been counted yet
  bool known_ = false;                           // the records on disk are known
  bool failing_ = false;
  std::string trouble_;  // the reason of the last failure
  bool running_ = false;
  bool closed_ = false;
};

}  // namespace gateway::control
