#include "gateway/cli/simulate_input.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "conf/text.h"
#include "conf/time.h"
#include "gateway/cli/files.h"
#include "gateway/cli/simulate_scenarios.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/cluster_yaml.h"
#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/sim/traces/openb.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/traces/swf.h"
#include "scheduler/sim/workload.h"

namespace gateway::cli {
namespace {

namespace io = scheduler::io;

using Problems = std::vector<conf::Problem>;

constexpr size_t kMostBytes = size_t{1} << 30;  // of one file
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

void LoadTrace(const SimulateInput& input, const scheduler::Cluster& cluster, sim::Trace& out,
               Problems& problems) {
  const std::optional<std::string> text = ReadFile(input.trace, problems);
  if (!text) return;
  const uint32_t per_node = LargestNode(cluster);
  if (input.format == "philly") {
    out = sim::ReadPhilly(*text, input.trace, per_node);
  } else if (input.format == "openb") {
    out = sim::ReadOpenb(*text, input.trace);
  } else if (input.format == "swf") {
    out = sim::ReadSwf(*text, input.trace, per_node);
  } else {
    out = FromLines(io::ReadJobs(*text, input.trace));
  }
}

// Faster or slower arrivals, and repetition, where the clock can still follow.
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
  sim::Repeat(jobs, input.repeat);
  absl::flat_hash_set<std::string_view> ids;
  for (const sim::TraceJob& job : jobs) {
    if (ids.insert(job.job.id).second) continue;
    return Refuse(problems, "--repeat", fmt::format("{}", input.repeat),
                  fmt::format("two jobs would be called {}", job.job.id));
  }
}

}  // namespace

void Refuse(Problems& problems, std::string_view option, std::string_view value, std::string message) {
  problems.push_back({.file = std::string(option),
                      .pointer = {},
                      .line = 0,
                      .value = std::string(value),
                      .message = std::move(message)});
}

bool TakeProblems(Problems& of, Problems& problems) {
  const bool none = of.empty();
  std::ranges::move(of, std::back_inserter(problems));
  return none;
}

void ReadTime(std::string_view option, const std::string& text, conf::Duration& out, Problems& problems) {
  if (text.empty()) return;
  const auto time = conf::ParseDuration(text);
  if (time && *time <= io::kLongest) {
    out = *time;
  } else {
    Refuse(problems, option, text,
           fmt::format("\"{}\" must be a duration such as 90d, 12h or 30s, at most {}", text,
                       io::kLongestInWords));
  }
}

std::optional<std::string> ReadFile(const std::string& path, Problems& problems) {
  absl::StatusOr<std::string> text = ReadWhole(path, kMostBytes);
  if (text.ok()) return *std::move(text);
  Refuse(problems, path, {}, fmt::format("cannot be read: {}", conf::Std(text.status().message())));
  return std::nullopt;
}

void AddInputOptions(CLI::App& command, SimulateInput& input) {
  const auto text = [&](const char* name, std::string& out, const char* what) {
    return command.add_option(name, out, what);
  };
  text("--trace", input.trace, "The workload, a file");
  text("--format", input.format, "Of the trace: jsonl, philly, openb or swf")
      ->check(CLI::IsMember({"jsonl", "philly", "openb", "swf"}))
      ->capture_default_str();
  command.add_option("--scale", input.scale, "Jobs arrive so many times as fast")
      ->check(CLI::Range(1e-6, 1e6))
      ->check([](const std::string& text) -> std::string {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "is not a number" : "";
      })
      ->capture_default_str();
  command.add_option("--repeat", input.repeat, "The trace so many times, one after the other")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();

  text("--cluster", input.cluster, "The cluster, a YAML file; instead of --nodes and what describes them");
  text("--node-list", input.node_list,
       "Nodes as a CSV file, added to --cluster or alone (also openb's form)");
  command.add_option("--nodes", input.nodes, "Nodes, all alike")
      ->check(CLI::Range(1, 200'000))
      ->capture_default_str();
  command.add_option("--devices", input.devices, "GPUs in each")
      ->check(CLI::Range(1, scheduler::kMaxDevices))
      ->capture_default_str();
  command.add_option("--nodes-per-leaf", input.nodes_per_leaf, "Nodes in each leaf group")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--leaves-per-spine", input.leaves_per_spine, "Leaf groups under each spine; 0: no spines")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--add-nodes", input.add_nodes, "What if there were so many more, like the last one")
      ->check(CLI::Range(0, 1'000'000));
  command.add_option("--remove-nodes", input.remove_nodes, "What if there were so many fewer, from the end")
      ->check(CLI::Range(0, 1'000'000));

  CLI::Option* policy = text("--policy", input.policy, "The policy, a YAML file");
  command.add_option("--compare", input.compare, "Two policy files, to run one beside the other")
      ->expected(2)
      ->excludes(policy);
  text("--placement", input.placement, "Placement by this name, instead of the policy's");
  text("--backfill", input.backfill, "fifo, best-effort, easy or conservative, instead of the policy's")
      ->check(CLI::IsMember({"fifo", "best-effort", "easy", "conservative"}));
  text("--defragment", input.defragment, "on or off, instead of the policy's")
      ->check(CLI::IsMember({"on", "off"}));

  text("--queues", input.queues, "What if the queues were those of this policy file");
  command.add_option("--quota", input.quotas,
                     "QUEUE=DEVICES, or QUEUE=KIND:DEVICES: what if the queue deserved so many");
  command.add_flag("--without-base", input.without_base,
                   "Run a what-if alone, not beside the system as it is");

  text("--mtbf", input.mtbf, "Mean time between faults of one node; none when not given");
  text("--repair", input.repair, "Until a failed or drained node is back")->capture_default_str();
  text("--quarantine", input.quarantine, "Until a node is back that failed too often for the policy's faults")
      ->capture_default_str();
  command.add_option("--fail-leaf", input.fail_leaf,
                     "NAME@TIME: all nodes of this leaf group (or spine) fail, so long after the start");
  command.add_option("--drain-node", input.drain_node, "NAME@TIME: this node takes no new work for --repair");
  text("--checkpoint", input.checkpoint, "Jobs that state no checkpoint contract take one so often");
  text("--save", input.save, "and it holds them up for so long")->capture_default_str();
  text("--restart", input.restart, "and so long to restore it")->capture_default_str();
  text("--load", input.load, "From any start of a job to its work")->capture_default_str();
  text("--min-cycle", input.min_cycle, "Time between planning cycles, at least")->capture_default_str();
  text("--horizon", input.horizon, "End after so long; 0: when all jobs have ended")->capture_default_str();
}

std::vector<conf::Problem> Load(const SimulateInput& input, SimulatedSystem& out) {
  Problems problems;
  scheduler::Cluster cluster;
  LoadCluster(input, cluster, problems);
  if (!problems.empty()) return problems;
  LoadTrace(input, cluster, out.trace, problems);
  LoadScenarios(input, cluster, out, problems);
  scheduler::Checkpoint contract;
  ReadTime("--checkpoint", input.checkpoint, contract.interval, problems);
  ReadTime("--save", input.save, contract.save, problems);
  ReadTime("--restart", input.restart, contract.restart, problems);
  if (contract.interval > conf::Duration::zero() && contract.interval < io::kShortestInterval) {
    Refuse(problems, "--checkpoint", input.checkpoint, "must be at least 1s");
  }
  if (!problems.empty()) return problems;

  if (contract.interval > conf::Duration::zero()) sim::SetCheckpoints(out.trace.jobs, contract);
  // What one scenario cannot run is left out of all: they are compared on the same jobs.
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
