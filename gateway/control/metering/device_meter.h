// DeviceMeter: turns held devices into records that say which tenant pays for them.
//
// Time is cut into intervals that end at whole minutes and at every release of a device. The devices of one
// kind that a model's replicas held in an interval are shared among the tenants that those replicas served,
// by tokens (ledger::DeviceWeight); without served requests they belong to ledger::kIdle. A job's devices
// belong to its tenant. Parts are whole numbers, and their sum is exactly what was held.
//
// The measured energy of a device belongs to its holders, by their shares of the device at the measurement; the energy
// of an idle share belongs to ledger::kIdle. One record has the device time and the energy of a holder, shared among
// tenants in the same way. A gateway that is killed loses the energy of one interval at most; none counts twice.
//
// Counting continues from the last record of each model, or job, and kind in the ledger: so no time is
// counted twice, and time that passed while no gateway ran is counted by the next one.
//
// Pure: time comes in. Times are cut to milliseconds. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/committer.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/record.h"

namespace gateway::control {

// A device of a node, and the part of it that is held.
struct HeldPlace {
  std::string node{};
  uint8_t device = 0;
  int64_t milli = 0;
};

// Devices of one kind that a replica, or all members of a job, hold.
struct HeldDevices {
  std::string run{};     // of a replica
  std::string model{};   // of a replica
  std::string job{};     // of a job: its id
  std::string tenant{};  // of a job: its path, or empty
  std::string kind{};
  int64_t milli = 0;                       // thousandths of devices
  std::vector<HeldPlace> places{};         // their sum is `milli`
  conf::TimePoint since{};                 // it holds them
  std::optional<conf::TimePoint> until{};  // it held them: all its processes have ended
  // When it was last seen to hold them: nothing later is counted while its end is not known. Absent: it holds them
  // now.
  std::optional<conf::TimePoint> alive{};
};

// The energy of a device since it was last reported.
struct DrawnEnergy {
  std::string node{};
  uint8_t device = 0;
  std::string kind{};
  int64_t mj = 0;  // millijoules
};

// The cost and the emissions of energy at a moment.
struct EnergyRate {
  double usd_per_kwh = 0;
  double grams_co2_per_kwh = 0;
};
using EnergyTariff = std::function<EnergyRate(conf::TimePoint)>;

// The replicas of a model, or the jobs, that a question is about.
struct HeldBy {
  std::string model{};
  std::string job{};
  bool all() const { return model.empty() && job.empty(); }
};

class DeviceMeter {
 public:
  // Without a tariff energy has no price.
  explicit DeviceMeter(EnergyTariff tariff = nullptr) : tariff_(std::move(tariff)) {}

  // Continues where the ledger ends; `begun` is the start of this process. Returns the records of an interval
  // that a crash left incomplete; their tenant is not known.
  std::vector<ledger::DeviceRecord> GoOn(std::span<const ledger::LastHeld> last, conf::TimePoint begun);

  // The earliest time from which one of the holdings still has to be counted; `begun` where there is none
  // before it.
  conf::TimePoint GoesOnAt(std::span<const HeldDevices> holdings) const;

  // By replicas; replicas without devices are skipped.
  void Serve(std::span<const ledger::Served> served, std::span<const HeldDevices> holdings);

  // Adds energy to the present holders. Holders that have ended get none.
  void Draw(std::span<const DrawnEnergy> drawn, std::span<const HeldDevices> holdings);

  // The held time until `until` that is not yet recorded, shared by `by`. Tokens that were served before this
  // process began belong to the first minute, since the gateway died after it.
  std::vector<ledger::DeviceRecord> Next(std::span<const HeldDevices> holdings, const HeldBy& by,
                                         conf::TimePoint until) const;

  // Forgets holders without devices; their energy that is not recorded is idle from then on.
  void KeepOnly(std::span<const HeldDevices> holdings);

  // The records are on disk, and no longer counted here.
  void Written(std::span<const ledger::DeviceRecord> records);

  // The last whole minute.
  static conf::TimePoint MinuteOf(conf::TimePoint now);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // model, job, kind
  using Weights = std::map<std::string, uint64_t>;                // by tenant

  int64_t FromOf(const HeldDevices& holding) const;
  void Share(const HeldDevices& of, int64_t from_ms, int64_t until_ms, int64_t held_us, int64_t energy_mj,
             const Weights* weights, std::vector<ledger::DeviceRecord>& out) const;
  void AddIdle(int64_t now_ms, std::vector<ledger::DeviceRecord>& out) const;
  void Price(ledger::DeviceRecord& record) const;
  int64_t EnergyOf(const Key& key) const;

  const EnergyTariff tariff_;
  int64_t begun_ms_ = 0;
  std::map<Key, int64_t> until_ms_;
  std::map<Key, Weights> weights_;
  std::map<Key, int64_t> energy_mj_;  // not yet recorded; of neither a model nor a job: idle
};

}  // namespace gateway::control
