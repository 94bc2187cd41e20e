// A machine as the planner sees it: one node for each kind of its devices, usually one.
//
// A node of the planner has devices of one kind. A machine of several kinds shares its CPUs and memory out
// among its nodes by their numbers of devices. Devices that are cut into instances form a node of their own,
// whose layout is just those instances, since the gateway creates none; whole devices cannot be requested there.
#pragma once

#include <string>
#include <vector>

#include "plugins/devices/device.h"
#include "scheduler/model.h"

namespace plugins::devices {

struct MachineResources {
  std::string name{};
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};
// This machine's host name, CPUs and memory.
MachineResources ThisMachine();

// A node of this machine, as a launcher needs it.
struct LocalNode {
  std::string name{};
  std::vector<Device> devices{};  // in their places
};

struct MachineCluster {
  scheduler::Cluster cluster{};
  std::vector<LocalNode> nodes{};
  std::vector<std::string> left_out{};  // devices that are not used, and why
};
MachineCluster MakeMachineCluster(const MachineResources& machine, const std::vector<Device>& found);

// The nodes of a cluster that is all on this machine and declares no more of its devices than their kinds:
// the runtime numbers them in the order of the declaration.
std::vector<LocalNode> LocalNodesOf(const scheduler::Cluster& cluster);

}  // namespace plugins::devices
