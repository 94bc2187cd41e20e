// A machine as the planner sees it: as many nodes as it has kinds of devices, usually one.
//
// The planner's nodes have devices of one kind; CPU and memory of a machine of several are shared out by how
// many devices each has. Devices that are cut into instances are a node of their own, with a layout of just
// those instances, for the gateway makes none; whole devices are not to be asked for there.
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
// Of this machine: its host name, its CPUs and its memory.
MachineResources ThisMachine();

// A node of this machine: what a launcher goes by.
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

// The nodes of a cluster that is all on this machine, where nothing tells of its devices but their kinds: a
// runtime numbers them in the order in which they stand there.
std::vector<LocalNode> LocalNodesOf(const scheduler::Cluster& cluster);

}  // namespace plugins::devices
