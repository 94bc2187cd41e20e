#include "gateway/cli/simulate/scenarios.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "conf/text.h"
#include "gateway/cli/simulate/option_problems.h"
#include "scheduler/io/bounds.h"
#include "scheduler/io/what_if.h"
#include "scheduler/placement/policies.h"
#include "scheduler/sim/workload.h"

namespace gateway::cli {
namespace {

namespace io = scheduler::io;
using Problems = std::vector<conf::Problem>;

template <class Named>
std::string Hint(std::string_view name, const std::vector<Named>& named) {
  std::vector<std::string_view> names;
  names.reserve(named.size());
  for (const Named& one : named) names.push_back(one.name);
  return conf::DidYouMean(name, names);
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
  policy.backfill.kind =
      conf::ValueOf(scheduler::kBackfillWords, input.backfill).value_or(policy.backfill.kind);
  if (!input.defragment.empty()) policy.defragment.enabled = input.defragment == "on";
}

// "fifo-spread" for conf/policies/fifo-spread.yaml, unless two files have the same name.
std::vector<std::string> ShortNames(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).stem().string());
  return std::set(names.begin(), names.end()).size() == files.size() ? names : files;
}

void LoadPolicies(const SimulateInput& input, const scheduler::Cluster& cluster, std::vector<Scenario>& out,
                  Problems& problems) {
  std::vector<std::string> files = input.compare;
  if (files.empty()) files.push_back(input.policy);
  const std::vector<std::string> names = ShortNames(files);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string& file = files[i];
    std::optional<io::PolicyFile> policy = LoadPolicy(input, file, cluster, problems);
    if (!policy) continue;
    Scenario made{.name = names[i],
                  .cluster = {},
                  .policy = std::move(policy->policy),
                  .queues = std::move(policy->queues),
                  .world = {}};
    if (file.empty()) {
      const std::string_view backfill = conf::WordOf(scheduler::kBackfillWords, made.policy.backfill.kind);
      made.name = fmt::format("{} + {}", backfill, made.policy.placement);
    }
    out.push_back(std::move(made));
  }
}

// More nodes like the last one, in leaf groups of their own that are as large as its; or fewer, from the end.
void Resize(const SimulateInput& input, scheduler::Cluster& cluster, Problems& problems) {
  if (input.remove_nodes >= cluster.nodes.size() + input.add_nodes) {
    return Refuse(problems, "--remove-nodes", fmt::format("{}", input.remove_nodes),
                  fmt::format("the cluster has {} nodes, one must be left", cluster.nodes.size()));
  }
  if (input.add_nodes > 0)
    io::AddNodes(cluster, static_cast<scheduler::NodeId>(cluster.nodes.size() - 1), input.add_nodes);
  cluster.nodes.resize(cluster.nodes.size() - input.remove_nodes);
}

