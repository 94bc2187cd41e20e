// Rebuilds a damaged or lost store from its readable parts, the ledger and the running workloads. Keeps the
// damaged file under another name.
//
// A kill at any point leaves the damaged store or the rebuilt one; the rebuild can be run again.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gateway/config/config.h"
#include "gateway/control/workload_history.h"
#include "gateway/net/loop.h"
#include "gateway/people/key_history.h"

namespace gateway {

struct RebuiltState {
  std::string damage;       // what was wrong with the store
  std::string kept_as;      // where the damaged file is now; empty: there was none
  bool read_whole = false;  // nothing of the damaged file was unreadable
  uint64_t ledger_records = 0;
  uint64_t number = 0;  // at which the sequence of changes continues
  uint64_t keys = 0;
  std::vector<KeyHistory::Key> lost_keys;
  control::WorkloadHistory::Rebuilt workloads;  // without its writes
  uint64_t cordons = 0;
  std::vector<std::string> learned;       // models of which scaling keeps what it has learned
  std::vector<std::string> learned_anew;  // models of which that may be lost
  bool had_admin = false;                 // so the bootstrap key stays off
  bool bootstrap_works = false;         // nothing shows that there was an admin, and there is a bootstrap key
  uint64_t positions = 0;               // of readers of the ledger
  std::vector<std::string> sinks_anew;  // that get the ledger from its beginning
};

// FailedPrecondition: a gateway runs with this state folder, or the store is sound. Blocks.
absl::StatusOr<RebuiltState> RebuildState(net::Loop& loop, const Config& config);

}  // namespace gateway
