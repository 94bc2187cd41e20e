#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/plugins/launchers/launcher_fixture.h"

namespace plugins::launchers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ProcessAdoption : public LauncherTest {
 protected:
  // A gateway of its own process, that starts runs one after the other until it is killed.
  pid_t GatewayThatStarts(int runs) {
    const pid_t gateway = fork();
    if (gateway != 0) return gateway;
    gateway::net::Loop loop([](std::exception_ptr) { _exit(1); });
    auto launcher = ProcessLauncher::Open(loop, Options());
    if (!launcher.ok()) _exit(2);
    const auto start = [&]() -> Task<void> {
      for (int i = 0; i < runs; ++i) {
        co_await MustStart(**launcher, Script("run-" + std::to_string(i), "echo began; exec sleep 1000"));
      }
    };
    loop.tasks.Spawn(start());
    loop.Run();
    _exit(3);
  }
  static void KillAndReap(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  void Edit(const std::string& id, const std::function<void(RunRecord&)>& edit) const {
    RunRecord record = Record(id);
    edit(record);
    std::ofstream(Folder(id) + "/run.json") << WriteRecord(record);
  }
  // With its wrapper, which therefore has no time to write anything down.
  void KillAll(const std::string& id) const {
    const std::vector<Member> members = Members(id);
    const pid_t wrapper = Wrapper(id);
    ASSERT_GT(wrapper, 0);
    kill(wrapper, SIGKILL);
    waitpid(wrapper, nullptr, 0);
    for (const Member& member : members) {
      member.process.Signal(SIGKILL);
      AwaitEnd(member.process);
    }
  }
  static void AwaitEnd(const gateway::net::ProcessHandle& process) {
    pollfd end{.fd = process.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&end, 1, 20'000), 1) << "it does not end";
  }
  static RunSpec Sleeper(std::string id) {
    return {.id = std::move(id), .owner = "chat", .command = {"/bin/sleep", "1000"}};
  }
  void StartAndLeave(const RunSpec& spec) {
    With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      co_await MustStart(launcher, spec);
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return !Members(spec.id).empty(); }));
    });
  }
};

TEST_F(ProcessAdoption, ARunThatEndedWhileNoGatewayLookedIsNeverSaidToRun) {
  StartAndLeave(Script("a", "while [ ! -e " + dir_ / "end" + " ]; do sleep 0.01; done; exit 4"));
  std::ofstream(dir_ / "end") << "now";
  // Its wrapper stays a zombie: nobody waits for it.
  const std::optional<gateway::net::ProcessHandle> wrapper =
      gateway::net::ProcessHandle::Open(Wrapper("a"), Record("a").start_ticks);
  ASSERT_TRUE(wrapper) << "it was waited for";
  AwaitEnd(*wrapper);
  const RunResult result = Result("a");
  ASSERT_TRUE(result.end);
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus found = co_await StatusOf(launcher, "a");
    EXPECT_EQ(found.state, RunState::kEnded);
    EXPECT_EQ(found.exit_code, 4);
    EXPECT_EQ(found.witness, Witness::kWrapper);
    EXPECT_EQ(found.ended, result.end->ended);
    EXPECT_FALSE(found.alive);
  });
}

TEST_F(ProcessAdoption, ReportsARunAsAliveUntilItsEnd) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Sleeper("a"));
    const conf::TimePoint before = gateway::net::Now();
    const RunStatus runs = co_await StatusOf(launcher, "a");
    EXPECT_TRUE(runs.alive && *runs.alive >= before);
    const auto wrapper = gateway::net::ProcessHandle::Open(Wrapper("a"), Record("a").start_ticks);
    kill(Wrapper("a"), SIGKILL);
    AwaitEnd(*wrapper);
    const conf::TimePoint after = gateway::net::Now();
    const RunStatus unheard = co_await StatusOf(launcher, "a");
    EXPECT_NE(unheard.state, RunState::kEnded);
    EXPECT_TRUE(unheard.alive && *unheard.alive <= after);
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).state, RunState::kEnded);
  });
}

