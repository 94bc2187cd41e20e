// Device time is charged by the times that the wrapper of a run wrote down, within 2 %, also where no gateway saw the
// end of the run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "gateway/ledger/record.h"
#include "plugins/launchers/run_result.h"
#include "tests/fault/gateway/job_commands.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using plugins::launchers::RunResult;

constexpr double kChargedWithin = 0.02;

RunResult WrittenBy(const GatewayProcess& gateway, const std::string& run) {
  const auto result =
      plugins::launchers::ReadResultFile(fmt::format("{}/launcher/runs/{}/result", gateway.state_dir(), run));
  return result.ok() ? *result : RunResult();
}
double SecondsOf(const RunResult& result) {
  return std::chrono::duration<double>(result.end->ended - result.beginning->started).count();
}

class ChargedJob : public testing::Test {
 protected:
  static constexpr int kDevices = 2;

  ChargedJob()
      : scaled_({}, "cluster: [{kind: gpu, count: 4}], on_exit: keep",
                {.replicas = {}, .server = "shutdown_delay: 1500ms"}) {
    job_ = commands_.Submit(
        fmt::format("name: work\ndevices: [{{kind: gpu, count: {}}}]\ncommand: [/bin/sh, -c, "
                    "'while [ ! -e {}/finish ]; do sleep 0.02; done']\n",
                    kDevices, folder_.path()));
    EXPECT_TRUE(commands_.Comes(job_, "running")) << commands_.Explain(job_);
    Pause(milliseconds(1500));  // 2 % of it are more than what times are cut to
  }
  ~ChargedJob() override {
    Finish();
    EXPECT_TRUE(commands_.CancelAll());
    scaled_.KeepNothing();
  }

  std::string run() const { return fmt::format("j-{}-1-0", job_); }
  void Finish() const { std::ofstream(folder_ / "finish") << "now"; }
  bool HasEnded() const {
    return Within(JobCommands::kPatience, [&] { return WrittenBy(scaled_.gateway, run()).end.has_value(); });
  }
  void ExpectCharged() {
    ASSERT_TRUE(commands_.Comes(job_, "done")) << commands_.Explain(job_);
    const RunResult result = WrittenBy(scaled_.gateway, run());
    ASSERT_TRUE(result.beginning && result.end);
    int64_t charged = 0;
    for (const Record& record : scaled_.gateway.Records()) {
      if (record.kind == Kind::kDevices && record.job == job_) charged += record.device_us;
    }
    EXPECT_NEAR(static_cast<double>(charged) * 1e-6 / (kDevices * SecondsOf(result)), 1, kChargedWithin);
    EXPECT_TRUE(scaled_.gateway.Verify().ok());
  }

  TempDir folder_;
  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
  std::string job_;
};

TEST_F(ChargedJob, ThatEndsWhileNoGatewayRuns) {
  scaled_.gateway.Kill();
  Finish();
  ASSERT_TRUE(HasEnded());
  Pause(milliseconds(500));  // which nobody is charged for
  scaled_.gateway.Start();
  ExpectCharged();
}

TEST_F(ChargedJob, ThatEndsWhileNoGatewayRunsAndWhoseNextGatewaysAreKilledToo) {
  scaled_.gateway.Kill();
  Finish();
  ASSERT_TRUE(HasEnded());
  for (const int64_t after : {0, 20, 40, 80}) {
    scaled_.gateway.Start();
    Pause(milliseconds(after));
    scaled_.gateway.Kill();
  }
  scaled_.gateway.Start();
  ExpectCharged();
}

TEST_F(ChargedJob, ThatEndsDuringAShutdown) {
  scaled_.gateway.process().Signal(SIGTERM);
  Finish();
  ASSERT_TRUE(HasEnded());
  EXPECT_TRUE(scaled_.gateway.process().Running()) << "it ended before the job did";
  const std::optional<int> status = scaled_.gateway.process().Wait(JobCommands::kPatience);
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  Pause(milliseconds(500));
  scaled_.gateway.Start();
  ExpectCharged();
}

// Nothing can be recorded, and nothing is released: the time until the disk has room again is not charged.
TEST(ChargedReplica, ThatIsKilledOnAFullDisk) {
  constexpr int kDevices = 2;
  const SmallDisk disk(128);
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  Scaled scaled({.replicas = "{min: 1, max: 1}",
                 .more = fmt::format("placement: {{devices: [{{kind: gpu, count: {}}}]}}\n", kDevices)},
                "cluster: [{kind: gpu, count: 2}]",
                {.replicas = {},
                 .ledger = "min_free_bytes: 4MiB, segment_bytes: 1MiB",
                 .state_dir = disk.path() + "/state"});
  ASSERT_TRUE(scaled.Becomes(1, "ready", JobCommands::kPatience));
  const std::string run = scaled.Replicas()[0]["members"][0]["run"];
  const RunResult before = WrittenBy(scaled.gateway, run);
  ASSERT_TRUE(before.beginning) << run;
  Pause(milliseconds(1500));
  disk.Fill();
  ASSERT_EQ(kill(before.beginning->child, SIGKILL), 0);
  ASSERT_TRUE(Within(JobCommands::kPatience, [&] { return WrittenBy(scaled.gateway, run).end.has_value(); }))
      << "the wrapper needs no room to write the end";
  const RunResult after = WrittenBy(scaled.gateway, run);
  Pause(milliseconds(1000));
  disk.Empty();
  ASSERT_TRUE(Within(JobCommands::kPatience, [&] {
    const Json replicas = scaled.Replicas();
    return replicas.size() == 1 && replicas[0]["state"] == "ready" && replicas[0]["members"][0]["run"] != run;
  })) << scaled.gateway.process().Output();
  // A run ends with a record of its own, so none is of two runs.
  const int64_t end_us = conf::ToUnixMicros(after.end->ended);
  int64_t charged = 0;
  for (const Record& record : scaled.gateway.Records()) {
    if (record.kind == Kind::kDevices && record.model == "chat-small" && record.time_us <= end_us)
      charged += record.device_us;
  }
  EXPECT_NEAR(static_cast<double>(charged) * 1e-6 / (kDevices * SecondsOf(after)), 1, kChargedWithin);
  EXPECT_TRUE(scaled.gateway.Verify().ok());
}

}  // namespace
}  // namespace tests
