// A launcher over a folder of the test's own, with shell scripts as runs. What a test leaves running is
// killed.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/launchers/process.h"
#include "plugins/launchers/run_log.h"
#include "tests/support/loop_test.h"
#include "tests/support/own_ports.h"
#include "tests/support/temp_dir.h"

namespace plugins::launchers {

using gateway::net::Task;
using std::chrono::milliseconds;
using std::chrono::seconds;

class LauncherTest : public testing::Test {
 protected:
  ~LauncherTest() override {
    for (auto& [id, wrapper] : FindRuns(Token())) {
      for (const Member& member : Members(id)) member.process.Signal(SIGKILL);
      if (wrapper) wrapper->process.Signal(SIGKILL);
    }
  }

  ProcessLauncher::Options Options() const {
    return {.state_dir = dir_ / "state",
            .nodes = {{.name = "here"}},
            .first_port = ports_.first(),
            .last_port = ports_.last(),
            .wrapper = TIDEGATE_RUN_BINARY,
            .check_interval = milliseconds(20),
            .leftover_grace = milliseconds(300),
            .wrapper_patience = milliseconds(300)};
  }

  std::string Token() const {
    std::string token = tests::ReadFile(dir_ / "state/token");
    while (token.ends_with('\n')) token.pop_back();
    return token;
  }
  RunRecord Record(const std::string& id) const {
    return ReadRecord(tests::ReadFile(Folder(id) + "/run.json")).value_or(RunRecord{});
  }
  pid_t Wrapper(const std::string& id) const {
    if (const RunRecord record = Record(id); record.pid > 0) return record.pid;
    const auto runs = FindRuns(Token());
    const auto found = runs.find(id);
    return found == runs.end() || !found->second ? 0 : found->second->pid;
  }
  RunResult Result(const std::string& id) const {
    return ReadResultFile(Folder(id) + "/result").value_or(RunResult{});
  }
  // The processes below the run's wrapper; without one, those that carry its mark.
  std::vector<Member> Members(const std::string& id) const {
    return FindMembers({.id = id, .token = Token(), .log = Log(id), .wrapper = Wrapper(id)});
  }
  std::string Folder(const std::string& id) const { return dir_ / ("state/runs/" + id); }
  std::string Log(const std::string& id) const { return Folder(id) + "/log"; }
  std::string LogText(const std::string& id) const { return tests::ReadFile(Log(id)); }

  static RunSpec Script(std::string id, std::string script) {
    return {.id = std::move(id), .owner = "chat", .command = {"/bin/sh", "-c", std::move(script)}};
  }

  // Runs `body` with a launcher that is opened before and closed after.
  void With(const ProcessLauncher::Options& options,
            const std::function<Task<void>(tests::TestLoop&, ProcessLauncher&)>& body) {
    tests::RunOnLoop([&](tests::TestLoop& loop) -> Task<void> {
      auto launcher = ProcessLauncher::Open(loop, options);
      if (!launcher.ok()) {
        ADD_FAILURE() << launcher.status();
        co_return;
      }
      ProcessLauncher& open = loop.Keep(std::move(*launcher));
      co_await body(loop, open);
      co_await open.Close();
    });
  }
  void With(const std::function<Task<void>(tests::TestLoop&, ProcessLauncher&)>& body) {
    With(Options(), body);
  }

  static Task<void> MustStart(ProcessLauncher& launcher, RunSpec spec) {
    const absl::Status started = co_await launcher.Start(std::move(spec));
    EXPECT_TRUE(started.ok()) << started;
  }
  static Task<void> MustStop(ProcessLauncher& launcher, std::string id, conf::Duration grace) {
    const absl::Status stopped = co_await launcher.Stop(std::move(id), grace);
    EXPECT_TRUE(stopped.ok()) << stopped;
  }
  static Task<RunStatus> StatusOf(ProcessLauncher& launcher, std::string id) {
    const auto all = co_await launcher.List();
    for (const RunStatus& run : *all) {
      if (run.id == id) co_return run;
    }
    co_return RunStatus{};
  }
  // Its status once it is in that state, or after long enough as it is then.
  static Task<RunStatus> Until(tests::TestLoop& loop, ProcessLauncher& launcher, std::string id,
                               RunState state) {
    const conf::TimePoint deadline = gateway::net::Now() + seconds(20);
    gateway::net::Sleep sleep(loop.watchdog);
    while (true) {
      RunStatus status = co_await StatusOf(launcher, id);
      if (status.state == state || gateway::net::Now() > deadline) co_return status;
      co_await sleep.For(gateway::net::Watchdog::kTick);
    }
  }

  tests::TempDir dir_;
  tests::OwnPorts ports_;
};

}  // namespace plugins::launchers
