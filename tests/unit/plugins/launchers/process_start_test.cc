#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "gateway/net/transport.h"
#include "tests/support/small_disk.h"
#include "tests/unit/plugins/launchers/launcher_fixture.h"

namespace plugins::launchers {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using ProcessStart = LauncherTest;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST_F(ProcessStart, RunsTheCommandInASessionOfItsOwnWithNothingOpenButItsLog) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    const absl::Status started = co_await launcher.Start(Script("a", "ls -l /proc/self/fd; exec sleep 100"));
    EXPECT_TRUE(started.ok()) << started;
    const RunStatus status = co_await StatusOf(launcher, "a");
    EXPECT_EQ(status.state, RunState::kRunning);
    EXPECT_EQ(status.owner, "chat");
    EXPECT_EQ(status.log, Log("a"));
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return !LogText("a").empty(); }));
    const auto members = Members("a");
    EXPECT_THAT(members, Not(IsEmpty()));
    const auto process = gateway::net::ReadProcessStat(members.front().pid);
    EXPECT_EQ(process->session, members.front().pid);
    EXPECT_EQ(process->group, members.front().pid);
    // ls itself has its folder open as 3.
    EXPECT_THAT(LogText("a"), HasSubstr("0 -> /dev/null"));
    EXPECT_THAT(LogText("a"), Not(HasSubstr(" 4 -> ")));
    struct stat log{};
    EXPECT_EQ(stat(Log("a").c_str(), &log), 0);
    EXPECT_EQ(log.st_mode & 0777, 0600u);
    co_await MustStop(launcher, "a", seconds(5));
    co_await Until(loop, launcher, "a", RunState::kEnded);
  });
}

TEST_F(ProcessStart, TheEnvironmentHasTheGivenVariablesAndAFewOfTheGateways) {
  setenv("TIDEGATE_TEST_SECRET", "do-not-hand-on", 1);
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    RunSpec spec = Script("replica-1.a", "env; echo args: $0 $1; exit 0");
    spec.command.insert(spec.command.end(), {"{port}/{node}/{id}", "{\"json\": 1}"});
    spec.env = {{"ADDRESS", "{node}:{port}"}, {"LANG", "zh_CN.UTF-8"}};
    spec.grant.node = "here";
    spec.serves = true;
    const absl::Status started = co_await launcher.Start(spec);
    EXPECT_TRUE(started.ok()) << started;
    const RunStatus status = co_await Until(loop, launcher, "replica-1.a", RunState::kEnded);
    EXPECT_EQ(status.host, "127.0.0.1");
    EXPECT_GE(status.port, 20'000);
    EXPECT_EQ(status.exit_code, 0);
    EXPECT_EQ(status.why, "");
    const std::string port = std::to_string(status.port);
    const std::string log = "\n" + LogText("replica-1.a");
    EXPECT_THAT(log, HasSubstr("\nargs: " + port + "/here/replica-1.a {\"json\": 1}\n"));
    EXPECT_THAT(log, HasSubstr("\nADDRESS=here:" + port + "\n"));
    EXPECT_THAT(log, HasSubstr("\nLANG=zh_CN.UTF-8\n"));
    EXPECT_THAT(log, HasSubstr("\nPATH="));
    EXPECT_THAT(log, HasSubstr("\nTIDEGATE_RUN_ID=replica-1.a\n"));
    EXPECT_THAT(log, HasSubstr("\nCUDA_VISIBLE_DEVICES=\n"));
    EXPECT_THAT(log, Not(HasSubstr("do-not-hand-on")));
  });
  unsetenv("TIDEGATE_TEST_SECRET");
}

