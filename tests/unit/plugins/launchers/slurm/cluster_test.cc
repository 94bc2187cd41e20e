#include "plugins/launchers/slurm/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/text.h"
#include "plugins/launchers/slurm/topology.h"
#include "tests/support/shipped.h"

namespace plugins::launchers::slurm {
namespace {

using scheduler::Health;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Recorded(const std::string& name) {
  return tests::ReadShipped(tests::ConfDirectory().parent_path() /
                            ("tests/unit/plugins/launchers/slurm/recorded/" + name));
}

Node NodeOf(const std::string& name, std::vector<Gres> gres) {
  Node node;
  node.name = name;
  node.state = "idle";
  node.partitions = {"main"};
  node.gres = std::move(gres);
  node.cpus = 64;
  node.memory_mib = 512'000;
  return node;
}

bool IsRunOfOurs(const Job& job) {
  return !job.comment.empty();
}

TEST(SlurmView, ShowsNodesDevicesAndTheirHolders) {
  const auto nodes = ReadNodes(Recorded("nodes.json"));
  const auto jobs = ReadJobs(Recorded("jobs.json"));
  ASSERT_TRUE(nodes.ok() && jobs.ok());
  const View view =
      ViewOf(*nodes, jobs->jobs, {.partition = "main", .preemptible_partitions = {"scavenge"}}, IsRunOfOurs);
  EXPECT_EQ(scheduler::FirstDefect(view.cluster), "");
  EXPECT_THAT(view.left_out, IsEmpty());
  ASSERT_EQ(view.cluster.nodes.size(), 4u);
  ASSERT_EQ(view.cluster.types.size(), 1u);
  EXPECT_EQ(view.cluster.types[0].devices, 8);
  EXPECT_EQ(view.cluster.types[0].cpu_milli, 64'000);
  EXPECT_EQ(view.cluster.types[0].memory_mib, 512'000);
  EXPECT_EQ(view.cluster.kinds[0].name, "h100");
  EXPECT_EQ(view.cluster.nodes[0].health, Health::kHealthy);
  EXPECT_EQ(view.cluster.nodes[3].health, Health::kDraining);

  std::vector<uint32_t> ids;
  for (const Occupant& occupant : view.occupants) ids.push_back(occupant.job);
  ASSERT_THAT(ids, ElementsAre(19, 20, 22)) << "what waits or is over holds nothing";
  const Occupant& scavenger = view.occupants[0];
  EXPECT_TRUE(scavenger.preemptible);
  EXPECT_FALSE(scavenger.ours);
  EXPECT_EQ(scavenger.ends, scavenger.started + std::chrono::minutes(10));
  ASSERT_EQ(scavenger.holds.size(), 1u);
  EXPECT_EQ(scavenger.holds[0].node, 2u);
  EXPECT_THAT(scavenger.holds[0].devices, ElementsAre(0, 1, 2));
  const Occupant& gang = view.occupants[1];
  EXPECT_FALSE(gang.preemptible);
  ASSERT_EQ(gang.holds.size(), 2u);
  EXPECT_THAT(gang.holds[0].devices, ElementsAre(0));
  EXPECT_THAT(gang.holds[1].devices, ElementsAre(3));
  EXPECT_EQ(gang.holds[1].cpu_milli, 1000);
  EXPECT_EQ(gang.holds[1].memory_mib, 2000);
  EXPECT_TRUE(view.occupants[2].ours);
}

TEST(SlurmView, WhereSlurmNamesNoPlacesTheLowestFreeOnesAreTaken) {
  Job named;
  named.id = 1;
  named.state = JobState::kRunning;
  named.nodes = {"a"};
  named.gres = {{{"gpu", "h100", 1, {1}}}};
  Job unnamed = named;
  unnamed.id = 2;
  unnamed.gres = {{{"gpu", "h100", 2, {}}}};
  const View view = ViewOf({NodeOf("a", {{"gpu", "h100", 4, {}}})}, {unnamed, named}, {}, IsRunOfOurs);
  ASSERT_EQ(view.occupants.size(), 2u);
  EXPECT_THAT(view.occupants[0].holds[0].devices, ElementsAre(1));
  EXPECT_THAT(view.occupants[1].holds[0].devices, ElementsAre(0, 2));
}

TEST(SlurmView, ListsDevicesThatThePlannerDoesNotSee) {
  Node elsewhere = NodeOf("elsewhere", {{"gpu", "h100", 8, {}}});
  elsewhere.partitions = {"other"};
  const View view =
      ViewOf({elsewhere, NodeOf("mixed", {{"gpu", "h100", 4, {}}, {"gpu", "a100", 4, {}}}),
              NodeOf("large", {{"gpu", "h100", 32, {}}}), NodeOf("npus", {{"npu", "910b", 8, {}}}),
              NodeOf("plain", {{"bandwidth", "", 100, {}}})},
             {}, {.partition = "main", .gres = {"gpu", "npu"}}, IsRunOfOurs);
  EXPECT_EQ(scheduler::FirstDefect(view.cluster), "");
  std::vector<std::string> names;
  for (const scheduler::Node& node : view.cluster.nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("mixed", "large", "npus", "plain"));
  EXPECT_EQ(view.cluster.type_of(2).devices, 8);
  EXPECT_EQ(view.cluster.kinds[view.cluster.type_of(2).kind].name, "910b");
  EXPECT_EQ(view.cluster.type_of(3).devices, 0);
  EXPECT_THAT(view.left_out,
              ElementsAre(HasSubstr("a100 of node mixed"), HasSubstr("32 devices, at most 16")));
}

TEST(SlurmView, KnowsANodesHealth) {
  struct Case {
    const char* state;
    std::vector<std::string> flags;
    Health health;
  };
  for (const Case& c :
       {Case{"idle", {}, Health::kHealthy}, Case{"mixed", {}, Health::kHealthy},
        Case{"allocated", {"COMPLETING"}, Health::kHealthy},
        Case{"mixed", {"NOT_RESPONDING"}, Health::kSuspect}, Case{"unknown", {}, Health::kSuspect},
        Case{"idle", {"DRAIN"}, Health::kDraining}, Case{"idle", {"MAINTENANCE"}, Health::kDraining},
        Case{"down", {"NOT_RESPONDING"}, Health::kQuarantined}, Case{"down", {"DRAIN"}, Health::kQuarantined},
        Case{"idle", {"FAIL"}, Health::kQuarantined}}) {
    Node node = NodeOf("a", {});
    node.state = c.state;
    node.flags = c.flags;
    EXPECT_EQ(HealthOf(node), c.health) << c.state;
  }
}

TEST(SlurmView, ADrainedNodeWaitsForItsJobs) {
  Node node = NodeOf("a", {});
  EXPECT_FALSE(IsDrained(node));
  for (const char* const flag : {"DRAIN", "REBOOT_REQUESTED"}) {
    node.flags = {flag};
    EXPECT_TRUE(IsDrained(node)) << flag;
  }
  node.flags = {"RESERVED"};
  EXPECT_FALSE(IsDrained(node)) << "its jobs go on";
  node.flags = {"DRAIN"};
  node.state = "down";
  EXPECT_FALSE(IsDrained(node)) << "nothing runs there";
}

TEST(SlurmTopology, MakesAFabricOfSwitches) {
  const auto switches = ReadTopology(
      "# two leaves under a spine\n"
      "SwitchName=leaf1 Nodes=node[1-2]\n"
      "switchname=leaf2 nodes=node3 LinkSpeed=900\n\n"
      "SwitchName=spine Switches=leaf[1-2]");
  ASSERT_TRUE(switches.ok()) << switches.status();
  scheduler::Cluster cluster =
      ViewOf({NodeOf("node1", {}), NodeOf("node3", {}), NodeOf("node9", {})}, {}, {}, IsRunOfOurs).cluster;
  ApplyTopology(*switches, cluster);
  const scheduler::Fabric& fabric = cluster.fabric;
  EXPECT_EQ(scheduler::FirstDefect(cluster), "");
  EXPECT_THAT(fabric.levels, ElementsAre("leaf", "spine", "cluster"));
  EXPECT_EQ(fabric.domains[cluster.nodes[0].domain].name, "leaf1");
  EXPECT_EQ(fabric.domains[cluster.nodes[1].domain].name, "leaf2");
  EXPECT_EQ(fabric.domains[cluster.nodes[2].domain].name, "cluster") << "no leaf names it";
  EXPECT_EQ(fabric.domains[fabric.domains[0].parent].name, "spine");
  ApplyTopology({}, cluster);
  EXPECT_THAT(cluster.fabric.levels, ElementsAre("cluster"));
}

TEST(SlurmTopology, RefusesOtherThanTrees) {
  struct Case {
    const char* text;
    const char* why;
  };
  for (const Case& c :
       {Case{"SwitchName", "topology.conf:1: \"SwitchName\" is not KEY=VALUE"},
        Case{"\nNodes=a", "topology.conf:2: has no SwitchName"},
        Case{"SwitchName=s", "either Nodes or Switches"},
        Case{"SwitchName=s Nodes=a Switches=t", "either Nodes or Switches"},
        Case{"SwitchName=s Nodes=a[", "topology.conf:1"}, Case{"SwitchName=s Nods=a", "unknown key"},
        Case{"SwitchName=s Switches=t", "switch t does not exist"},
        Case{"SwitchName=s Nodes=a\nSwitchName=t Nodes=a", "node a is under both s and t"},
        Case{"SwitchName=s Nodes=a\nSwitchName=s Nodes=b", "two switches s"},
        Case{"SwitchName=s Switches=t\nSwitchName=t Switches=s", "its own ancestor"}}) {
    const auto read = ReadTopology(c.text);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << c.text;
    EXPECT_THAT(std::string(conf::Std(read.status().message())), HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace plugins::launchers::slurm
