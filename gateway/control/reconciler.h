// Reconciler: compares what the launcher says is there with what there should be, once a second and whenever
// the launcher has news: members that run, have ended or have vanished, and runs that no workload has.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gateway/control/workloads.h"

namespace gateway::control {

class Reconciler {
 public:
  using Runs = std::vector<plugins::launchers::RunStatus>;

  Reconciler(const Context& context, Workloads& workloads) : context_(context), workloads_(workloads) {}

  // Told of each run that is ours by its name, and that no workload has.
  std::function<void(const plugins::launchers::RunStatus&)> on_unknown =
      [](const plugins::launchers::RunStatus&) {};

  // What a process before this one has left: `known` as the store says, and what runs. Each workload that is
  // not over is seated in the planner, so that no device is given twice; a replica of which nothing runs is
  // dropped. Before the planner's first cycle.
  void TakeOver(std::vector<Workload> known, const Runs& runs);

  // Looks if it is time to, or LookSoon() was called.
  void Tick();
  void LookSoon() { next_look_ = {}; }
  // `began`: when the launcher was asked for that.
  void Compare(const Runs& runs, conf::TimePoint began);

  bool looking() const { return looking_; }
  bool looked() const { return looked_; }  // once, since it began
  // Why the launcher does not say what runs; empty: it does.
  const std::string& trouble() const { return trouble_; }
  void SetTrouble(std::string why) { trouble_ = std::move(why); }

 private:
  net::Task<void> Look();
  void Miss(Workload& workload, Member& member, conf::TimePoint began);
  void See(Workload& workload, Member& member, const plugins::launchers::RunStatus& run);

  const Context& context_;
  Workloads& workloads_;
  conf::TimePoint next_look_{};
  std::string trouble_;
  bool looking_ = false;
  bool looked_ = false;
};

}  // namespace gateway::control
