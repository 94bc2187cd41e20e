#include "gateway/control/weights/weights_neighbours.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scheduler/io/cluster_yaml.h"

namespace gateway::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Two leaves below one spine, and a third below another.
scheduler::Cluster ThreeLeaves() {
  const auto loaded = scheduler::io::ReadCluster(
      "devices: [{name: h100, memory: 80GiB}]\n"
      "types: [{name: server, cpu: 64, memory: 512GiB, device: h100, count: 8}]\n"
      "nodes:\n"
      "  - {name: \"a{1..4}\", type: server, domain: leaf-a}\n"
      "  - {name: \"b{1..4}\", type: server, domain: leaf-b}\n"
      "  - {name: \"c{1..4}\", type: server, domain: leaf-c}\n"
      "fabric:\n"
      "  levels: [leaf, spine, cluster]\n"
      "  domains:\n"
      "    - {name: leaf-a, level: leaf, parent: spine-1}\n"
      "    - {name: leaf-b, level: leaf, parent: spine-1}\n"
      "    - {name: leaf-c, level: leaf, parent: spine-2}\n"
      "    - {name: \"spine-{1..2}\", level: spine, parent: all}\n"
      "    - {name: all, level: cluster}\n",
      "cluster.yaml");
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << conf::ToString(problem);
  return loaded.value.value_or(scheduler::Cluster());
}

TEST(WeightsNeighbours, TheNearestHoldersComeFirst) {
  const scheduler::Cluster cluster = ThreeLeaves();
  const scheduler::ClusterState state(cluster);
  EXPECT_THAT(NearestHolders(state, "a1", {"a1", "a3", "b2", "c4"}), ElementsAre("a3", "b2", "c4"));
  EXPECT_THAT(NearestHolders(state, "c1", {"b2", "c4"}), ElementsAre("c4", "b2"));
  EXPECT_THAT(NearestHolders(state, "a1", {"a1"}), IsEmpty());
  // A node that has left the cluster is not asked; one that is new to it asks the others.
  EXPECT_THAT(NearestHolders(state, "a1", {"gone", "c1"}), ElementsAre("c1"));
  EXPECT_THAT(NearestHolders(state, "new", {"a1", "c1"}), UnorderedElementsAre("a1", "c1"));
}

TEST(WeightsNeighbours, NodesThatAreNotHealthyAreNotAsked) {
  scheduler::Cluster cluster = ThreeLeaves();
  cluster.nodes[1].health = scheduler::Health::kQuarantined;  // a2
  const scheduler::ClusterState state(cluster);
  EXPECT_THAT(NearestHolders(state, "a1", {"a2", "c1"}), ElementsAre("c1"));
}

TEST(WeightsNeighbours, NodesThatFetchTogetherAskDifferentOnesFirst) {
  const scheduler::Cluster cluster = ThreeLeaves();
  const scheduler::ClusterState state(cluster);
  std::set<std::string> first;
  for (const char leaf : {'a', 'b'}) {
    for (int n = 1; n <= 4; ++n) {
      const std::string node = fmt::format("{}{}", leaf, n);
      const std::vector<std::string> nearest = NearestHolders(state, node, {"c1", "c2", "c3", "c4"});
      EXPECT_EQ(nearest, NearestHolders(state, node, {"c4", "c3", "c2", "c1"}));
      first.insert(nearest.front());
    }
  }
  EXPECT_GE(first.size(), 2U);
}

TEST(WeightsNeighbours, TheirUrlsHaveNamesOrAddresses) {
  const auto address = [](const std::string& node) { return node == "n2" ? "fd00::2" : "10.0.0.1"; };
  config::NeighbourServers how;
  how.most = 2;
  how.url = "http://{address}:9470";
  EXPECT_THAT(NeighbourUrls(how, {"n1", "n2", "n3"}, address),
              ElementsAre("http://10.0.0.1:9470", "http://[fd00::2]:9470"));
  how.url = "https://{node}.gpu.example:9470";
  EXPECT_THAT(NeighbourUrls(how, {"n1"}, address), ElementsAre("https://n1.gpu.example:9470"));
  EXPECT_THAT(NeighbourUrls(how, {}, address), IsEmpty());
  how.url = "https://weights.example:9470";
  EXPECT_THAT(NeighbourUrls(how, {}, address), ElementsAre("https://weights.example:9470"));
}

}  // namespace
}  // namespace gateway::control
