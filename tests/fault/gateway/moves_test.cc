// Moves of running work through the real gateway: a gang that waits gets a whole node since a training and a replica
// move, no request fails meanwhile, and a kill in the middle loses nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "gateway/net/process_handle.h"
#include "tests/fault/gateway/job_commands.h"
#include "tests/fault/gateway/moving.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::HasSubstr;

constexpr milliseconds kLong{60'000};

constexpr std::string_view kFourNodes = R"(devices: [{name: gpu, memory: 16GiB}]
types: [{name: box, cpu: 64, memory: 512GiB, device: gpu, count: 2}]
nodes: [{name: "n{1..4}", type: box}]
)";
constexpr std::string_view kSpread = "placement: spread\ninference_placement: spread\n";
constexpr std::string_view kMoves = "moves: {per_hour: 20, rest: 1s, least_left: 1s, least_gain: 1s}";

// Counts its steps; on USR1 it writes down how far it has come, and ends.
constexpr std::string_view kSteps = R"(#!/bin/sh
step=0
if [ "$1" = --resume ]; then step=$(cat saved); fi
echo "attempt $TIDEGATE_ATTEMPT on $TIDEGATE_NODE begins at step $step"
echo $$ >> pids
save() { echo $step > saved.new && mv saved.new saved; echo "saved $step"; exit 0; }
trap save USR1
while :; do step=$((step + 1)); sleep 0.05; done
)";

class MovesFault : public testing::Test {
 protected:
  MovesFault() {
    std::ofstream(folder_ / "cluster.yaml") << kFourNodes;
    std::ofstream(folder_ / "planner.yaml") << kSpread;
    std::ofstream(folder_ / "train.sh") << kSteps;
  }
  ScaledModel TwoReplicas() const {
    return {.replicas = "{min: 2, max: 2}",
            .more = "placement: {devices: [{kind: gpu}]}\n",
            .flags = {"--preset", "instant"}};
  }
  // Each replica first runs that line of shell.
  ScaledModel TwoReplicasAfter(std::string_view line) const {
    ScaledModel model = TwoReplicas();
    model.command =
        fmt::format("[/bin/sh, -c, \"{}; exec {} --port {{port}} --model chat-small --preset instant\"]",
                    line, TIDEGATE_ENGINE_BINARY);
    return model;
  }
  std::string Section(std::string_view more = kMoves) const {
    return fmt::format("cluster: {}, planner: {}, {}", folder_ / "cluster.yaml", folder_ / "planner.yaml",
                       more);
  }
  std::string Training(std::string_view kind = "gpu") const {
    return fmt::format(
        "name: train\ndirectory: {}\ncommand: [/bin/sh, train.sh]\ndevices: [{{kind: {}, count: 1}}]\n"
        "estimate: 20h\ncheckpoint: {{grace: 30s, interval: 1h, resume: [/bin/sh, train.sh, --resume]}}\n",
        folder_.path(), kind);
  }
  static std::string Batch(std::string_view name, int devices) {
    return fmt::format(
        "name: {}\nwork: batch\ncommand: [/bin/sleep, \"600\"]\ndevices: [{{kind: gpu, count: {}}}]\n", name,
        devices);
  }
  static std::string Whole(std::string_view name) { return Batch(name, 2); }
  // A job that holds one device.
  static testing::AssertionResult StartFixed(const JobCommands& commands, std::string_view name) {
    const std::string fixed = commands.Submit(Batch(name, 1));
    if (commands.Comes(fixed, "running")) return testing::AssertionSuccess();
    return testing::AssertionFailure() << commands.Explain(fixed);
  }
  size_t TrainingProcesses() const {
    std::ifstream file(folder_ / "pids");
    size_t count = 0;
    for (pid_t pid = 0; file >> pid;) {
      const auto stat = gateway::net::ReadProcessStat(pid);
      count += stat && !stat->gone() ? 1 : 0;
    }
    return count;
  }
  void ExpectResumedOnce(const JobCommands& commands, const std::string& train) const {
    EXPECT_TRUE(Within(kLong, [&] {
      const std::string log = commands.Run({"jobs", "logs", train}).out;
      return log.find("attempt 2 on ") != log.npos && log.find("begins at step 0") == log.npos;
    })) << commands.Run({"jobs", "logs", train}).out;
    EXPECT_EQ(TrainingProcesses(), 1u);
  }

  TempDir folder_;
};

