#include "gateway/cli/simulate/system.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "gateway/cli/simulate/option_problems.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/cluster_yaml.h"
#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/sim/arrivals.h"
#include "scheduler/sim/traces/openb.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/traces/recognize.h"
#include "scheduler/sim/traces/swf.h"
#include "scheduler/sim/workload.h"

namespace gateway::cli {
namespace {

namespace io = scheduler::io;

using Problems = std::vector<conf::Problem>;

constexpr size_t kMostJobs = 5'000'000;
constexpr conf::Duration kLongestTrace = 5 * io::kLongest;

scheduler::Cluster UniformCluster(const SimulateInput& input) {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "gpu"}};
  cluster.types = {{.name = "node", .kind = 0, .devices = static_cast<uint8_t>(input.devices)}};
  for (uint32_t i = 0; i < input.nodes; ++i) cluster.nodes.push_back({.name = fmt::format("node-{}", i)});
  scheduler::GroupIntoLeaves(cluster, static_cast<int>(input.nodes_per_leaf),
                             static_cast<int>(input.leaves_per_spine));
  return cluster;
}

void AddNodeList(const std::string& path, scheduler::Cluster& cluster, Problems& problems) {
  const std::optional<std::string> text = ReadFile(path, problems);
  if (!text) return;
  io::LineReport read = io::ReadNodes(*text, path, cluster);
  std::ranges::move(read.problems, std::back_inserter(problems));
}

void LoadCluster(const SimulateInput& input, scheduler::Cluster& out, Problems& problems) {
  if (input.cluster.empty() && input.node_list.empty()) {
    out = UniformCluster(input);
  } else if (!input.cluster.empty()) {
    const std::optional<std::string> text = ReadFile(input.cluster, problems);
    if (!text) return;
    io::Loaded<scheduler::Cluster> loaded = io::ReadCluster(*text, input.cluster);
    if (!TakeProblems(loaded.problems, problems)) return;
    out = std::move(*loaded.value);
  }
  if (!input.node_list.empty()) AddNodeList(input.node_list, out, problems);
  if (!problems.empty()) return;
  if (out.nodes.empty()) {
    Refuse(problems, input.cluster.empty() ? input.node_list : input.cluster, {}, "has no nodes");
  }
}

sim::Trace FromLines(io::Jobs read) {
  sim::Trace trace;
  trace.jobs = std::move(read.jobs);
  for (sim::TraceJob& job : trace.jobs) {
    if (job.job.queue.empty()) job.job.queue = "default";
  }
  sim::SortBySubmission(trace.jobs);
  trace.report = std::move(read.report);
  return trace;
}

uint32_t LargestNode(const scheduler::Cluster& cluster) {
  uint32_t largest = 1;
  for (const scheduler::NodeType& type : cluster.types) largest = std::max<uint32_t>(largest, type.devices);
  return largest;
}

constexpr std::string_view kJobFormats = "jsonl, philly, openb or swf";

// The word of the format to read the text as; nothing when it is of another kind, which is one problem.
std::optional<std::string> JobFormatOf(const SimulateInput& input, std::string_view text,
                                       Problems& problems) {
  using Of = sim::TraceFormat::Of;
  const sim::TraceFormat* const looks = sim::RecognizeTrace(text);
  const bool told = input.format != "auto";
  if (looks == nullptr) {
    if (told || !sim::HasRows(text)) return told ? input.format : "jsonl";
    Refuse(problems, input.trace, {},
           fmt::format("its format is not recognised; give --format {}", kJobFormats));
    return std::nullopt;
  }
  if (looks->of == Of::kRequests) {
    Refuse(
        problems, input.trace, {},
        fmt::format("looks like recorded requests ({}), not jobs; did you mean tidegate simulate requests?",
                    looks->what));
  } else if (looks->of == Of::kUnread) {
    Refuse(problems, input.trace, {},
           fmt::format("looks like {}, which is not read: {}", looks->what, looks->convert));
  } else if (looks->of == Of::kNodes) {
    Refuse(problems, input.trace, {}, fmt::format("looks like {}; did you mean --node-list?", looks->what));
  } else if (told && looks->name != input.format) {
    Refuse(problems, input.trace, {},
           fmt::format("looks like {} ({}), not {}; did you mean --format {}?", looks->name, looks->what,
                       input.format, looks->name));
  } else {
    return std::string(looks->name);
  }
  return std::nullopt;
}

