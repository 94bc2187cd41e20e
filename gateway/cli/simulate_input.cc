#include "gateway/cli/simulate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "conf/text.h"
#include "conf/time.h"
#include "scheduler/io/cluster_yaml.h"
#include "scheduler/io/jobs_jsonl.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/placement/policies.h"
#include "scheduler/sim/traces/openb.h"
#include "scheduler/sim/traces/philly.h"
#include "scheduler/sim/traces/swf.h"
#include "scheduler/sim/workload.h"

namespace gateway::cli {
namespace {

namespace sim = scheduler::sim;
namespace io = scheduler::io;

constexpr std::pair<std::string_view, scheduler::Backfill> kBackfills[] = {
    {"fifo", scheduler::Backfill::kFifo},
    {"best-effort", scheduler::Backfill::kBestEffort},
    {"easy", scheduler::Backfill::kEasy},
    {"conservative", scheduler::Backfill::kConservative},
};

using Problems = std::vector<conf::Problem>;

// Of an option: it stands where a file's name would.
void Refuse(Problems& problems, std::string_view option, std::string_view value, std::string message) {
  problems.push_back({.file = std::string(option),
                      .pointer = {},
                      .line = 0,
                      .value = std::string(value),
                      .message = std::move(message)});
}

void ReadTime(std::string_view option, const std::string& text, conf::Duration& out, Problems& problems) {
  if (text.empty()) return;
  if (const auto time = conf::ParseDuration(text)) {
    out = *time;
  } else {
    Refuse(problems, option, text, fmt::format("\"{}\" must be a duration such as 90d, 12h or 30s", text));
  }
}

scheduler::Cluster UniformCluster(const SimulateInput& input) {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "gpu"}};
  cluster.types = {{.name = "node", .kind = 0, .devices = static_cast<uint8_t>(input.devices)}};
  for (uint32_t i = 0; i < input.nodes; ++i) cluster.nodes.push_back({.name = fmt::format("node-{}", i)});
  scheduler::GroupIntoLeaves(cluster, static_cast<int>(input.nodes_per_leaf),
                             static_cast<int>(input.leaves_per_spine));
  return cluster;
}

// More nodes like the last one, in leaf groups of their own that are as large as its; or fewer, from the end.
void Resize(const SimulateInput& input, scheduler::Cluster& cluster, Problems& problems) {
  if (input.remove_nodes >= cluster.nodes.size() + input.add_nodes) {
    return Refuse(problems, "--remove-nodes", fmt::format("{}", input.remove_nodes),
                  fmt::format("the cluster has {} nodes, one must be left", cluster.nodes.size()));
  }
  const scheduler::Node model = cluster.nodes.back();
  const scheduler::Domain leaf = cluster.fabric.domains[model.domain];
  std::vector<size_t> in_domain(cluster.fabric.domains.size());
  for (const scheduler::Node& node : cluster.nodes) ++in_domain[node.domain];
  const size_t leaf_size = *std::ranges::max_element(in_domain);
  const bool leaves = leaf.parent != scheduler::kNone;
  scheduler::DomainId domain = model.domain;
  size_t room = leaves ? leaf_size - in_domain[domain] : input.add_nodes;
  for (uint32_t i = 0; i < input.add_nodes; ++i) {
    if (room == 0) {
      domain = static_cast<scheduler::DomainId>(cluster.fabric.domains.size());
      room = leaf_size;
      scheduler::Domain added = leaf;
      added.name = fmt::format("added-{}", domain);
      cluster.fabric.domains.push_back(std::move(added));
    }
    --room;
    scheduler::Node node = model;
    node.name = fmt::format("added-node-{}", i);
    node.domain = domain;
    cluster.nodes.push_back(std::move(node));
  }
  cluster.nodes.resize(cluster.nodes.size() - input.remove_nodes);
}

template <class T>
bool TakeProblems(io::Loaded<T>& loaded, Problems& problems) {
  std::ranges::move(loaded.problems, std::back_inserter(problems));
  return loaded.value.has_value();
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
    if (!TakeProblems(loaded, problems)) return;
    out = std::move(*loaded.value);
  }
  if (!input.node_list.empty()) AddNodeList(input.node_list, out, problems);
  if (!problems.empty()) return;
  if (out.nodes.empty()) {
    return Refuse(problems, input.cluster.empty() ? input.node_list : input.cluster, {}, "has no nodes");
  }
  if (input.add_nodes + input.remove_nodes > 0) Resize(input, out, problems);
}

