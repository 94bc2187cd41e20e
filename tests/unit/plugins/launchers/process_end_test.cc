#include <sys/stat.h>

#include "tests/unit/plugins/launchers/launcher_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using ProcessEnd = LauncherTest;

TEST_F(ProcessEnd, ReportsExitStatusAndLastOutput) {
  struct Case {
    std::string name;
    std::string script;
    std::optional<int> exit_code;
    std::optional<int> signal;
    std::string why;
  };
  const std::vector<Case> cases{
      {"done", "echo all is well", 0, {}, ""},
      {"failed",
       "echo; echo no memory >&2; exit 3",
       3,
       {},
       "it ended with exit code 3; its last lines: no memory"},
      {"signal", "kill -9 $$", {}, SIGKILL, "it was ended by SIGKILL"},
      {"lines",
       "for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 1",
       1,
       {},
       "it ended with exit code 1; its last lines: line 3 | line 4 | line 5 | line 6 | line 7"},
      {"bytes",
       "printf '\\033[31m\\377\\303\\274'; exit 1",
       1,
       {},
       "it ended with exit code 1; its last lines:  [31m\xEF\xBF\xBD\xC3\xBC"},
      {"secret",
       "echo the key is $KEY; exit 1",
       1,
       {},
       "it ended with exit code 1; its last lines: the key is ***"},
  };
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    std::vector<std::string> changed;
    launcher.on_change = [&](const std::string& id) { changed.push_back(id); };
    for (const Case& c : cases) {
      RunSpec spec = Script(c.name, c.script);
      spec.env = {{"KEY", "sk-0123456789"}};
      EXPECT_TRUE((co_await launcher.Start(spec)).ok());
      const RunStatus ended = co_await Until(loop, launcher, c.name, RunState::kEnded);
      EXPECT_EQ(ended.state, RunState::kEnded) << c.name;
      EXPECT_EQ(ended.exit_code, c.exit_code) << c.name;
      EXPECT_EQ(ended.signal, c.signal) << c.name;
      EXPECT_EQ(ended.why, c.why) << c.name;
      EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return !changed.empty(); }));
      EXPECT_THAT(changed, testing::ElementsAre(c.name));
      changed.clear();
      EXPECT_THAT(tests::ReadFile(Folder(c.name) + "/run.json"), Not(HasSubstr("sk-0123456789")));
    }
  });
}

TEST_F(ProcessEnd, StopEndsAllThatTheRunStartedWhereverItWent) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    // A child, a grandchild in a session of its own, and one that forgot its environment and its output.
    co_await MustStart(launcher,
                       Script("a",
                              "sleep 100 & setsid sh -c 'sleep 101; :' & env -i sleep 102 >/dev/null 2>&1 & "
                              "echo ready; wait"));
    std::vector<Member> members;
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return (members = Members("a")).size() == 5; }));
    EXPECT_TRUE((co_await launcher.Stop("a", seconds(10))).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "a")).state, RunState::kStopping);
    EXPECT_TRUE((co_await launcher.Stop("a", seconds(10))).ok());
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.state, RunState::kEnded);
    EXPECT_EQ(ended.signal, SIGTERM);
    EXPECT_EQ(ended.why, "");
    for (const Member& member : members) EXPECT_TRUE(member.process.ended()) << member.pid;
    EXPECT_TRUE((co_await launcher.Stop("a", seconds(10))).ok());
    EXPECT_TRUE((co_await launcher.Stop("never-heard-of", seconds(10))).ok());
  });
}

TEST_F(ProcessEnd, AServingRunStopsWhenItsFirstProcessHasEnded) {
  ProcessLauncher::Options options = Options();
  options.leftover_grace = std::chrono::hours(1);
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    std::vector<std::string> changed;
    launcher.on_change = [&](const std::string& id) { changed.push_back(id); };
    RunSpec spec = Script("a",
                          "(trap '' TERM; echo ready; while :; do sleep 100; done) & "
                          "while [ ! -e " +
                              dir_ / "end" + " ]; do sleep 0.01; done; exit 3");
    spec.serves = true;
    co_await MustStart(launcher, spec);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    EXPECT_EQ((co_await StatusOf(launcher, "a")).state, RunState::kRunning);
    std::ofstream(dir_ / "end") << "now";
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kStopping)).state, RunState::kStopping);
    EXPECT_THAT(changed, testing::ElementsAre("a"));
    co_await MustStop(launcher, "a", seconds(0));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.exit_code, 3);
  });
}

