// What `tidegate simulate` is asked to simulate: its options, and the cluster, policies and workload that
// they give.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/problem.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/policy.h"
#include "scheduler/queue.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {

namespace sim = scheduler::sim;

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

// What runs once for each seed: a column of the tables.
struct Scenario {
  std::string name;
  bool is_what_if = false;  // stands beside the system as it is
  scheduler::Cluster cluster;
  scheduler::Policy policy;
  std::vector<scheduler::Queue> queues;
  sim::WorldOptions world;
};

struct SimulatedSystem {
  std::vector<Scenario> scenarios;  // one for each policy; of a what-if, the system as it is before it
  std::string what_if;              // "8 more nodes, quota nlp=64"; empty: nothing
  sim::Trace trace;
};

// Reads the files and applies the options; all that is wrong, or nothing and the system. Rows of the trace
// that were left out are in its report.
std::vector<conf::Problem> Load(const SimulateInput& input, SimulatedSystem& out);

// The policy of this file (empty: the defaults) as --placement, --backfill and --defragment change it.
std::optional<scheduler::io::PolicyFile> LoadPolicy(const SimulateInput& input, const std::string& file,
                                                    const scheduler::Cluster& cluster,
                                                    std::vector<conf::Problem>& problems);

size_t Devices(const scheduler::Cluster& cluster);

// The whole file, or a problem.
std::optional<std::string> ReadFile(const std::string& path, std::vector<conf::Problem>& problems);

// A problem of an option: it stands where a file's name would.
void Refuse(std::vector<conf::Problem>& problems, std::string_view option, std::string_view value,
            std::string message);
// Moves a reader's problems to the others; whether there were none.
bool TakeProblems(std::vector<conf::Problem>& of, std::vector<conf::Problem>& problems);
// Of an option; an empty text leaves `out` as it is.
void ReadTime(std::string_view option, const std::string& text, conf::Duration& out,
              std::vector<conf::Problem>& problems);

}  // namespace gateway::cli
