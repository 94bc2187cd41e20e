// The whole loop through a real Kubernetes: a request that nobody can serve yet starts a replica as a pod, on devices of a
// node, and is answered by it; a gateway that was killed takes over what runs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/fault/gateway/scaling.h"
#include "tests/fault/kubernetes/kube_gateway.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using testing::HasSubstr;

class KubeGateway : public testing::Test {
 protected:
  static constexpr milliseconds kLong = KubeCluster::kLong;

  void SetUp() override {
    if (const std::string why = KubeCluster::WhyNot(); !why.empty())
      GTEST_SKIP() << "no Kubernetes here: " << why;
    cluster_ = KubeCluster::Fresh();
    ASSERT_NE(cluster_, nullptr);
    WriteKubeNodes(folder_ / "cluster.yaml");
    config_.sections = KubeAccess(*cluster_);
  }
  ScaledModel Model(const std::string& flags) const {
    ScaledModel model;
    model.command = fmt::format(
        "[/tidegate-engine, --listen, \"{{host}}\", --port, \"{{port}}\", --model, chat-small, --preset, "
        "instant{}]",
        flags);
    model.replica = fmt::format("image: \"{}\"", cluster_->image());
    return model;
  }
  // Uids of pods that hold something, by name.
  std::map<std::string, std::string> Running() const {
    std::map<std::string, std::string> running;
    for (const Json& pod : cluster_->Pods()) {
      if (pod["status"].value("phase", "") == "Running" && !pod["metadata"].contains("deletionTimestamp"))
        running[pod["metadata"]["name"]] = pod["metadata"]["uid"];
    }
    return running;
  }

  TempDir folder_;
  GatewayConfig config_;
  KubeCluster* cluster_ = nullptr;
};

TEST_F(KubeGateway, AReplicaIsAPodThatAKilledGatewayTakesOverAndACordonReplaces) {
  ScaledModel model = Model("");
  model.more = "placement: {devices: [{kind: h100, count: 2}]}\n";
  model.replicas = "{min: 1, max: 2}";
  Scaled scaled(model, KubeScaling(*cluster_, folder_ / "cluster.yaml"), config_);
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  const std::map<std::string, std::string> running = Running();
  ASSERT_EQ(running.size(), 1u);
  const std::string id = scaled.Replicas()[0]["id"];
  EXPECT_TRUE(running.contains(id));

  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  EXPECT_EQ(Running(), running) << "neither doubled nor lost";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);

  const std::string node = scaled.Replicas()[0]["node"];
  cluster_->Kubectl({"cordon", node});
  size_t fewest = 1;
  ASSERT_TRUE(Within(2 * kLong,
                     [&] {
                       Pause(milliseconds(100));
                       const Json all = scaled.Replicas();
                       size_t ready = 0;
                       for (const Json& replica : all) ready += replica["state"] == "ready" ? 1 : 0;
                       fewest = std::min(fewest, ready);
                       return all.size() == 1 && all[0]["node"] != node && ready == 1;
                     }))
      << scaled.Replicas() << "\n"
      << scaled.Admin("/admin/v1/nodes") << "\n"
      << scaled.gateway.process().Output();
  EXPECT_EQ(fewest, 1u) << "it is replaced before it is drained";
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_TRUE(scaled.gateway.Settles());
  scaled.KeepNothing();
}

TEST_F(KubeGateway, AReplicaOfTwoMembersIsTwoPodsAndIsReplacedWhole) {
  ScaledModel model = Model(", --workers, \"1\", --workers-at, \"{leader_port}\"");
  model.replicas = "{min: 1, max: 1}";
  model.more = "placement: {members: 2, devices: [{kind: h100, count: 8}]}\n";
  model.replica +=
      ", worker_command: [/tidegate-engine, --preset, instant, --worker-of, \"{leader}:{leader_port}\"]";
  // There is no DNS here: they meet at their nodes' addresses.
  Scaled scaled(model, KubeScaling(*cluster_, folder_ / "cluster.yaml", ", pod: {hostNetwork: true}"),
                config_);
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  const Json before = scaled.Replicas()[0];
  const std::string id = before["id"];
  ASSERT_EQ(before["members"].size(), 2u) << before;
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  const std::map<std::string, std::string> running = Running();
  EXPECT_EQ(running.size(), 2u);

  scaled.gateway.Restart();
  ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
  EXPECT_EQ(Running(), running) << "both are taken over";
  EXPECT_EQ(scaled.Replicas()[0]["id"], id);

  cluster_->Delete(before["members"][1]["run"]);
  ASSERT_TRUE(Within(kLong, [&] {
    Pause(milliseconds(100));
    const Json all = scaled.Replicas();
    return all.size() == 1 && all[0]["id"] != id && all[0]["state"] == "ready";
  })) << scaled.Replicas();
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  EXPECT_TRUE(scaled.gateway.Settles());
  scaled.KeepNothing();
}

TEST_F(KubeGateway, TheLogOfAJobIsItsPods) {
  Scaled scaled(Model(""), KubeScaling(*cluster_, folder_ / "cluster.yaml"), config_);
  std::ofstream(folder_ / "key") << kScalingAdminKey << "\n";
  std::ofstream(folder_ / "job.yaml") << fmt::format(
      "name: count\nimage: \"{}\"\ncommand: [/bin/sh, -c, \"echo one; echo two\"]\ndevices: [{{kind: h100, "
      "count: 1}}]\n",
      cluster_->image());
  const auto tidegate = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--admin", fmt::format("http://127.0.0.1:{}", scaled.gateway.admin_port()),
                             "--key-file", folder_ / "key"});
    return RunCli(args);
  };
  ASSERT_TRUE(Within(kLong, [&] { return tidegate({"jobs", "list"}).code == 0; }));
  const CliResult submitted = tidegate({"jobs", "submit", folder_ / "job.yaml"});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const std::string id = submitted.out.substr(0, submitted.out.find('\n'));
  const auto show = [&] { return scaled.Admin("/admin/v1/jobs/" + id); };
  ASSERT_TRUE(Within(kLong, [&] { return Pause(milliseconds(100)), show()["state"] == "done"; })) << show();
  EXPECT_THAT(tidegate({"jobs", "logs", id}).out, HasSubstr("one\ntwo"));
}

}  // namespace
}  // namespace tests
