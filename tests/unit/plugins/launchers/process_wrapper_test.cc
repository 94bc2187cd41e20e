// What the wrapper of a run adds: its end is known whoever watched, and nothing of it gets away.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "plugins/launchers/run_cgroup.h"
#include "plugins/launchers/wrapper/protocol.h"
#include "tests/support/small_disk.h"
#include "tests/unit/plugins/launchers/launcher_fixture.h"

namespace plugins::launchers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kEscape =
    // Another session, no environment, other outputs, and a parent that is gone.
    "setsid env -i /bin/sh -c '(/bin/sh -c \"echo \\$\\$ >$0; exec /bin/sleep 1000\" $0 >/dev/null 2>&1 &)' ";

class ProcessWrapper : public LauncherTest {
 protected:
  // Starts it, and has no gateway when it returns.
  void StartAndLeave(const ProcessLauncher::Options& options, const RunSpec& spec,
                     const std::string& prints) {
    With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      co_await MustStart(launcher, spec);
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogOf(options, spec.id) == prints; }));
    });
  }
  static std::string LogOf(const ProcessLauncher::Options& options, const std::string& id) {
    return tests::ReadFile(options.state_dir + "/runs/" + id + "/log");
  }
  // It is our own child here, so that it stays a zombie without this.
  static void AwaitEnd(pid_t wrapper) { EXPECT_EQ(waitpid(wrapper, nullptr, 0), wrapper); }

  // A script that starts a process which leaves all that it could be known by, and says where its pid stands.
  std::string Escaping(const std::string& then) const {
    return std::string(kEscape) + (dir_ / "stray") + "; while ! test -s " + (dir_ / "stray") +
           "; do sleep 0.01; done; echo ready; " + then;
  }
  std::optional<gateway::net::ProcessHandle> Stray() const {
    const pid_t pid = std::stoi(tests::ReadFile(dir_ / "stray"));
    const auto stat = gateway::net::ReadProcessStat(pid);
    return stat ? gateway::net::ProcessHandle::Open(pid, stat->start_ticks) : std::nullopt;
  }
};

TEST_F(ProcessWrapper, ARunThatEndsWhileNoGatewayRunsIsKnownWithItsTimes) {
  struct Case {
    std::string id;
    std::string end;
    std::optional<int> exit_code;
    std::optional<int> signal;
    std::string why;
  };
  for (const Case& c : std::vector<Case>{
           {"done", "exit 0", 0, {}, ""},
           {"failed", "exit 3", 3, {}, "it ended with exit code 3; its last lines: ready"},
           {"killed", "kill -KILL $$", {}, SIGKILL, "it was ended by SIGKILL; its last lines: ready"}}) {
    const conf::TimePoint before = gateway::net::Now();
    StartAndLeave(Options(), Script(c.id, "echo ready; sleep 0.2; " + c.end), "ready\n");
    AwaitEnd(Record(c.id).pid);
    const conf::TimePoint after = gateway::net::Now();
    With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
      for (int looks = 0; looks < 2; ++looks) {
        const RunStatus ended = co_await StatusOf(launcher, c.id);
        EXPECT_EQ(ended.state, RunState::kEnded) << c.id;
        EXPECT_EQ(ended.exit_code, c.exit_code) << c.id;
        EXPECT_EQ(ended.signal, c.signal) << c.id;
        EXPECT_EQ(ended.why, c.why);
        EXPECT_EQ(ended.witness, Witness::kWrapper);
        EXPECT_TRUE(ended.started && ended.ended);
        if (!ended.started || !ended.ended) co_return;
        EXPECT_GE(*ended.started, before);
        EXPECT_LE(*ended.ended, after);
        EXPECT_GE(*ended.ended - *ended.started, milliseconds(200));
        EXPECT_EQ(ended.since, *ended.ended);
      }
      co_return;
    });
  }
}

TEST_F(ProcessWrapper, AStopContinuesWithoutAGateway) {
  StartAndLeave(Options(), Script("a", "trap '' TERM; echo ready; while :; do sleep 100; done"), "ready\n");
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStop(launcher, "a", milliseconds(500));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return Record("a").state == RunState::kStopping; }));
    gateway::net::Sleep sleep(loop.watchdog);
    co_await sleep.For(milliseconds(100));  // told, and not over
  });
  AwaitEnd(Record("a").pid);
  EXPECT_EQ(Result("a").end->signal, SIGKILL);
  EXPECT_TRUE(Result("a").end->killed);
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    EXPECT_EQ((co_await StatusOf(launcher, "a")).why, "it did not end within its grace, and was killed");
  });
}

