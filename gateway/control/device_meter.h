// DeviceMeter: from devices that are held to records of who pays for them.
//
// Time is cut into intervals that end at whole minutes and where something is given back. What the replicas
// of a model held of one kind of device in an interval is shared out among the tenants that those replicas
// served in it, by their tokens (ledger::DeviceWeight); where they served nobody it is ledger::kIdle's. What
// a job held is its tenant's. Parts are whole numbers and make up exactly what was held.
//
// Where it goes on is what the ledger says of each model, or job, and kind: so nothing is counted twice, and
// what is held while no gateway runs is counted by the next.
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
  std::optional<conf::TimePoint> until{};  // it held them: nothing of it runs any more
  // It was last seen to hold them; later than that nothing is counted of it while its end is not known.
  // Absent: it holds them now.
  std::optional<conf::TimePoint> alive{};
};

// Which of a model's replicas, or of jobs, are meant.
struct HeldBy {
  std::string model{};
  std::string job{};
  bool all() const { return model.empty() && job.empty(); }
};

class DeviceMeter {
 public:
  // Goes on where the ledger ends, `begun` being when this process began. What a death left out between the
  // records of one interval is what this returns; nobody is known to have used it.
  std::vector<ledger::DeviceRecord> GoOn(std::span<const ledger::LastHeld> last, conf::TimePoint begun);

  // The earliest time at which one of the holdings is to go on; `begun` where there is none before it.
  conf::TimePoint GoesOnAt(std::span<const HeldDevices> holdings) const;

  // By replicas; those that hold nothing are passed over.
  void Serve(std::span<const ledger::Served> served, std::span<const HeldDevices> holdings);

  // What was held until `until` and is not yet recorded, by `by`. Until this process began, tokens belong to
  // the first minute: the gateway had died after it, and served nobody.
  std::vector<ledger::DeviceRecord> Next(std::span<const HeldDevices> holdings, const HeldBy& by,
                                         conf::TimePoint until) const;

  // Whoever holds nothing any more is forgotten: who comes after begins later.
  void KeepOnly(std::span<const HeldDevices> holdings);

  // They are on disk, and count no more.
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
