#include "plugins/launchers/slurm/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "gateway/net/clock.h"
#include "plugins/launchers/slurm/script.h"
#include "tests/support/temp_dir.h"

namespace plugins::launchers::slurm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class SlurmResults : public testing::Test {
 protected:
  std::string Result(const std::string& id) const { return ResultPath(dir_.path(), id); }
  // Begins the batch script of a run as Slurm would: it leads a group that signals go to.
  pid_t Begin(const std::string& id, const std::string& script) const {
    const std::string text = RenderScript({"/bin/sh", "-c", script, "it's"},
                                          {Result(id), id, Render(Mark{"s1", "chat", "demo", 1})});
    const pid_t shell = fork();
    if (shell != 0) return shell;
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", text.c_str(), nullptr);
    _exit(127);
  }
  static int Await(pid_t shell) {
    int status = 0;
    waitpid(shell, &status, 0);
    return status;
  }
  std::map<std::string, slurm::Result> Found() const { return FindResults(dir_.path(), "s1"); }

  tests::TempDir dir_;
};

TEST_F(SlurmResults, TheScriptEndsAsItsCommandAndWritesItDown) {
  const conf::TimePoint before = gateway::net::Now();
  EXPECT_EQ(WEXITSTATUS(Await(Begin("done", "test \"$0\" = \"it's\"; exit 0"))), 0);
  EXPECT_EQ(WEXITSTATUS(Await(Begin("failed", "sleep 0.2; exit 3"))), 3);
  const int killed = Await(Begin("killed", "kill -KILL $$"));
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL) << killed;
  const auto found = Found();
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found.at("done").times.end->exit_code, 0);
  EXPECT_EQ(found.at("failed").times.end->exit_code, 3);
  EXPECT_EQ(found.at("killed").times.end->exit_code, std::nullopt);
  EXPECT_EQ(found.at("killed").times.end->signal, SIGKILL);
  EXPECT_EQ(found.at("failed").mark.owner, "chat");
  const RunResult& times = found.at("failed").times;
  ASSERT_TRUE(times.beginning);
  EXPECT_GE(times.beginning->started, before);
  EXPECT_GE(times.end->ended - times.beginning->started, std::chrono::milliseconds(200));
  EXPECT_LE(times.end->ended, gateway::net::Now());
  EXPECT_THAT(FindResults(dir_.path(), "s2"), IsEmpty()) << "another gateway's";
}

TEST_F(SlurmResults, ASignalToTheWholeJobReachesTheCommand) {
  const std::string ready = dir_ / "ready";
  ASSERT_EQ(mkfifo(ready.c_str(), 0600), 0);
  const pid_t shell = Begin("a", "trap 'exit 7' TERM; echo >" + ready + "; while :; do sleep 0.01; done");
  std::ifstream(ready).get();  // ends when the shell has set its trap
  EXPECT_THAT(Found(), IsEmpty()) << "it runs";
  kill(-shell, SIGTERM);
  EXPECT_EQ(WEXITSTATUS(Await(shell)), 7);
  EXPECT_EQ(Found().at("a").times.end->exit_code, 7);
}

TEST_F(SlurmResults, AMissingFolderOnTheNodePreventsNoRun) {
  const std::string text = RenderScript({"/bin/sh", "-c", "exit 4"}, {"/no/such/folder/a.result", "a", ""});
  const pid_t shell = fork();
  if (shell == 0) {
    execl("/bin/sh", "sh", "-c", text.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_EQ(WEXITSTATUS(Await(shell)), 4);
}

TEST_F(SlurmResults, FilesThatAreNoResultsArePassedOver) {
  std::ofstream(Result("empty"));
  std::ofstream(Result("odd")) << "{\"mark\":7}\n";
  std::ofstream(Result("text")) << "hello\n";
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(FindResults("/no/such/folder", "s1"), IsEmpty());
  EXPECT_THAT(FindResults("", "s1"), IsEmpty());
}

}  // namespace
}  // namespace plugins::launchers::slurm