TEST_F(ProcessWrapper, AProcessThatLeavesSessionEnvironmentAndParentEndsWithItsRun) {
  for (const bool cgroups : {true, false}) {
    ProcessLauncher::Options options = Options();
    options.cgroups = cgroups;
    const std::string id = cgroups ? "with" : "without";
    With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      co_await MustStart(launcher, Script(id + ".stopped", Escaping("sleep 1000")));
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText(id + ".stopped") == "ready\n"; }));
      auto stray = Stray();
      EXPECT_TRUE(stray && !stray->ended());
      co_await MustStop(launcher, id + ".stopped", seconds(10));
      co_await Until(loop, launcher, id + ".stopped", RunState::kEnded);
      EXPECT_TRUE(!stray || stray->ended());
      unlink((dir_ / "stray").c_str());

      co_await MustStart(launcher, Script(id + ".done", Escaping("exit 0")));
      EXPECT_EQ((co_await Until(loop, launcher, id + ".done", RunState::kEnded)).exit_code, 0);
      stray = Stray();
      EXPECT_TRUE(!stray || stray->ended());
      unlink((dir_ / "stray").c_str());
    });
    // And where no gateway is there to see to it.
    StartAndLeave(options, Script(id + ".alone", Escaping("sleep 0.2; exit 0")), "ready\n");
    AwaitEnd(Record(id + ".alone").pid);
    const auto stray = Stray();
    EXPECT_TRUE(!stray || stray->ended());
    unlink((dir_ / "stray").c_str());
  }
}

TEST_F(ProcessWrapper, AKilledWrapperTakesItsRunWithIt) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher,
                       Script("a", "(trap '' TERM; while :; do sleep 100; done) & echo ready; wait"));
    // The shell may say so before the other one has its sleep.
    EXPECT_TRUE(co_await tests::Eventually(
        loop, [&] { return LogText("a") == "ready\n" && Members("a").size() == 3; }));
    const std::vector<Member> members = Members("a");
    const conf::TimePoint before = gateway::net::Now();
    kill(Record("a").pid, SIGKILL);
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_THAT(ended.why, HasSubstr("its wrapper (tidegate-run) was killed, and the run with it"));
    EXPECT_EQ(ended.exit_code, std::nullopt);
    EXPECT_EQ(ended.witness, Witness::kLauncher);
    EXPECT_TRUE(ended.ended && *ended.ended >= before);
    for (const Member& member : members) EXPECT_TRUE(member.process.ended()) << member.pid;
  });
}

TEST_F(ProcessWrapper, AKilledWrapperLosesNoProcessWithCgroups) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", Escaping("sleep 1000")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    if (Record("a").cgroup.empty()) {
      co_await MustStop(launcher, "a", seconds(0));
      co_await Until(loop, launcher, "a", RunState::kEnded);
      co_return;  // none may be made here
    }
    const auto stray = Stray();
    EXPECT_TRUE(stray);
    kill(Record("a").pid, SIGKILL);
    co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_TRUE(!stray || stray->ended());
    EXPECT_FALSE(std::filesystem::exists(Record("a").cgroup));
  });
}

TEST_F(ProcessWrapper, AStoppedWrapperDoesNotKeepARunAlive) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "trap '' TERM; echo ready; while :; do sleep 100; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    const pid_t wrapper = Record("a").pid;
    co_await MustStop(launcher, "a", milliseconds(200));
    // Again and again, so that it does not help to continue it.
    RunStatus status = co_await StatusOf(launcher, "a");
    const conf::TimePoint deadline = gateway::net::Now() + seconds(20);
    while (status.state != RunState::kEnded && gateway::net::Now() < deadline) {
      kill(wrapper, SIGSTOP);
      gateway::net::Sleep sleep(loop.watchdog);
      co_await sleep.For(gateway::net::Watchdog::kTick);
      status = co_await StatusOf(launcher, "a");
    }
    EXPECT_EQ(status.state, RunState::kEnded);
    EXPECT_THAT(Members("a"), IsEmpty());
  });
}

