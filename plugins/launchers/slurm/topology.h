// The switches of Slurm's topology.conf (topology/tree), and the fabric that they form. Pure: the caller
// reads the file, for slurmrestd does not show switches before 23.02.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model.h"

namespace plugins::launchers::slurm {

struct Switch {
  std::string name{};
  std::vector<std::string> nodes{};     // of a leaf
  std::vector<std::string> switches{};  // of one above others
};

// Errors name the line. Each switch has nodes or existing switches, no switch has two parents, and none is
// its own ancestor.
absl::StatusOr<std::vector<Switch>> ReadTopology(std::string_view text);

// Sets the cluster's fabric and its nodes' domains; nodes that no leaf names belong to the root. Flat without
// switches.
void ApplyTopology(const std::vector<Switch>& switches, scheduler::Cluster& cluster);

}  // namespace plugins::launchers::slurm
