// The fleet's own small file, server.state_dir/replicas.json: which runs there are and what each was given of
// which node, so that a process that comes after this one, killed at any point, knows what is its own and
// which devices are taken. Written before a launcher is asked, as a whole, and durable when the write
// returns.
//
// Blocks on the disk: not on a loop's thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "conf/time.h"
#include "plugins/launchers/launcher.h"

namespace gateway::control {

struct FleetEntry {
  std::string run;
  std::string model;
  plugins::launchers::Grant grant;
  conf::TimePoint launched{};

  bool operator==(const FleetEntry& other) const;
};

// Empty where there is no file. DataLoss: it is not what this writes.
absl::StatusOr<std::vector<FleetEntry>> ReadFleet(const std::string& path);
absl::Status WriteFleet(const std::string& path, const std::vector<FleetEntry>& entries);

}  // namespace gateway::control