TEST_F(ProcessWrapper, ARunWithoutItsRecordIsFoundWithAllThatItWasGiven) {
  for (const bool folder : {false, true}) {
    const std::string id = folder ? "folder" : "file";
    RunSpec spec = Script(id, "echo ready; sleep 1000");
    spec.tenant = "acme";
    spec.serves = true;
    spec.grant.node = "here";
    spec.grant.memory_mib = 512;
    StartAndLeave(Options(), spec, "ready\n");
    const RunRecord before = Record(id);
    if (folder)
      std::filesystem::remove_all(Folder(id));
    else
      std::filesystem::remove(Folder(id) + "/run.json");
    With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      const RunStatus found = co_await StatusOf(launcher, id);
      EXPECT_EQ(found.state, RunState::kRunning);
      EXPECT_TRUE(found.orphan);
      EXPECT_EQ(found.owner, "chat");
      EXPECT_EQ(found.port, before.port);
      EXPECT_EQ(found.grant.node, "here");
      EXPECT_EQ(found.grant.memory_mib, 512);
      EXPECT_EQ(Record(id).pid, before.pid);
      EXPECT_EQ(Record(id).tenant, "acme");
      EXPECT_THAT(Record(id).command, ElementsAre("/bin/sh", "-c", "echo ready; sleep 1000"));
      EXPECT_TRUE((co_await launcher.Start(spec)).ok());  // it is there: no second one
      EXPECT_EQ(Record(id).pid, before.pid);
      co_await MustStop(launcher, id, seconds(5));
      const RunStatus ended = co_await Until(loop, launcher, id, RunState::kEnded);
      EXPECT_EQ(ended.state, RunState::kEnded);
      EXPECT_EQ(ended.signal, SIGTERM);
      EXPECT_EQ(ended.witness, Witness::kWrapper);
      EXPECT_TRUE((co_await launcher.Forget(id)).ok());
      EXPECT_FALSE(std::filesystem::exists(Folder(id)));
    });
  }
}

TEST_F(ProcessWrapper, ARunThatEndsAfterItsRecordWasRemovedHasEndedAsItDid) {
  for (const bool folder : {false, true}) {
    const std::string id = folder ? "folder" : "file";
    StartAndLeave(
        Options(),
        Script(id, "echo ready; while ! test -e " + (dir_ / ("go." + id)) + "; do sleep 0.01; done"),
        "ready\n");
    const pid_t wrapper = Record(id).pid;
    if (folder)
      std::filesystem::remove_all(Folder(id));
    else
      std::filesystem::remove(Folder(id) + "/run.json");
    std::ofstream(dir_ / ("go." + id)) << "go";
    AwaitEnd(wrapper);
    With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
      const RunStatus ended = co_await StatusOf(launcher, id);
      EXPECT_EQ(ended.state, RunState::kEnded);
      EXPECT_TRUE(ended.orphan);
      EXPECT_EQ(ended.exit_code, 0);
      EXPECT_EQ(ended.why, "");
      EXPECT_EQ(ended.witness, Witness::kWrapper);
      EXPECT_TRUE((co_await launcher.Forget(id)).ok());
      EXPECT_FALSE(std::filesystem::exists(Folder(id)));
    });
  }
}

TEST_F(ProcessWrapper, ProcessesWithoutRecordAndWrapperAreReportedUntilTheyAreEnded) {
  StartAndLeave(Options(), Script("a", "(trap '' HUP; sleep 1000) & echo ready; wait"), "ready\n");
  const pid_t wrapper = Record("a").pid;
  kill(wrapper, SIGKILL);
  AwaitEnd(wrapper);
  std::filesystem::remove_all(Folder("a"));
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus found = co_await StatusOf(launcher, "a");
    EXPECT_EQ(found.state, RunState::kRunning);
    EXPECT_TRUE(found.orphan);
    EXPECT_EQ(found.grant.node, "");
    EXPECT_THAT(found.why, HasSubstr("its record and its wrapper are gone"));
    co_await MustStop(launcher, "a", seconds(5));
    co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_THAT(Members("a"), IsEmpty());
    EXPECT_TRUE((co_await launcher.Forget("a")).ok());
  });
}

TEST_F(ProcessWrapper, ARecordThatIsRemovedWhileTheGatewayRunsIsWrittenAgain) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "sleep 1000"));
    const RunRecord before = Record("a");
    std::filesystem::remove_all(Folder("a"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return Record("a").pid == before.pid; }));
    co_await MustStop(launcher, "a", seconds(5));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.signal, SIGTERM);
    EXPECT_EQ(ended.started, before.started ? before.started : ended.started);
  });
}

