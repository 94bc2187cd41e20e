// Where slurmrestd is and as whom it is asked: what is read, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/reader.h"
#include "gateway/config/load.h"
#include "gateway/config/slurm.h"

namespace gateway::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Result {
  Slurm slurm;
  std::vector<std::string> problems;
};

Result ReadSlurm(std::string_view text) {
  conf::Sources sources;
  sources.environment = [](const std::string&) { return std::optional<std::string>("t0ken"); };
  conf::Document document(text, "t.yaml", sources);
  Result out;
  conf::Read(document.root(), out.slurm);
  for (const conf::Problem& problem : document.TakeProblems()) out.problems.push_back(ToString(problem));
  return out;
}

TEST(SlurmConfig, IsReadAsAWhole) {
  const Result r = ReadSlurm(R"(
url: https://slurm.example:6820
user: tidegate
token: env:SLURM_TOKEN
tls: {ca: /etc/ca.pem}
name: gw-1
partition: gpu
account: inference
qos: high
gres: [gpu, npu]
preemptible: {partitions: [scavenge], qos: free}
topology: /etc/slurm/topology.conf
directory: /scratch
logs: /shared/logs
)");
  EXPECT_THAT(r.problems, IsEmpty());
  EXPECT_EQ(ToString(r.slurm.url), "https://slurm.example:6820");
  EXPECT_EQ(r.slurm.user, "tidegate");
  EXPECT_EQ(r.slurm.token.Reveal(), "t0ken");
  EXPECT_EQ(r.slurm.name, "gw-1");
  EXPECT_EQ(r.slurm.partition, "gpu");
  EXPECT_EQ(r.slurm.account, "inference");
  EXPECT_EQ(r.slurm.qos, "high");
  EXPECT_THAT(r.slurm.gres, ElementsAre("gpu", "npu"));
  EXPECT_THAT(r.slurm.preemptible.partitions, ElementsAre("scavenge"));
  EXPECT_THAT(r.slurm.preemptible.qos, ElementsAre("free"));
  EXPECT_EQ(r.slurm.topology, "/etc/slurm/topology.conf");
  EXPECT_EQ(r.slurm.directory, "/scratch");
  EXPECT_EQ(r.slurm.logs, "/shared/logs");
}

TEST(SlurmConfig, WantsLittleOverTheUnixSocket) {
  const Result r = ReadSlurm("{socket: /run/slurmrestd.socket, user: svc, partition: gpu}");
  EXPECT_THAT(r.problems, IsEmpty());
  EXPECT_EQ(r.slurm.socket, "/run/slurmrestd.socket");
  EXPECT_TRUE(r.slurm.token.empty());
  EXPECT_THAT(r.slurm.gres, ElementsAre("gpu"));
}

TEST(SlurmConfig, RefusesWhatCannotWork) {
  struct Case {
    std::string text;
    const char* why;
  };
  for (const Case& c :
       {Case{"{user: u, partition: p}", "either url or socket"},
        Case{"{url: 'http://a:1', token: 'env:T', socket: /s, user: u, partition: p}",
             "either url or socket"},
        Case{"{url: 'http://a:1', user: u, partition: p}", "required with url"},
        Case{"{url: 'http://a:1', token: hunter2, user: u, partition: p}", "token"},
        Case{"{url: 'http://a:1', token: 'env:T', tls: {ca: /c}, user: u, partition: p}", "has no effect"},
        Case{"{socket: run/s, user: u, partition: p}", "absolute path"},
        Case{"{socket: /" + std::string(107, 's') + ", user: u, partition: p}", "107 bytes"},
        Case{"{socket: /s, partition: p}", "user"}, Case{"{socket: /s, user: u}", "partition"},
        Case{"{socket: /s, user: 'u v', partition: p}", "must be letters"},
        Case{"{socket: /s, user: u, partition: p, gres: []}", "must not be empty"},
        Case{"{socket: /s, user: u, partition: p, logs: logs}", "an absolute path on the nodes"}}) {
    const Result r = ReadSlurm(c.text);
    ASSERT_FALSE(r.problems.empty()) << c.text;
    EXPECT_THAT(r.problems.front(), HasSubstr(c.why)) << c.text;
    EXPECT_THAT(r.problems.front(), testing::Not(HasSubstr("hunter2")));
  }
}

