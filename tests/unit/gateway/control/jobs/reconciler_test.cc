// What a gateway makes of runs that ended while an earlier one was killed.
#include "gateway/control/workloads/reconciler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using gateway::control::HeldDevices;
using gateway::control::State;
using std::chrono::seconds;

class RestoredEnd : public testing::Test {
 protected:
  void Restart() {
    const conf::TimePoint now = world ? world->now : conf::TimePoint(std::chrono::hours(24 * 20'000));
    world.reset();
    world.emplace(store, launcher, now);
  }

  MemoryStore store;
  ScriptedLauncher launcher;
  std::optional<JobsWorld> world;
};

TEST_F(RestoredEnd, AMemberThatRunsNoLongerSaysWhatItWaitedFor) {
  Restart();
  launcher.comes_up = false;
  const std::string id = world->Submit("name: train\ncommand: [train]\ndevices: [{kind: h100, count: 1}]\n");
  world->Settle();
  RunStatus& run = launcher.runs.at(fmt::format("j-{}-1-0", id));
  run.why = "job 14 waits in Slurm: other jobs go first (Priority)";
  world->Settle();
  EXPECT_EQ((*world)[id].members[0].why, run.why);
  run.state = RunState::kRunning;
  run.why.clear();
  world->Settle();
  EXPECT_EQ(world->State(id), "running");
  EXPECT_EQ((*world)[id].members[0].why, "");
}

TEST_F(RestoredEnd, DevicesOfAnEndThatWasSeenButNotRecordedAreChargedByTheNextGateway) {
  Restart();
  const std::string id =
      world->Submit("name: gang\ncommand: [train]\nmembers: 4\ndevices: [{kind: h100, count: 1}]\n");
  const conf::TimePoint begin = world->now;
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  for (int64_t rank = 0; rank < 4; ++rank) {
    const std::string run = fmt::format("j-{}-1-{}", id, rank);
    launcher.End(run, 0);
    launcher.runs[run].started = begin + seconds(1);
    launcher.runs[run].ended = begin + seconds(20 + rank);
  }
  // The record of device time is not written, and then the gateway is killed.
  world->runner.metered = [](const Workload&) -> gateway::net::Task<bool> { co_return false; };
  world->Pass(seconds(30));
  ASSERT_EQ((*world)[id].state, State::kDraining);
  Restart();
  std::vector<HeldDevices> counted;
  world->runner.metered = [&](const Workload&) -> gateway::net::Task<bool> {
    counted = world->workloads.Held(begin);
    co_return true;
  };
  world->Settle();
  EXPECT_EQ(world->State(id), "done");
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_EQ(counted[0].job, id);
  EXPECT_EQ(counted[0].since, begin + seconds(1));
  EXPECT_EQ(counted[0].until, begin + seconds(23));
}

}  // namespace
}  // namespace tests
