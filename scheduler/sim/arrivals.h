// Arrivals: the jobs of a simulated world in the order of their submission: those of a trace, which runs once or
// several times, one run after the other with the mean gap between.
//
// A job is made when it is submitted, so that a world keeps no copy of the trace, however often it runs. Later
// runs' jobs have ids like "job#2", and wait for jobs of their own run. The same trace, estimates and seed give
// the same jobs. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/rng.h"
#include "scheduler/sim/traces/trace.h"
#include "scheduler/sim/workload.h"

namespace scheduler::sim {

class Arrivals {
 public:
  // The trace is in order of submission, and outlives the arrivals. `seed`: of noisy estimates.
  Arrivals(const std::vector<TraceJob>& trace, uint32_t times, const Estimates& estimates, uint64_t seed);

  // Jobs are numbered in their order, those of the second run after those of the first.
  uint32_t size() const { return rows() * times_; }
  uint32_t next() const { return next_; }  // the first that has not been submitted
  std::string IdOf(uint32_t job) const;
  conf::TimePoint SubmissionOf(uint32_t job) const;
  // The row of the trace that all runs have in common, with the trace's id, times and estimate.
  const TraceJob& RowOf(uint32_t job) const { return (*trace_)[job % rows()]; }
  const std::vector<TraceJob>& trace() const { return *trace_; }
  uint32_t times() const { return times_; }

  // The next job, as its user submits it.
  Job Submit();

 private:
  uint32_t rows() const { return static_cast<uint32_t>(trace_->size()); }

  const std::vector<TraceJob>* trace_;
  uint32_t times_;
  Estimates estimates_;
  Rng noise_;
  conf::Duration period_{};  // from the first job of a run to that of the next
  uint32_t next_ = 0;
};

}  // namespace scheduler::sim
