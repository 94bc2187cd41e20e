// Runs that are other users': what a hostile one can do to the gateway, to its files and to other runs.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "plugins/launchers/broker/broker.h"
#include "plugins/launchers/run_user.h"
#include "tests/unit/plugins/launchers/launcher_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;
using testing::Not;

// Numbers that are nobody's, and no other test's that runs beside this one: its jobs may kill all of theirs.
const std::string kUser = std::to_string(61'184 + getpid() % 2'000 * 2);
const std::string kOtherUser = std::to_string(61'185 + getpid() % 2'000 * 2);

class ProcessIsolation : public LauncherTest {
 protected:
  void SetUp() override {
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "the sanitizer starts no threads in a process that was forked beside others";
#endif
    if (!MayChangeUsers()) GTEST_SKIP() << "this process may not start others as other users";
  }

  // A launcher with a broker of its own.
  ProcessLauncher::Options Brokered() const {
    ProcessLauncher::Options options = Options();
    options.make_host = [](const std::string& token, const std::string& wrapper) {
      const std::unique_ptr<Broker> broker = Broker::Split();
      return broker->MakeHost(token, wrapper, {kUser, kOtherUser});
    };
    return options;
  }

  static std::string Listens(const std::string& port, const std::string& host = "127.0.0.1") {
    return fmt::format(
        "exec python3 -c 'import socket, time; s = socket.create_server((\"{}\", {})); "
        "print(\"listens\", flush=True); time.sleep(1000)'",
        host, port);
  }
  static std::string Listens(uint16_t port) { return Listens(std::to_string(port)); }

  static RunSpec As(std::string user, RunSpec spec) {
    spec.user = std::move(user);
    return spec;
  }

  // What a script prints that runs to its end.
  std::string OutputOf(const std::string& script, const std::string& user = kUser) {
    const std::string id = "hostile" + std::to_string(++runs_);
    With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      co_await MustStart(launcher, As(user, Script(id, script)));
      co_await Until(loop, launcher, id, RunState::kEnded);
    });
    return LogText(id);
  }

 private:
  int runs_ = 0;
};

TEST_F(ProcessIsolation, ARunHasItsUserAndCannotChangeIt) {
  const std::string out =
      OutputOf("id -u; id -g; id -G; grep -E '^(CapPrm|CapEff|CapAmb|NoNewPrivs)' /proc/self/status");
  EXPECT_THAT(out, HasSubstr(fmt::format("{0}\n{0}\n{0}\n", kUser)));
  EXPECT_THAT(out, HasSubstr("CapPrm:\t0000000000000000\n"));
  EXPECT_THAT(out, HasSubstr("CapEff:\t0000000000000000\n"));
  EXPECT_THAT(out, HasSubstr("CapAmb:\t0000000000000000\n"));
  EXPECT_THAT(out, HasSubstr("NoNewPrivs:\t1\n"));
}

TEST_F(ProcessIsolation, AProgramIsTheFirstInPathThatTheUserMayRun) {
  const auto put = [&](const std::string& folder, int mode, const char* says) {
    std::filesystem::create_directories(dir_ / folder);
    const std::string tool = dir_ / (folder + "/tool");
    std::ofstream(tool) << "#!/bin/sh\necho \"" << says << "\"\n";
    EXPECT_EQ(chmod(tool.c_str(), 0755), 0);
    EXPECT_EQ(chmod((dir_ / folder).c_str(), static_cast<mode_t>(mode)), 0);
  };
  EXPECT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  put("private", 0700, "the gateway's");
  put("public", 0755, "everybody's");
  put("later", 0755, "later");
  RunSpec tool = As(kUser, {.id = "tool", .command = {"tool"}});
  const std::string folder = dir_.path();
  tool.env.emplace_back("PATH", fmt::format("{0}/private:{0}/public:{0}/later:/usr/bin:/bin", folder));
  RunSpec none = As(kUser, {.id = "none", .command = {"tool"}});
  none.env.emplace_back("PATH", fmt::format("{}/private", folder));
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, tool);
    co_await Until(loop, launcher, "tool", RunState::kEnded);
    EXPECT_EQ(LogText("tool"), "everybody's\n");
    const absl::Status refused = co_await launcher.Start(none);
    EXPECT_THAT(refused.message(), HasSubstr(folder + "/private/tool cannot be run: Permission denied"));
  });
}

