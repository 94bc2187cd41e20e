// The planner's cluster as the nodes of Kubernetes make it.
#include "plugins/launchers/kubernetes/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plugins::launchers::kubernetes {
namespace {

using scheduler::Cluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Labels = std::map<std::string, std::string>;
using Devices = std::map<std::string, uint32_t>;

Node NodeWith(const std::string& name, Devices devices, Labels labels = {}) {
  Node node;
  node.name = name;
  node.ready = "True";
  node.labels = std::move(labels);
  node.devices = std::move(devices);
  node.cpu_milli = 95'500;
  node.memory_mib = 2'064'001;
  return node;
}

Discovered Found(const std::vector<Node>& list, std::vector<DeviceResource> rows = {},
                 const Discovery& how = {}, const std::map<std::string, HeldOnNode>& held = {}) {
  std::map<std::string, Node> nodes;
  for (const Node& node : list) nodes[node.name] = node;
  Discovered found = Discover(nodes, held, DeviceTable(std::move(rows)), how);
  EXPECT_EQ(scheduler::FirstDefect(found.cluster), "");
  return found;
}

std::string KindOn(const Cluster& cluster, size_t node) {
  const scheduler::NodeType& type = cluster.types[cluster.nodes[node].type];
  return type.devices == 0 ? std::string() : cluster.kinds[type.kind].name;
}

// The names of the domains of a node, from the nearest one.
std::vector<std::string> PlaceOf(const Cluster& cluster, size_t node) {
  std::vector<std::string> place;
  for (scheduler::DomainId d = cluster.nodes[node].domain; d != scheduler::kNone;
       d = cluster.fabric.domains[d].parent)
    place.push_back(cluster.fabric.domains[d].name);
  return place;
}

TEST(KubernetesDiscovery, DevicesAreWhatIsAllocatable) {
  const Discovered found = Found(
      {NodeWith("a", {{"nvidia.com/gpu", 8}, {"rdma/ib", 4}},
                {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/gpu.memory", "81559"}}),
       NodeWith("b", {{"nvidia.com/gpu", 7}}, {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}),
       NodeWith("c", {})});
  const Cluster& cluster = found.cluster;
  ASSERT_EQ(cluster.nodes.size(), 3u);
  ASSERT_EQ(cluster.kinds.size(), 1u);
  EXPECT_EQ(cluster.kinds[0].name, "h100");
  EXPECT_EQ(cluster.kinds[0].memory_mib, 81559);
  EXPECT_EQ(cluster.type_of(0).devices, 8);
  EXPECT_EQ(cluster.type_of(1).devices, 7);
  EXPECT_EQ(cluster.type_of(2).devices, 0);
  EXPECT_EQ(cluster.type_of(0).cpu_milli, 95'000);
  EXPECT_EQ(cluster.type_of(0).memory_mib % 1024, 0);
  EXPECT_THAT(cluster.fabric.levels, ElementsAre("cluster"));
  EXPECT_THAT(found.left_out, IsEmpty());
}

TEST(KubernetesDiscovery, TheKindIsThatOfTheRowElseOfLabelsElseOfTheResource) {
  const Cluster cluster =
      Found({NodeWith("a", {{"example.com/npu", 4}}, {{"example.com/model", "a2"}}),
             NodeWith("b", {{"example.com/npu", 4}}), NodeWith("c", {{"huawei.com/Ascend910", 8}}),
             NodeWith("d", {{"amd.com/gpu", 8}}, {{"amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"}}),
             NodeWith("e", {{"nvidia.com/gpu", 4}}, {{"cloud.google.com/gke-accelerator", "nvidia-l4"}}),
             NodeWith("f", {{"nvidia.com/gpu", 4}})},
            {{"example.com/npu", "npu-a2", "example.com/model", "a2"}, {"example.com/npu", "", "", ""}})
          .cluster;
  EXPECT_EQ(KindOn(cluster, 0), "npu-a2");
  EXPECT_EQ(KindOn(cluster, 1), "npu");
  EXPECT_EQ(KindOn(cluster, 2), "ascend-910");
  EXPECT_EQ(KindOn(cluster, 3), "mi300x");
  EXPECT_EQ(KindOn(cluster, 4), "l4");
  EXPECT_EQ(KindOn(cluster, 5), "nvidia");
}

TEST(KubernetesDiscovery, SharedDevicesAndSingleInstancesAreKindsOfTheirOwn) {
  const Cluster cluster = Found({NodeWith("a", {{"nvidia.com/gpu", 7}},
                                          {{"nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}}),
                                 NodeWith("b", {{"nvidia.com/gpu", 4}},
                                          {{"nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED"}})})
                              .cluster;
  EXPECT_EQ(KindOn(cluster, 0), "a100-mig-1g.5gb");
  EXPECT_EQ(KindOn(cluster, 1), "a100-shared");
}

TEST(KubernetesDiscovery, ADeviceThatIsCutHasTheInstancesOfItsNode) {
  const Cluster cluster = Found({NodeWith("a", {{"nvidia.com/gpu", 0}, {"nvidia.com/mig-1g.10gb", 56}},
                                          {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}),
                                 NodeWith("b", {{"nvidia.com/mig-1g.10gb", 4}, {"nvidia.com/mig-3g.40gb", 2}},
                                          {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}})})
                              .cluster;
  EXPECT_EQ(KindOn(cluster, 0), "h100-mig-1g.10gb");
  EXPECT_EQ(cluster.type_of(0).devices, 8);
  const scheduler::PartitionLayout& small = cluster.layouts[cluster.kinds[0].layout];
  ASSERT_EQ(small.profiles.size(), 1u);
  EXPECT_EQ(small.profiles[0].starts.size(), 7u);
  EXPECT_EQ(KindOn(cluster, 1), "h100-mig-2x1g.10gb+1x3g.40gb");
  EXPECT_EQ(cluster.type_of(1).devices, 2);
  const scheduler::PartitionLayout& mixed = cluster.layouts[cluster.kinds[1].layout];
  ASSERT_EQ(mixed.profiles.size(), 2u);
  EXPECT_EQ(mixed.profiles[0].name, "3g.40gb");
  EXPECT_EQ(mixed.profiles[0].starts.size(), 1u);
  EXPECT_EQ(mixed.profiles[1].starts.size(), 2u);
}

TEST(KubernetesDiscovery, DevicesThatThePlannerCannotHoldAreNamed) {
  const Discovered found =
      Found({NodeWith("a", {{"nvidia.com/gpu", 40}}), NodeWith("b", {{"nvidia.com/mig-9g.999gb", 2}})});
  EXPECT_EQ(found.cluster.type_of(0).devices, scheduler::kMaxDevices);
  EXPECT_EQ(found.cluster.type_of(1).devices, 0);
  EXPECT_THAT(found.left_out,
              ElementsAre(HasSubstr("devices of node a"), HasSubstr("MIG instances of node b")));
}

TEST(KubernetesDiscovery, TheFabricIsThatOfTheLabels) {
  const auto at = [](const char* name, const char* leaf, const char* spine, const char* zone) {
    Labels labels;
    if (leaf != nullptr) labels["network.topology.nvidia.com/leaf"] = leaf;
    if (spine != nullptr) labels["network.topology.nvidia.com/spine"] = spine;
    if (zone != nullptr) labels["topology.kubernetes.io/zone"] = zone;
    return NodeWith(name, {}, std::move(labels));
  };
  const Cluster cluster =
      Found({at("a", "l1", "s1", "east"), at("b", "l2", "s1", "east"), at("c", "l1", "s2", "west"),
             at("d", nullptr, "s2", "west"), at("e", nullptr, nullptr, nullptr)})
          .cluster;
  EXPECT_THAT(cluster.fabric.levels, ElementsAre("leaf", "spine", "zone", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 0), ElementsAre("s1/l1", "s1", "east", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 1), ElementsAre("l2", "s1", "east", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 2), ElementsAre("s2/l1", "s2", "west", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 3), ElementsAre("s2", "west", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 4), ElementsAre("cluster"));
  EXPECT_EQ(cluster.nodes[0].labels.at("zone"), "east");
  EXPECT_TRUE(cluster.nodes[4].labels.empty());
}

TEST(KubernetesDiscovery, LevelsAndLabelsAreThoseOfTheConfiguration) {
  Discovery how;
  how.topology = {{"rack", {"example.com/rack", "old.example.com/rack"}}, {"hall", {"example.com/hall"}}};
  how.labels = {{"tenant", "example.com/team"}};
  const Cluster cluster =
      Found(
          {NodeWith("a", {},
                    {{"example.com/rack", "r1"}, {"example.com/hall", "h1"}, {"example.com/team", "search"}}),
           NodeWith("b", {}, {{"old.example.com/rack", "r2"}, {"topology.kubernetes.io/zone", "east"}})},
          {}, how)
          .cluster;
  EXPECT_THAT(cluster.fabric.levels, ElementsAre("rack", "hall", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 0), ElementsAre("r1", "h1", "cluster"));
  EXPECT_THAT(PlaceOf(cluster, 1), ElementsAre("r2", "cluster"));
  EXPECT_EQ(cluster.nodes[0].labels.at("tenant"), "search");
  EXPECT_TRUE(cluster.nodes[1].labels.empty());
}

TEST(KubernetesDiscovery, DevicesThatRunsHoldAreThereThoughTheNodeShowsNone) {
  const Discovered found =
      Found({NodeWith("a", {{"nvidia.com/gpu", 0}}), NodeWith("b", {{"nvidia.com/gpu", 2}})}, {}, {},
            {{"a", {"h100", 4}}, {"b", {"nvidia", 2}}});
  EXPECT_EQ(KindOn(found.cluster, 0), "h100");
  EXPECT_EQ(found.cluster.type_of(0).devices, 4);
  EXPECT_EQ(found.cluster.type_of(1).devices, 2);
  EXPECT_TRUE(found.raised);
}

}  // namespace
}  // namespace plugins::launchers::kubernetes
