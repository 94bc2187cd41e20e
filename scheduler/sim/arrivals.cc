#include "scheduler/sim/arrivals.h"

#include <fmt/format.h>

namespace scheduler::sim {
namespace {

// The suffix of the ids of a run.
std::string SuffixOf(uint32_t run) {
  return run == 0 ? std::string() : fmt::format("#{}", run + 1);
}

}  // namespace

Arrivals::Arrivals(const std::vector<TraceJob>& trace, uint32_t times, const Estimates& estimates,
                   uint64_t seed)
    : trace_(&trace), times_(times), estimates_(estimates), noise_(seed) {
  if (trace.empty()) return;
  const conf::Duration span = trace.back().job.submitted - trace.front().job.submitted;
  period_ = span + span / static_cast<int64_t>(trace.size());
}

std::string Arrivals::IdOf(uint32_t job) const {
  return RowOf(job).job.id + SuffixOf(job / rows());
}

conf::TimePoint Arrivals::SubmissionOf(uint32_t job) const {
  return RowOf(job).job.submitted + period_ * (job / rows());
}

Job Arrivals::Submit() {
  const TraceJob& row = RowOf(next_);
  Job job = row.job;
  job.id = IdOf(next_);
  job.submitted = SubmissionOf(next_);
  for (std::string& before : job.after) before += SuffixOf(next_ / rows());
  job.estimate = EstimateOf(row, estimates_, noise_);
  ++next_;
  return job;
}

}  // namespace scheduler::sim
