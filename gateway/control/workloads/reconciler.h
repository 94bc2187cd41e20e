// Reconciler: compares the runs that the launcher reports with the workloads, once a second and whenever the
// launcher has news: members that run, have ended or have vanished, and runs without a workload.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class Reconciler {
 public:
  using Runs = std::vector<plugins::launchers::RunStatus>;

  Reconciler(const Context& context, Workloads& workloads) : context_(context), workloads_(workloads) {}

  // Called for each run that has a name of Tidegate's form and no workload.
  std::function<void(const plugins::launchers::RunStatus&)> on_unknown =
      [](const plugins::launchers::RunStatus&) {};

  // Called with each list of the launcher's.
  std::function<void(const Runs&)> on_runs = [](const Runs&) {};

  // Takes over from an earlier process: `known` from the store, and the running members. Each workload that
  // has not ended gets its place in the planner, so that no device is given twice; a replica without a
  // running member is dropped. Call it before the planner's first cycle.
  void TakeOver(std::vector<Workload> known, const Runs& runs);

  // Reconciles when it is due, or after ReconcileSoon().
  void Tick();
  void ReconcileSoon() { next_ = {}; }
  // `began`: when the launcher was asked.
  void Compare(const Runs& runs, conf::TimePoint began);

  bool reconciling() const { return reconciling_; }
  bool reconciled() const { return reconciled_; }  // at least once since the start
  // The reason why the launcher does not report its runs; empty: it does.
  const std::string& trouble() const { return trouble_; }
  void SetTrouble(std::string why) { trouble_ = std::move(why); }

 private:
  net::Task<void> Reconcile();
  void LearnRuns();
  void NameTenant(Workload& workload) const;
  void NoteMissing(Workload& workload, Member& member, conf::TimePoint began);
  void UpdateMember(Workload& workload, Member& member, const plugins::launchers::RunStatus& run);

  const Context& context_;
  Workloads& workloads_;
  conf::TimePoint next_{};
  std::string trouble_;
  bool reconciling_ = false;
  bool reconciled_ = false;
};

}  // namespace gateway::control
