// SaveWatch: watches the files whose changes show that a job has saved its work, or that a notebook is in use, and
// reports it to the planner.
//
// Owner: Jobs. Thread: the control loop's; files are read on another thread.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <optional>
#include <utility>

#include "gateway/control/workloads/workloads.h"

namespace gateway::control {

class SaveWatch {
 public:
  using OffLoop = std::function<net::Task<absl::Status>(std::function<absl::Status()>)>;

  SaveWatch(const Context& context, Workloads& workloads, OffLoop off_loop)
      : context_(context), workloads_(workloads), off_loop_(std::move(off_loop)) {}

  // Checks the files that are due.
  void Tick();
  // The job's work up to `at` is saved.
  void SavedNow(Workload& job, conf::TimePoint at);
  void Close() { closing_ = true; }
  size_t under_way() const { return under_way_; }

 private:
  net::Task<void> CheckFiles();
  void UsedAt(const Workload& job, std::optional<conf::TimePoint> at);
  void SavedAt(Workload& job, conf::TimePoint at);

  const Context& context_;
  Workloads& workloads_;
  const OffLoop off_loop_;
  conf::TimePoint next_files_{};
  size_t under_way_ = 0;
  bool checking_ = false;
  bool closing_ = false;
};

}  // namespace gateway::control
