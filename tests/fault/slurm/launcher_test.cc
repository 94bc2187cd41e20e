// Runs through a real Slurm: where they run, that they are never doubled, and what is said of them.
#include <filesystem>

#include "tests/fault/slurm/slurm_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(SlurmTest, RunsWhereThePlannerSaidAndEndsWithinItsGrace) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    std::vector<std::string> changes;
    launcher.on_change = [&](const std::string& id) { changes.push_back(id); };
    launcher.Open();
    const std::string script =
        "trap 'echo saved' USR1; trap 'echo bye; exit 7' TERM; echo devices $CUDA_VISIBLE_DEVICES port $1; " +
        std::string(kWait);
    const absl::Status started = co_await launcher.Start(Spec("chat-small.r1", "node3", 2, script));
    EXPECT_TRUE(started.ok()) << started;
    const auto running = co_await Until(loop, launcher, "chat-small.r1", IsRunning);
    EXPECT_EQ(running->host, "127.0.0.1");
    EXPECT_EQ(running->owner, "chat-small");
    EXPECT_GE(running->port, 21'000);
    EXPECT_EQ(running->log, work() + "/chat-small.r1.log");
    EXPECT_TRUE(LogHas("chat-small.r1", "devices 0,1 port " + std::to_string(running->port)));
    const std::string shown = cluster_->Run({"/usr/bin/scontrol", "show", "job", Jobs("chat-small.r1")});
    EXPECT_THAT(shown, HasSubstr("NodeList=node3\n"));
    EXPECT_THAT(shown, HasSubstr("gpu:h100:2"));
    EXPECT_THAT(shown, HasSubstr("Requeue=0"));
    EXPECT_THAT(shown, HasSubstr("mem=125G"));  // two eighths of the node's

    EXPECT_TRUE((co_await launcher.Signal("chat-small.r1", SIGUSR1)).ok());
    EXPECT_TRUE(LogHas("chat-small.r1", "saved"));
    const absl::Status early = co_await launcher.Forget("chat-small.r1");
    EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;

    const absl::Status stopped = co_await launcher.Stop("chat-small.r1", 20s);
    EXPECT_TRUE(stopped.ok()) << stopped;
    const auto ended = co_await Until(loop, launcher, "chat-small.r1", HasEnded);
    EXPECT_EQ(ended->exit_code, 7);
    EXPECT_EQ(ended->why, "");
    EXPECT_TRUE(LogHas("chat-small.r1", "bye"));
    EXPECT_THAT(changes, Not(IsEmpty()));
    EXPECT_TRUE(absl::IsNotFound(co_await launcher.Signal("chat-small.r1", SIGUSR1)));
    EXPECT_TRUE((co_await launcher.Stop("chat-small.r1", 1s)).ok());
    EXPECT_TRUE((co_await launcher.Forget("chat-small.r1")).ok());
    EXPECT_THAT(*co_await launcher.List(), IsEmpty());
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, KillsWhatDoesNotEndByItself) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    launcher.Open();
    const std::string script = "trap '' TERM; echo deaf; " + std::string(kWait);
    EXPECT_TRUE((co_await launcher.Start(Spec("deaf", "node1", 1, script))).ok());
    co_await Until(loop, launcher, "deaf", IsRunning);
    EXPECT_TRUE(LogHas("deaf", "deaf"));
    EXPECT_TRUE((co_await launcher.Stop("deaf", 500ms)).ok());
    const auto ended = co_await Until(loop, launcher, "deaf", HasEnded);
    EXPECT_EQ(ended->why, "");
    EXPECT_EQ(cluster_->Run({"/usr/bin/squeue", "-h"}), "");
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, SaysWhyARunWaitsAndWhatCanNeverStart) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher launcher(loop, Options());
    launcher.Open();
    cluster_->Batch({"--nodelist=node2", "--gres=gpu:h100:8", "--mem=1000"}, "sleep 300");
    // Who comes while that is still pending waits for its priority, and Slurm says so for a minute.
    EXPECT_TRUE(tests::Within(tests::milliseconds(30'000),
                              [&] { return cluster_->Run({"/usr/bin/squeue", "-h", "-t", "R"}) != ""; }));
    EXPECT_TRUE((co_await launcher.Start(Spec("waits", "node2", 1, kWait))).ok());
    const auto waits = co_await Until(loop, launcher, "waits", [](const RunStatus& status) {
      return status.why.find("not enough free") != std::string::npos;
    });
    EXPECT_EQ(waits->state, RunState::kStarting);
    EXPECT_TRUE((co_await launcher.Stop("waits", 20s)).ok());
    const auto cancelled = co_await Until(loop, launcher, "waits", HasEnded);
    EXPECT_EQ(cancelled->exit_code, std::nullopt) << "it never had a process";

    const absl::Status nowhere = co_await launcher.Start(Spec("a", "node9", 1, kWait));
    EXPECT_TRUE(absl::IsInvalidArgument(nowhere)) << nowhere;
    const absl::Status many = co_await launcher.Start(Spec("b", "node1", 9, kWait));
    EXPECT_TRUE(absl::IsInvalidArgument(many)) << many;
    RunSpec large = Spec("c", "node1", 1, kWait);
    large.grant.memory_mib = 1'000'000;
    const absl::Status refused = co_await launcher.Start(large);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    RunSpec absent = Spec("d", "node1", 1, kWait);
    absent.command = {"/no/such/engine"};
    EXPECT_TRUE((co_await launcher.Start(absent)).ok());
    const auto ended = co_await Until(loop, launcher, "d", HasEnded);
    EXPECT_EQ(ended->exit_code, 127);
    EXPECT_TRUE(LogHas("d", "/no/such/engine"));
    co_await launcher.Close();
  });
}