TEST_F(ProcessStart, TheSameIdStartsOnce) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    const RunSpec spec = Script("a", "echo began; exec sleep 100");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE((co_await launcher.Start(spec)).ok());
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return !LogText("a").empty(); }));
    EXPECT_THAT(Members("a"), SizeIs(1));
    co_await MustStop(launcher, "a", seconds(5));
    co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_TRUE((co_await launcher.Start(spec)).ok());  // also one that has ended
    EXPECT_THAT(Members("a"), IsEmpty());
    EXPECT_EQ(LogText("a"), "began\n");
  });
}

TEST_F(ProcessStart, RefusesImpossibleRunsWithAReason) {
  const std::string script = dir_ / "no-interpreter";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  chmod(script.c_str(), 0755);
  const std::string plain = dir_ / "plain";
  std::ofstream(plain) << "text";
  struct Case {
    std::string name;
    RunSpec spec;
    std::string says;
  };
  std::vector<Case> cases{
      {"no program", {.id = "a", .command = {"/no/such/program"}}, "/no/such/program: No such file"},
      {"not in PATH",
       {.id = "a", .command = {"no-such-program"}},
       "program no-such-program not found in PATH (/"},
      {"not executable", {.id = "a", .command = {plain}}, plain + " is not executable"},
      {"a directory", {.id = "a", .command = {dir_.path()}}, dir_.path() + " is not a file"},
      {"no interpreter",
       {.id = "a", .command = {script}},
       "the interpreter that its first line names is not"},
      {"too long", {.id = "a", .command = {"true", std::string(140'000, 'x')}}, "too long for the system"},
      {"no command", {.id = "a"}, "command is empty"},
      {"no directory",
       {.id = "a", .command = {"true"}, .directory = "/no/such"},
       "directory /no/such: No such"},
      {"bad id", {.id = "../a", .command = {"true"}}, "\"../a\" cannot be the id"},
      {"dots", {.id = "..", .command = {"true"}}, "\"..\" cannot be the id"},
      {"another node",
       {.id = "a", .grant = {.node = "there"}, .command = {"true"}},
       "this machine (here), and not on there"},
      {"no device",
       {.id = "a", .grant = {.devices = {0}}, .command = {"true"}},
       "no device 0; this machine has 0"},
      {"no port", {.id = "a", .command = {"true", "{port}"}}, "the run has none"},
      {"devices by hand",
       {.id = "a", .command = {"true"}, .env = {{"CUDA_VISIBLE_DEVICES", "0"}}},
       "CUDA_VISIBLE_DEVICES is set by the launcher"},
      {"bad variable", {.id = "a", .command = {"true"}, .env = {{"A=B", "0"}}}, "\"A=B\" cannot be the name"},
  };
  With([&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    for (const Case& c : cases) {
      const absl::Status refused = co_await launcher.Start(c.spec);
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << c.name << ": " << refused;
      EXPECT_THAT(Message(refused), HasSubstr(c.says)) << c.name;
      EXPECT_FALSE(std::filesystem::exists(Folder("a"))) << c.name;
      const auto runs = co_await launcher.List();
      EXPECT_THAT(*runs, IsEmpty()) << c.name;
    }
  });
}

TEST_F(ProcessStart, EachRunGetsAFreePort) {
  ProcessLauncher::Options options = Options();
  const auto port = [&](int i) { return static_cast<uint16_t>(options.first_port + i); };
  // Connections of who had them before may linger for a minute.
  const auto is_free = [&](int i) { return gateway::net::PortIsFree(port(i)); };
  while (options.first_port + 3 < options.last_port &&
         !(is_free(0) && is_free(1) && is_free(2) && is_free(3)))
    ++options.first_port;
  options.last_port = port(3);
  With(options, [&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    // A stranger on one of them, on any address.
    gateway::net::Acceptor::Options taken;
    taken.address = fmt::format("127.0.0.1:{}", port(1));
    auto stranger =
        gateway::net::Acceptor::Listen(loop.io, loop.watchdog, loop.tasks, std::move(taken), [](auto) {});
    if (!stranger.ok()) {
      ADD_FAILURE() << stranger.status();
      co_return;
    }
    gateway::net::Acceptor& there = loop.Keep(*std::move(stranger));
    std::set<uint16_t> ports;
    for (const char* id : {"a", "b", "c"}) {
      RunSpec spec = Script(id, "exec sleep 100");
      spec.serves = true;
      const absl::Status started = co_await launcher.Start(spec);
      EXPECT_TRUE(started.ok()) << started;
      ports.insert((co_await StatusOf(launcher, id)).port);
    }
    EXPECT_EQ(ports, (std::set<uint16_t>{port(0), port(2), port(3)}));
    RunSpec spec = Script("d", "exec sleep 100");
    spec.serves = true;
    const absl::Status full = co_await launcher.Start(spec);
    EXPECT_TRUE(absl::IsUnavailable(full)) << full;
    EXPECT_THAT(Message(full), HasSubstr(fmt::format("no port from {} to {} is free", port(0), port(3))));
    co_await MustStop(launcher, "b", seconds(5));
    co_await Until(loop, launcher, "b", RunState::kEnded);
    EXPECT_TRUE((co_await launcher.Start(spec)).ok());
    EXPECT_EQ((co_await StatusOf(launcher, "d")).port, port(2));
    there.Close();
  });
}

TEST_F(ProcessStart, APortThatTurnedOutToBeTakenIsNotTheNext) {
  With([&](tests::TestLoop& loop, ProcessLauncher& launcher) -> Task<void> {
    RunSpec spec = Script("a", "echo Address already in use; exit 1");
    spec.serves = true;
    co_await MustStart(launcher, spec);
    const RunStatus failed = co_await Until(loop, launcher, "a", RunState::kEnded);
    EXPECT_THAT(failed.why, HasSubstr("exit code 1; its last lines: Address already in use"));
    spec.id = "b";
    co_await MustStart(launcher, spec);
    EXPECT_NE((co_await StatusOf(launcher, "b")).port, failed.port);
    co_await Until(loop, launcher, "b", RunState::kEnded);
  });
}

TEST_F(ProcessStart, AFullDiskIsReportedAndNothingRuns) {
  const tests::SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "may not mount a file system here";
  ProcessLauncher::Options options = Options();
  options.state_dir = disk.path() + "/state";
  With(options, [&](tests::TestLoop&, ProcessLauncher& launcher) -> Task<void> {
    disk.Fill();
    const absl::Status full = co_await launcher.Start(Script("a", "exec sleep 100"));
    EXPECT_TRUE(absl::IsUnavailable(full)) << full;
    EXPECT_THAT(Message(full), HasSubstr("No space left"));
    EXPECT_THAT(Message(full), HasSubstr(options.state_dir + "/runs/a"));
    EXPECT_THAT(
        FindMembers({.id = "a", .token = tests::ReadFile(options.state_dir + "/token").substr(0, 32)}),
        IsEmpty());
    const auto runs = co_await launcher.List();
    EXPECT_THAT(*runs, IsEmpty());
    disk.Empty();
    EXPECT_TRUE((co_await launcher.Start(Script("a", "exit 0"))).ok());
  });
}

TEST_F(ProcessStart, AStateFolderThatCannotBeIsNamed) {
  std::ofstream(dir_ / "state") << "a file";
  tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
    const auto launcher = ProcessLauncher::Open(loop, Options());
    EXPECT_THAT(Message(launcher.status()), HasSubstr("/state"));
    EXPECT_FALSE(launcher.ok());
    co_return;
  });
}

TEST_F(ProcessStart, OneGatewayAtATimeHasAFolder) {
  With([&](tests::TestLoop& loop, ProcessLauncher&) -> Task<void> {
    const auto second = ProcessLauncher::Open(loop, Options());
    EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
    EXPECT_THAT(Message(second.status()), HasSubstr("another gateway"));
    co_return;
  });
}

}  // namespace
}  // namespace plugins::launchers
