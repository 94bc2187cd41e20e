// The main job on real input: recorded conversations through the real gateway onto replicas that Slurm starts
// beside training; and the same while all of them are killed. Figures are printed, never asserted.
#include "tests/fault/slurm/trace_figures.h"

namespace tests {
namespace {

using std::chrono::seconds;

class TraceRun : public testing::Test {
 protected:
  // Ten minutes of it; sanitizers have time for five.
  static constexpr const char* kWindow = kSanitized ? "5m" : "10m";

  void SetUp() override {
    if (const std::string why = TraceWorld::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    world_ = std::make_unique<TraceWorld>();
    ASSERT_EQ(world_->Start(), "");
  }
  void TearDown() override {
    if (world_) world_->End();
  }

  // What must hold of Slurm at any time: none of our runs is there twice.
  void Observe() {
    std::set<std::string> names;
    for (const auto& [name, id] : world_->Running())
      EXPECT_TRUE(names.insert(name).second) << name << " runs twice";
    most_ = std::max(most_, world_->Replicas().size());
  }
  // Slurm runs what Tidegate knows of, and nothing else.
  bool Agree() {
    std::set<std::string> running;
    for (const auto& [name, id] : world_->Running()) running.insert(name);
    return running == world_->Wanted();
  }
  void ExpectSound(bool killed) {
    EXPECT_TRUE(world_->gateway().Settles(TraceWorld::kLong));
    EXPECT_TRUE(Balance(world_->gateway().Records()).none());
    EXPECT_TRUE(world_->gateway().Verify().ok());
    const Reconciliation found = Reconcile(*world_, killed);
    EXPECT_GT(found.whole, 0);
    EXPECT_GT(most_, 1u) << "the load started no replica";
    EXPECT_TRUE(Within(TraceWorld::kLong, [&] { return Agree(); }))
        << testing::PrintToString(world_->Running()) << testing::PrintToString(world_->Wanted());
    EXPECT_TRUE(Within(TraceWorld::kLong, [&] { return world_->Training()["state"] == "running"; }))
        << world_->Training();
    PrintFigures(*world_, found);
  }

  std::unique_ptr<TraceWorld> world_;
  size_t most_ = 0;
};

TEST_F(TraceRun, TenMinutesOfConversationsAreServedBesideTraining) {
  auto next = std::chrono::steady_clock::now();
  world_->Replay(kWindow, [&] {
    if (std::chrono::steady_clock::now() < next) return;
    next += seconds(1);
    Observe();
  });
  ExpectSound(false);
  EXPECT_EQ(world_->Other(), "RUNNING") << "nobody may take what it holds";
  EXPECT_GT(world_->Requeued(), 0) << "policy lets Slurm take those for ours";
}

TEST_F(TraceRun, TheSameWhileGatewayNodeAndControllerAreKilled) {
  std::string dead;  // node
  const auto kill_gateway = [&] {
    const std::map<std::string, std::string> before = world_->Ready();
    const std::multimap<std::string, std::string> jobs = world_->Running();
    world_->gateway().Restart();
    ASSERT_TRUE(Within(TraceWorld::kLong, [&] { return world_->Tidegate({"jobs", "list"}).code == 0; }));
    const Json after = world_->Replicas();
    const std::multimap<std::string, std::string> still = world_->Running();
    int adopted = 0;
    for (const auto& [id, node] : before) {
      const auto found =
          std::ranges::find_if(after, [&](const Json& replica) { return replica["id"] == id; });
      if (found == after.end()) {
        EXPECT_FALSE(still.contains(id)) << id << " runs, and nobody knows it";
        continue;
      }
      ++adopted;
      EXPECT_EQ((*found)["adopted"], true) << id;
      EXPECT_EQ((*found)["node"], node) << id;
      if (node != dead) EXPECT_NE((*found)["state"], "stopping") << *found;
    }
    EXPECT_GT(adopted, 0);
    for (const auto& [name, id] : still) {
      const auto known = jobs.find(name);
      if (known != jobs.end()) EXPECT_EQ(known->second, id) << name << " is another job now";
    }
  };
  // Slurm takes half a minute to give a node up.
  const std::vector<std::pair<seconds, std::function<void()>>> faults = {
      {seconds(3), [&] { world_->cluster().Kill(dead = world_->BusiestNode()); }},
      {seconds(10), kill_gateway},
      {seconds(20), [&] { world_->cluster().Restart("slurmrestd"); }},
      {seconds(45), kill_gateway},
      {seconds(50),
       [&] {
         world_->cluster().Stop("slurmctld");
         world_->cluster().Restart("slurmctld");
       }},
  };
  const auto begin = std::chrono::steady_clock::now();
  auto next = begin;
  auto fault = faults.begin();
  world_->Replay(kWindow, [&] {
    const auto now = std::chrono::steady_clock::now();
    if (fault != faults.end() && now >= begin + fault->first / (kSanitized ? 2 : 1)) (fault++)->second();
    if (now < next) return;
    next = now + seconds(1);
    Observe();
  });
  for (; fault != faults.end(); ++fault) fault->second();  // where the run was over sooner
  world_->cluster().Restart(dead);
  ExpectSound(true);
}

}  // namespace
}  // namespace tests