// The queues of a what-if: another file's, with these quotas, checked as a policy file's are.
void ChangeQueues(const SimulateInput& input, const scheduler::Cluster& cluster,
                  std::vector<scheduler::Queue>& queues, Problems& problems) {
  if (!input.queues.empty()) {
    const std::optional<std::string> text = ReadFile(input.queues, problems);
    if (!text) return;
    io::Loaded<io::PolicyFile> loaded = io::ReadPolicy(*text, input.queues, &cluster);
    if (!TakeProblems(loaded.problems, problems)) return;
    if (loaded.value->queues.empty()) return Refuse(problems, input.queues, {}, "has no queues");
    queues = std::move(loaded.value->queues);
  }
  if (input.quotas.empty()) return;
  const size_t before = problems.size();
  for (const std::string& quota : input.quotas) {
    if (std::string why = io::SetQuota(quota, queues); !why.empty())
      Refuse(problems, "--quota", quota, std::move(why));
  }
  if (problems.size() > before) return;
  const std::string changed = io::WritePolicy({.policy = {}, .queues = queues});
  for (const conf::Problem& problem : io::ReadPolicy(changed, "--quota", &cluster).problems) {
    constexpr std::string_view kQueues = "/queues/";
    size_t at = queues.size();
    if (problem.pointer.starts_with(kQueues))
      at = std::strtoull(&problem.pointer[kQueues.size()], nullptr, 10);
    const std::string whose = at < queues.size() ? fmt::format("queue {}: ", queues[at].name) : "";
    Refuse(problems, "--quota", fmt::format("{}", fmt::join(input.quotas, " ")), whose + problem.message);
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
  if (!time || *time > io::kLongest) {
    Refuse(
        problems, option, text,
        fmt::format("\"{}\" must be NAME@TIME with a time since the first submission, such as x@36h", text));
    return std::nullopt;
  }
  const std::string_view name = std::string_view(text).substr(0, at);
  const auto found = std::ranges::find(named, name, &Named::name);
  if (found == named.end()) {
    Refuse(problems, option, text, fmt::format("the cluster has no \"{}\"{}", name, Hint(name, named)));
    return std::nullopt;
  }
  return std::pair(static_cast<uint32_t>(found - named.begin()), *time);
}

void LoadWorld(const SimulateInput& input, sim::WorldOptions& out, Problems& problems) {
  ReadTime("--mtbf", input.mtbf, out.mtbf, problems);
  ReadTime("--repair", input.repair, out.repair, problems);
  ReadTime("--quarantine", input.quarantine, out.quarantine, problems);
  ReadTime("--load", input.load, out.load, problems);
  ReadTime("--min-cycle", input.min_cycle, out.min_cycle, problems);
  ReadTime("--horizon", input.horizon, out.horizon, problems);
  out.times = input.repeat;
}

void AddFaults(const SimulateInput& input, Scenario& out, Problems& problems) {
  for (const std::string& text : input.fail_leaf) {
    if (const auto fault = ReadPlaceAndTime("--fail-leaf", text, out.cluster.fabric.domains, problems)) {
      out.world.faults.push_back({.domain = fault->first, .at = fault->second});
    }
  }
  for (const std::string& text : input.drain_node) {
    if (const auto drain = ReadPlaceAndTime("--drain-node", text, out.cluster.nodes, problems)) {
      out.world.drains.push_back({.node = drain->first, .at = drain->second, .length = out.world.repair});
    }
  }
}

void ChangeSystem(const SimulateInput& input, Scenario& scenario, Problems& problems) {
  if (input.add_nodes + input.remove_nodes > 0) Resize(input, scenario.cluster, problems);
  ChangeQueues(input, scenario.cluster, scenario.queues, problems);
  AddFaults(input, scenario, problems);
}

}  // namespace

std::optional<io::PolicyFile> LoadPolicy(const SimulateInput& input, const std::string& file,
                                         const scheduler::Cluster& cluster, Problems& problems) {
  io::PolicyFile policy;
  if (!file.empty()) {
    const std::optional<std::string> text = ReadFile(file, problems);
    if (!text) return std::nullopt;
    io::Loaded<io::PolicyFile> loaded = io::ReadPolicy(*text, file, &cluster);
    if (!TakeProblems(loaded.problems, problems)) return std::nullopt;
    policy = std::move(*loaded.value);
  }
  const size_t before = problems.size();
  ApplyShortcuts(input, policy.policy, problems);
  if (problems.size() > before) return std::nullopt;
  return policy;
}

std::string WhatIf(const SimulateInput& input) {
  std::vector<std::string> parts;
  const auto nodes = [](uint32_t count, std::string_view which) {
    return fmt::format("{} {} node{}", count, which, count == 1 ? "" : "s");
  };
  if (input.add_nodes > 0) parts.push_back(nodes(input.add_nodes, "more"));
  if (input.remove_nodes > 0) parts.push_back(nodes(input.remove_nodes, "fewer"));
  if (!input.queues.empty()) parts.push_back(fmt::format("queues of {}", input.queues));
  for (const std::string& quota : input.quotas) parts.push_back("quota " + quota);
  for (const std::string& fault : input.fail_leaf) parts.push_back(fault + " failed");
  for (const std::string& drain : input.drain_node) parts.push_back(drain + " drained");
  return fmt::format("{}", fmt::join(parts, ", "));
}

void LoadScenarios(const SimulateInput& input, const scheduler::Cluster& cluster,
                   const std::vector<sim::TraceJob>& jobs, std::vector<Scenario>& out, Problems& problems) {
  LoadPolicies(input, cluster, out, problems);
  sim::WorldOptions world;
  LoadWorld(input, world, problems);
  if (!problems.empty()) return;
  for (Scenario& scenario : out) {
    scenario.cluster = cluster;
    scenario.world = world;
    if (scenario.queues.empty()) scenario.queues = sim::QueuesOf(jobs);
  }
  if (WhatIf(input).empty()) return;
  // Two policies are compared with it; one is run with it and without it.
  if (out.size() == 1 && !input.without_base) {
    Scenario changed = out.front();
    changed.name = "what if";
    changed.is_what_if = true;
    ChangeSystem(input, changed, problems);
    out.push_back(std::move(changed));
    return;
  }
  for (Scenario& scenario : out) ChangeSystem(input, scenario, problems);
}

}  // namespace gateway::cli
