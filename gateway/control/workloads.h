// Workloads: all that Tidegate runs or is to run, and the one state machine that they go through.
//
// Changes state and nothing else: what a state asks for is done by the StepRunner, what the launcher says
// comes from the Reconciler. Carries out what the planner decides: gangs start together or not at all, what
// makes room saves first, what is resized or tried again starts again.
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

#include "gateway/control/context.h"
#include "gateway/control/device_meter.h"
#include "gateway/control/workload.h"
#include "gateway/control/workload_kind.h"

namespace gateway::control {

class Workloads {
 public:
  explicit Workloads(const Context& context) : context_(context) {}

  // Each kind once, before the first workload; they outlive it.
  void Use(Kind kind, WorkloadKind& by) { kinds_[static_cast<size_t>(kind)] = &by; }
  WorkloadKind& KindOf(const Workload& workload) const { return *kinds_[static_cast<size_t>(workload.kind)]; }

  std::list<Workload>& all() { return workloads_; }
  const std::list<Workload>& all() const { return workloads_; }
  Workload* Find(std::string_view id);
  const Workload* Find(std::string_view id) const;
  Workload* FindNumber(uint32_t number);  // of a replica, as the autoscaler knows it
  // Those whose ids begin so.
  std::vector<const Workload*> WithPrefix(const std::string& prefix) const;

  Workload& Add(Workload workload);
  // Forgets it, in the store too.
  void Drop(Workload& workload);

  // --- Transitions ---
  void Enter(Workload& workload, State state, std::string why, std::string actor = "control");
  void Stop(Workload& workload, Outcome outcome, std::string why, std::string actor = "control");
  // It has been given devices.
  void Place(Workload& workload, std::vector<scheduler::MemberAt> members, std::string why);
  // Its members end, after they have saved where that is worth while and there is time for it.
  void End(Workload& workload, Afterwards then, std::string why, std::string actor = "control");
  // It has saved, or its time for that is up.
  void StopSaving(Workload& workload);
  // All members have ended, and what they held is on disk: what becomes of it.
  void Settle(Workload& workload);

  // --- The planner ---
  void AskPlanner(Workload& workload);
  void LeavePlanner(const Workload& workload);
  void Apply(const scheduler::Action& action);

  // --- What happens ---
  // One of its members has started, ended, or was told to end a while ago.
  void Look(Workload& workload);
  void Lose(const plugins::launchers::DeviceFault& fault);
  // Nothing can be ended on that node, nor anything new started there.
  std::function<bool(const std::string& node)> untrusted = [](const std::string&) { return false; };
  // Where members stand that were told to end and have not, for some seconds.
  std::vector<std::string> LateNodes() const;
  // How many have come to rest since the start: what comes after others looks again when this rises.
  uint64_t ended() const { return ended_; }

  // Runs that nobody asks of any more: the launcher is to forget them.
  std::vector<std::string> TakeRunsToForget() { return std::exchange(to_forget_, {}); }

  // What members hold, together for each workload and kind of device. `no_later`: what a clock that was put
  // back says of the future began then.
  std::vector<HeldDevices> Held(conf::TimePoint no_later) const;

  // As the planner is to know it after a restart.
  scheduler::JobState SeatOf(const Workload& workload) const;

 private:
  void Resize(Workload& workload, std::vector<scheduler::MemberAt> next, const scheduler::Reason& why);
  bool WasDoneBefore(const Workload& workload) const;
  bool IsLate(const Workload& workload, const Member& member) const;
  bool IsGivenUp(const Workload& workload, const Member& member) const;

  const Context& context_;
  WorkloadKind* kinds_[3] = {};
  std::list<Workload> workloads_;  // in the order in which they came to be wanted
  std::map<std::string, std::list<Workload>::iterator, std::less<>> by_id_;
  std::vector<std::string> to_forget_;
  uint32_t last_number_ = 0;
  uint64_t ended_ = 0;
};

}  // namespace gateway::control
