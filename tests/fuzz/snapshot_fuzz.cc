// Any text at all must be read or refused without a crash; what is accepted must read back from its own text
// as the same bytes, and a planner must be able to plan from it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "scheduler/io/snapshot_json.h"
#include "scheduler/planner.h"

namespace {

constexpr uint64_t kMostPlanned = 2000;  // members and nodes: more only take longer

bool IsSmall(const scheduler::Snapshot& snapshot) {
  uint64_t members = snapshot.cluster.nodes.size();
  for (const scheduler::JobState& job : snapshot.jobs) members += scheduler::Members(job.job);
  return members <= kMostPlanned;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = scheduler::io::ReadSnapshot(text, "fuzz.json");
  if (first.value.has_value() != first.problems.empty()) std::abort();
  if (!first.value) return 0;
  const std::string written = scheduler::io::WriteSnapshot(*first.value);
  const auto second = scheduler::io::ReadSnapshot(written, "again.json");
  if (!second.value || scheduler::io::WriteSnapshot(*second.value) != written) std::abort();
  if (!IsSmall(*second.value)) return 0;
  scheduler::Rng rng(1);
  scheduler::MakePlan(*second.value, {}, second.value->as_of, rng);
  return 0;
}
