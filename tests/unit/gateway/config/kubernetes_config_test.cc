// Where the nodes of replicas on Kubernetes come from.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/config/load.h"

namespace gateway::config {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kNodesOfKubernetes =
    "devices: [{name: h100, memory: 80GiB}]\n"
    "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 8}]\n"
    "nodes: [{name: \"node{1..4}\", type: server}]\n";

// A configuration whose replicas are pods, with more of the section scaling, and of its section kubernetes.
LoadResult LoadKubernetes(const std::string& scaling, const std::string& pods = "") {
  conf::Sources sources;
  sources.file = [](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "cluster.yaml") return std::string(kNodesOfKubernetes);
    return std::string(
        "{model: m, replicas: {max: 1}, scaling: {policy: demand}, "
        "placement: {members: 2, devices: [{kind: b200}], topology: {level: hall}}, "
        "replica: {engine: vllm, image: i, command: [engine]}}");
  };
  return ParseConfig(
      fmt::format("server: {{listen: 127.0.0.1:8080}}\ntenants: [{{name: t, models: [m]}}]\n"
                  "models: [{{name: m}}]\n"
                  "scaling: {{policies: m.yaml, launcher: kubernetes{}, kubernetes: {{name: g{}}}}}",
                  scaling, pods),
      "t.yaml", sources);
}

std::vector<std::string> Texts(const LoadResult& loaded) {
  std::vector<std::string> texts;
  for (const conf::Problem& problem : loaded.problems) texts.push_back(conf::ToString(problem));
  return texts;
}

TEST(KubernetesConfig, WithoutAClusterTheNodesAreFound) {
  for (const char* cluster : {"", ", cluster: probe"}) {
    const LoadResult loaded = LoadKubernetes(cluster);
    ASSERT_THAT(Texts(loaded), IsEmpty()) << "what policies name may be there later";
    EXPECT_TRUE(FindsNodes(*loaded.config->scaling));
    EXPECT_THAT(loaded.config->scaling->nodes.nodes, IsEmpty());
    EXPECT_FALSE(loaded.config->scaling->probed) << "this machine is none of the nodes";
  }
}

TEST(KubernetesConfig, AClusterFileListsTheNodesAndPoliciesFitThem) {
  const LoadResult loaded = LoadKubernetes(", cluster: cluster.yaml");
  EXPECT_THAT(Texts(loaded), Contains(HasSubstr("unknown kind \"b200\"")));
}

TEST(KubernetesConfig, TheLabelsOfTheTopologyAreRead) {
  const LoadResult loaded =
      LoadKubernetes("",
                     ", nodes: {selector: 'pool=gpu', labels: {tenant: example.com/team}, "
                     "topology: [{level: rack, labels: example.com/rack}, {level: hall, labels: [a, b]}]}");
  ASSERT_THAT(Texts(loaded), IsEmpty());
  const FoundNodes& nodes = *loaded.config->scaling->kubernetes->nodes;
  EXPECT_EQ(nodes.selector, "pool=gpu");
  EXPECT_EQ(nodes.how.labels.size(), 1u);
  EXPECT_EQ(nodes.how.labels.at("tenant"), "example.com/team");
  ASSERT_EQ(nodes.how.topology.size(), 2u);
  EXPECT_EQ(nodes.how.topology[0].level, "rack");
  EXPECT_THAT(nodes.how.topology[0].labels, ElementsAre("example.com/rack"));
  EXPECT_THAT(nodes.how.topology[1].labels, ElementsAre("a", "b"));
}

TEST(KubernetesConfig, WhatHasNoEffectIsRefused) {
  struct Case {
    const char* scaling;
    const char* pods;
    const char* expected;
  };
  for (const Case& c : {Case{", cluster: [{kind: h100}]", "", "/scaling/cluster"},
                        Case{", cluster: cluster.yaml", ", nodes: {selector: a}", "/scaling/kubernetes"},
                        Case{"", ", nodes: {topology: [{level: a, labels: b}, {level: a, labels: c}]}",
                             "has the level a twice"},
                        Case{"", ", nodes: {topology: [{level: cluster, labels: b}]}", "above all others"},
                        Case{"", ", nodes: {topology: [{level: a}]}", "labels"},
                        Case{"", ", nodes: {labels: {zone: ''}}", "/scaling/kubernetes/nodes/labels"}}) {
    EXPECT_THAT(Texts(LoadKubernetes(c.scaling, c.pods)), Contains(HasSubstr(c.expected)))
        << c.scaling << c.pods;
  }
}

}  // namespace
}  // namespace gateway::config