// A configuration whose replicas run on the nodes of `cluster` under the switches of `topology`.
LoadResult Load(std::string cluster, std::string topology, std::string device = "{kind: h100}") {
  conf::Sources sources;
  sources.file = [=](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "cluster.yaml") return cluster;
    if (path == "topology.conf") return topology;
    return fmt::format(
        "{{model: m, replicas: {{max: 1}}, scaling: {{policy: demand}}, placement: {{devices: [{}]}}, "
        "replica: {{engine: vllm, command: [engine]}}}}",
        device);
  };
  return ParseConfig(
      "server: {listen: 127.0.0.1:8080}\ntenants: [{name: t, models: [m]}]\nmodels: [{name: m}]\n"
      "scaling: {policies: m.yaml, launcher: slurm, cluster: cluster.yaml,\n"
      "  slurm: {socket: /s, user: u, partition: p, topology: topology.conf}}",
      "t.yaml", sources);
}

constexpr const char* kNodes =
    "devices: [{name: h100, memory: 80GiB}]\n"
    "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 8}]\n";

TEST(SlurmConfig, ItsTopologyIsThePlannersFabric) {
  const LoadResult loaded = Load(fmt::format("{}nodes: [{{name: \"node{{1..4}}\", type: server}}]", kNodes),
                                 "SwitchName=leaf1 Nodes=node[1-2]\nSwitchName=leaf2 Nodes=node[3-4]\n"
                                 "SwitchName=spine Switches=leaf[1-2]\n");
  ASSERT_TRUE(loaded.config) << ToString(loaded.problems.front());
  const scheduler::Cluster& cluster = loaded.config->scaling->nodes;
  EXPECT_EQ(scheduler::FirstDefect(cluster), "");
  EXPECT_THAT(cluster.fabric.levels, ElementsAre("leaf", "spine", "cluster"));
  for (const scheduler::Node& node : cluster.nodes) {
    const std::string leaf = node.name == "node1" || node.name == "node2" ? "leaf1" : "leaf2";
    EXPECT_EQ(cluster.fabric.domains[node.domain].name, leaf) << node.name;
  }
}

TEST(SlurmConfig, ATopologyThatSaysNothingOfTheNodesIsRefused) {
  struct Case {
    const char* nodes;
    const char* topology;
    const char* why;
  };
  for (const Case& c : {Case{"nodes: [{name: a, type: server}]", "SwitchName=s Nodes=b", "none of the nodes"},
                        Case{"nodes: [{name: a, type: server}]", "SwitchName=s", "topology.conf:1"},
                        Case{"nodes: [{name: \"a{1..2}\", type: server}]\nfabric: {nodes_per_leaf: 1}",
                             "SwitchName=s Nodes=a1", "remove one of the two"}}) {
    const LoadResult loaded = Load(fmt::format("{}{}\n", kNodes, c.nodes), c.topology);
    ASSERT_FALSE(loaded.problems.empty()) << c.topology;
    EXPECT_THAT(ToString(loaded.problems.front()),
                testing::AllOf(HasSubstr("/scaling/slurm/topology"), HasSubstr(c.why)));
  }
}

TEST(SlurmConfig, APolicyThatAsksForPartOfADeviceIsRefused) {
  for (const char* device : {"{kind: h100, share: 0.5}", "{profile: 1g.10gb}"}) {
    const LoadResult loaded =
        Load(fmt::format("{}nodes: [{{name: a, type: server}}]", kNodes), "SwitchName=s Nodes=a", device);
    ASSERT_FALSE(loaded.problems.empty()) << device;
    EXPECT_THAT(
        ToString(loaded.problems.front()),
        testing::AllOf(HasSubstr("/placement/devices/0"), HasSubstr("ask for whole devices by count")));
  }
}

}  // namespace
}  // namespace gateway::config
