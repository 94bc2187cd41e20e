// The whole loop through a real Slurm: a request that nobody can serve yet starts a replica as a batch job,
// on devices of a node, and is answered by it; a gateway that was killed takes over what runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/support/slurm_cluster.h"

namespace tests {
namespace {

using testing::HasSubstr;

class SlurmGateway : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    cluster_ = std::make_unique<SlurmCluster>();
    ASSERT_EQ(cluster_->Start(), "");
    std::ofstream(folder_ / "cluster.yaml")
        << "devices: [{name: h100, memory: 80GiB}]\n"
           "types: [{name: server, cpu: 64, memory: 500GiB, device: h100, count: 8}]\n"
           "nodes: [{name: \"node{1..4}\", type: server}]\n";
    std::ofstream(folder_ / "token") << cluster_->Token();
  }
  std::string Section() const {
    return fmt::format(
        "launcher: slurm, cluster: {}, on_exit: keep, slurm: {{url: \"http://127.0.0.1:{}\", user: {}, "
        "token: "
        "\"file:{}\", partition: main, logs: {}/work, directory: {}/work}}",
        folder_ / "cluster.yaml", cluster_->rest_port(), cluster_->user(), folder_ / "token",
        cluster_->folder(), cluster_->folder());
  }
  std::string Jobs(const std::string& states) const {
    return cluster_->Run({"/usr/bin/squeue", "-h", "-t", states, "-o", "%j %b"});
  }

  TempDir folder_;
  std::unique_ptr<SlurmCluster> cluster_;
};

TEST_F(SlurmGateway, AReplicaIsABatchJobThatAKilledGatewayTakesOver) {
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 2}]}\n";
  model.replicas = "{min: 1, max: 2}";
  Scaled scaled(model, Section());
  const Answer answer = scaled.gateway.Ask(Chat({{"max_tokens", 3}}, "X-Request-Id: first\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  const std::string running = Jobs("R");
  EXPECT_THAT(running, HasSubstr("gpu:h100:2"));

  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready"));
  EXPECT_EQ(Jobs("R"), running) << "neither doubled nor lost";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_TRUE(scaled.gateway.Settles());

  std::string text = ReadFile(scaled.gateway.config_path());
  text.replace(text.find("partition: main"), 15, "partition: scavenge");
  std::ofstream(scaled.gateway.config_path()) << text;
  scaled.gateway.Reload();
  EXPECT_EQ(scaled.gateway.Metric("tidegate_config_reloads_total{result=\"refused\"}"), 1)
      << "a reload that would be without effect is not applied";
}

}  // namespace
}  // namespace tests
