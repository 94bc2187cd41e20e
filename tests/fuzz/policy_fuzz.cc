// Any text at all must be read or refused without a crash, with a cluster to check names against and without;
// what is accepted must read back from its own JSON as the same, and a planner must be able to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "scheduler/io/policy_yaml.h"
#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"

namespace {

void Plan(const scheduler::Cluster& cluster, const scheduler::io::PolicyFile& file) {
  scheduler::Planner planner(cluster, file.queues, file.policy);
  scheduler::Job job;
  job.id = "a";
  for (const scheduler::Queue& queue : file.queues) job.queue = queue.name;
  job.roles = {{.ask = scheduler::testing::Devices(8), .count = 3, .min_count = 3}};
  const conf::TimePoint now(std::chrono::hours(1));
  planner.Submit(job, now);
  scheduler::Rng rng(1);
  planner.Run(now, rng);
  planner.TakeSnapshot(now + std::chrono::hours(1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const scheduler::Cluster cluster = scheduler::testing::EightWay(4, 2);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = scheduler::io::ReadPolicy(text, "fuzz.yaml");
  if (first.value.has_value() != first.problems.empty()) std::abort();
  if (!first.value) return 0;
  const std::string written = scheduler::io::WritePolicy(*first.value);
  const auto second = scheduler::io::ReadPolicy(written, "again.json");
  if (!second.value || scheduler::io::WritePolicy(*second.value) != written) std::abort();
  const auto checked = scheduler::io::ReadPolicy(text, "fuzz.yaml", &cluster);
  if (checked.value) Plan(cluster, *checked.value);
  return 0;
}