TEST_F(MovesFault, AGangThatNeedsAWholeNodeStartsAfterATrainingAndAReplicaHaveMoved) {
  Scaled scaled(TwoReplicas(), Section());
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  const std::string train = commands.Submit(Training());
  ASSERT_TRUE(commands.Comes(train, "running")) << commands.Explain(train);
  ASSERT_TRUE(StartFixed(commands, "fixed"));
  Callers callers(scaled.gateway);
  std::set<std::string> before;
  const Json first_replicas = scaled.Replicas();
  for (const Json& replica : first_replicas) before.insert(replica["id"]);

  // Every node has one free device. The training is cheaper to move than a replica.
  const std::string first = commands.Submit(Whole("first"));
  ASSERT_TRUE(commands.Comes(first, "running")) << commands.Explain(first) << commands.Explain(train);
  ASSERT_TRUE(commands.Comes(train, "running", 2)) << commands.Explain(train);
  const Json moved = commands.Show(train);
  EXPECT_THAT(moved["gain"].get<std::string>(), HasSubstr("so that " + first + " with 2 devices fits"));
  EXPECT_THAT(commands.Explain(train), HasSubstr("It moved at "));
  ExpectResumedOnce(commands, train);

  // Two devices are left, on two nodes: of one of them a replica has to go.
  const std::string second = commands.Submit(Whole("second"));
  ASSERT_TRUE(commands.Comes(second, "running")) << commands.Explain(second) << scaled.Replicas();
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  callers.End();
  EXPECT_EQ(callers.failed(), 0) << callers.first_failure();
  EXPECT_GT(callers.answered(), 20);
  size_t stayed = 0;
  const Json replicas = scaled.Replicas();
  for (const Json& replica : replicas) {
    stayed += before.count(replica["id"]);
    if (before.contains(replica["id"])) continue;
    EXPECT_THAT(replica["gain"].get<std::string>(), HasSubstr("so that " + second));
  }
  EXPECT_EQ(stayed, 1u) << replicas;
  ExpectNoDeviceTwice(scaled);

  EXPECT_EQ(scaled.gateway.Metric("tidegate_moves_total{of=\"job\"}"), 1);
  EXPECT_EQ(scaled.gateway.Metric("tidegate_moves_total{of=\"replica\"}"), 1);
  EXPECT_EQ(scaled.gateway.Metric("tidegate_replica_moves_ended_total{result=\"done\"}"), 1);
  bool told = false;
  std::vector<std::string> of_train;
  for (const Record& record : scaled.Actions()) {
    if (record.subject == train) of_train.push_back(record.action);
    if (record.action == "job.move") EXPECT_THAT(record.detail, HasSubstr("\"gain\""));
    told |= record.action == "replica.launch" && record.detail.find("\"replaces\"") != record.detail.npos;
  }
  EXPECT_TRUE(told);
  EXPECT_THAT(of_train,
              testing::ElementsAre("job.submit", "job.start", "job.move", "job.ended", "job.start"));
  EXPECT_TRUE(commands.CancelAll());
}

TEST_F(MovesFault, AKillInTheMiddleOfAMoveLosesNothingAndHoldsNoDeviceTwice) {
  // The new replica takes a while, so that the kill comes while both are there.
  const std::string slow = folder_ / "slow";
  Scaled scaled(TwoReplicasAfter(fmt::format("while [ -e {} ]; do sleep 0.1; done", slow)),
                Section("on_exit: keep, "
                        "moves: {per_hour: 20, rest: 15s, least_left: 1s, least_gain: 1s}"));
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  ASSERT_TRUE(StartFixed(commands, "fixed-a"));
  ASSERT_TRUE(StartFixed(commands, "fixed-b"));
  std::ofstream(slow) << "";
  const std::string whole = commands.Submit(Whole("whole"));
  ASSERT_TRUE(Within(kLong, [&] { return scaled.Replicas().size() == 3; })) << commands.Explain(whole);
  std::string next;
  const Json all = scaled.Replicas();
  for (const Json& replica : all) {
    if (replica["replaces"].is_string()) next = replica["id"];
  }
  ASSERT_FALSE(next.empty()) << all;
  EXPECT_EQ(scaled.gateway.Ask(Chat({{"max_tokens", 3}})).status, 200);
  ExpectNoDeviceTwice(scaled);
  Pause(milliseconds(300));

  scaled.gateway.Kill();
  scaled.gateway.Start();
  ASSERT_TRUE(Within(kLong, [&] { return scaled.Replicas().size() == 3; })) << scaled.Replicas();
  ExpectNoDeviceTwice(scaled);
  EXPECT_EQ(commands.StateOf(whole), "pending");
  std::filesystem::remove(slow);
  ASSERT_TRUE(commands.Comes(whole, "running")) << commands.Explain(whole) << scaled.Replicas();
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  const Json after = scaled.Replicas();
  EXPECT_TRUE(std::ranges::any_of(after, [&](const Json& replica) { return replica["id"] == next; }))
      << after;
  ExpectNoDeviceTwice(scaled);
  EXPECT_TRUE(commands.CancelAll());
  scaled.KeepNothing();
}

