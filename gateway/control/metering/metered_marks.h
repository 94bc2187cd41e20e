// MeteredMarks: until when any leader has recorded device time, kept in the store.
//
// Ledgers stay local, so a new leader cannot see in its own ledger until when its predecessor has counted. Therefore
// each record of device time is first announced here, by a write that is fenced by the term: a deposed leader records
// nothing more, and no two leaders record the same time. A leader that is killed between the announcement and the
// record loses at most a minute of each holder.
//
// Owner: the ScalingLoop of a gateway that shares its store. Thread: the control loop's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gateway/control/metering/device_meter.h"
#include "gateway/ledger/record.h"
#include "gateway/net/task.h"
#include "gateway/store/store.h"

namespace gateway::control {

class MeteredMarks {
 public:
  // The store must outlive this. `deposed`: another gateway leads.
  MeteredMarks(store::Store& store, uint64_t epoch, std::function<void()> deposed)
      : store_(store), epoch_(epoch), deposed_(std::move(deposed)) {}

  // The marks of earlier leaders.
  net::Task<absl::StatusOr<std::vector<ledger::LastHeld>>> Load();
  // OK: these records may be written now.
  net::Task<absl::Status> Announce(std::span<const ledger::DeviceRecord> records);
  // Removes the marks of holders that are gone.
  net::Task<absl::Status> KeepOnly(std::span<const HeldDevices> held);

 private:
  struct Mark {
    uint64_t version = 0;
    int64_t until_us = 0;
  };

  store::Store& store_;
  const uint64_t epoch_;
  const std::function<void()> deposed_;
  std::map<std::string, Mark> marks_;  // by id
  bool known_ = false;
};

}  // namespace gateway::control
