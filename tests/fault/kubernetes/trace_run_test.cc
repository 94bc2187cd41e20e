// The main job on real input: recorded conversations through the real gateway onto replicas that are pods of a real
// Kubernetes, beside training, while the gateway is killed twice, a node is lost and the API server restarts.
#include "tests/fault/kubernetes/trace_world.h"
#include "tests/support/reconciliation.h"

namespace tests {
namespace {

using std::chrono::seconds;

class KubeTraceRun : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = KubeCluster::WhyNot(); !why.empty())
      GTEST_SKIP() << "no Kubernetes here: " << why;
    cluster_ = KubeCluster::Fresh();
    ASSERT_NE(cluster_, nullptr);
    if (!cluster_->has_parts()) GTEST_SKIP() << "the parts of this cluster cannot be stopped";
    world_ = std::make_unique<KubeTraceWorld>(*cluster_);
    ASSERT_EQ(world_->Start(), "");
  }
  void TearDown() override {
    if (world_) world_->End();
  }
  void KillGateway() {
    const std::map<std::string, std::string> serving = world_->Ready();
    const std::map<std::string, std::string> pods = world_->Pods();
    world_->gateway().Restart();
    ASSERT_TRUE(Within(KubeTraceWorld::kLong, [&] {
      return Pause(milliseconds(50)), world_->Tidegate({"jobs", "list"}).code == 0;
    }));
    const std::map<std::string, std::string> still = world_->Pods();
    int adopted = 0;
    for (const Json& replica : world_->Replicas()) adopted += serving.contains(replica["id"]) ? 1 : 0;
    EXPECT_GT(adopted, 0);
    for (const auto& [name, uid] : still) {
      const auto known = pods.find(name);
      if (known != pods.end()) EXPECT_EQ(known->second, uid) << name << " is another pod now";
    }
  }
  // Kubernetes runs what Tidegate knows of, and nothing else.
  bool Agree() {
    std::set<std::string> running;
    for (const auto& [name, uid] : world_->Pods()) running.insert(name);
    return running == world_->Wanted();
  }

  KubeCluster* cluster_ = nullptr;
  std::unique_ptr<KubeTraceWorld> world_;
};

TEST_F(KubeTraceRun, LedgerAndUsageAreWhatClientsWereToldWhileEverythingIsKilled) {
  int dead = 0;  // node
  const std::vector<std::pair<seconds, std::function<void()>>> faults = {
      {seconds(2), [&] { cluster_->Stop(fmt::format("kubelet-{}", dead = world_->BusiestNode())); }},
      {seconds(6), [&] { KillGateway(); }},
      {seconds(12),
       [&] {
         cluster_->Stop("apiserver");
         cluster_->Start("apiserver");
       }},
      {seconds(22), [&] { KillGateway(); }},
  };
  const auto begin = std::chrono::steady_clock::now();
  auto fault = faults.begin();
  size_t most = 0;
  world_->Replay("5m", [&] {
    if (fault != faults.end() && std::chrono::steady_clock::now() >= begin + fault->first)
      (fault++)->second();
    most = std::max(most, world_->Replicas().size());
  });
  for (; fault != faults.end(); ++fault) fault->second();  // where the run was over sooner
  cluster_->Start(fmt::format("kubelet-{}", dead));

  EXPECT_TRUE(world_->gateway().Settles(KubeTraceWorld::kLong));
  EXPECT_TRUE(Balance(world_->gateway().Records()).none());
  EXPECT_TRUE(world_->gateway().Verify().ok());
  const Reconciliation found = Reconcile(*world_, true);
  EXPECT_GT(found.whole, 0);
  EXPECT_GT(most, 1u) << "the load started no replica";
  EXPECT_TRUE(Within(KubeTraceWorld::kLong, [&] { return Pause(milliseconds(200)), Agree(); }))
      << testing::PrintToString(world_->Pods()) << testing::PrintToString(world_->Wanted())
      << world_->Replicas() << world_->Training();
  EXPECT_TRUE(Within(KubeTraceWorld::kLong, [&] {
    return Pause(milliseconds(200)), world_->Training().value("state", "") == "running";
  })) << world_->Training();
  EXPECT_TRUE(cluster_->Runs("other")) << "nobody may take what it holds";
  fmt::print(
      "{} answered whole, {} cut by a kill, {} tries without an answer; at most {} replicas; training began "
      "{} times\n",
      found.whole, found.cut, found.unanswered, most, world_->Begun());
}

}  // namespace
}  // namespace tests
