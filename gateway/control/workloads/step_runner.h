// StepRunner: carries out what the states of workloads require. Each step is a task of its own, at most one
// for each workload at a time: first the step is recorded in the ledger and the store, in parallel, and then
// the launcher is called.
//
// No step is carried out before both records exist: while the ledger or the store cannot write, running
// workloads continue. After everything that it waited for, a step checks the workload's state again.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class StepRunner {
 public:
  StepRunner(const Context& context, Workloads& workloads) : context_(context), workloads_(workloads) {}

  // True: the device time of the workload up to now is on disk.
  std::function<net::Task<bool>(const Workload&)> metered = [](const Workload&) -> net::Task<bool> {
    co_return true;
  };
  // OK, or Unavailable with the reason why nothing may start on a node now.
  std::function<net::Task<absl::Status>(std::string node)> may_start_on =
      [](std::string) -> net::Task<absl::Status> { co_return absl::OkStatus(); };
  // Why nothing may start now; empty: it may.
  std::function<std::string()> nothing_starts = [] { return std::string(); };

  // Begins the steps that are due.
  void TakeSteps();
  // OK: the present state of the workload is in the store.
  net::Task<absl::Status> Save(std::string id);

  // No new steps of jobs, whose members keep running, nor of replicas unless they are to be ended.
  void Close(bool ends_replicas);
  size_t under_way() const { return under_way_; }
  uint64_t launches() const { return launches_; }  // of replicas, since the start

 private:
  bool NeedsStep(const Workload& workload, conf::TimePoint now) const;
  bool IsPersisted(const Workload& workload) const;
  net::Task<void> Step(std::string id);
  net::Task<void> Act(std::string id);
  net::Task<absl::Status> Persist(std::string id);
  net::Task<absl::Status> Record(std::string id, std::string action, bool ended);
  net::Task<void> Launch(std::string id);
  net::Task<void> SignalSave(std::string id);
  net::Task<void> SignalEnd(std::string id);
  net::Task<void> Finish(std::string id);
  net::Task<void> ForgetRuns();

  const Context& context_;
  Workloads& workloads_;
  std::vector<std::string> to_forget_;
  conf::TimePoint next_forget_{};
  uint64_t launches_ = 0;
  size_t under_way_ = 0;
  bool forgetting_ = false;
  bool closing_ = false;
  bool ends_replicas_ = true;
};

}  // namespace gateway::control
