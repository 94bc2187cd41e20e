// Any text at all must be read as a trace of each format, or its rows be left out, without a crash; what is
// accepted comes in order of submission and is a job that a cluster can be asked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/sim/traces/openb.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/traces/swf.h"
#include "scheduler/sim/workload.h"
#include "tests/unit/scheduler/clusters.h"

namespace {

void Check(scheduler::sim::Trace trace) {
  static const scheduler::Cluster cluster = scheduler::testing::EightWay(4, 2);
  if (trace.jobs.size() + trace.report.left_out != trace.report.lines) std::abort();
  const auto submitted = [](const scheduler::sim::TraceJob& job) { return job.job.submitted; };
  if (!std::ranges::is_sorted(trace.jobs, {}, submitted)) std::abort();
  for (const scheduler::sim::TraceJob& job : trace.jobs) {
    if (!scheduler::io::FirstDefect(job.job).empty()) std::abort();
  }
  scheduler::sim::LeaveOutImpossible(trace, "fuzz", cluster, scheduler::sim::QueuesOf(trace.jobs));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(scheduler::sim::ReadPhilly(text, "fuzz.csv", 8));
  Check(scheduler::sim::ReadOpenb(text, "fuzz.csv"));
  Check(scheduler::sim::ReadSwf(text, "fuzz.swf", 8));
  return 0;
}
