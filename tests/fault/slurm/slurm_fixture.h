// A launcher against a real Slurm, and what its tests ask of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/launchers/slurm.h"
#include "tests/support/loop_test.h"
#include "tests/support/slurm_cluster.h"

namespace plugins::launchers {

using namespace std::chrono_literals;
using gateway::net::Now;
using gateway::net::Task;
using tests::RunOnLoop;
using tests::TestLoop;

class SlurmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tests::SlurmCluster::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    cluster_ = std::make_unique<tests::SlurmCluster>(ClusterOptions());
    const std::string wrong = cluster_->Start();
    ASSERT_EQ(wrong, "");
    token_ = cluster_->Token();
  }

  virtual tests::SlurmCluster::Options ClusterOptions() const { return {}; }

  SlurmLauncher::Options Options() const {
    SlurmLauncher::Options options;
    options.server.url = {false, "127.0.0.1", std::to_string(cluster_->rest_port()), "", ""};
    options.server.user = cluster_->user();
    options.server.token = [token = token_]() -> absl::StatusOr<std::string> { return token; };
    options.state = "state-1";
    options.partition = "main";
    options.directory = work();
    options.logs = work();
    options.poll = 200ms;
    return options;
  }

  // Runs `script` in a shell until it is told to end.
  static RunSpec Spec(const std::string& id, const std::string& node, int devices,
                      const std::string& script) {
    RunSpec spec;
    spec.id = id;
    spec.owner = "chat-small";
    spec.tenant = "demo";
    spec.grant.node = node;
    spec.grant.kind = "h100";
    for (int i = 0; i < devices; ++i) spec.grant.devices.push_back(static_cast<uint8_t>(i));
    spec.command = {"/bin/sh", "-c", script, "sh", "{port}"};
    spec.serves = true;
    spec.limit = 10min;
    return spec;
  }
  static constexpr const char* kWait = "while :; do sleep 0.1; done";

  // What List() says of a run, as soon as `condition` holds of it; the last there was, if it does not in
  // time. While Slurm is away it waits, too.
  static Task<std::optional<RunStatus>> Until(TestLoop& loop, SlurmLauncher& launcher, std::string id,
                                              std::function<bool(const RunStatus&)> condition,
                                              conf::Duration patience = 30s) {
    std::optional<RunStatus> last;
    gateway::net::Sleep sleep(loop.watchdog);
    for (const conf::TimePoint deadline = Now() + patience; Now() < deadline;) {
      const auto all = co_await launcher.List();
      if (all.ok()) {
        last.reset();
        for (const RunStatus& status : *all) {
          if (status.id == id) last = status;
        }
        if (last && condition(*last)) co_return last;
      }
      co_await sleep.For(50ms);
    }
    ADD_FAILURE() << "run " << id << ": " << (last ? last->why : "is not there");
    co_return last;
  }
  static bool IsRunning(const RunStatus& status) { return status.state == RunState::kRunning; }
  static bool HasEnded(const RunStatus& status) { return status.state == RunState::kEnded; }

  // Ids of the jobs with a name that are not over, or of all that Slurm knows.
  std::string Jobs(const std::string& name) const {
    return cluster_->Run({"/usr/bin/squeue", "-h", "-n", name, "-o", "%i", "-t", "all"});
  }
  std::string work() const { return cluster_->folder() + "/work"; }
  std::string Log(const std::string& id) const { return tests::ReadFile(work() + "/" + id + ".log"); }
  bool LogHas(const std::string& id, const std::string& text) const {
    return tests::Within(tests::milliseconds(10'000),
                         [&] { return Log(id).find(text) != std::string::npos; });
  }

  std::unique_ptr<tests::SlurmCluster> cluster_;
  std::string token_;
};

}  // namespace plugins::launchers
