// Jobs that others submit to the same Slurm: seen as what they hold, and preempted by Slurm where it is told
// to.
#include "plugins/launchers/slurm/cluster.h"
#include "tests/fault/slurm/slurm_fixture.h"

namespace plugins::launchers {
namespace {

using scheduler::Health;
using testing::ElementsAre;

const slurm::Occupant* Find(const slurm::View& view, uint32_t job) {
  for (const slurm::Occupant& occupant : view.occupants) {
    if (occupant.job == job) return &occupant;
  }
  return nullptr;
}

TEST_F(SlurmTest, JobsOfOthersAreSeenAsWhatTheyHold) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher::Options with = Options();
    with.preemptible_partitions = {"scavenge"};
    SlurmLauncher launcher(loop, with);
    launcher.Open();
    const uint32_t gang = cluster_->Batch(
        {"--nodes=2", "--nodelist=node[1-2]", "--gres=gpu:h100:3", "--mem=2000"}, "sleep 300");
    const uint32_t scavenger = cluster_->Batch(
        {"--partition=scavenge", "--nodelist=node1", "--gres=gpu:h100:2", "--mem=2000", "--time=10"},
        "sleep 300");
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 2, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    cluster_->Run({"/usr/bin/scontrol", "update", "nodename=node4", "state=drain", "reason=fan"});
    slurm::View view;
    const auto look = [&] {
      view = launcher.view();
      return view.occupants.size() == 3 && view.cluster.nodes[3].health == Health::kDraining;
    };
    EXPECT_TRUE(co_await tests::Eventually(loop, look, 20s));
    EXPECT_EQ(scheduler::FirstDefect(view.cluster), "");
    const slurm::Occupant* of_gang = Find(view, gang);
    const slurm::Occupant* of_scavenger = Find(view, scavenger);
    if (of_gang == nullptr || of_scavenger == nullptr) {
      ADD_FAILURE() << "a job is not seen";
    } else {
      EXPECT_EQ(of_gang->holds.size(), 2u);
      EXPECT_FALSE(of_gang->ours);
      EXPECT_FALSE(of_gang->preemptible);
      EXPECT_EQ(of_gang->holds[0].devices.size(), 3u);
      EXPECT_TRUE(of_scavenger->preemptible);
      EXPECT_TRUE(of_scavenger->ends.has_value());
      EXPECT_EQ(of_scavenger->holds[0].devices.size(), 2u);
    }
    EXPECT_THAT(launcher.shared()->nodes,
                ElementsAre(SharedNode{"node1", Health::kHealthy, "h100", 8, 3},
                            SharedNode{"node2", Health::kHealthy, "h100", 8, 3},
                            SharedNode{"node3", Health::kHealthy, "h100", 8, 0},
                            SharedNode{"node4", Health::kDraining, "h100", 8, 0,
                                       "Slurm says idle DRAIN (fan)", Leaving::kReplicas}));
    co_await launcher.Close();
  });
}

class PreemptingSlurmTest : public SlurmTest {
  tests::SlurmCluster::Options ClusterOptions() const override {
    tests::SlurmCluster::Options options;
    options.more = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n";
    return options;
  }
};

TEST_F(PreemptingSlurmTest, APreemptibleJobGoesBackIntoTheQueueForARun) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    launcher.Open();
    const uint32_t scavenger = cluster_->Batch(
        {"--partition=scavenge", "--nodelist=node1", "--gres=gpu:h100:8", "--mem=2000", "--requeue"},
        "sleep 300");
    const auto is = [&](const std::string& state) {
      return cluster_->Run({"/usr/bin/squeue", "-h", "-j", std::to_string(scavenger), "-o", "%T"}) == state;
    };
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return is("RUNNING"); }));
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 2, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    EXPECT_TRUE(is("PENDING"));
    co_await launcher.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
