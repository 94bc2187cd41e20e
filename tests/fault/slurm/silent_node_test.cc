// A node whose slurmd dies without a word, long before Slurm gives it up; and a gateway that is told to stop
// while Slurm is away.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fault/gateway/scaling.h"
#include "tests/fault/slurm/slurm_world.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kLong{60'000};

class SilentNode : public SlurmWorld {
 protected:
  SlurmCluster::Options ClusterOptions() const override { return {.nodes = 3}; }
  void SetUp() override {
    SlurmWorld::SetUp();
    std::ofstream(folder_ / "key") << kScalingAdminKey;
  }
  std::string Running() const { return Jobs("PD,R,CG", "%j %N"); }
  static Json NodeOf(const Scaled& scaled, const std::string& name) {
    const Answer answer = scaled.gateway.AskAdmin(Get("/admin/v1/nodes", Scaled::Credentials()));
    if (answer.status != 200) return Json::object();  // it is not known yet what runs
    const Json nodes = answer.json()["data"];
    for (const Json& node : nodes) {
      if (node["name"] == name) return node;
    }
    return Json::object();
  }
};

TEST_F(SilentNode, GetsNoNewWorkUntilItAnswersAgainAndTheReasonIsReported) {
  const uint32_t other =
      cluster_->Batch({"--nodelist=node3", "--gres=gpu:h100:8", "--mem=1000"}, "sleep 300");
  ASSERT_TRUE(Within(kLong, [&] { return !Running().empty(); }));
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 8}]}\n";
  model.scaling = "{policy: schedule}";
  model.replicas = "{min: 0, max: 2}";
  Scaled scaled(model, Section("stop"));
  ASSERT_TRUE(Within(kLong, [&] { return NodeOf(scaled, "node3").value("free", 8) == 0; }));
  cluster_->Kill("node1");
  // Two of a node each: one of them would stand on the dead one.
  model.replicas = "{min: 2, max: 2}";
  scaled.WritePolicy(model);
  const auto begun = std::chrono::steady_clock::now();
  scaled.gateway.Reload();
  ASSERT_TRUE(Within(kLong, [&] { return scaled.Names("node.suspect") == 1; }));
  RecordProperty(
      "suspect_after_ms",
      static_cast<int>(
          std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun).count()));
  const auto waits = [&] {
    const Json row = scaled.Scaling();
    return row["trouble"].is_string() ? row["trouble"].get<std::string>() : std::string();
  };
  EXPECT_TRUE(Within(kLong, [&] { return waits().find("node1 takes no new work") != std::string::npos; }))
      << waits();
  EXPECT_THAT(Running(), Not(HasSubstr("node1"))) << "nothing was even tried there";
  const CliResult listed =
      RunCli({"nodes", "--admin", fmt::format("http://127.0.0.1:{}", scaled.gateway.admin_port()),
              "--key-file", folder_ / "key"});
  EXPECT_THAT(listed.out, HasSubstr("slurmd"));
  EXPECT_EQ(NodeOf(scaled, "node1")["health"] == "healthy", false);
  EXPECT_GE(scaled.gateway.Metric("tidegate_node_suspicions_total").value_or(0), 1);

  cluster_->Run({"/usr/bin/scancel", std::to_string(other)});
  EXPECT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas() << Running();
  EXPECT_THAT(Running(), Not(HasSubstr("node1")));
  EXPECT_EQ(scaled.Scaling()["failed_starts"], 0) << "no fault of the model";

  cluster_->Restart("node1");
  EXPECT_TRUE(Within(2 * kLong, [&] { return NodeOf(scaled, "node1")["health"] == "healthy"; }))
      << NodeOf(scaled, "node1");
  EXPECT_EQ(scaled.Names("node.trust"), 1);
}

TEST_F(SilentNode, AGatewayThatIsToldToStopWhileSlurmIsAwayEndsItsReplicasOnceItIsBack) {
  ScaledModel model;
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
  model.replicas = "{min: 1, max: 1}";
  Scaled scaled(model, Section("stop"));
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong));
  scaled.gateway.Kill();
  cluster_->Kill("slurmrestd");
  scaled.gateway.Start();
  scaled.gateway.process().Signal(SIGTERM);
  Pause(milliseconds(1'000));
  EXPECT_TRUE(scaled.gateway.process().Running()) << "it does not know yet what it leaves behind";
  cluster_->Restart("slurmrestd");
  EXPECT_EQ(scaled.gateway.process().Wait(kLong), 0);
  EXPECT_TRUE(Within(kLong, [&] { return Running().empty(); })) << Running();
}

}  // namespace
}  // namespace tests
