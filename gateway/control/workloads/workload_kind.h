// WorkloadKind: the differences between replicas and jobs: how readiness is recognized, how work is saved,
// what a failure leads to, and what the ledger records.
//
// Thread: the control loop's.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "gateway/control/workloads/workload.h"
#include "plugins/launchers/launcher.h"
#include "scheduler/work.h"

namespace gateway::control {

enum class Blame : uint8_t {
  kWorkload,
  kPlace,   // its node or a device: no fault of the workload
  kForever  // it can never be started in this form
};

class WorkloadKind {
 public:
  virtual ~WorkloadKind() = default;

  // The request to the planner.
  virtual scheduler::Job AskOf(const Workload& workload) const = 0;
  // Whether it may be given to the planner now; if not, the kind does so later (Workloads::AskPlanner).
  virtual bool MayBePlaced(Workload& workload) = 0;

  // What a member runs: command, environment, folder, user. The caller adds its id, its grant and its gang.
  // Unavailable: not now; any other error: it cannot be started in this form.
  virtual absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Workload& workload,
                                                             uint32_t rank) const = 0;

  // The launcher reports that all members of a starting workload run.
  virtual void OnMembersUp(Workload& workload) = 0;
  // Whether the work is done when all members have ended well; otherwise no member may end.
  virtual bool EndsByItself() const = 0;
  // Whether there is work to save before the members are ended.
  virtual bool Saves(const Workload& workload, Afterwards then) const = 0;
  // The signal that makes a member save its work; 0: none.
  virtual int SaveSignal(const Workload& workload) const = 0;
  // Everything that can be saved is saved, as of `at`.
  virtual void OnSaved(Workload& workload, conf::TimePoint at) = 0;
  virtual conf::Duration StopGrace(const Workload& workload) const = 0;
  // Whether a member on a node without trust counts as ended once it was to end.
  virtual bool GivesUpSilentMembers() const = 0;

  // A part of it has failed: ends the workload, and decides what happens to it.
  virtual void Fail(Workload& workload, std::string why, Blame blame) = 0;
  // It holds no devices; it may be dropped here.
  virtual void OnStopped(Workload& workload) = 0;
  // Whether the output of its runs stays readable after its end.
  virtual bool KeepsRuns() const = 0;

  // The ledger's word for the step that the state requires; empty: no record.
  virtual std::string ActionOf(const Workload& workload) const = 0;
  // The ledger's word for its end, once all members have ended; empty: no record.
  virtual std::string EndOf(const Workload& workload) const = 0;
  // The details of the ledger's record, as JSON.
  virtual std::string DetailOf(const Workload& workload, bool ended) const = 0;
};

}  // namespace gateway::control
