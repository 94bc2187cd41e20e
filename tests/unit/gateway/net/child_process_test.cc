#include "gateway/net/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gateway/net/command.h"
#include "gateway/net/transport.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace gateway::net {
namespace {

using testing::HasSubstr;
using tests::ReadFile;

class ChildProcess : public testing::Test {
 protected:
  ChildSpec Script(std::string script) {
    return {.program = "/bin/sh",
            .argv = {"sh", "-c", std::move(script)},
            .env = {"PATH=/usr/bin:/bin", "GIVEN=yes"},
            .output = output_.get()};
  }
  std::string Printed() const { return ReadFile(dir_ / "output"); }

  tests::TempDir dir_;
  Fd output_{open((dir_ / "output").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600)};
};

TEST_F(ChildProcess, RunsNothingBeforeItIsReleased) {
  auto held = HeldChild::Make(Script("echo ran; exit 3"));
  ASSERT_TRUE(held.ok()) << held.status();
  const std::optional<ProcessStat> stat = ReadProcessStat((*held)->pid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, getpid());
  EXPECT_EQ(stat->session, (*held)->pid());
  EXPECT_EQ(stat->group, (*held)->pid());
  EXPECT_EQ(Printed(), "");
  auto process = (*held)->Release();
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->WaitAndReap()->exit_code, 3);
  EXPECT_EQ(Printed(), "ran\n");
}

TEST_F(ChildProcess, OneThatIsNotReleasedEndsWithoutATrace) {
  pid_t pid = 0;
  {
    auto held = HeldChild::Make(Script("echo ran"));
    ASSERT_TRUE(held.ok()) << held.status();
    pid = (*held)->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);  // no zombie either
  EXPECT_EQ(Printed(), "");
}

TEST_F(ChildProcess, AKilledCreatorLeavesNoProgramRunning) {
  int told[2];
  ASSERT_EQ(pipe2(told, O_CLOEXEC), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    auto held = HeldChild::Make(Script("echo ran"));
    const pid_t pid = held.ok() ? (*held)->pid() : -1;
    (void)!write(told[1], &pid, sizeof pid);
    pause();
    _exit(0);
  }
  pid_t pid = 0;
  ASSERT_EQ(read(told[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  const std::optional<ProcessStat> stat = ReadProcessStat(pid);
  ASSERT_TRUE(stat);
  const auto held = ProcessHandle::Open(pid, stat->start_ticks);
  ASSERT_TRUE(held);
  EXPECT_FALSE(held->ended());
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return held->ended(); }));
  });
  EXPECT_EQ(Printed(), "");
  close(told[0]);
  close(told[1]);
}

TEST_F(ChildProcess, HeldOnesDoNotHoldEachOther) {
  std::vector<std::unique_ptr<HeldChild>> held;
  for (int i = 0; i < 8; ++i) {
    auto made = HeldChild::Make(Script("echo ran"));
    ASSERT_TRUE(made.ok()) << made.status();
    held.push_back(std::move(*made));
  }
  // The first sees its end while the later ones are there still.
  const pid_t first = held.front()->pid();
  held.erase(held.begin());
  EXPECT_EQ(kill(first, 0), -1);
  auto last = held.back()->Release();
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->WaitAndReap()->exit_code, 0);
}

TEST_F(ChildProcess, StartsWithNothingOfItsMaker) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Fd leaked(open("/dev/zero", O_RDONLY));  // without O_CLOEXEC
  auto held = HeldChild::Make(Script("ls -l /proc/self/fd; env; grep Sig /proc/self/status; pwd"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, SIG_DFL);
  ASSERT_TRUE(held.ok()) << held.status();
  auto process = (*held)->Release();
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->WaitAndReap()->exit_code, 0);
  const std::string printed = Printed();
  EXPECT_THAT(printed, HasSubstr("0 -> /dev/null"));
  EXPECT_THAT(printed, testing::Not(HasSubstr("/dev/zero")));
  EXPECT_THAT(printed, HasSubstr("\nGIVEN=yes\n"));
  EXPECT_THAT(printed, testing::Not(HasSubstr("HOME=")));
  EXPECT_THAT(printed, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(printed, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST_F(ChildProcess, ReportsWhyAProgramCannotRun) {
  ChildSpec spec = Script("true");
  spec.directory = "/no/such";
  auto held = HeldChild::Make(spec);
  ASSERT_TRUE(held.ok());
  const pid_t pid = (*held)->pid();
  const absl::Status refused = (*held)->Release().status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the directory /no/such: No such file"));
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST_F(ChildProcess, AProgramThatStartsAnotherReportsWhetherItCould) {
  // A shell stands for the wrapper: it has the pipe for reports, and may say so or close it.
  ChildSpec spec = Script("exec 4>&-; exit 6");
  spec.reports = true;
  spec.wraps = "/srv/engine";
  auto held = HeldChild::Make(spec);
  ASSERT_TRUE(held.ok()) << held.status();
  auto process = (*held)->Release();
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->WaitAndReap()->exit_code, 6);
  // Step kWrapped and ENOENT, as two integers of this machine.
  spec.argv.back() = R"(printf '\005\000\000\000\002\000\000\000' >&4)";
  held = HeldChild::Make(spec);
  ASSERT_TRUE(held.ok()) << held.status();
  absl::Status refused = (*held)->Release().status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/srv/engine: No such file"));
  spec.program = "/no/such/wrapper";
  held = HeldChild::Make(spec);
  ASSERT_TRUE(held.ok()) << held.status();
  refused = (*held)->Release().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("/no/such/wrapper cannot run /srv/engine: No such file"));
}

TEST_F(ChildProcess, ManyThreadsMayMakeThemAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        auto held = HeldChild::Make(Script("exit 7"));
        if (!held.ok()) continue;
        auto process = (*held)->Release();
        if (process.ok() && process->WaitAndReap()->exit_code == 7) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

TEST_F(ChildProcess, ItsEndIsHeardOnTheLoop) {
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    auto held = HeldChild::Make(Script("exec sleep 1000"));
    auto process = (*held)->Release();
    int ends = 0;
    int never = 0;
    ProcessWatch watch(loop, *process, [&] { ++ends; });
    auto gone = std::make_unique<ProcessWatch>(loop, *process, [&] { ++never; });
    EXPECT_TRUE(watch.works());
    EXPECT_FALSE(process->ended());
    EXPECT_FALSE(process->Reap());
    gone.reset();
    EXPECT_TRUE(process->Signal(SIGKILL));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return ends == 1; }));
    EXPECT_EQ(never, 0);
    EXPECT_EQ(process->Reap()->signal, SIGKILL);
    EXPECT_FALSE(process->Reap());
    EXPECT_FALSE(process->Signal(0));
  });
}

