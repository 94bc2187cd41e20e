// MeteredMarks: until when device time has been recorded, by whichever gateway led, kept in the store.
//
// Ledgers stay local, so a new leader cannot see in its own until when its predecessor has counted. Each record of
// device time is therefore announced here first, by a write that is fenced by the term: a leader that was deposed
// records nothing more, and no time is recorded by two. What a leader has announced and not recorded, since it was
// killed between the two, is at most a minute of each holder, and is lost.
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

  // As earlier leaders have left them.
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
