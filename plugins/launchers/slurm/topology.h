// Switches as Slurm's topology.conf (topology/tree) names them, and the fabric that they make. Pure:
// slurmrestd does not show them before 23.02, so the file is read by whoever has it.
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

// Errors name the line. Each switch has nodes or switches that there are, none has two parents, none is its
// own ancestor.
absl::StatusOr<std::vector<Switch>> ReadTopology(std::string_view text);

// One fabric over `nodes`, whose domains it sets; nodes that no leaf names stand under the root. Flat where
// there are no switches.
void ApplyTopology(const std::vector<Switch>& switches, scheduler::Cluster& cluster);

}  // namespace plugins::launchers::slurm