sim::Trace FromLines(io::Jobs read) {
  sim::Trace trace;
  trace.jobs = std::move(read.jobs);
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

void ApplyShortcuts(const SimulateInput& input, scheduler::Policy& policy, Problems& problems) {
  if (!input.placement.empty()) {
    if (scheduler::FindPlacementPolicy(input.placement) == nullptr) {
      std::vector<std::string_view> names;
      for (const scheduler::PlacementPolicy& known : scheduler::PlacementPolicies()) {
        names.push_back(known.name);
      }
      return Refuse(problems, "--placement", input.placement,
                    fmt::format("unknown placement \"{}\"{}; there are {}", input.placement,
                                conf::DidYouMean(input.placement, names), fmt::join(names, ", ")));
    }
    policy.placement = input.placement;
  }
  for (const auto& [word, kind] : kBackfills) {
    if (word == input.backfill) policy.backfill.kind = kind;
  }
  if (!input.defragment.empty()) policy.defragment.enabled = input.defragment == "on";
}

void LoadPolicies(const SimulateInput& input, const scheduler::Cluster& cluster,
                  std::vector<NamedPolicy>& out, Problems& problems) {
  std::vector<std::string> files = input.compare;
  if (!input.policy.empty()) files.insert(files.begin(), input.policy);
  if (files.empty()) out.push_back({.name = "default", .policy = {}, .queues = {}});
  for (const std::string& file : files) {
    const std::optional<std::string> text = ReadFile(file, problems);
    if (!text) continue;
    io::Loaded<io::PolicyFile> loaded = io::ReadPolicy(*text, file, &cluster);
    if (!TakeProblems(loaded, problems)) continue;
    out.push_back(
        {.name = file, .policy = std::move(loaded.value->policy), .queues = std::move(loaded.value->queues)});
  }
  for (NamedPolicy& policy : out) {
    ApplyShortcuts(input, policy.policy, problems);
    if (files.empty()) {
      const auto* const word = std::ranges::find(kBackfills, policy.policy.backfill.kind,
                                                 &std::pair<std::string_view, scheduler::Backfill>::second);
      policy.name = fmt::format("{} + {}", word->first, policy.policy.placement);
    }
  }
}

// "NAME@TIME"; the index of the name among `named`, by its `name`.
template <class Named>
std::optional<std::pair<uint32_t, conf::Duration>> ReadPlaceAndTime(std::string_view option,
                                                                    const std::string& text,
                                                                    const std::vector<Named>& named,
                                                                    Problems& problems) {
  const size_t at = text.rfind('@');
  const auto time = at == std::string::npos ? std::nullopt : conf::ParseDuration(text.substr(at + 1));
  if (!time) {
    Refuse(
        problems, option, text,
        fmt::format("\"{}\" must be NAME@TIME with a time since the first submission, such as x@36h", text));
    return std::nullopt;
  }
  const std::string_view name = std::string_view(text).substr(0, at);
  const auto found = std::ranges::find(named, name, &Named::name);
  if (found == named.end()) {
    std::vector<std::string_view> names;
    for (const Named& one : named) names.push_back(one.name);
    Refuse(problems, option, text,
           fmt::format("the cluster has no \"{}\"{}", name, conf::DidYouMean(name, names)));
    return std::nullopt;
  }
  return std::pair(static_cast<uint32_t>(found - named.begin()), *time);
}

void LoadWorld(const SimulateInput& input, const scheduler::Cluster& cluster, sim::WorldOptions& out,
               Problems& problems) {
  ReadTime("--mtbf", input.mtbf, out.mtbf, problems);
  ReadTime("--repair", input.repair, out.repair, problems);
  ReadTime("--quarantine", input.quarantine, out.quarantine, problems);
  ReadTime("--load", input.load, out.load, problems);
  ReadTime("--min-cycle", input.min_cycle, out.min_cycle, problems);
  ReadTime("--horizon", input.horizon, out.horizon, problems);
  for (const std::string& text : input.fail_leaf) {
    if (const auto fault = ReadPlaceAndTime("--fail-leaf", text, cluster.fabric.domains, problems)) {
      out.faults.push_back({.domain = fault->first, .at = fault->second});
    }
  }
  for (const std::string& text : input.drain_node) {
    if (const auto drain = ReadPlaceAndTime("--drain-node", text, cluster.nodes, problems)) {
      out.drains.push_back({.node = drain->first, .at = drain->second, .length = out.repair});
    }
  }
}

}  // namespace

std::optional<std::string> ReadFile(const std::string& path, std::vector<conf::Problem>& problems) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open()) {
    Refuse(problems, path, {}, "cannot be read");
    return std::nullopt;
  }
  return text;
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
      ->capture_default_str();
  command.add_option("--repeat", input.repeat, "The trace so many times, one after the other")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();

  text("--cluster", input.cluster, "The cluster, a YAML file; instead of --nodes and what describes them");
  text("--node-list", input.node_list,
       "Nodes as a CSV file, added to --cluster or alone (also openb's form)");
  command.add_option("--nodes", input.nodes, "Nodes, all alike")
      ->check(CLI::Range(1, 1'000'000))
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
  LoadCluster(input, out.cluster, problems);
  if (!problems.empty()) return problems;
  LoadPolicies(input, out.cluster, out.policies, problems);
  LoadTrace(input, out.cluster, out.trace, problems);
  LoadWorld(input, out.cluster, out.world, problems);
  scheduler::Checkpoint contract;
  ReadTime("--checkpoint", input.checkpoint, contract.interval, problems);
  ReadTime("--save", input.save, contract.save, problems);
  ReadTime("--restart", input.restart, contract.restart, problems);
  if (!problems.empty()) return problems;

  if (contract.interval > conf::Duration::zero()) sim::SetCheckpoints(out.trace.jobs, contract);
  for (NamedPolicy& policy : out.policies) {
    if (policy.queues.empty()) policy.queues = sim::QueuesOf(out.trace.jobs);
  }
  // What any of the policies cannot run is left out for all: they are compared on the same jobs.
  for (const NamedPolicy& policy : out.policies) {
    sim::LeaveOutImpossible(out.trace, input.trace, out.cluster, policy.queues);
  }
  sim::ScaleArrivals(out.trace.jobs, input.scale);
  sim::Repeat(out.trace.jobs, input.repeat);
  return problems;
}

size_t Devices(const scheduler::Cluster& cluster) {
  size_t devices = 0;
  for (scheduler::NodeId node = 0; node < cluster.nodes.size(); ++node)
    devices += cluster.type_of(node).devices;
  return devices;
}

}  // namespace gateway::cli
