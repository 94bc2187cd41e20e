// DeviceMeter: turns held devices into records that say which tenant pays for them.
//
// Time is cut into intervals that end at whole minutes and at every release of a device. The devices of one
// kind that a model's replicas held in an interval are shared among the tenants that those replicas served,
// by tokens (ledger::DeviceWeight); without served requests they belong to ledger::kIdle. A job's devices
// belong to its tenant. Parts are whole numbers, and their sum is exactly what was held.
//
// Counting continues from the last record of each model, or job, and kind in the ledger: so no time is
// counted twice, and time that passed while no gateway ran is counted by the next one.
//
// Pure: time comes in. Times are cut to milliseconds. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "conf/time.h"
#include "gateway/ledger/committer.h"
#include "gateway/ledger/index.h"
#include "gateway/ledger/record.h"

namespace gateway::control {

// Devices of one kind that a replica, or all members of a job, hold.
struct HeldDevices {
  std::string run{};     // of a replica
  std::string model{};   // of a replica
  std::string job{};     // of a job: its id
  std::string tenant{};  // of a job: its path, or empty
  std::string kind{};
  int64_t milli = 0;                       // thousandths of devices
  conf::TimePoint since{};                 // it holds them
  std::optional<conf::TimePoint> until{};  // it held them: all its processes have ended
  // It was last seen to hold them; later than that nothing is counted of it while its end is not known.
  // Absent: it holds them now.
  std::optional<conf::TimePoint> alive{};
};

// The replicas of a model, or the jobs, that a question is about.
struct HeldBy {
  std::string model{};
  std::string job{};
  bool all() const { return model.empty() && job.empty(); }
};

class DeviceMeter {
 public:
  // Continues where the ledger ends; `begun` is the start of this process. Returns the records of an interval
  // that a crash left incomplete; their tenant is not known.
  std::vector<ledger::DeviceRecord> GoOn(std::span<const ledger::LastHeld> last, conf::TimePoint begun);

  // The earliest time from which one of the holdings still has to be counted; `begun` where there is none
  // before it.
  conf::TimePoint GoesOnAt(std::span<const HeldDevices> holdings) const;

  // By replicas; replicas without devices are skipped.
  void Serve(std::span<const ledger::Served> served, std::span<const HeldDevices> holdings);

  // The held time until `until` that is not yet recorded, shared by `by`. Tokens that were served before this
  // process began belong to the first minute, since the gateway died after it.
  std::vector<ledger::DeviceRecord> Next(std::span<const HeldDevices> holdings, const HeldBy& by,
                                         conf::TimePoint until) const;

  // Forgets holders without devices.
  void KeepOnly(std::span<const HeldDevices> holdings);

  // The records are on disk, and no longer counted here.
  void Written(std::span<const ledger::DeviceRecord> records);

  // The last whole minute.
  static conf::TimePoint MinuteOf(conf::TimePoint now);

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // model, job, kind
  using Weights = std::map<std::string, uint64_t>;                // by tenant

  int64_t FromOf(const HeldDevices& holding) const;
  void Share(const HeldDevices& of, int64_t from_ms, int64_t until_ms, int64_t held_us,
             const Weights* weights, std::vector<ledger::DeviceRecord>& out) const;

  int64_t begun_ms_ = 0;
  std::map<Key, int64_t> until_ms_;
  std::map<Key, Weights> weights_;
};

}  // namespace gateway::control
