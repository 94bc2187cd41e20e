#include "scheduler/io/cluster_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/io/name_pattern.h"
#include "scheduler/io/nodes_csv.h"
#include "scheduler/state/partitions.h"
#include "tests/unit/scheduler/io/problems.h"

namespace scheduler::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kTypes = R"(
devices: [{name: h100, memory: 80GiB, partitions: mig-h100-80gb}]
types: [{name: dgx, cpu: 112, memory: 2TiB, device: h100, count: 8, numa: 2}, {name: cpu, cpu: 0.5, memory: 1GiB}]
)";

Cluster Read(const std::string& text) {
  const Loaded<Cluster> read = ReadCluster(text, "c.yaml");
  EXPECT_THAT(testing::Texts(read.problems), ElementsAre());
  EXPECT_TRUE(read.value);
  return read.value.value_or(Cluster{});
}
std::vector<std::string> Problems(const std::string& text) {
  const Loaded<Cluster> read = ReadCluster(text, "c.yaml");
  EXPECT_NE(read.value.has_value(), !read.problems.empty());
  return testing::Texts(read.problems);
}
std::string With(const std::string& sections) {
  return std::string(kTypes) + sections;
}

TEST(ClusterYaml, TypesAreDefinedOnceAndNodesComeFromPatterns) {
  const Cluster c =
      Read(With("nodes: [{name: 'gpu-{08..11}', type: dgx, labels: {zone: a}, health: draining, "
                "power_budget_watts: 9000}, {name: login, type: cpu}]"));
  EXPECT_EQ(FirstDefect(c), "");
  ASSERT_EQ(c.nodes.size(), 5u);
  EXPECT_EQ(c.nodes[0].name, "gpu-08");
  EXPECT_EQ(c.nodes[3].name, "gpu-11");
  EXPECT_EQ(c.nodes[3].labels, (Labels{{"zone", "a"}}));
  EXPECT_EQ(c.nodes[3].health, Health::kDraining);
  EXPECT_EQ(c.nodes[3].power_budget_watts, 9000);
  EXPECT_EQ(c.type_of(0).cpu_milli, 112'000);
  EXPECT_EQ(c.type_of(0).memory_mib, 2 << 20);
  EXPECT_EQ(c.type_of(0).numa, (std::vector<uint8_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_TRUE(c.type_of(0).link_domain.empty());
  EXPECT_EQ(c.type_of(4).cpu_milli, 500);
  EXPECT_EQ(c.type_of(4).devices, 0);
  EXPECT_EQ(c.kinds[0].memory_mib, 81'920);
  EXPECT_EQ(c.layouts[c.kinds[0].layout].name, "mig-h100-80gb");
  EXPECT_EQ(c.fabric.domains.size(), 1u);
}

TEST(ClusterYaml, DomainsAreSharedOutOverPatterns) {
  const Cluster c = Read(With(R"(
nodes: [{name: "n{1..8}", type: dgx, domain: "leaf-{1..4}"}]
fabric:
  levels: [leaf, spine, all]
  domains:
    - {name: root, level: all}
    - {name: "spine-{1..2}", level: spine, parent: root}
    - {name: "leaf-{1..4}", level: leaf, parent: "spine-{1..2}", power_budget_watts: 500}
)"));
  EXPECT_EQ(FirstDefect(c), "");
  const auto domain = [&](size_t node) { return c.fabric.domains[c.nodes[node].domain]; };
  EXPECT_EQ(domain(0).name, "leaf-1");
  EXPECT_EQ(domain(1).name, "leaf-1");
  EXPECT_EQ(domain(2).name, "leaf-2");
  EXPECT_EQ(domain(7).name, "leaf-4");
  EXPECT_EQ(c.fabric.domains[domain(3).parent].name, "spine-1");
  EXPECT_EQ(c.fabric.domains[domain(4).parent].name, "spine-2");
  EXPECT_EQ(domain(0).power_budget_watts, 500);
}

TEST(ClusterYaml, LeavesMayBeCountedOrOnlyNamed) {
  const Cluster counted =
      Read(With("nodes: [{name: 'n{1..6}', type: dgx}]\nfabric: {nodes_per_leaf: 2, "
                "leaves_per_spine: 2, leaf_power_budget_watts: 7, spine_power_budget_watts: 9}"));
  EXPECT_EQ(counted.fabric.levels, (std::vector<std::string>{"leaf", "spine", "cluster"}));
  EXPECT_EQ(counted.nodes[5].domain, 2u);
  EXPECT_EQ(counted.fabric.domains[0].power_budget_watts, 7);
  EXPECT_EQ(counted.fabric.domains[3].power_budget_watts, 9);
  EXPECT_EQ(counted.fabric.domains.back().power_budget_watts, 0);

  const Cluster named =
      Read(With("nodes: [{name: a, type: dgx, domain: l1}, {name: 'b{1..2}', type: dgx, domain: l2}]"));
  EXPECT_EQ(FirstDefect(named), "");
  EXPECT_EQ(named.fabric.domains[named.nodes[2].domain].name, "l2");
  EXPECT_EQ(named.fabric.domains[named.nodes[0].domain].parent, 0u);
}

TEST(ClusterYaml, CountableResourcesAreReadOnceEach) {
  const Cluster c = Read(With("resources: [{name: matlab, count: 10}, {name: ansys, count: 2}]"));
  ASSERT_EQ(c.resources.size(), 2u);
  EXPECT_EQ(c.resources[0].name, "matlab");
  EXPECT_EQ(c.resources[1].count, 2u);
  EXPECT_THAT(ReadCluster(With("resources: [{name: a, count: 1}, {name: b, count: 0}]"), "c.yaml").problems,
              ::testing::SizeIs(1));
  EXPECT_THAT(ReadCluster(With("resources: [{name: a, count: 1}, {name: a, count: 2}]"), "c.yaml").problems,
              ::testing::SizeIs(1));
}

TEST(ClusterYaml, ADeviceMayDescribeItsOwnPartitions) {
  const Cluster c = Read(R"(
devices:
  - name: npu
    partitions: {compute: 4, slots: 4, profiles: [{name: half, compute: 2, slots: 2, starts: [0, 2]}]}
types: [{name: t, cpu: 1, memory: 1GiB, device: npu, count: 2, link_domain: [0, 1]}]
)");
  ASSERT_EQ(c.layouts.size(), 1u);
  EXPECT_EQ(c.layouts[0].profiles[0].name, "half");
  EXPECT_EQ(c.layouts[0].profiles[0].starts, (std::vector<uint8_t>{0, 2}));
  EXPECT_EQ(c.types[0].link_domain, (std::vector<uint8_t>{0, 1}));
}

TEST(ClusterYaml, ReportsAllProblemsWithACorrection) {
  EXPECT_THAT(
      Problems(R"(devices: [{name: h100, memory: 80, partitions: mig-h100-80gbb}, {name: h100}]
types:
  - {name: a, cpu: -1, memory: 1GiB, device: h10, count: 8}
  - {name: b, cpu: 1, memory: 1GiB, device: h100}
  - {name: c, cpu: 1, memory: 1GiB, device: h100, count: 17}
  - {name: d, cpu: 1, memory: 1GiB, device: h100, count: 8, numa: 3, link_domain: [0, 1]}
nodes:
  - {name: "n{4..1}", type: a}
  - {name: x, typ: a, type: e}
  - {name: x, type: a, health: ill}
)"),
      UnorderedElementsAre(
          HasSubstr("c.yaml:/devices/0/memory (line 1): expected a whole number of MiB, GiB or TiB"),
          HasSubstr(
              "/devices/0/partitions (line 1): unknown partition layout \"mig-h100-80gbb\", did you mean "
              "\"mig-h100-80gb\"?"),
          HasSubstr(
              "/devices/1/name (line 1): device kind \"h100\" is given twice, first at /devices/0/name"),
          HasSubstr("/types/0/cpu (line 3): expected a number of cores from 0 to 10^9"),
          HasSubstr("/types/0/device (line 3): unknown device kind \"h10\", did you mean \"h100\"?"),
          HasSubstr("/types/1 (line 4): device and count belong together"),
          HasSubstr("/types/2/count (line 5): must be between 1 and 16"),
          HasSubstr("/types/3/numa (line 6): 8 devices do not divide into 3 groups"),
          HasSubstr("/types/3/link_domain (line 6): names 2 devices, the node has 8"),
          HasSubstr("/nodes/0/name (line 8): \"n{4..1}\" is not a name or a pattern such as gpu-{001..064}"),
          HasSubstr("/nodes/1/typ (line 9): unknown key \"typ\", did you mean \"type\"?"),
          HasSubstr("/nodes/1/type (line 9): unknown node type \"e\""),
          HasSubstr("/nodes/2/name (line 10): node \"x\" is given twice, first at /nodes/1/name"),
          HasSubstr("/nodes/2/health (line 10): unknown health \"ill\"")));
}

TEST(ClusterYaml, AFabricIsATreeThatHoldsEveryNode) {
  const auto fabric = [](const std::string& nodes, const std::string& body) {
    return Problems(With("nodes: [" + nodes + "]\nfabric: " + body));
  };
  const std::string tree =
      "{levels: [leaf, all], domains: [{name: r, level: all}, {name: 'l{1..2}', level: leaf, parent: r}]}";
  EXPECT_THAT(
      fabric("{name: a, type: dgx}", tree),
      ElementsAre(HasSubstr("/nodes/0/domain (line 4): is required, as the fabric's domains are given")));
  EXPECT_THAT(fabric("{name: a, type: dgx, domain: l3}", tree),
              ElementsAre(HasSubstr("unknown fabric domain \"l3\"")));
  EXPECT_THAT(fabric("{name: 'n{1..3}', type: dgx, domain: 'l{1..2}'}", tree),
              ElementsAre(HasSubstr("3 names do not divide among 2; split the entry")));
  EXPECT_THAT(fabric("", "{levels: [leaf, all], domains: [{name: r, level: all}, {name: l, level: leaf}]}"),
              ElementsAre(HasSubstr("2 domains have no parent, exactly one is the root")));
  EXPECT_THAT(
      fabric("", "{levels: [leaf, all], domains: [{name: r, level: all}, {name: s, level: all, parent: r}]}"),
      ElementsAre(HasSubstr("its parent \"r\" is not of a higher level")));
  EXPECT_THAT(fabric("", "{levels: [all], domains: [{name: r, level: top}]}"),
              ElementsAre(HasSubstr("unknown fabric level \"top\"")));
  EXPECT_THAT(fabric("", "{leaves_per_spine: 2}"), ElementsAre(HasSubstr("needs nodes_per_leaf")));
  EXPECT_THAT(fabric("{name: a, type: dgx, domain: l}", "{nodes_per_leaf: 2}"),
              ElementsAre(HasSubstr("cannot be given together with the fabric's nodes_per_leaf")));
}

TEST(ClusterYaml, TheShippedClustersAreAccepted) {
  const auto files = testing::Shipped("clusters", ".yaml");
  ASSERT_GE(files.size(), 3u);
  for (const auto& file : files) {
    const Loaded<Cluster> read = ReadCluster(testing::ReadShipped(file), file.filename());
    EXPECT_THAT(testing::Texts(read.problems), ElementsAre());
    if (read.value) EXPECT_EQ(FirstDefect(*read.value), "") << file;
  }
}

TEST(ClusterYaml, BoundsAmountsSoThatSumsCannotOverflow) {
  EXPECT_THAT(Problems("types: [{name: t, cpu: 1000000000, memory: 1GiB, idle_watts: 1e308}]\n"
                       "nodes: [{name: n, type: t}]"),
              UnorderedElementsAre(HasSubstr("expected a number of cores from 0 to 10^9"),
                                   HasSubstr("idle_watts (line 1): must be between")));
  EXPECT_THAT(Problems("types: [{name: t, cpu: 1, memory: 16777215TiB}]\nnodes: [{name: n, type: t}]"),
              ElementsAre(HasSubstr("expected a whole number of MiB")));
  const std::string zeros(300, '0');
  EXPECT_THAT(
      Problems("types: [{name: t, cpu: 1, memory: 1GiB}]\nnodes: [{name: 'n{" + zeros + "..9}', type: t}]"),
      ElementsAre(HasSubstr("of at most 256 bytes")));
  std::string many =
      "types: [{name: t, cpu: 1, memory: 1GiB}]\nnodes: [{name: n, type: t, domain: d-0-1}]\n"
      "fabric:\n  levels: [leaf]\n  domains:\n";
  for (int i = 0; i < 1'000; ++i)
    many += "    - {name: 'd-" + std::to_string(i) + "-{1..200000}', level: leaf}\n";
  EXPECT_THAT(Problems(many), ::testing::Contains(HasSubstr("makes more than 200000 domains")));
}

TEST(NodesCsv, TypesOfNodesAreCounted) {
  std::string text = "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 10'002; ++i) text += "n" + std::to_string(i) + "," + std::to_string(i) + ",1,0,\n";
  Cluster cluster;
  const LineReport report = ReadNodes(text, "nodes.csv", cluster);
  EXPECT_EQ(cluster.nodes.size(), 10'000u);
  EXPECT_EQ(report.left_out, 2u);
  EXPECT_THAT(testing::Texts(report.problems)[0],
              HasSubstr("nodes.csv (line 10002): sn: is of the 10001th type"));
}

TEST(NamePattern, MakesNamesOfOneRange) {
  EXPECT_EQ(NamePattern::Parse("a-{08..10}-b")->At(2), "a-10-b");
  EXPECT_EQ(NamePattern::Parse("a{8..10}")->At(0), "a8");
  EXPECT_EQ(NamePattern::Parse("a{8..10}")->count(), 3u);
  EXPECT_EQ(NamePattern::Parse("plain")->At(0), "plain");
  for (const char* wrong : {"a{", "a}", "}a{", "a{1}", "a{1..}", "a{2..1}", "a{x..y}", "a{1..2}{3..4}",
                            "a{-1..2}", "a{1..99999999}"}) {
    EXPECT_FALSE(NamePattern::Parse(wrong)) << wrong;
  }
}

TEST(Partitions, KnownLayoutsAreWhole) {
  for (const std::string_view name : KnownLayoutNames()) {
    const PartitionLayout& layout = *FindKnownLayout(name);
    EXPECT_LE(layout.slots, 8);
    for (const PartitionProfile& profile : layout.profiles) {
      EXPECT_LE(profile.compute, layout.compute) << name;
      for (const uint8_t start : profile.starts) EXPECT_LE(start + profile.slots, layout.slots) << name;
    }
  }
  EXPECT_EQ(FindKnownLayout("mig"), nullptr);
}

TEST(NodesCsv, OwnRowsNameTypesDomainsAndLabels) {
  Cluster c = Read(
      With("fabric: {levels: [leaf, all], domains: [{name: r, level: all}, {name: 'l{1..2}', level: leaf, "
           "parent: r}]}"));
  const LineReport report = ReadNodes(
      "name,type,domain,health,power_budget_watts,label.zone\r\n"
      "a,dgx,l1,,,\n\"b, 2\" ,dgx,l2,draining,900,eu\nb,dgx,l2,draining,900,eu\n",
      "n.csv", c);
  EXPECT_THAT(testing::Texts(report.problems), ElementsAre("n.csv (line 3): has a quote that does not end"));
  EXPECT_EQ(report.lines, 3u);
  EXPECT_EQ(report.left_out, 1u);
  ASSERT_EQ(c.nodes.size(), 2u);
  EXPECT_EQ(c.fabric.domains[c.nodes[1].domain].name, "l2");
  EXPECT_EQ(c.nodes[1].health, Health::kDraining);
  EXPECT_EQ(c.nodes[1].power_budget_watts, 900);
  EXPECT_EQ(c.nodes[1].labels, (Labels{{"zone", "eu"}}));
  EXPECT_TRUE(c.nodes[0].labels.empty());
}

TEST(NodesCsv, OpenbRowsMakeTheirTypes) {
  Cluster c;
  const LineReport report = ReadNodes(
      "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,64000,262144,2,P100\nn2,96000,1,8,"
      "V100M16\n"
      "n3,1000,1,0,\n",
      "openb.csv", c);
  EXPECT_THAT(testing::Texts(report.problems), ElementsAre());
  EXPECT_EQ(FirstDefect(c), "");
  ASSERT_EQ(c.nodes.size(), 4u);
  EXPECT_EQ(c.types.size(), 3u);
  EXPECT_EQ(c.nodes[0].type, c.nodes[1].type);
  EXPECT_EQ(c.kinds[c.type_of(2).kind].name, "V100M16");
  EXPECT_EQ(c.type_of(2).devices, 8);
  EXPECT_EQ(c.type_of(3).devices, 0);
}

TEST(NodesCsv, AWrongRowIsNamedByFileAndLine) {
  Cluster c = Read(With("nodes: [{name: old, type: dgx}]"));
  const LineReport own =
      ReadNodes("name,type,health\nold,dgx,\na,dgxx,\nb,dgx,ill\nc,dgx\n,dgx,\nd,dgx,\nd,dgx,\n", "n.csv", c);
  EXPECT_THAT(
      testing::Texts(own.problems),
      ElementsAre("n.csv (line 2): name: node \"old\" is in the cluster already",
                  "n.csv (line 3): type: unknown node type \"dgxx\", did you mean \"dgx\"?",
                  HasSubstr("n.csv (line 4): health: unknown health \"ill\""),
                  "n.csv (line 5): has 2 fields, the header has 3", "n.csv (line 6): name: must not be empty",
                  "n.csv (line 8): name: node \"d\" is given twice, first on line 7"));
  EXPECT_EQ(own.left_out, 6u);
  Cluster openb;
  const LineReport rows = ReadNodes(
      "sn,cpu_milli,memory_mib,gpu,model\na,-1,1,1,T4\nb,1,1,17,T4\nc,1,x,1,T4\nd,1,1,1,\n", "o.csv", openb);
  EXPECT_THAT(
      testing::Texts(rows.problems),
      ElementsAre(HasSubstr("o.csv (line 2): cpu_milli: expected a whole number between 0"),
                  HasSubstr("o.csv (line 3): gpu: expected a whole number between 0 and 16, found \"17\""),
                  HasSubstr("o.csv (line 4): memory_mib: expected a whole number"),
                  HasSubstr("o.csv (line 5): model: must not be empty")));
  EXPECT_TRUE(openb.nodes.empty());
  EXPECT_TRUE(openb.types.empty());
}

TEST(NodesCsv, AWrongHeaderRefusesTheFile) {
  Cluster c = Read(With("nodes: []"));
  const LineReport report = ReadNodes("name,typ,name\na,dgx,b\n", "n.csv", c);
  EXPECT_THAT(
      testing::Texts(report.problems),
      ElementsAre(HasSubstr("n.csv (line 1): unknown column \"typ\""),
                  HasSubstr("column \"name\" is given twice"), HasSubstr("column \"type\" is missing")));
  EXPECT_EQ(report.left_out, 1u);
  EXPECT_TRUE(c.nodes.empty());
}

}  // namespace
}  // namespace scheduler::io