void LoadTrace(const SimulateInput& input, const scheduler::Cluster& cluster, sim::Trace& out,
               Problems& problems) {
  const std::optional<std::string> text = ReadFile(input.trace, problems);
  if (!text) return;
  const std::optional<std::string> format = JobFormatOf(input, *text, problems);
  if (!format) return;
  const uint32_t per_node = LargestNode(cluster);
  if (*format == "philly") {
    out = sim::ReadPhilly(*text, input.trace, per_node);
  } else if (*format == "openb") {
    out = sim::ReadOpenb(*text, input.trace);
  } else if (*format == "swf") {
    out = sim::ReadSwf(*text, input.trace, per_node);
  } else {
    out = FromLines(io::ReadJobs(*text, input.trace));
  }
}

// Faster or slower arrivals, where the clock can still follow them as often as they are repeated.
void Stretch(const SimulateInput& input, std::vector<sim::TraceJob>& jobs, Problems& problems) {
  if (jobs.empty()) return;
  if (jobs.size() * input.repeat > kMostJobs) {
    return Refuse(problems, "--repeat", fmt::format("{}", input.repeat),
                  fmt::format("{} jobs {} times are more than {}", jobs.size(), input.repeat, kMostJobs));
  }
  const conf::Duration span = jobs.back().job.submitted - jobs.front().job.submitted;
  if (conf::ToSeconds(span) / input.scale * input.repeat > conf::ToSeconds(kLongestTrace)) {
    return Refuse(problems, input.repeat > 1 ? "--repeat" : "--scale", "",
                  fmt::format("submissions would go on for more than {:.0f} years",
                              conf::ToSeconds(kLongestTrace) / (365 * 86400.0)));
  }
  sim::ScaleArrivals(jobs, input.scale);
  if (input.repeat == 1) return;
  absl::flat_hash_set<std::string_view> ids;
  for (const sim::TraceJob& job : jobs) ids.insert(job.job.id);
  const sim::Arrivals arrivals(jobs, input.repeat, {}, 0);
  for (auto later = static_cast<uint32_t>(jobs.size()); later < arrivals.size(); ++later) {
    const std::string id = arrivals.IdOf(later);
    if (!ids.contains(id)) continue;
    return Refuse(problems, "--repeat", fmt::format("{}", input.repeat),
                  fmt::format("two jobs would be called {}", id));
  }
}

}  // namespace

std::vector<conf::Problem> Load(const SimulateInput& input, SimulatedSystem& out) {
  Problems problems;
  scheduler::Cluster cluster;
  LoadCluster(input, cluster, problems);
  if (!problems.empty()) return problems;
  LoadTrace(input, cluster, out.trace, problems);
  LoadScenarios(input, cluster, out.trace.jobs, out.scenarios, problems);
  out.what_if = WhatIf(input);
  scheduler::Checkpoint contract;
  ReadTime("--checkpoint", input.checkpoint, contract.interval, problems);
  ReadTime("--save", input.save, contract.save, problems);
  ReadTime("--restart", input.restart, contract.restart, problems);
  if (contract.interval > conf::Duration::zero() && contract.interval < io::kShortestInterval) {
    Refuse(problems, "--checkpoint", input.checkpoint, "must be at least 1s");
  }
  if (!problems.empty()) return problems;

  if (contract.interval > conf::Duration::zero()) sim::SetCheckpoints(out.trace.jobs, contract);
  // A job that one scenario cannot run is left out of all, so that they are compared on the same jobs.
  for (const Scenario& scenario : out.scenarios) {
    sim::LeaveOutImpossible(out.trace, input.trace, scenario.cluster, scenario.queues);
  }
  Stretch(input, out.trace.jobs, problems);
  return problems;
}

size_t Devices(const scheduler::Cluster& cluster) {
  size_t devices = 0;
  for (scheduler::NodeId node = 0; node < cluster.nodes.size(); ++node)
    devices += cluster.type_of(node).devices;
  return devices;
}

}  // namespace gateway::cli