TEST_F(SlurmTest, ARunAskedForTwiceOrByAnotherProcessIsOneJob) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    uint16_t port = 0;
    {
      SlurmLauncher launcher(loop, Options());
      launcher.Open();
      EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 1, kWait))).ok());
      EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node1", 1, kWait))).ok());
      port = (co_await Until(loop, launcher, "r1", IsRunning))->port;
      co_await launcher.Close();
    }
    SlurmLauncher again(loop, Options());
    EXPECT_TRUE((co_await again.Start(Spec("r1", "node1", 1, kWait))).ok());
    const auto adopted = co_await Until(loop, again, "r1", IsRunning);
    EXPECT_EQ(adopted->port, port);
    EXPECT_EQ(adopted->owner, "chat-small");
    EXPECT_EQ(Jobs("r1").find('\n'), std::string::npos) << Jobs("r1");

    SlurmLauncher::Options other = Options();
    other.state = "state-2";
    SlurmLauncher foreign(loop, other);
    EXPECT_THAT(*co_await foreign.List(), IsEmpty()) << "another gateway's runs are not ours";
    co_await again.Close();
    co_await foreign.Close();
  });
}

TEST_F(SlurmTest, IsReachedOverItsUnixSocket) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    SlurmLauncher::Options options = Options();
    options.server.url = {false, "localhost", "80", "", ""};
    options.server.socket = cluster_->socket();
    options.server.token = nullptr;
    SlurmLauncher launcher(loop, options);
    EXPECT_TRUE((co_await launcher.Start(Spec("r1", "node4", 8, kWait))).ok());
    co_await Until(loop, launcher, "r1", IsRunning);
    co_await launcher.Close();
  });
}

class ForgetfulSlurm : public SlurmTest {
 protected:
  tests::SlurmCluster::Options ClusterOptions() const override {
    tests::SlurmCluster::Options options;
    options.more = "MinJobAge=2\n";
    return options;
  }
};

TEST_F(ForgetfulSlurm, ARunThatEndedWellBeforeAGatewayCameHasEndedWell) {
  RunOnLoop([this](TestLoop& loop) -> Task<void> {
    const conf::TimePoint before = Now();
    {
      SlurmLauncher first(loop, Options());
      first.Open();
      EXPECT_TRUE((co_await first.Start(Spec("done", "node1", 1, "echo ran; sleep 2"))).ok());
      EXPECT_TRUE((co_await first.Start(Spec("failed", "node2", 1, "sleep 1; exit 3"))).ok());
      EXPECT_TRUE(LogHas("done", "ran"));
      co_await Until(loop, first, "failed", IsRunning);
      co_await first.Close();
    }
    EXPECT_TRUE(tests::Within(tests::milliseconds(90'000),
                              [&] { return cluster_->Run({"/usr/bin/squeue", "-h", "-t", "all"}) == ""; }));
    SlurmLauncher second(loop, Options());
    second.Open();
    const auto done = co_await Until(loop, second, "done", HasEnded);
    const auto failed = co_await Until(loop, second, "failed", HasEnded);
    EXPECT_TRUE(done && failed);
    if (!done || !failed) co_return;
    EXPECT_EQ(done->exit_code, 0);
    EXPECT_EQ(done->why, "");
    EXPECT_EQ(done->witness, Witness::kWrapper);
    EXPECT_TRUE(done->started && done->ended && *done->started > before);
    EXPECT_GE(*done->ended - *done->started, 2s);
    EXPECT_LE(*done->ended, Now());
    EXPECT_EQ(failed->exit_code, 3);
    EXPECT_EQ(failed->why, "it exited with 3");
    EXPECT_TRUE((co_await second.Forget("done")).ok());
    EXPECT_FALSE(std::filesystem::exists(work() + "/done.result"));
    co_await second.Close();
  });
}

}  // namespace
}  // namespace plugins::launchers
