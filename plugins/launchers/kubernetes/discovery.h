// The planner's cluster as the nodes of a Kubernetes make it: kinds and numbers of devices from allocatable
// resources and well-known labels, the fabric from labels of the topology. Pure.
//
// The kind of a device is that of its row in the configuration, else the one that labels of the node name
// (NVIDIA's and AMD's feature discovery, cloud providers), else it is named after its resource. Devices that
// are cut into MIG instances are of a kind of their own, "h100-mig-1g.10gb", whose layout has just the
// profiles that the node offers, and no whole devices to give.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/cluster.h"
#include "scheduler/model.h"

namespace plugins::launchers::kubernetes {

// A level of the fabric, and the labels whose values name its domains: the first one that a node has counts.
struct TopologyLevel {
  std::string level{};
  std::vector<std::string> labels{};
};

// From the node outwards, with the labels of Kubernetes, of NVIDIA's topograph and of cloud providers.
std::vector<TopologyLevel> DefaultTopology();

struct Discovery {
  std::vector<TopologyLevel> topology = DefaultTopology();  // from the node outwards
  // Labels of the planner's nodes, and the nodes' labels that give their values.
  std::map<std::string, std::string> labels{{"zone", "topology.kubernetes.io/zone"}};
};

// The devices that runs hold on a node, as they were given.
struct HeldOnNode {
  std::string kind{};
  uint32_t devices = 0;  // the highest place that is held, and one
};

struct Discovered {
  scheduler::Cluster cluster{};
  std::vector<std::string> left_out{};  // devices that cannot be used, and why
  bool raised = false;                  // a node has devices only since they are held
};
// `held`, by node: these devices are there, whatever the node shows. Nodes are in the order of their names.
Discovered Discover(const std::map<std::string, Node>& nodes, const std::map<std::string, HeldOnNode>& held,
                    const DeviceTable& table, const Discovery& how);

}  // namespace plugins::launchers::kubernetes
