// WorkloadHistory: rebuilds the records of workloads after the store was lost, from the ledger's records of
// jobs and replicas, from the runs that the launcher lists, and from what can still be read of the damaged
// store.
//
// Runs decide: a listed run belongs to its job or replica, whatever the other sources contain. The ledger
// decides about the rest; a record of the damaged store counts if neither contradicts it.
//
// Pure. Used by `tidegate state rebuild`, while no gateway runs.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gateway/control/workloads/workload.h"
#include "gateway/ledger/parse.h"
#include "gateway/store/store.h"
#include "plugins/launchers/launcher.h"
#include "plugins/launchers/run_record.h"
#include "scheduler/model.h"

namespace gateway::control {

class WorkloadHistory {
 public:
  explicit WorkloadHistory(const scheduler::Cluster& cluster) : cluster_(cluster) {}

  // A record of the ledger; in order. Records of other things are skipped.
  void Take(const ledger::Record& record);

  struct Found {
    std::vector<store::Object> stored;  // what can be read of the damaged store
    std::vector<plugins::launchers::RunStatus> runs;
    // What the launcher keeps of a run.
    std::function<absl::StatusOr<plugins::launchers::RunRecord>(const std::string& run)> record_of;
  };
  struct Rebuilt {
    std::vector<store::Write> writes;
    std::vector<std::string> replicas{};  // running ones
    std::vector<std::string> running{};   // jobs
    std::vector<std::string> waiting{};   // jobs, the suspended ones included
    uint64_t over = 0;                    // jobs that have ended
    // Running jobs whose job file is lost: they keep running, and are not started again.
    std::vector<std::string> without_file{};
    std::vector<std::string> lost{};  // waiting jobs whose job file is lost
    std::vector<std::string> left{};  // runs of no known workload: the gateway ends them when it starts
  };
  Rebuilt Rebuild(const Found& found) const;

 private:
  // A job as the ledger records it.
  struct PastJob {
    std::string of;
    uint32_t element = 0;
    State state = State::kPending;  // kRunning: any state in which it holds devices and is to continue
    Outcome outcome = Outcome::kNone;
    Afterwards afterwards = Afterwards::kWaits;
    uint32_t attempt = 0;
    uint32_t members = 0;
    uint32_t restarts = 0;
    bool resumes = false;
    conf::TimePoint since{};
    conf::TimePoint started{};
    std::string why{};
    std::string actor{};
    std::vector<plugins::launchers::DeviceGrant>
        places{};  // of its members, for a launcher that does not know them

    bool holds() const { return state == State::kRunning || state == State::kDraining; }
  };
  struct PastReplica {
    std::string model;
    std::string version{};
    std::vector<plugins::launchers::DeviceGrant> places{};
    bool ends = false;  // it is no longer wanted
  };
  using Pasts = std::map<std::string, PastJob>;
  class Rebuilding;

  void TakeSubmission(const ledger::Record& record);
  void TakeJob(const ledger::Record& record);
  void TakeReplica(const ledger::Record& record);
  static void Settle(PastJob& job, Afterwards then);

  const scheduler::Cluster& cluster_;
  std::map<std::string, std::shared_ptr<const Submission>> submissions_;  // whose files are known
  Pasts jobs_;
  std::map<std::string, PastReplica> replicas_;
  uint64_t last_number_ = 0;
};

}  // namespace gateway::control
