// Any lines at all must be read or left out without a crash; a job that is accepted must read back from its
// own line as the same, and a small cluster must be able to live through an hour of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/sim/workload.h"
#include "scheduler/sim/world.h"
#include "tests/unit/scheduler/clusters.h"

namespace {

constexpr size_t kMostJobs = 50;
constexpr uint32_t kMostMembers = 1000;  // of one: more only take longer

void Simulate(scheduler::sim::Trace trace) {
  static const scheduler::Cluster cluster = scheduler::testing::EightWay(4, 2);
  scheduler::sim::SortBySubmission(trace.jobs);
  const std::vector<scheduler::Queue> queues = scheduler::sim::QueuesOf(trace.jobs);
  scheduler::sim::LeaveOutImpossible(trace, "fuzz.jsonl", cluster, queues);
  if (trace.jobs.empty()) return;
  scheduler::sim::WorldOptions options;
  options.estimates = {};  // exact
  options.horizon = std::chrono::hours(1);
  options.mtbf = std::chrono::hours(1);
  scheduler::sim::World(cluster, queues, {}, trace.jobs, options).Run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  scheduler::io::Jobs read = scheduler::io::ReadJobs(text, "fuzz.jsonl");
  if (read.jobs.size() + read.report.left_out != read.report.lines) std::abort();
  uint32_t most = 0;
  for (const scheduler::io::TimedJob& job : read.jobs) {
    std::string line;
    scheduler::io::WriteJob(job, line);
    const scheduler::io::Jobs again = scheduler::io::ReadJobs(line, "again.jsonl");
    std::string twice;
    if (again.jobs.size() != 1) std::abort();
    scheduler::io::WriteJob(again.jobs.front(), twice);
    if (twice != line) std::abort();
    most = std::max(most, scheduler::Members(job.job));
  }
  if (most > kMostMembers || read.jobs.size() > kMostJobs) return 0;
  Simulate({.jobs = std::move(read.jobs), .report = {}});
  return 0;
}
