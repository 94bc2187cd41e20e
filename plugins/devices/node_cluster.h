// A machine as the planner sees it: a cluster of one node.
//
// A node has devices of one kind. Where a machine has several, those of the kind with most devices count
// (the first of equals), and `left_out` says what does not. Devices that are cut into instances give a layout
// of just those instances, if all are cut alike, for the gateway makes none; then the whole devices are not
// to be asked for.
#pragma once

#include <string>
#include <vector>

#include "plugins/devices/device.h"
#include "scheduler/model.h"

namespace plugins::devices {

struct NodeResources {
  std::string name{};
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};
// Of this machine: its host name, its CPUs and its memory.
NodeResources ThisMachine();

struct NodeCluster {
  scheduler::Cluster cluster{};
  std::vector<Device> devices{};  // of the node, by place: what a launcher goes by
  std::vector<std::string> left_out{};
};

NodeCluster MakeNodeCluster(const NodeResources& node, const std::vector<Device>& found);

}  // namespace plugins::devices
