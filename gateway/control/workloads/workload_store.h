// WorkloadStore: writes the records of workloads to the store, many at a time: all objects that wait when a
// write begins go into one transaction, each with its last body only.
//
// After a failed write its objects wait for the next one. After a write with an unknown outcome, the versions
// are read again first.
//
// Owner: the ScalingLoop. Thread: the control loop's. Bounded: one body for each object.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/control/workloads/workload_record.h"
#include "gateway/ledger/record.h"
#include "gateway/net/async_mutex.h"
#include "gateway/store/store.h"

namespace gateway::control {

// The term that fences writes.
struct Fence {
  uint64_t epoch = 0;                     // 0: writes are not fenced
  std::function<void()> deposed = [] {};  // another gateway leads: no write of the term counts
};

class WorkloadStore {
 public:
  // Both must outlive this.
  WorkloadStore(store::Store& store, const scheduler::Cluster& cluster, Fence fence = {});

  // The records of earlier processes. DataLoss: none of them is used, and nothing may be started.
  net::Task<absl::StatusOr<KnownWorkloads>> Load();

  // These wait for the next write.
  void Put(const Workload& workload);
  void Put(const Submission& submission);
  // An event for the ledger, which gets it once the store has everything that was put with it. Returns the event's id
  // in the store.
  std::string Put(ledger::Event event);
  void Remove(const Workload& workload);
  void Remove(const Submission& submission);
  void RemoveEvent(const std::string& id);

  // The number of the change that wrote the workload's record; absent: the store has none, or a newer record waits.
  std::optional<uint64_t> VersionOf(const Workload& workload) const;

  // OK: everything that was put before the call is on disk.
  net::Task<absl::Status> Flush();

 private:
  using Key = std::pair<std::string, std::string>;  // kind, id

  void Enqueue(Key key, std::optional<std::string> body);
  net::Task<absl::Status> Write();
  net::Task<absl::Status> ReadVersions();

  store::Store& store_;
  const scheduler::Cluster& cluster_;
  const Fence fence_;
  std::map<Key, std::optional<std::string>> waiting_;  // nothing: to be removed
  std::map<Key, uint64_t> versions_;                   // of what is in the store
  bool versions_known_ = false;
  uint64_t put_ = 0;      // number of puts
  uint64_t written_ = 0;  // number of puts that are on disk
  net::AsyncMutex writes_;
};

}  // namespace gateway::control
