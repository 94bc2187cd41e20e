// What others do with the same Kubernetes: their pods hold devices, and they cordon, taint and drain nodes.
#include "tests/fault/kubernetes/kube_fixture.h"

namespace plugins::launchers {
namespace {

using scheduler::Health;
using testing::HasSubstr;

TEST_F(KubeTest, PodsOfOthersAreSeenAsWhatTheyHoldAndNodesAsTheyAre) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    cluster_->Create("other", "node-1", 3, kWait);
    cluster_->Create("over", "node-1", 4, "echo done");
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 2, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    cluster_->Kubectl({"cordon", "node-2"});
    cluster_->Kubectl({"taint", "nodes", "node-3", "maintenance=fans:NoSchedule"});
    const auto look = [&] {
      const SharedNode* const one = NodeOf(launcher, "node-1");
      const SharedNode* const two = NodeOf(launcher, "node-2");
      const SharedNode* const three = NodeOf(launcher, "node-3");
      return one && two && three && one->taken == 3 && two->health == Health::kDraining &&
             three->health != Health::kHealthy;
    };
    EXPECT_TRUE(co_await Eventually(loop, look, kLong));
    const SharedNode* const node = NodeOf(launcher, "node-1");
    EXPECT_EQ(node->health, Health::kHealthy);
    EXPECT_EQ(node->devices, 8u);
    EXPECT_EQ(node->kind, "h100");
    EXPECT_THAT(NodeOf(launcher, "node-2")->why, HasSubstr("cordon"));
    EXPECT_THAT(NodeOf(launcher, "node-3")->why, HasSubstr("maintenance"));
    EXPECT_THAT(launcher.shared()->nodes, testing::SizeIs(3));
    cluster_->Kubectl({"uncordon", "node-2"});
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return NodeOf(launcher, "node-2")->health == Health::kHealthy; }, kLong));
    cluster_->Delete("other");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return NodeOf(launcher, "node-1")->taken == 0; }, kLong));
    co_await launcher.Close();
  });
}

TEST_F(KubeTest, ADrainedNodeEndsItsRunsAndSaysSo) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    EXPECT_TRUE(
        (co_await launcher.Start(Spec("r1", "node-1", 2, "trap 'exit 0' TERM; " + std::string(kWait)))).ok());
    EXPECT_TRUE((co_await launcher.Start(Spec("r2", "node-2", 2, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    co_await Until(loop, launcher, "r2", IsRunning);
    cluster_->Kubectl(
        {"drain", "node-1", "--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=1s"});
    const auto ended = co_await Until(loop, launcher, "r1", HasEnded);
    EXPECT_THAT(ended->why, HasSubstr("drain"));
    EXPECT_EQ(NodeOf(launcher, "node-1")->health, Health::kDraining);
    EXPECT_TRUE(IsRunning(*co_await Until(loop, launcher, "r2", IsRunning)));
    co_await launcher.Close();
  });
}

TEST_F(KubeTest, AnEvictedPodIsReported) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    RunSpec spec = Spec(
        "r1", "node-1", 1,
        "i=0; while [ $i -lt 9000 ]; do echo 0123456789012345678901234567890123456789; i=$((i + 1)); done "
        "> /scratch/x; " +
            std::string(kWait));
    spec.pod = R"({"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "100Ki"}}],
      "containers": [{"name": "run", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}]})";
    EXPECT_TRUE((co_await launcher.Start(spec)).ok());
    const auto ended = co_await Until(loop, launcher, "r1", HasEnded);
    EXPECT_THAT(ended->why, HasSubstr("node-1 evicted its pod"));
    EXPECT_THAT(ended->why, HasSubstr("exceeds the limit"));
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
