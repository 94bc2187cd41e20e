#include "gateway/control/moves/node_drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::Cordon;
using gateway::control::NodeDrain;
using gateway::control::State;

const conf::TimePoint kStart = conf::FromUnixMicros(1'700'000'000'000'000);

class NodeDrainTest : public testing::Test {
 protected:
  MemoryStore store;
  ScriptedLauncher launcher;
  JobsWorld world{store, launcher, kStart};
  Cordon order{.node = "local", .reason = "new firmware", .by = "ada", .since = kStart, .drains = true};
  bool drained = false;
  bool jobs_may_stay = false;
  NodeDrain drain{world.context,
                  world.workloads,
                  world.replicas,
                  {.order =
                       [this](const std::string& node) {
                         return drained ? std::optional(NodeDrain::Order{node + " is " + WhyOf(order),
                                                                         order.by, jobs_may_stay})
                                        : std::nullopt;
                       },
                   .wanted = [this](const std::string&) { return wanted; }}};
  uint32_t wanted = 0;

  // One that serves, with a device of that number.
  gateway::control::Workload& Serving(gateway::control::Replicas::For whom, uint32_t device) {
    gateway::control::Workload& replica = world.replicas.Add("chat", "lines wait", whom);
    replica.state = State::kRunning;
    replica.members.emplace_back().at.holding = {.node = 0, .devices = 1U << device};
    return replica;
  }
};

TEST_F(NodeDrainTest, APreemptibleJobLeavesAndWaitsForAnotherPlace) {
  const std::string id =
      world.Submit("name: train\ncommand: [x]\ndevices: [{kind: h100, count: 2}]\npreemptible: true\n");
  world.Settle();
  ASSERT_EQ(world.jobs->Find(id)->state, State::kRunning);
  drain.Tick();
  EXPECT_EQ(world.jobs->Find(id)->state, State::kRunning) << "nothing is drained";
  drained = true;
  world.planning.UpdateCordons({order}, kStart);
  drain.Tick();
  EXPECT_THAT(world.jobs->Find(id)->why, testing::HasSubstr("local is drained by ada: new firmware"));
  world.Settle();
  EXPECT_EQ(world.jobs->Find(id)->state, State::kPending);
  EXPECT_EQ(world.jobs->Find(id)->restarts, 0u);
  drained = false;
  world.planning.UpdateCordons({}, kStart);
  world.Settle();
  EXPECT_EQ(world.jobs->Find(id)->state, State::kRunning);
}

TEST_F(NodeDrainTest, AJobThatMayNotBePreemptedRunsToItsEnd) {
  const std::string id =
      world.Submit("name: train\ncommand: [x]\ndevices: [{kind: h100, count: 2}]\npreemptible: false\n");
  world.Settle();
  drained = true;
  drain.Tick();
  world.Settle();
  EXPECT_EQ(world.jobs->Find(id)->state, State::kRunning);
}

TEST_F(NodeDrainTest, AReplicaForBatchesEndsWithoutAReplacement) {
  wanted = 1;
  const auto& replica = Serving(gateway::control::Replicas::For::kAll, 0);
  const auto& for_batches = Serving(gateway::control::Replicas::For::kBatches, 1);
  drained = true;
  drain.Tick();
  EXPECT_FALSE(replica.ends()) << "none serves elsewhere";
  EXPECT_TRUE(for_batches.ends());
}

TEST_F(NodeDrainTest, AReplicaForBatchesLeavesADeviceWithAFault) {
  const auto& replica = Serving(gateway::control::Replicas::For::kAll, 0);
  const auto& for_batches = Serving(gateway::control::Replicas::For::kBatches, 1);
  const auto& other = Serving(gateway::control::Replicas::For::kBatches, 2);
  world.replicas.LeaveFaulty({{.node = "local", .device = 0, .why = "2 uncorrected ECC errors"},
                              {.node = "local", .device = 1, .why = "2 uncorrected ECC errors"},
                              {.node = "elsewhere", .device = 2, .why = "2 uncorrected ECC errors"}});
  EXPECT_FALSE(replica.ends()) << "it moves, or goes on";
  EXPECT_FALSE(other.ends());
  EXPECT_TRUE(for_batches.ends());
  EXPECT_THAT(for_batches.why, testing::HasSubstr("device 1 of local: 2 uncorrected ECC errors"));
}

TEST_F(NodeDrainTest, AJobStaysWhereTheManagerWaitsForItsEnd) {
  const std::string id =
      world.Submit("name: train\ncommand: [x]\ndevices: [{kind: h100, count: 2}]\npreemptible: true\n");
  world.Settle();
  drained = jobs_may_stay = true;
  drain.Tick();
  world.Settle();
  EXPECT_EQ(world.jobs->Find(id)->state, State::kRunning);
}

}  // namespace
}  // namespace tests