TEST_F(MovesFault, AKillWhileATrainingSavesToMoveLosesNoWork) {
  Scaled scaled(TwoReplicas(), Section(fmt::format("on_exit: keep, {}", kMoves)));
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  // It saves slowly.
  std::string slow(kSteps);
  slow.replace(slow.find("save() {"), 8, "save() { sleep 2;");
  std::ofstream(folder_ / "train.sh") << slow;
  const std::string train = commands.Submit(Training());
  ASSERT_TRUE(commands.Comes(train, "running")) << commands.Explain(train);
  ASSERT_TRUE(StartFixed(commands, "fixed"));
  const std::string whole = commands.Submit(Whole("whole"));
  ASSERT_TRUE(commands.Comes(train, "saving")) << commands.Explain(whole);
  scaled.gateway.Kill();
  scaled.gateway.Start();
  ASSERT_TRUE(commands.Comes(train, "running", 2)) << commands.Explain(train);
  ASSERT_TRUE(commands.Comes(whole, "running")) << commands.Explain(whole);
  ExpectResumedOnce(commands, train);
  ExpectNoDeviceTwice(scaled);
  EXPECT_TRUE(commands.CancelAll());
  scaled.KeepNothing();
}

TEST_F(MovesFault, AReplicaWhoseSuccessorFailsStaysAndServes) {
  const std::string broken = folder_ / "broken";
  Scaled scaled(TwoReplicasAfter(fmt::format("if [ -e {} ]; then exit 3; fi", broken)), Section());
  const JobCommands commands(scaled.gateway);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  ASSERT_TRUE(StartFixed(commands, "fixed-a"));
  ASSERT_TRUE(StartFixed(commands, "fixed-b"));
  const Json before = scaled.Replicas();
  std::ofstream(broken) << "";
  Callers callers(scaled.gateway);
  const std::string whole = commands.Submit(Whole("whole"));
  ASSERT_TRUE(Within(kLong, [&] {
    return scaled.gateway.Metric("tidegate_replica_moves_ended_total{result=\"failed\"}").value_or(0) >= 1;
  })) << commands.Explain(whole);
  ASSERT_TRUE(scaled.Becomes(2, "ready", kLong)) << scaled.Replicas();
  EXPECT_EQ(commands.StateOf(whole), "pending");
  callers.End();
  EXPECT_EQ(callers.failed(), 0) << callers.first_failure();
  ExpectNoDeviceTwice(scaled);
  EXPECT_TRUE(commands.CancelAll());
}

TEST_F(MovesFault, WorkLeavesADeviceWithUncorrectedErrorsAndAnOperatorIsTold) {
  std::filesystem::create_symlink(TIDEGATE_FAKE_NVML, folder_ / "libnvidia-ml.so.1");
  setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
  setenv("FAKE_NVML_FAULTS", (folder_ / "state").c_str(), 1);
  ScaledModel model;
  model.replicas = "{min: 1, max: 1}";
  model.more = "placement: {devices: [{kind: h100, count: 1}]}\n";
  {
    Scaled scaled(model, fmt::format("cluster: probe, {}", kMoves));
    const JobCommands commands(scaled.gateway);
    ASSERT_TRUE(scaled.Becomes(1, "ready", kLong)) << scaled.Replicas();
    const Json before = scaled.Replicas()[0];
    Callers callers(scaled.gateway);
    const std::string train = commands.Submit(Training("h100"));
    ASSERT_TRUE(commands.Comes(train, "running")) << commands.Explain(train);
    const std::string faulty = before["devices"][0].get<std::string>();
    std::ofstream(folder_ / "next") << fmt::format("ecc {} 2\n", faulty);
    std::filesystem::rename(folder_ / "next", folder_ / "state");
    ASSERT_TRUE(Within(kLong, [&] {
      const Json now = scaled.Replicas();
      return now.size() == 1 && now[0]["id"] != before["id"] && now[0]["state"] == "ready";
    })) << scaled.Replicas();
    const Json after = scaled.Replicas()[0];
    EXPECT_NE(after["devices"][0], before["devices"][0]);
    EXPECT_THAT(after["gain"].get<std::string>(), HasSubstr("which has a fault"));
    callers.End();
    EXPECT_EQ(callers.failed(), 0) << callers.first_failure();
    EXPECT_EQ(commands.StateOf(train), "running");
    bool told = false;
    for (const Record& record : scaled.Actions()) {
      if (record.action != "device.quarantine") continue;
      told = true;
      EXPECT_THAT(record.detail,
                  AllOf(HasSubstr("2 uncorrected ECC errors"), HasSubstr(before["id"].get<std::string>())));
    }
    EXPECT_TRUE(told);
    EXPECT_TRUE(commands.CancelAll());
  }
  unsetenv("LD_LIBRARY_PATH");
  unsetenv("FAKE_NVML_FAULTS");
}

}  // namespace
}  // namespace tests
