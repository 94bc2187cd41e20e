// What a launcher makes of a Kubernetes whose parts die.
#include "tests/fault/kubernetes/kube_fixture.h"

namespace plugins::launchers {
namespace {

using scheduler::Health;
using testing::HasSubstr;
using testing::Not;

TEST_F(KubeTest, WhatRunsOutlivesTheApiServerAndEtcd) {
  if (!cluster_->has_parts()) GTEST_SKIP() << "the parts of this cluster cannot be stopped";
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 2, kWait))).ok());
    const auto before = co_await Until(loop, launcher, "r1", IsRunning);
    const std::string uid = UidOf("r1");

    cluster_->Stop("apiserver");
    const auto unreachable = co_await launcher.Start(Spec("r2", "node-2", 1, kWait));
    EXPECT_TRUE(absl::IsUnavailable(unreachable)) << unreachable;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !launcher.health().ok(); }, kLong));
    cluster_->Start("apiserver");
    EXPECT_EQ((co_await Until(loop, launcher, "r1", IsRunning))->port, before->port);
    absl::Status second = absl::UnavailableError("");
    gateway::net::Sleep sleep(loop.watchdog);
    for (int i = 0; i < 100 && absl::IsUnavailable(second); ++i) {
      second = co_await launcher.Start(Spec("r2", "node-2", 1, kWait));
      if (!second.ok()) co_await sleep.For(200ms);
    }
    EXPECT_TRUE(second.ok()) << second;
    co_await Until(loop, launcher, "r2", IsRunning);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return launcher.health().ok(); }, kLong));

    cluster_->Stop("etcd");
    const auto silent = co_await launcher.Start(Spec("r3", "node-3", 1, kWait));
    EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
    cluster_->Start("etcd");
    absl::Status third = absl::UnavailableError("");
    for (int i = 0; i < 100 && absl::IsUnavailable(third); ++i) {
      third = co_await launcher.Start(Spec("r3", "node-3", 1, kWait));
      if (!third.ok()) co_await sleep.For(200ms);
    }
    EXPECT_TRUE(third.ok()) << third;
    for (const char* id : {"r1", "r2", "r3"}) {
      const auto running = co_await Until(loop, launcher, id, IsRunning);
      EXPECT_EQ(running->why, "") << id;
    }
    EXPECT_EQ(UidOf("r1"), uid) << "it is the same pod";
    co_await launcher.Close();
  });
}

TEST_F(KubeTest, ASilentNodeGetsNoNewWorkAndItsRunIsReported) {
  if (!cluster_->has_parts()) GTEST_SKIP() << "the parts of this cluster cannot be stopped";
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    KubernetesLauncher launcher(loop, Options());
    co_await Ready(loop, launcher);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node-1", 2, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    cluster_->Stop("kubelet-1");
    const auto silent = [&] {
      const SharedNode* const node = NodeOf(launcher, "node-1");
      return node != nullptr && node->health == Health::kQuarantined;
    };
    EXPECT_TRUE(co_await Eventually(loop, silent, kLong));
    EXPECT_THAT(NodeOf(launcher, "node-1")->why, Not(testing::IsEmpty()));
    EXPECT_EQ(NodeOf(launcher, "node-2")->health, Health::kHealthy);
    const auto lost = co_await Until(loop, launcher, "r1", HasEnded);
    EXPECT_THAT(lost->why, HasSubstr("node-1"));
    EXPECT_EQ(lost->exit_code, std::nullopt);
    cluster_->Start("kubelet-1");
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return NodeOf(launcher, "node-1")->health == Health::kHealthy; }, kLong));
    EXPECT_TRUE(co_await Eventually(
        loop,
        [&] {
          const tests::Json pod = cluster_->Pod("r1");
          return pod.is_null() || pod["metadata"].contains("deletionTimestamp");
        },
        kLong))
        << "what has ended does not go on holding devices";
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
