// WorkloadKind: what differs between replicas and jobs: how readiness is seen, how work is saved, what a
// failure leads to, and what is told of it.
//
// Thread: the control loop's.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "gateway/control/workload.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/work.h"

namespace gateway::control {

enum class Blame : uint8_t {
  kWorkload,
  kPlace,   // its node or a device: it says nothing of the workload
  kForever  // it can never be started as it stands
};

class WorkloadKind {
 public:
  virtual ~WorkloadKind() = default;

  // What the planner is asked for.
  virtual scheduler::Job AskOf(const Workload& workload) const = 0;
  // Whether the planner may be asked now; if not, the kind asks again when it may (Workloads::AskPlanner).
  virtual bool MayBePlaced(Workload& workload) = 0;

  // What a member runs: command, environment, folder. The caller fills in its id, its grant and its gang.
  // An error: it cannot be started as it stands.
  virtual absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Workload& workload,
                                                             uint32_t rank) const = 0;

  // All members of a workload that starts run, as far as their launcher says.
  virtual void OnMembersUp(Workload& workload) = 0;
  // Whether its work is done when all its members have ended well; if not, no member may end.
  virtual bool EndsByItself() const = 0;
  // Whether there is something to be saved before its members are ended.
  virtual bool Saves(const Workload& workload, Afterwards then) const = 0;
  // How it is told to save its work; 0: it is not told.
  virtual int SaveSignal(const Workload& workload) const = 0;
  // All that can be saved is saved, as of `at`.
  virtual void OnSaved(Workload& workload, conf::TimePoint at) = 0;
  virtual conf::Duration StopGrace(const Workload& workload) const = 0;
  // Whether a member that was told to end, on a node that is not trusted, counts as ended.
  virtual bool GivesUpSilentMembers() const = 0;

  // Something of it has failed: ends it, and says what becomes of it.
  virtual void Fail(Workload& workload, std::string why, Blame blame) = 0;
  // It holds nothing any more; it may be dropped here.
  virtual void OnStopped(Workload& workload) = 0;
  // Whether what its runs have written stays readable after it has ended.
  virtual bool KeepsRuns() const = 0;

  // The ledger's word for what the state asks for; empty: that is not recorded.
  virtual std::string ActionOf(const Workload& workload) const = 0;
  // And for its end, once all members have ended; empty: likewise.
  virtual std::string EndOf(const Workload& workload) const = 0;
  // What the ledger has beside the action, as JSON.
  virtual std::string DetailOf(const Workload& workload, bool ended) const = 0;
};

}  // namespace gateway::control