TEST_F(ProcessEnd, IsKilledAfterItsGrace) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher,
                       Script("a",
                              "trap '' TERM; (trap '' TERM; echo ready; while :; do sleep 100; done) & wait; "
                              "while :; do sleep 100; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    co_await MustStop(launcher, "a", milliseconds(200));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.signal, SIGKILL);
    EXPECT_EQ(ended.why, "it did not end within its grace, and was killed");
    EXPECT_THAT(Members("a"), IsEmpty());
  });
}

TEST_F(ProcessEnd, ASecondStopMayShortenTheTimeThatItHas) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "trap '' TERM; echo ready; while :; do sleep 100; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    co_await MustStop(launcher, "a", std::chrono::hours(1));
    co_await MustStop(launcher, "a", std::chrono::hours(2));
    co_await MustStop(launcher, "a", seconds(0));
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).signal, SIGKILL);
  });
}

TEST_F(ProcessEnd, EndsTheChildrenOfTheFirstProcess) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher,
                       Script("a", "(trap '' TERM; while :; do sleep 100; done) & sleep 100 & exit 7"));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.exit_code, 7);
    EXPECT_THAT(Members("a"), IsEmpty());
  });
}

TEST_F(ProcessEnd, ASignalReachesTheFirstProcess) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(
        launcher, Script("a", "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.01; done"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    EXPECT_TRUE((co_await launcher.Signal("a", SIGUSR1)).ok());
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).exit_code, 0);
    EXPECT_EQ(LogText("a"), "ready\nsaved\n");
    EXPECT_TRUE(absl::IsNotFound(co_await launcher.Signal("a", SIGUSR1)));
    EXPECT_TRUE(absl::IsNotFound(co_await launcher.Signal("b", SIGUSR1)));
  });
}

TEST_F(ProcessEnd, AFloodOfOutputIsBounded) {
  ProcessLauncher::Options options = Options();
  options.log_bytes = 100'000;
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher,
                       Script("a", "i=0; while :; do i=$((i+1)); echo number $i $(printf %0500d 0); done"));
    const auto rotations_seen = [&, last = uint64_t{0}, cuts = 0]() mutable {
      const uint64_t size = LogBytes(Log("a"));
      if (size < last) ++cuts;
      last = size;
      return cuts >= 2;
    };
    EXPECT_TRUE(co_await tests::Eventually(loop, rotations_seen, seconds(60)));
    co_await MustStop(launcher, "a", seconds(0));
    co_await Until(loop, launcher, "a", RunState::kEnded);
    const std::string rotated = RotatedLog(Log("a"));
    EXPECT_GT(LogBytes(rotated), 0u);
    EXPECT_TRUE(tests::ReadFile(rotated).starts_with("number "));  // whole lines
    struct stat info{};
    EXPECT_EQ(stat(rotated.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  });
}

TEST_F(ProcessEnd, ForgetRemovesEndedRuns) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, Script("a", "exec sleep 100"));
    EXPECT_TRUE(absl::IsFailedPrecondition(co_await launcher.Forget("a")));
    co_await MustStop(launcher, "a", seconds(5));
    co_await Until(loop, launcher, "a", RunState::kEnded);
    const absl::Status forgotten = co_await launcher.Forget("a");
    EXPECT_TRUE(forgotten.ok()) << forgotten;
    EXPECT_FALSE(std::filesystem::exists(Folder("a")));
    const auto runs = co_await launcher.List();
    EXPECT_THAT(*runs, SizeIs(0));
    EXPECT_TRUE((co_await launcher.Forget("a")).ok());
  });
}

}  // namespace
}  // namespace plugins::launchers