TEST_F(ProcessIsolation, ARunHasNoDescriptorAndNoVariableOfTheGateway) {
  setenv("TIDEGATE_ADMIN_KEY", "tg-admin-secret", 1);
  const std::string out = OutputOf("ls /proc/self/fd | tr '\\n' ' '; echo; env");
  unsetenv("TIDEGATE_ADMIN_KEY");
  EXPECT_TRUE(out.starts_with("0 1 2 3 \n")) << out;  // 3: the folder that `ls` reads
  EXPECT_THAT(out, Not(HasSubstr("tg-admin-secret")));
  EXPECT_THAT(out, HasSubstr(fmt::format("\nUSER={}\n", kUser)));
}

TEST_F(ProcessIsolation, ARunCannotReadTheGatewaysFilesOrMemoryNorSignalOthers) {
  const std::string state = dir_ / "state";
  const pid_t gateway = getpid();
  std::ofstream(dir_ / "signing.key") << "the signing key";
  const std::string script = fmt::format(
      "cat {0}/token {1} {0}/runs/*/run.json; cat /proc/{2}/environ /proc/{2}/maps; "
      "head -c 1 /proc/{2}/mem; ls /proc/{2}/fd; kill -0 {2}; kill -0 $PPID; kill -9 $PPID; "
      "cat /proc/$PPID/environ; echo 1 >{0}/runs/x; echo {2} >/proc/self/oom_score_adj; echo over",
      state, dir_ / "signing.key", gateway);
  const std::string out = OutputOf("exec 2>/dev/null; (" + script + ") | tr '\\0' '\\n'");
  EXPECT_EQ(out, "over\n");
}

TEST_F(ProcessIsolation, ARunCannotTouchAnotherTenants) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, As(kOtherUser, Script("victim", "echo ready; exec sleep 1000")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("victim") == "ready\n"; }));
    const pid_t victim = Result("victim").beginning->child;
    co_await MustStart(launcher,
                       As(kUser, Script("thief", fmt::format("exec 2>/dev/null; kill -9 {0}; kill -9 -1; "
                                                             "cat /proc/{0}/environ; echo over",
                                                             victim))));
    co_await Until(loop, launcher, "thief", RunState::kEnded);
    EXPECT_THAT(LogText("thief"), testing::AnyOf("over\n", ""));  // it may have ended itself
    EXPECT_EQ((co_await StatusOf(launcher, "victim")).state, RunState::kRunning);
    co_await MustStop(launcher, "victim", seconds(5));
    co_await Until(loop, launcher, "victim", RunState::kEnded);
  });
}

TEST_F(ProcessIsolation, ARunThatWillNotEndIsEnded) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(
        launcher,
        As(kUser,
           Script("a", "trap '' TERM; (setsid sleep 1000 &); echo ready; while :; do sleep 1000; done")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    co_await MustStop(launcher, "a", milliseconds(100));
    const RunStatus ended = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(ended.why, "it did not end within its grace, and was killed");
    EXPECT_THAT(Members("a"), testing::IsEmpty());
  });
}

TEST_F(ProcessIsolation, TheBrokerEndsARunWithAKilledWrapper) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(
        launcher, As(kUser, Script("a", "(trap '' TERM; while :; do sleep 1000; done) & echo ready; wait")));
    EXPECT_TRUE(co_await tests::Eventually(
        loop, [&] { return LogText("a") == "ready\n" && Members("a").size() == 3; }));
    const std::vector<Member> members = Members("a");
    kill(Record("a").pid, SIGKILL);
    co_await Until(loop, launcher, "a", RunState::kEnded);
    for (const Member& member : members) EXPECT_TRUE(member.process.ended());
  });
}

