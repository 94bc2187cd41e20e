// Workloads: everything that Tidegate runs or is going to run, and the one state machine for all of it.
//
// Changes states and nothing else: the StepRunner carries out what a state requires, and the Reconciler
// reports what runs. Applies the planner's decisions: gangs start together or not at all, preempted workloads
// save first, resized and retried ones start again.
//
// Owner: the ScalingLoop. Thread: the control loop's. A Workload's address is good until it is dropped.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/control/metering/device_meter.h"
#include "gateway/control/workloads/context.h"
#include "gateway/control/workloads/workload.h"
#include "gateway/control/workloads/workload_kind.h"

namespace gateway::control {

class Workloads {
 public:
  explicit Workloads(const Context& context) : context_(context) {}

  // Each kind once, before the first workload; kinds outlive this.
  void Use(Kind kind, WorkloadKind& by) { kinds_[static_cast<size_t>(kind)] = &by; }
  WorkloadKind& KindOf(const Workload& workload) const { return *kinds_[static_cast<size_t>(workload.kind)]; }

  std::list<Workload>& all() { return workloads_; }
  const std::list<Workload>& all() const { return workloads_; }
  Workload* Find(std::string_view id);
  const Workload* Find(std::string_view id) const;
  Workload* FindNumber(uint32_t number);  // the autoscaler's number of a replica
  // Workloads whose ids begin with the prefix.
  std::vector<const Workload*> WithPrefix(const std::string& prefix) const;

  Workload& Add(Workload workload);
  // Forgets it, also in the store.
  void Drop(Workload& workload);

  // --- Transitions ---
  void Enter(Workload& workload, State state, std::string why, std::string actor = "control");
  void Stop(Workload& workload, Outcome outcome, std::string why, std::string actor = "control");
  // It has got devices.
  void Place(Workload& workload, std::vector<scheduler::MemberAt> members, std::string why);
  // Ends its members, after a save where there is work to save and time for it.
  void End(Workload& workload, Afterwards then, std::string why, std::string actor = "control");
  // A replica's engine sleeps, and its device time is on disk: it gives its devices back.
  void FallAsleep(Workload& replica, std::string why);
  // Asks the planner for the devices on which it slept; false asks no longer.
  void SetWake(Workload& replica, bool wanted, std::string why);
  // The save has ended, or its time is over.
  void StopSaving(Workload& workload);
  // All members have ended, and their device time is on disk: moves to the next state.
  void Settle(Workload& workload);

  // --- The planner ---
  void AskPlanner(Workload& workload);
  void LeavePlanner(const Workload& workload);
  void Apply(const scheduler::Action& action);
  // The reasons why workloads were given no devices. Elements of an array ask for the same devices, so an element
  // that the cycle did not consider has the reason of an element that it did.
  void NoteWaiting(const std::vector<std::pair<std::string, scheduler::Reason>>& waiting);

  // --- Reports ---
  // A member has started or ended, or is late in ending.
  void Reconcile(Workload& workload);
  void OnDeviceLost(const plugins::launchers::DeviceFault& fault);
  // The ids of the workloads that hold the device.
  std::vector<std::string> HoldersOf(const std::string& node, uint8_t device) const;
  // The planner wants the replica at another place; false: it stays.
  std::function<bool(Workload& replica, const scheduler::Action& move)> move_replica =
      [](Workload&, const scheduler::Action&) { return false; };
  uint64_t job_moves() const { return job_moves_; }  // since the start
  // The node does not answer: members there cannot be ended, nor new ones started.
  std::function<bool(const std::string& node)> untrusted = [](const std::string&) { return false; };
  // Nodes with members that should have ended some seconds ago.
  std::vector<std::string> LateNodes() const;
  // How many workloads have ended since the start: dependencies are checked again when this rises.
  uint64_t ended() const { return ended_; }

  // Runs that are no longer needed: the launcher should forget them.
  std::vector<std::string> TakeRunsToForget() { return std::exchange(to_forget_, {}); }

  // The devices that members hold, together for each workload and kind. `no_later`: after a clock was put
  // back, times in the future count as this.
  std::vector<HeldDevices> Held(conf::TimePoint no_later) const;

  // The holdings of members that hold devices or are to get them. A member that has ended may still be counted.
  std::vector<scheduler::Holding> Holdings() const;
  // The cluster's nodes have new ids. `places`: the new id by the earlier one; kNone: the node has left.
  void Renumber(const std::vector<scheduler::NodeId>& places);

  // The workload as the planner should know it after a restart.
  scheduler::JobState RestoredJobOf(const Workload& workload) const;

 private:
  void Resize(Workload& workload, std::vector<scheduler::MemberAt> next, std::string why);
  void MoveJob(Workload& job, std::vector<scheduler::MemberAt> next, const scheduler::Reason& gain);
  bool WasDoneBefore(const Workload& workload) const;
  void WakeUp(Workload& replica, std::string why);
  bool IsLate(const Workload& workload, const Member& member) const;
  bool IsGivenUp(const Workload& workload, const Member& member) const;

  const Context& context_;
  WorkloadKind* kinds_[3] = {};
  std::list<Workload> workloads_;  // in the order of their requests
  std::map<std::string, std::list<Workload>::iterator, std::less<>> by_id_;
  std::vector<std::string> to_forget_;
  uint32_t last_number_ = 0;
  uint64_t ended_ = 0;
  uint64_t job_moves_ = 0;
};

}  // namespace gateway::control
