#include "scheduler/placement/shortfall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace scheduler {
namespace {

using ::testing::HasSubstr;

// Two servers of eight a100 and one of four h100, 64 cores and 512 GiB each.
Cluster ThreeServers() {
  Cluster cluster;
  cluster.kinds = {{.name = "a100"}, {.name = "h100"}};
  cluster.types = {{.name = "a", .cpu_milli = 64'000, .memory_mib = 512 << 10, .kind = 0, .devices = 8},
                   {.name = "h", .cpu_milli = 64'000, .memory_mib = 512 << 10, .kind = 1, .devices = 4}};
  cluster.nodes = {{.name = "a0", .type = 0}, {.name = "a1", .type = 0}, {.name = "h0", .type = 1}};
  cluster.fabric = FlatFabric();
  return cluster;
}

std::string Of(uint32_t members, const std::function<void(Ask&)>& change, Among among = Among::kAllNodes) {
  Job job;
  job.id = "j";
  Role role;
  role.count = role.min_count = members;
  change(role.ask);
  job.roles.push_back(role);
  Cluster cluster = ThreeServers();
  cluster.nodes[1].health = Health::kQuarantined;
  return ShortfallOf(job, cluster, among);
}

TEST(Shortfall, NamesTheCountableResource) {
  Cluster cluster = ThreeServers();
  cluster.resources = {{"licence", 2}};
  Job job;
  job.roles = {Role()};
  job.resources = {{"licence", 2}};
  EXPECT_THAT(ShortfallOf(job, cluster, Among::kAllNodes), ::testing::Not(HasSubstr("licence")));
  job.resources = {{"licence", 3}};
  EXPECT_EQ(ShortfallOf(job, cluster, Among::kAllNodes),
            "asks for 3 of the resource licence, the cluster has 2");
  job.resources = {{"seat", 1}};
  EXPECT_EQ(ShortfallOf(job, cluster, Among::kAllNodes),
            "asks for 1 of the resource seat, the cluster has 0");
}

TEST(Shortfall, SaysThatAClusterDeclaresNoCoresOrMemory) {
  Cluster cluster = ThreeServers();
  for (NodeType& type : cluster.types) type.cpu_milli = 0;
  Job job;
  Role role;
  role.ask = {.devices = {{.count = 1}}, .cpu_milli = 12'000};
  job.roles = {role};
  EXPECT_EQ(ShortfallOf(job, cluster, Among::kAllNodes),
            "asks for 12 CPU cores, the cluster declares no cores; give its types cpu");
}

TEST(Shortfall, OfOneMemberSaysThatNoNodeHasAllOfItTogether) {
  Cluster cluster = ThreeServers();
  cluster.types[1].cpu_milli = 128'000;
  Job job;
  Role role;
  role.ask = {.devices = {{.kinds = {"a100"}, .count = 1}}, .cpu_milli = 100'000};
  job.roles = {role};
  EXPECT_EQ(ShortfallOf(job, cluster, Among::kAllNodes),
            "no node has the devices, cores and memory together that its member asks for");
}

TEST(Shortfall, NamesTheResourceOfOneNode) {
  EXPECT_EQ(Of(1, [](Ask& ask) { ask.devices = {{.count = 16}}; }),
            "a member asks for 16 devices on one node, the largest node has 8");
  EXPECT_EQ(Of(1, [](Ask& ask) { ask.devices = {{.kinds = {"h100"}, .count = 8}}; }),
            "a member asks for 8 devices of h100 on one node, the largest node has 4");
  EXPECT_EQ(Of(1, [](Ask& ask) { ask.cpu_milli = 96'000; }),
            "a member asks for 96 CPU cores on one node, the largest node has 64 CPU cores");
  EXPECT_THAT(Of(1, [](Ask& ask) { ask.memory_mib = 1 << 20; }),
              HasSubstr("1048576 MiB of memory on one node, the largest node has 524288 MiB"));
}

TEST(Shortfall, NamesTheResourceOfTheWholeCluster) {
  EXPECT_EQ(Of(4, [](Ask& ask) { ask.devices = {{.kinds = {"a100"}, .count = 8}}; }),
            "asks for 32 devices of a100 in total (4 members), the whole cluster has 16");
  EXPECT_EQ(Of(
                2, [](Ask& ask) { ask.devices = {{.kinds = {"a100"}, .count = 8}}; }, Among::kHealthyNodes),
            "asks for 16 devices of a100 in total (2 members), the whole cluster has 8");
  EXPECT_EQ(Of(1, [](Ask& ask) { ask.devices = {{.kinds = {"h800"}, .count = 1}}; }),
            "asks for 1 device of h800, the cluster has none, but a100, h100");
  EXPECT_EQ(Of(1, [](Ask& ask) { ask.require = {{.key = "zone", .values = {"b"}}}; }),
            "asks for a node with the label zone=b, no node has it");
}

TEST(Shortfall, SaysWhenNeedsAreMetOnlyOneByOne) {
  EXPECT_THAT(Of(3, [](Ask& ask) { ask.devices = {{.count = 5}}; }), HasSubstr("3 members fit one by one"));
}

}  // namespace
}  // namespace scheduler