TEST_F(ProcessIsolation, ASignalToSaveReachesTheRun) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(
        launcher,
        As(kUser, Script("a", "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.01; done")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    EXPECT_TRUE((co_await launcher.Signal("a", SIGUSR1)).ok());
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).exit_code, 0);
    EXPECT_EQ(LogText("a"), "ready\nsaved\n");
  });
}

TEST_F(ProcessIsolation, ARunContinuesAndTheNextBrokerFindsIt) {
  RunSpec spec = As(kUser, Script("a", "echo ready; exec sleep 1000"));
  spec.env = {{"API_TOKEN", "sk-0123456789"}};
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, spec);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
  });
  for (const bool has_record : {true, false}) {
    if (!has_record) unlink((Folder("a") + "/run.json").c_str());
    With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
      const RunStatus found = co_await StatusOf(launcher, "a");
      EXPECT_EQ(found.state, RunState::kRunning);
      EXPECT_EQ(found.orphan, !has_record);
      if (has_record) co_return;
      co_await MustStop(launcher, "a", seconds(5));
      co_await Until(loop, launcher, "a", RunState::kEnded);
    });
  }
}

TEST_F(ProcessIsolation, ARunThatSaysItIsTheWrapperOfAnotherIsNot) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, As(kUser, Script("a",
                                                  "export TIDEGATE_RUN_ID=other TIDEGATE_RUN_RECORD='{}'; "
                                                  "echo ready; exec sleep 1000")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
  });
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    EXPECT_EQ((co_await StatusOf(launcher, "a")).state, RunState::kRunning);
    const RunStatus forged = co_await StatusOf(launcher, "other");
    EXPECT_EQ(forged.grant.node, "");
    co_await MustStop(launcher, "a", seconds(5));
    co_await Until(loop, launcher, "a", RunState::kEnded);
  });
}

TEST_F(ProcessIsolation, AProcessThatTookAPortAndSaysItIsTheRunsIsNot) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    RunSpec victim = As(kOtherUser, Script("victim", "exec sleep 1000"));
    victim.serves = true;
    co_await MustStart(launcher, victim);
    EXPECT_TRUE(absl::IsUnavailable(co_await launcher.CheckPort("victim"))) << "nobody listens yet";
    const uint16_t port = (co_await StatusOf(launcher, "victim")).port;
    co_await MustStart(
        launcher,
        As(kUser, Script("thief", fmt::format("export TIDEGATE_RUN_ID=victim; {}", Listens(port)))));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("thief") == "listens\n"; }));
    const absl::Status taken = co_await launcher.CheckPort("victim");
    EXPECT_TRUE(absl::IsFailedPrecondition(taken)) << taken;
    // Nor does it keep the run from ending.
    co_await MustStop(launcher, "victim", seconds(5));
    co_await Until(loop, launcher, "victim", RunState::kEnded);
    EXPECT_EQ((co_await StatusOf(launcher, "victim")).state, RunState::kEnded);
    EXPECT_EQ((co_await StatusOf(launcher, "thief")).state, RunState::kRunning);
    co_await MustStop(launcher, "thief", seconds(5));
    co_await Until(loop, launcher, "thief", RunState::kEnded);
  });
}

TEST_F(ProcessIsolation, ARunThatListensOnItsPortIsKnownWhateverElseListensElsewhere) {
  With(Brokered(), [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    RunSpec spec = As(kUser, Script("a", Listens("{port}")));
    spec.serves = true;
    co_await MustStart(launcher, spec);
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "listens\n"; }));
    const absl::Status own = co_await launcher.CheckPort("a");
    EXPECT_TRUE(own.ok()) << own;
    const std::string port = std::to_string((co_await StatusOf(launcher, "a")).port);
    co_await MustStart(launcher, As(kOtherUser, Script("other", Listens(port, "127.0.0.2"))));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("other") == "listens\n"; }));
    EXPECT_TRUE((co_await launcher.CheckPort("a")).ok()) << "no connection to the run's address goes there";
    for (const char* const id : {"a", "other"}) {
      co_await MustStop(launcher, id, seconds(5));
      co_await Until(loop, launcher, id, RunState::kEnded);
    }
  });
}

