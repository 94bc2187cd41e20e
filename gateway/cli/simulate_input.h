// What `tidegate simulate` is asked to simulate: its options, and the cluster, policies and workload that
// they give.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conf/problem.h"
#include "scheduler/policy.h"
#include "scheduler/queue.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {

struct SimulateInput {
  std::string trace;
  std::string format = "jsonl";
  double scale = 1;
  uint32_t repeat = 1;

  std::string cluster;  // files; without either so many nodes:
  std::string node_list;
  uint32_t nodes = 56;
  uint32_t devices = 8;
  uint32_t nodes_per_leaf = 8;
  uint32_t leaves_per_spine = 0;
  uint32_t add_nodes = 0;
  uint32_t remove_nodes = 0;

  std::string policy;                // a file
  std::vector<std::string> compare;  // two files
  std::string placement;             // instead of the policy's
  std::string backfill;
  std::string defragment;

  // Durations, as text.
  std::string mtbf;
  std::string repair = "4h";
  std::string quarantine = "7d";
  std::vector<std::string> fail_leaf;   // NAME@TIME
  std::vector<std::string> drain_node;  // NAME@TIME
  std::string checkpoint;
  std::string save = "30s";
  std::string restart = "2m";
  std::string load = "0s";
  std::string min_cycle = "0s";
  std::string horizon = "0s";
};

void AddInputOptions(CLI::App& command, SimulateInput& input);

struct NamedPolicy {
  std::string name;
  scheduler::Policy policy;
  std::vector<scheduler::Queue> queues;
};

struct SimulatedSystem {
  scheduler::Cluster cluster;
  std::vector<NamedPolicy> policies;
  scheduler::sim::Trace trace;
  scheduler::sim::WorldOptions world;
};

// Reads the files and applies the options; all that is wrong, or nothing and the system. Rows of the trace
// that were left out are in its report.
std::vector<conf::Problem> Load(const SimulateInput& input, SimulatedSystem& out);

size_t Devices(const scheduler::Cluster& cluster);

// The whole file, or a problem.
std::optional<std::string> ReadFile(const std::string& path, std::vector<conf::Problem>& problems);

}  // namespace gateway::cli