TEST_F(ProcessAdoption, ARunIsFoundAgainWithItsPortAndItsEnd) {
  RunSpec spec = Script("a", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  spec.serves = true;
  StartAndLeave(spec);
  const RunRecord before = Record("a");
  EXPECT_EQ(before.state, RunState::kRunning);
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus found = co_await StatusOf(launcher, "a");
    EXPECT_EQ(found.state, RunState::kRunning);
    EXPECT_EQ(found.port, before.port);
    EXPECT_EQ(found.host, "127.0.0.1");
    EXPECT_EQ(found.owner, "chat");
    EXPECT_TRUE((co_await launcher.Start(spec)).ok());
    EXPECT_EQ(Record("a").pid, before.pid);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    spec.id = "b";
    co_await MustStart(launcher, spec);
    EXPECT_NE((co_await StatusOf(launcher, "b")).port, before.port);
    co_await MustStop(launcher, "a", seconds(10));
    co_await MustStop(launcher, "b", seconds(0));
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).exit_code, 5);
    co_await Until(loop, launcher, "b", RunState::kEnded);
  });
  // What has ended is still told, until it is forgotten.
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus found = co_await StatusOf(launcher, "a");
    EXPECT_EQ(found.state, RunState::kEnded);
    EXPECT_EQ(found.exit_code, 5);
  });
}

TEST_F(ProcessAdoption, AKilledGatewayLeavesEachRunOnceWhereverItWasKilled) {
  // From before the first is started to well after the last.
  constexpr int kRuns = 8;
  constexpr int kKills = 12;
  int seen_running = 0;
  int seen_none = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    std::filesystem::remove_all(dir_ / "state");
    const pid_t gateway = GatewayThatStarts(kRuns);
    ASSERT_GT(gateway, 0);
    // It is killed as soon as this many folders are there, or a little later: somewhere within a start.
    const std::string mark = Folder("run-" + std::to_string(kill % kRuns));
    while (!std::filesystem::exists(mark) && waitpid(gateway, nullptr, WNOHANG) == 0) {
    }
    for (volatile int spin = 0; spin < kill * 200'000; spin = spin + 1) {
    }
    KillAndReap(gateway);
    With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      for (int i = 0; i < kRuns; ++i) {
        const std::string id = "run-" + std::to_string(i);
        const RunStatus status = co_await StatusOf(launcher, id);
        const size_t there = Members(id).size();
        EXPECT_LE(there, status.state == RunState::kRunning ? 1u : 0u) << id << " after kill " << kill;
        if (status.state == RunState::kEnded) continue;  // it was killed between its record and its start
        ++(there == 0 ? seen_none : seen_running);
        EXPECT_TRUE((co_await launcher.Start(Script(id, "echo began; exec sleep 1000"))).ok());
        // Held, it has seen its gateway's end and is on its way out; released, it is about to start its
        // child.
        RunState state = status.state;
        gateway::net::Sleep sleep(loop.watchdog);
        while (state == RunState::kRunning && Members(id).empty()) {
          co_await sleep.For(gateway::net::Watchdog::kTick);
          state = (co_await StatusOf(launcher, id)).state;
        }
        if (state == RunState::kRunning) EXPECT_THAT(Members(id), SizeIs(1)) << id << " after kill " << kill;
      }
      for (int i = 0; i < kRuns; ++i) co_await MustStop(launcher, "run-" + std::to_string(i), seconds(0));
      for (int i = 0; i < kRuns; ++i) {
        const std::string id = "run-" + std::to_string(i);
        EXPECT_EQ((co_await Until(loop, launcher, id, RunState::kEnded)).state, RunState::kEnded);
        EXPECT_THAT(Members(id), IsEmpty());
      }
    });
  }
  EXPECT_GT(seen_running, 0);
  EXPECT_GT(seen_none, 0);
}

TEST_F(ProcessAdoption, ARunOfAKilledGatewayTellsOfItsEnd) {
  const pid_t gateway = GatewayThatStarts(1);
  while (LogText("run-0") != "began\n" && waitpid(gateway, nullptr, WNOHANG) == 0) {
  }
  KillAndReap(gateway);
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    EXPECT_EQ((co_await StatusOf(launcher, "run-0")).state, RunState::kRunning);
    EXPECT_TRUE((co_await launcher.Signal("run-0", SIGKILL)).ok());
    const RunStatus ended = co_await Until(loop, launcher, "run-0", RunState::kEnded);
    EXPECT_EQ(ended.exit_code, std::nullopt);
    EXPECT_EQ(ended.signal, SIGKILL);
    EXPECT_THAT(ended.why, HasSubstr("it was ended by SIGKILL; its last lines: began"));
  });
}

TEST_F(ProcessAdoption, AStopContinuesAfterARestart) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "trap '' TERM; echo ready; while :; do sleep 100; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    co_await MustStop(launcher, "a", seconds(1));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return Record("a").state == RunState::kStopping; }));
  });
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    EXPECT_EQ((co_await StatusOf(launcher, "a")).state, RunState::kStopping);
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).signal, SIGKILL);
  });
}