TEST_F(ProcessWrapper, AFullDiskDoesNotKeepItFromWritingTheEndDown) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "may not mount a file system here";
  ProcessLauncher::Options options = Options();
  options.state_dir = disk.path() + "/state";
  const std::string folder = options.state_dir + "/runs/a";
  pid_t wrapper = 0;
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "echo ready; while ! test -e " + (dir_ / "go") +
                                                 "; do sleep 0.01; done; exit 4"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogOf(options, "a") == "ready\n"; }));
    wrapper = RunFolder(folder).Load()->pid;
  });
  disk.Fill();
  std::ofstream(dir_ / "go") << "go";
  AwaitEnd(wrapper);
  With(options, [&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const RunStatus ended = co_await StatusOf(launcher, "a");
    EXPECT_EQ(ended.state, RunState::kEnded);
    EXPECT_EQ(ended.exit_code, 4);
    EXPECT_EQ(ended.witness, Witness::kWrapper);
  });
}

TEST_F(ProcessWrapper, ForwardsSignalsToTheFirstProcess) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a",
                                        "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep "
                                        "0.01; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    kill(Record("a").pid, SIGUSR1);
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).exit_code, 0);
    EXPECT_EQ(LogText("a"), "ready\nsaved\n");
  });
}

TEST_F(ProcessWrapper, ARunOfTheVersionWithoutWrappersIsStillEnded) {
  With([&](tests::TestLoop&, ProcessLauncher&) -> Task<void> { co_return; });  // its folders
  const pid_t pid = fork();
  if (pid == 0) {
    setsid();
    setenv(wrapper::kIdVariable, "a", 1);
    setenv(wrapper::kTokenVariable, Token().c_str(), 1);
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(127);
  }
  RunRecord record{.id = "a", .owner = "chat", .boot = gateway::net::BootId(), .pid = pid};
  record.start_ticks = gateway::net::ReadProcessStat(pid)->start_ticks;
  record.wrapped = false;
  record.since = gateway::net::Now();
  std::filesystem::create_directories(Folder("a"));
  std::ofstream(Folder("a") + "/run.json") << WriteRecord(record);
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    EXPECT_EQ((co_await StatusOf(launcher, "a")).state, RunState::kRunning);
    co_await MustStop(launcher, "a", seconds(10));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.state, RunState::kEnded);
    EXPECT_EQ(ended.signal, SIGTERM);
  });
}

TEST_F(ProcessWrapper, IsNamedWhenItIsMissing) {
  ProcessLauncher::Options options = Options();
  options.wrapper = dir_ / "tidegate-run";
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    const auto launcher = ProcessLauncher::Open(loop, options);
    EXPECT_TRUE(absl::IsFailedPrecondition(launcher.status())) << launcher.status();
    EXPECT_THAT(std::string(launcher.status().message()),
                HasSubstr(options.wrapper + " cannot be run: No such"));
    co_return;
  });
}

TEST(RunResult, IsReadAsFarAsItWasWritten) {
  const std::string first = "{\"run\":\"a\",\"child\":42,\"child_ticks\":7,\"started\":1000000}\n";
  const std::string second = "{\"ended\":3000000,\"exit_code\":0,\"signal\":null,\"killed\":true}\n";
  std::string content(2 * wrapper::kBlockBytes, '\0');
  EXPECT_FALSE(ParseResult(content).beginning);
  EXPECT_FALSE(ParseResult(content).end);
  content.replace(0, first.size(), first);
  ASSERT_TRUE(ParseResult(content).beginning);
  EXPECT_EQ(ParseResult(content).beginning->child, 42);
  EXPECT_EQ(ParseResult(content).beginning->started, conf::FromUnixMicros(1'000'000));
  EXPECT_FALSE(ParseResult(content).end);
  // Each prefix of the second line says nothing.
  for (size_t size = 0; size < second.size(); ++size) {
    std::string cut = content;
    cut.replace(wrapper::kBlockBytes, size, second.substr(0, size));
    EXPECT_FALSE(ParseResult(cut).end) << size;
  }
  content.replace(wrapper::kBlockBytes, second.size(), second);
  ASSERT_TRUE(ParseResult(content).end);
  EXPECT_EQ(ParseResult(content).end->exit_code, 0);
  EXPECT_EQ(ParseResult(content).end->signal, std::nullopt);
  EXPECT_TRUE(ParseResult(content).end->killed);
  for (const std::string_view odd : {"", "{", "[]\n", "{\"started\":\"x\"}\n", "{\"child\":-1}\n"}) {
    EXPECT_FALSE(ParseResult(odd).beginning) << odd;
    EXPECT_FALSE(ParseResult(odd).end) << odd;
  }
}

}  // namespace
}  // namespace plugins::launchers
