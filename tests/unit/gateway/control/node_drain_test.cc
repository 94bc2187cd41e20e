#include "gateway/control/node_drain.h"

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
  NodeDrain drain{world.context,
                  world.workloads,
                  world.replicas,
                  {.order =
                       [this](const std::string& node) {
                         return drained
                                    ? std::optional(NodeDrain::Order{node + " is " + WhyOf(order), order.by})
                                    : std::nullopt;
                       },
                   .wanted = [](const std::string&) { return 0u; }}};
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

}  // namespace
}  // namespace tests
