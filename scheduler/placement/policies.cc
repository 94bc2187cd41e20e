#include "scheduler/placement/policies.h"

#include <algorithm>
#include <array>

#include "scheduler/placement/devices.h"
#include "scheduler/placement/fgd.h"
#include "scheduler/placement/scores.h"
#include "scheduler/placement/tide.h"

namespace scheduler {
namespace {

PolicyTables LargestNode(const Cluster& cluster, const DemandMix&) {
  PolicyTables tables;
  for (const Node& node : cluster.nodes) {
    const NodeType& type = cluster.types[node.type];
    tables.largest_cpu = std::max(tables.largest_cpu, static_cast<double>(type.cpu_milli));
    tables.largest_milli = std::max(tables.largest_milli, static_cast<double>(type.devices) * kWholeDevice);
  }
  return tables;
}

PolicyTables ForFgd(const Cluster& cluster, const DemandMix& mix) {
  PolicyTables tables;
  tables.fragmentation = FragmentationTable(cluster, mix);
  return tables;
}

PolicyTables ForTide(const Cluster& cluster, const DemandMix& mix) {
  PolicyTables tables = LargestNode(cluster, mix);
  tables.waste = WasteTable(cluster, mix);
  return tables;
}

constexpr std::array<PlacementPolicy, 10> kPolicies = {{
    {"default", "the node where the expected waste of devices grows least (tide)", TideScore, TideDevices,
     TieBreak::kFullestLeaf, ForTide},
    {"best-fit", "the node with the least CPU and devices left, both weighted alike", LeastLeftAfter,
     TightestDevices, TieBreak::kFixedOrder, LargestNode},
    {"binpack", "the node with the least left", LeastDevicesLeft, TightestDevices, TieBreak::kRandom,
     LargestNode},
    {"dot-product", "the node whose free amounts are least like the request", DotProduct, TightestDevices,
     TieBreak::kFixedOrder, LargestNode},
    {"e-binpack", "the node with the least left, in the fullest leaf group", LeastDevicesLeftLinked,
     TightestDevices, TieBreak::kFullestLeaf, LargestNode},
    {"fgd", "the node where fragmentation grows least, as published", FgdScore, FgdDevices,
     TieBreak::kFixedOrder, ForFgd},
    {"gpu-clustering", "the node that holds members of the same size", AmongItsOwnSize, TightestDevices,
     TieBreak::kFixedOrder, LargestNode, true},
    {"gpu-packing", "used devices, then used nodes, then free ones", UsedDevicesFirst, TightestDevices,
     TieBreak::kFixedOrder, LargestNode},
    {"random", "any node that has room", NoScore, RandomDevices, TieBreak::kRandom, LargestNode},
    {"spread", "the node with the most left", MostDevicesLeft, TightestDevices, TieBreak::kEmptiestLeaf,
     LargestNode},
}};

}  // namespace

std::span<const PlacementPolicy> PlacementPolicies() {
  return kPolicies;
}

const PlacementPolicy* FindPlacementPolicy(std::string_view name) {
  const auto* const at = std::ranges::find(kPolicies, name, &PlacementPolicy::name);
  return at == kPolicies.end() ? nullptr : at;
}

}  // namespace scheduler
