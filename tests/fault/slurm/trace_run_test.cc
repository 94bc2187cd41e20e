// The main job on real input: recorded conversations through the real gateway onto replicas that Slurm starts
// beside training; and the same while all of them are killed. Figures are printed, never asserted.
#include "tests/fault/slurm/trace_figures.h"

namespace tests {
namespace {

using std::chrono::seconds;

class TraceRun : public testing::Test {
 protected:
  // Ten minutes of it; sanitizers have time for three.
  static constexpr const char* kWindow = kSanitized ? "3m" : "10m";

  void SetUp() override {
    if (const std::string why = TraceWorld::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    world_ = std::make_unique<TraceWorld>();
    ASSERT_EQ(world_->Start(), "");
  }
  void TearDown() override {
    if (world_) world_->End();
  }

  // What must hold of Slurm at any time: none of our runs is there twice.
  void Look() {
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
    Look();
  });
  ExpectSound(false);
}

TEST_F(TraceRun, TheSameWhileGatewayNodeAndControllerAreKilled) {
  const auto kill_gateway = [&] {
    const std::map<std::string, std::string> before = world_->Ready();
    const std::multimap<std::string, std::string> jobs = world_->Running();
    world_->gateway().Restart();
    ASSERT_TRUE(Within(TraceWorld::kLong, [&] { return world_->Tidegate({"jobs", "list"}).code == 0; }));
    const Json after = world_->Replicas();
    for (const auto& [id, node] : before) {
      const auto found =
          std::ranges::find_if(after, [&](const Json& replica) { return replica["id"] == id; });
      ASSERT_NE(found, after.end()) << id << " was not found again";
      EXPECT_EQ((*found)["adopted"], true) << id;
      EXPECT_EQ((*found)["node"], node) << id;
    }
    for (const auto& [name, id] : world_->Running()) {
      const auto known = jobs.find(name);
      if (known != jobs.end()) EXPECT_EQ(known->second, id) << name << " is another job now";
    }
  };
  std::string node;
  std::vector<std::function<void()>> faults = {
      kill_gateway,
      [&] {
        world_->cluster().Stop("slurmctld");
        world_->cluster().Restart("slurmctld");
      },
      [&] { world_->cluster().Restart("slurmrestd"); },
      [&] {
        node = world_->BusiestNode();
        world_->cluster().Kill(node);
      },
      kill_gateway,
      [&] { world_->cluster().Restart(node); },
  };
  const seconds between = kSanitized ? seconds(4) : seconds(8);
  auto next = std::chrono::steady_clock::now() + between;
  auto fault = faults.begin();
  world_->Replay(kWindow, [&] {
    if (std::chrono::steady_clock::now() < next) return;
    if (fault == faults.end()) return Look();
    next = std::chrono::steady_clock::now() + between;
    (*fault++)();
    Look();
  });
  EXPECT_EQ(fault, faults.end()) << "the run ended before all was done to it";
  ExpectSound(true);
}

}  // namespace
}  // namespace tests
