// StepRunner: does what the states of workloads ask for. Each step is a task of its own, one at a time for
// each workload: first the ledger and the store have what is to be done, written at the same time, and then
// the launcher is asked.
//
// Nothing is done that the ledger and the store do not have: while one of them cannot write, what runs goes
// on. A step looks again at where its workload stands after everything that it waited for.
//
// Owner: the ScalingLoop. Thread: the control loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gateway/control/workloads.h"

namespace gateway::control {

class StepRunner {
 public:
  StepRunner(const Context& context, Workloads& workloads) : context_(context), workloads_(workloads) {}

  // What the workload held up to now is on disk when it returns true.
  std::function<net::Task<bool>(const Workload&)> metered = [](const Workload&) -> net::Task<bool> {
    co_return true;
  };
  // OK, or Unavailable with the reason why nothing is to be started on a node just now.
  std::function<net::Task<absl::Status>(std::string node)> may_start_on =
      [](std::string) -> net::Task<absl::Status> { co_return absl::OkStatus(); };

  // Begins what is due.
  void TakeSteps();
  // The workload as it stands is in the store when it returns OK.
  net::Task<absl::Status> Save(std::string id);

  // No new steps of jobs, whose members run on, nor of replicas unless they are to be ended.
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
  net::Task<void> TellToSave(std::string id);
  net::Task<void> TellToEnd(std::string id);
  net::Task<void> Finish(std::string id);
  net::Task<void> ForgetRuns();

  const Context& context_;
  Workloads& workloads_;
  std::vector<std::string> to_forget_;
  uint64_t launches_ = 0;
  size_t under_way_ = 0;
  bool forgetting_ = false;
  bool closing_ = false;
  bool ends_replicas_ = true;
};

}  // namespace gateway::control