TEST(ProcessHandle, IsOfAProcessThatBeganThen) {
  const std::optional<ProcessStat> self = ReadProcessStat(getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(ProcessHandle::Open(getpid(), self->start_ticks));
  EXPECT_FALSE(ProcessHandle::Open(getpid(), self->start_ticks + 1));
  EXPECT_FALSE(ProcessHandle::Open(0, 0));
  EXPECT_EQ(BootId().size(), 36u);
}

TEST(ProcessStat, IsReadWhateverTheNameIs) {
  const auto stat =
      ParseProcessStat("7 (a) R (b) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 1 2");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 1);
  EXPECT_EQ(stat->group, 2);
  EXPECT_EQ(stat->session, 3);
  EXPECT_EQ(stat->start_ticks, 12'345u);
  for (const std::string_view odd : {"", "7 (a", "7 (a)", "7 (a) S", "7 (a) S 1 2", "7 (a) S x y z"})
    EXPECT_FALSE(ParseProcessStat(odd)) << odd;
}

TEST(FindProgram, LooksWhereAShellWould) {
  tests::TempDir dir;
  std::filesystem::create_directories(dir / "bin/tool-d");
  std::ofstream(dir / "bin/tool") << "#!/bin/sh\n";
  EXPECT_THAT(std::string(FindProgram("tool", dir / "bin", "").status().message()),
              HasSubstr("tool is not executable"));
  chmod((dir / "bin/tool").c_str(), 0755);
  EXPECT_EQ(*FindProgram("tool", "relative::" + dir / "bin", ""), dir / "bin/tool");
  EXPECT_EQ(*FindProgram("./tool", "", dir / "bin"), dir / "bin/./tool");
  EXPECT_EQ(*FindProgram(dir / "bin/tool", "", "/"), dir / "bin/tool");
  EXPECT_THAT(std::string(FindProgram("tool-d", dir / "bin", "").status().message()),
              HasSubstr("program tool-d not found in PATH"));
}

TEST(FindProgram, LeavesToItsUserWhatTheGatewayMayNotSee) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  tests::TempDir dir;
  chmod(dir.path().c_str(), 0755);
  std::filesystem::create_directories(dir / "home");
  std::ofstream(dir / "own") << "#!/bin/sh\n";
  std::ofstream(dir / "home/run") << "#!/bin/sh\n";
  chmod((dir / "own").c_str(), 0700);
  chmod((dir / "home").c_str(), 0700);
  ASSERT_EQ(seteuid(65'534), 0);
  const absl::StatusOr<std::string> own = FindProgram("./own", "", dir.path());
  const absl::StatusOr<std::string> in_home = FindProgram(dir / "home/run", "", "");
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(own.value_or(""), dir / "./own");
  EXPECT_EQ(in_home.value_or(""), dir / "home/run");
}

TEST(Command, ReturnsExitStatusAndOutput) {
  const auto output = RunCommand({"sh", "-c", "echo out; echo err >&2; exit 2"}, std::chrono::seconds(20));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->exit_code, 2);
  EXPECT_EQ(output->text, "out\nerr\n");
  EXPECT_TRUE(absl::IsNotFound(RunCommand({"no-such-command"}, std::chrono::seconds(1)).status()));
}

TEST(Command, OneThatHangsIsKilledWithItsChildren) {
  tests::TempDir dir;
  // As long as the shell may take to write the number, on a machine that stands still.
  for (std::chrono::milliseconds patience(300); !ReadFile(dir / "pid").ends_with('\n'); patience *= 2) {
    const auto output = RunCommand({"sh", "-c", "sleep 1000 & echo $! > " + dir / "pid; wait"}, patience);
    ASSERT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
  }
  const pid_t child = std::stoi(ReadFile(dir / "pid"));
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] {
      const auto stat = ReadProcessStat(child);
      return !stat || stat->gone();
    }));
  });
}

TEST(Command, OneThatNeverStopsTalkingIsBounded) {
  const auto output = RunCommand({"sh", "-c", "yes || exit 5"}, std::chrono::seconds(20));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_LE(output->text.size(), kMaxCommandOutput);
}

TEST(PortIsFree, IsFalseForAListeningPort) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> Task<void> {
    Acceptor::Options options;
    options.address = "127.0.0.1:0";
    Acceptor& taken =
        loop.Keep(*Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(options), [](auto) {}));
    const uint16_t port = taken.port();
    EXPECT_FALSE(PortIsFree(port));
    taken.Close();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return PortIsFree(port); }));
  });
}

}  // namespace
}  // namespace gateway::net
