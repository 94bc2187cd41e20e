// Jobs whose gateway or launcher is gone for a while: no work and no restart is lost by it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/control/jobs/world.h"

namespace tests {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kGangOfFour =
    "name: gang\ncommand: [train]\nmembers: 4\ndevices: [{kind: h100, count: 1}]\n";
constexpr std::string_view kGangThatSaves = R"(
name: gang
command: [train]
members: 4
devices: [{kind: h100, count: 2}]
checkpoint: {grace: 60s, interval: 30m, resume: [train, --resume]}
)";

class JobOutages : public testing::Test {
 protected:
  JobOutages() { Restart(); }
  void Restart() {
    const conf::TimePoint now = world ? world->now : conf::TimePoint(std::chrono::hours(24 * 20'000));
    world.reset();
    world = std::make_unique<JobsWorld>(store, launcher, now, gateway::config::ModelPolicy());
  }
  void PassSlowly(int seconds_each, int times) {
    for (int i = 0; i < times; ++i) world->Pass(seconds(seconds_each));
  }
  static std::string Run(const std::string& id, uint32_t attempt, uint32_t rank) {
    return fmt::format("j-{}-{}-{}", id, attempt, rank);
  }

  TempDir dir;
  MemoryStore store;
  ScriptedLauncher launcher;
  std::unique_ptr<JobsWorld> world;
};

TEST_F(JobOutages, AJobWaitsWithoutBlameWhileTheLauncherCanStartNothing) {
  world->nothing_starts = "the launch broker is gone";
  launcher.refuse = absl::UnavailableError("the launch broker is gone");
  const std::string id = world->Submit(std::string(kGangOfFour) + "restarts: 0\nstart_timeout: 30s\n");
  world->Settle();
  PassSlowly(5, 60);
  EXPECT_FALSE((*world)[id].over()) << (*world)[id].why;
  EXPECT_EQ((*world)[id].restarts, 0u);
  EXPECT_THAT((*world)[id].why, AnyOf(HasSubstr("the launch broker is gone"), HasSubstr("room for it")));
  launcher.refuse = absl::OkStatus();
  world->nothing_starts.clear();
  PassSlowly(5, 12);
  EXPECT_EQ(world->State(id), "running");

  launcher.refuse = absl::UnavailableError("no port is free");
  const std::string own = world->Submit(std::string(kGangOfFour) + "restarts: 0\nstart_timeout: 30s\n");
  ASSERT_TRUE(world->Ask(world->jobs->Cancel(id, "ada")).ok());
  PassSlowly(5, 24);
  EXPECT_EQ(world->State(own), "failed") << "where other work starts, it is the job that does not";
}

TEST_F(JobOutages, ASaveIsKnownToTheNextGatewayWhileTheJobRuns) {
  const std::string id = world->Submit(std::string(kGangThatSaves));
  world->Settle();
  world->Pass(minutes(31));
  Restart();
  world->Settle();
  ASSERT_EQ(world->State(id), "running");
  launcher.End(Run(id, 1, 0), 1);
  PassSlowly(5, 24);
  ASSERT_EQ(world->State(id), "running") << (*world)[id].why;
  EXPECT_THAT(launcher.specs.at(Run(id, 2, 0)).command, ElementsAre("train", "--resume"));
}

TEST_F(JobOutages, ASaveIsKnownToTheNextGatewayWhileTheJobStops) {
  launcher.saves_and_ends = false;
  world->now = conf::TimePoint(std::chrono::system_clock::now().time_since_epoch()) - minutes(5);
  const std::string saved = dir / "last";
  const std::string id = world->Submit(
      "name: gang\ncommand: [train]\nmembers: 4\ndevices: [{kind: h100, count: 2}]\n"
      "checkpoint: {grace: 10m, interval: 30m, saved: " +
      saved + "}\n");
  world->Settle();
  EXPECT_TRUE(world->Ask(world->jobs->Suspend(id, "ada")).ok());
  world->Pass(seconds(5));
  ASSERT_EQ(world->State(id), "saving");
  launcher.unreachable = Run(id, 1, 3);  // does not end yet
  std::ofstream(saved) << "step 7";
  world->Pass(seconds(5));
  ASSERT_EQ(world->State(id), "stopping");
  Restart();
  world->Settle();
  launcher.unreachable.clear();
  launcher.End(Run(id, 1, 3), std::nullopt, 15);
  world->Pass(seconds(5));
  EXPECT_EQ(world->State(id), "suspended");
  EXPECT_TRUE((*world)[id].resumes);
}

}  // namespace
}  // namespace tests
