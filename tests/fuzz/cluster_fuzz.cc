// Any text at all must be read as a cluster, or as a list of nodes, or refused without a crash; what is
// accepted must be within the bounds that a snapshot of it has.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scheduler/io/bounds.h"
#include "scheduler/io/cluster_yaml.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/state/cluster_state.h"

namespace {

constexpr size_t kMostBuilt = 2000;  // nodes: more only take longer

void Check(const scheduler::Cluster& cluster) {
  if (!scheduler::FirstDefect(cluster).empty() || !scheduler::io::FirstExcess(cluster).empty()) std::abort();
  if (cluster.nodes.size() <= kMostBuilt) scheduler::ClusterState state(cluster);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = scheduler::io::ReadCluster(text, "fuzz.yaml");
  if (read.value.has_value() != read.problems.empty()) std::abort();
  if (read.value) Check(*read.value);

  scheduler::Cluster listed;
  listed.kinds = {{.name = "h100"}};
  listed.types = {{.name = "dgx", .cpu_milli = 112'000, .memory_mib = 2 << 20, .devices = 8}};
  const scheduler::io::LineReport report = scheduler::io::ReadNodes(text, "fuzz.csv", listed);
  if (report.left_out > report.lines) std::abort();
  if (!listed.nodes.empty()) Check(listed);
  return 0;
}
