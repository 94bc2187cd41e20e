// Orphans: runs whose names are those of a replica or a job, but whose record is lost. They are ended, and keep their
// devices until they have ended.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class Orphans final : public WorkloadKind {
 public:
  Orphans(const Context& context, Workloads& workloads) : context_(context), workloads_(workloads) {}

  // `restores`: reserves its devices; possible before the planner's first cycle only.
  void Found(const plugins::launchers::RunStatus& run, bool restores);

  scheduler::Job AskOf(const Workload& workload) const override;
  bool MayBePlaced(Workload&) override { return false; }
  absl::StatusOr<plugins::launchers::RunSpec> SpecOf(const Workload& workload, uint32_t rank) const override;
  void OnMembersUp(Workload&) override {}
  bool EndsByItself() const override { return false; }
  bool Saves(const Workload&, Afterwards) const override { return false; }
  int SaveSignal(const Workload&) const override { return 0; }
  void OnSaved(Workload&, conf::TimePoint) override {}
  conf::Duration StopGrace(const Workload&) const override { return std::chrono::seconds(10); }
  bool GivesUpSilentMembers() const override { return false; }
  void Fail(Workload& workload, std::string why, Blame blame) override;
  void OnStopped(Workload& workload) override { workloads_.Drop(workload); }
  bool KeepsRuns() const override { return false; }
  std::string ActionOf(const Workload& workload) const override;
  std::string EndOf(const Workload&) const override { return {}; }
  std::string DetailOf(const Workload& workload, bool ended) const override;

 private:
  const Context& context_;
  Workloads& workloads_;
};

}  // namespace gateway::control