TEST_F(ProcessAdoption, AnotherProcessOfTheSameNumberIsNotTaken) {
  StartAndLeave(Sleeper("a"));
  StartAndLeave(Sleeper("b"));
  KillAll("a");
  // As if the number of its wrapper were this stranger's: same pid, another beginning.
  const RunRecord stranger = Record("b");
  Edit("a", [&](RunRecord& record) {
    record.pid = stranger.pid;
    record.start_ticks = stranger.start_ticks - 1;  // both may have begun within one of 10 ms
  });
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus a = co_await StatusOf(launcher, "a");
    EXPECT_EQ(a.state, RunState::kEnded);
    EXPECT_EQ(a.why, "its wrapper (tidegate-run) was killed, and the run with it");
    EXPECT_TRUE((co_await launcher.Stop("a", seconds(0))).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "b")).state, RunState::kRunning);
  });
  EXPECT_THAT(Members("b"), SizeIs(1));
}

TEST_F(ProcessAdoption, ARunOfAnotherBootEndedWhenItsWrapperWasLastThere) {
  StartAndLeave(Sleeper("a"));
  StartAndLeave(Sleeper("b"));
  KillAll("a");
  const conf::TimePoint last = Result("a").last_alive;
  Edit("a", [&](RunRecord& record) {
    const RunRecord own = record;
    record = Record("b");
    record.id = "a";
    record.cgroup = own.cgroup;
    record.boot = "another";
  });
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus a = co_await StatusOf(launcher, "a");
    EXPECT_EQ(a.state, RunState::kEnded);
    EXPECT_THAT(a.why, HasSubstr("the machine was restarted"));
    // File systems with stamps of several grains round what was read once.
    EXPECT_GE(a.ended, last);
    EXPECT_LE(a.ended, last + seconds(1));
    EXPECT_EQ(a.witness, Witness::kLauncher);
  });
  EXPECT_THAT(Members("b"), SizeIs(1));
}

TEST_F(ProcessAdoption, ARecordThatCannotBeReadIsNamedAndLeftAlone) {
  StartAndLeave(Sleeper("a"));
  for (const std::string bad : {"", "{\"version\":1}", "{\"version\":7}", "not json", "[]"}) {
    std::ofstream(Folder("a") + "/run.json") << bad;
    With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
      const RunStatus found = co_await StatusOf(launcher, "a");
      EXPECT_EQ(found.state, RunState::kRunning) << bad;  // by its mark
      EXPECT_THAT(found.why, HasSubstr(Folder("a") + "/run.json is not the record of a run"));
      const absl::Status again = co_await launcher.Start(Sleeper("a"));
      EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
    });
    EXPECT_EQ(tests::ReadFile(Folder("a") + "/run.json"), bad);
    EXPECT_THAT(Members("a"), SizeIs(1));
  }
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStop(launcher, "a", seconds(5));
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).state, RunState::kEnded);
    EXPECT_THAT(Members("a"), IsEmpty());
    EXPECT_TRUE(absl::IsFailedPrecondition(co_await launcher.Forget("a")));
    EXPECT_EQ(tests::ReadFile(Folder("a") + "/run.json"), "[]");
    std::filesystem::remove(Folder("a") + "/run.json");  // as its owner would
    EXPECT_TRUE((co_await launcher.Forget("a")).ok());
    EXPECT_FALSE(std::filesystem::exists(Folder("a")));
  });
}

TEST_F(ProcessAdoption, AnUnreadableRunThatEndsByItselfIsSeen) {
  StartAndLeave(Sleeper("a"));
  std::ofstream(Folder("a") + "/run.json") << "gone wrong";
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    std::vector<std::string> changed;
    launcher.on_change = [&](const std::string& id) { changed.push_back(id); };
    for (const Member& member : Members("a")) member.process.Signal(SIGKILL);
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).state, RunState::kEnded);
    EXPECT_THAT(changed, ElementsAre("a"));
  });
}

TEST_F(ProcessAdoption, ATokenThatCannotBeReadIsNamed) {
  With([&](tests::TestLoop&, ProcessLauncher&) -> Task<void> { co_return; });
  std::ofstream(dir_ / "state/token") << "short";
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    const auto launcher = ProcessLauncher::Open(loop, Options());
    EXPECT_TRUE(absl::IsDataLoss(launcher.status())) << launcher.status();
    EXPECT_THAT(std::string(launcher.status().message()), HasSubstr(dir_ / "state/token"));
    co_return;
  });
}

}  // namespace
}  // namespace plugins::launchers
