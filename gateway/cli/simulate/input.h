// The options of `tidegate simulate jobs` and `fill` that name the workload, the cluster, the policies and the
// faults.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gateway::cli {

struct SimulateInput {
  std::string trace;
  std::string format = "auto";
  double scale = 1;
  uint32_t repeat = 1;

  std::string cluster;  // files; without them, `nodes` nodes of this form:
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
  std::string queues;               // a file: its queues instead of the policy's
  std::vector<std::string> quotas;  // QUEUE=DEVICES or QUEUE=KIND:DEVICES
  bool without_base = false;

  // Durations, as text.
  std::string mtbf = "0s";
  std::string repair = "4h";
  std::string quarantine = "7d";
  std::vector<std::string> fail_leaf;   // NAME@TIME
  std::vector<std::string> drain_node;  // NAME@TIME
  std::string checkpoint = "0s";
  std::string save = "30s";
  std::string restart = "2m";
  std::string load = "0s";
  std::string min_cycle = "0s";
  std::string horizon = "0s";
};

// The trace, which is the command's argument, and its format.
void AddTraceOptions(CLI::App& command, SimulateInput& input);
void AddClusterOptions(CLI::App& command, SimulateInput& input);
// --policy, --compare and --placement.
void AddPolicyOptions(CLI::App& command, SimulateInput& input);
// --policy, --placement, --backfill and --defragment: what one decision depends on.
void AddDecisionOptions(CLI::App& command, SimulateInput& input);
// Only of a simulation with time.
void AddTimeOptions(CLI::App& command, SimulateInput& input);
// --add-nodes, --remove-nodes, --without-base; with `queues` also --queues and --quota.
void AddWhatIfOptions(CLI::App& command, SimulateInput& input, bool queues);
void AddFaultOptions(CLI::App& command, SimulateInput& input);

}  // namespace gateway::cli
