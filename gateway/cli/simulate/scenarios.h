// The scenarios of `tidegate simulate jobs` and `fill`: each policy, or a what-if beside the present system.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conf/problem.h"
#include "gateway/cli/simulate/input.h"
#include "scheduler/io/policy_yaml.h"
#include "scheduler/policy.h"
#include "scheduler/queue.h"
#include "scheduler/sim/world.h"

namespace gateway::cli {

namespace sim = scheduler::sim;

// One column of the tables; it runs once for each seed.
struct Scenario {
  std::string name;
  bool is_what_if = false;  // stands beside the system as it is
  scheduler::Cluster cluster;
  scheduler::Policy policy;
  std::vector<scheduler::Queue> queues;
  sim::WorldOptions world;
};

// Makes the scenarios from the options and from the cluster as the files describe it. Where no policy has
// queues, the jobs' own are used. Problems of the options are added to `problems`.
void LoadScenarios(const SimulateInput& input, const scheduler::Cluster& cluster,
                   const std::vector<sim::TraceJob>& jobs, std::vector<Scenario>& out,
                   std::vector<conf::Problem>& problems);

// The changes that the options make to the system, in words; empty: none.
std::string WhatIf(const SimulateInput& input);

// The policy of this file (empty: the defaults) as --placement, --backfill and --defragment change it.
std::optional<scheduler::io::PolicyFile> LoadPolicy(const SimulateInput& input, const std::string& file,
                                                    const scheduler::Cluster& cluster,
                                                    std::vector<conf::Problem>& problems);

}  // namespace gateway::cli
