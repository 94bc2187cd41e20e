// The options of `tidegate simulate` that name the workload, the cluster, the policies and the faults.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gateway::cli {

struct SimulateInput {
  std::string trace;
  std::string format = "jsonl";
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

}  // namespace gateway::cli