TEST_F(ProcessIsolation, AForkBombIsBounded) {
  ProcessLauncher::Options options = Brokered();
  options.limits.processes = 20;
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(
        launcher,
        As(kUser, Script("a", "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; echo all")));
    co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_THAT(LogText("a"), testing::AllOf(HasSubstr("fork"), Not(HasSubstr("all\n"))));
  });
}

TEST_F(ProcessIsolation, AFileIsBounded) {
  ProcessLauncher::Options options = Brokered();
  options.limits.file_bytes = 1 << 20;
  const std::string folder = dir_ / "work";
  mkdir(folder.c_str(), 0777);
  chmod(folder.c_str(), 0777);
  chmod(std::string(dir_.path()).c_str(), 0711);
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    RunSpec spec = As(kUser, Script("a", "exec 2>/dev/null; head -c 8000000 /dev/zero >big; stat -c %s big"));
    spec.directory = folder;
    co_await MustStart(launcher, spec);
    co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_EQ(LogText("a"), "1048576\n");
  });
}

TEST_F(ProcessIsolation, TheBrokerStartsNothingAsAnybodyElse) {
  With(Brokered(), [&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    const absl::Status unknown = co_await launcher.Start(As("64125", Script("a", "id")));
    EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
    EXPECT_THAT(unknown.message(), HasSubstr("64125"));
    const absl::Status nobody = co_await launcher.Start(Script("a", "id"));
    EXPECT_FALSE(nobody.ok());
    EXPECT_FALSE(std::filesystem::exists(Folder("a")));
  });
  for (const std::string user : {"root", "0", "no-such-user"}) {
    const std::unique_ptr<Broker> broker = Broker::Split();
    EXPECT_FALSE(broker->MakeHost("token", TIDEGATE_RUN_BINARY, {user}).ok()) << user;
  }
}

TEST_F(ProcessIsolation, TheBrokerSignalsOnlyRuns) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    setsid();
    if (setgid(64125) != 0 || setuid(64125) != 0 || write(ready[1], "r", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  close(ready[1]);
  char word = 0;
  ASSERT_EQ(read(ready[0], &word, 1), 1) << "it has not become another user";
  close(ready[0]);
  const std::unique_ptr<Broker> broker = Broker::Split();
  const auto host = broker->MakeHost("token", TIDEGATE_RUN_BINARY, {kUser});
  ASSERT_TRUE(host.ok()) << host.status();
  // As a gateway that was taken over would say it.
  EXPECT_EQ((*host)->Signal({.id = "a", .leader = stranger, .session_is_ours = true}, 0), 1u);
  (*host)->Signal({.id = "a", .leader = stranger, .session_is_ours = true}, SIGKILL);
  (*host)->KillCgroup("/sys/fs/cgroup");
  EXPECT_TRUE((*host)->EnvironmentOf(getpid()).empty());
  EXPECT_EQ(kill(stranger, 0), 0);
  EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0);
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

TEST_F(ProcessIsolation, WhereTheBrokerIsGoneStartsAreRefusedAndStopsGoOn) {
  const std::unique_ptr<Broker> broker = Broker::Split();
  ProcessLauncher::Options options = Options();
  options.make_host = [&](const std::string& token, const std::string& wrapper) {
    return broker->MakeHost(token, wrapper, {kUser});
  };
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    co_await MustStart(launcher, As(kUser, Script("a", "echo ready; exec sleep 1000")));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return LogText("a") == "ready\n"; }));
    EXPECT_EQ(launcher.trouble(), "");
    kill(broker->pid(), SIGKILL);
    waitpid(broker->pid(), nullptr, 0);
    EXPECT_THAT(launcher.trouble(), HasSubstr("the launch broker is gone"))
        << "before anything was asked of it";
    const absl::Status refused = co_await launcher.Start(As(kUser, Script("b", "id")));
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("the launch broker is gone"));
    EXPECT_THAT(launcher.trouble(), HasSubstr("start the gateway again"));
    co_await MustStop(launcher, "a", seconds(5));
    EXPECT_EQ((co_await Until(loop, launcher, "a", RunState::kEnded)).signal, SIGTERM);
  });
}

}  // namespace
}  // namespace plugins::launchers
