// Jobs through the real gateway and command line: a gang of processes beside a replica on declared devices,
// what becomes of it when room is needed, and when the gateway is killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "gateway/net/process_handle.h"
#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr milliseconds kLongJob{40'000};

// Counts its steps; on USR1 it writes down how far it has come, and ends. With FAILS, only its second attempt
// ends well.
constexpr std::string_view kTraining = R"(#!/bin/sh
step=0
if [ -n "$FAILS" ]; then
  echo "attempt $TIDEGATE_ATTEMPT begins"; sleep 0.7; echo "attempt $TIDEGATE_ATTEMPT ends"
  [ "$TIDEGATE_ATTEMPT" = 2 ]; exit $?
fi
if [ "$1" = --resume ]; then step=$(cat "saved.$RANK"); fi
echo "rank $RANK of $WORLD_SIZE, attempt $TIDEGATE_ATTEMPT, begins at step $step"
echo $$ >> "pids.$TIDEGATE_ATTEMPT"
save() { echo $step > "saved.$RANK.new" && mv "saved.$RANK.new" "saved.$RANK"; echo "saved $step"; exit 0; }
trap save USR1
while :; do step=$((step + 1)); sleep 0.05; done
)";

class JobsFault : public testing::Test {
 protected:
  JobsFault()
      : scaled_({.replicas = "{min: 0, max: 1}", .more = "placement: {devices: [{kind: gpu, count: 2}]}\n"},
                "cluster: [{kind: gpu, count: 8}]") {
    std::ofstream(folder_ / "train.sh") << kTraining;
    EXPECT_TRUE(Within(kLongJob, [&] { return Tidegate({"jobs", "list"}).code == 0; }))
        << Tidegate({"jobs", "list"}).err;
  }
  ~JobsFault() override { EXPECT_TRUE(commands_.CancelAll()); }

  CliResult Tidegate(std::vector<std::string> args) const { return commands_.Run(std::move(args)); }
  std::string Submit(std::string_view more) {
    return commands_.Submit(
        fmt::format("name: gang\ndirectory: {}\ncommand: [/bin/sh, train.sh]\n{}", folder_.path(), more));
  }
  Json Show(const std::string& id) const { return commands_.Show(id); }
  bool Comes(const std::string& id, std::string_view state, uint32_t attempt = 1) const {
    return commands_.Comes(id, state, attempt);
  }
  // Processes of the attempt, of all jobs in the folder.
  std::vector<pid_t> Started(int attempt) const {
    std::ifstream file(folder_ / fmt::format("pids.{}", attempt));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
  }
  size_t Running(int attempt) const {
    return static_cast<size_t>(std::ranges::count_if(Started(attempt), [](pid_t pid) {
      const auto stat = gateway::net::ReadProcessStat(pid);
      return stat && !stat->gone();  // the parent of what outlived a gateway need not look after it
    }));
  }
  std::vector<std::string> Actions(std::string_view subject) const {
    std::vector<std::string> actions;
    for (const auto& record : gateway().Records()) {
      if (record.kind == gateway::ledger::Kind::kAction && record.subject == subject)
        actions.push_back(record.action);
    }
    return actions;
  }

  GatewayProcess& gateway() { return scaled_.gateway; }
  const GatewayProcess& gateway() const { return scaled_.gateway; }

  TempDir folder_;
  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
};

constexpr std::string_view kWhole =
    "members: 4\ndevices: [{kind: gpu, count: 2}]\n"
    "checkpoint: {grace: 30s, interval: 1h, resume: [/bin/sh, train.sh, --resume]}\n";

TEST_F(JobsFault, AGangRunsIsListedExplainedReadAndCancelled) {
  const std::string id = Submit(kWhole);
  ASSERT_TRUE(Comes(id, "running")) << Tidegate({"jobs", "explain", id}).out << gateway().process().Output();
  ASSERT_TRUE(Within(kLongJob, [&] { return Running(1) == 4; }));
  EXPECT_TRUE(Within(kLongJob, [&] {
    return Tidegate({"jobs", "logs", id, "--rank", "3"}).out.find("rank 3 of 4, attempt 1") !=
           std::string::npos;
  })) << Tidegate({"jobs", "logs", id, "--rank", "3"}).err;
  EXPECT_THAT(Tidegate({"nodes"}).out, HasSubstr("7:" + id));

  const std::string second = Submit(kWhole);
  EXPECT_TRUE(Within(kLongJob, [&] {
    return Tidegate({"jobs", "explain", second}).out.find("gpu") != std::string::npos;
  })) << Tidegate({"jobs", "explain", second}).out;
  EXPECT_EQ(Show(second)["state"], "pending");
  EXPECT_THAT(Tidegate({"queues", "--json"}).out, HasSubstr("\"used\":8"));

  EXPECT_EQ(Tidegate({"jobs", "cancel", id}).code, 0);
  ASSERT_TRUE(Comes(id, "cancelled"));
  ASSERT_TRUE(Comes(second, "running"));
  EXPECT_EQ(Tidegate({"jobs", "cancel", id}).code, 1);
  EXPECT_EQ(Tidegate({"jobs", "cancel", "gang-99"}).code, 2);
  EXPECT_THAT(Actions(id), testing::ElementsAre("job.submit", "job.start", "job.cancel", "job.ended"));
}

TEST_F(JobsFault, ALogIsFollowedThroughAllAttemptsUntilTheJobIsOver) {
  const std::string id = Submit("env: {FAILS: \"1\"}\nrestarts: 1\n");
  const CliResult followed = Tidegate({"jobs", "logs", id, "--follow"});
  EXPECT_EQ(followed.code, 0) << followed.err;
  EXPECT_EQ(followed.out, "attempt 1 begins\nattempt 1 ends\nattempt 2 begins\nattempt 2 ends\n");
  EXPECT_EQ(Show(id)["state"], "done");
}

TEST_F(JobsFault, AGangMakesRoomForAReplicaAndResumesFromItsCheckpoint) {
  const std::string id = Submit(kWhole);
  ASSERT_TRUE(Comes(id, "running"));
  ASSERT_TRUE(Within(kLongJob, [&] { return Running(1) == 4; }));
  const Answer answer = gateway().Connect().Ask(
      Post("/v1/chat/completions", R"({"model":"chat-small","messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_THAT(Actions(id), Contains("job.preempt"));
  // When nobody asks any more the replica goes, and the gang is back.
  ASSERT_TRUE(Comes(id, "running", 2)) << Tidegate({"jobs", "explain", id}).out;
  EXPECT_TRUE(Within(kLongJob, [&] {
    const std::string log = Tidegate({"jobs", "logs", id}).out;
    return log.find("attempt 2, begins at step ") != std::string::npos &&
           log.find("begins at step 0") == std::string::npos;
  })) << Tidegate({"jobs", "logs", id}).out;
  EXPECT_THAT(Tidegate({"jobs", "logs", id, "--before"}).out, HasSubstr("saved "));
}

TEST_F(JobsFault, AfterAKillGangsAreTakenOverAndNothingIsDoubled) {
  const std::string id = Submit(kWhole);
  ASSERT_TRUE(Comes(id, "running"));
  ASSERT_TRUE(Within(kLongJob, [&] { return Running(1) == 4; }));
  const std::string second = Submit(kWhole);
  gateway().Restart();
  ASSERT_TRUE(Comes(id, "running")) << gateway().process().Output();
  EXPECT_TRUE(Comes(second, "pending", 0));
  EXPECT_EQ(Started(1).size(), 4u);
  EXPECT_EQ(Running(1), 4u);
  EXPECT_EQ(Tidegate({"jobs", "suspend", id}).code, 0);
  gateway().Restart();
  ASSERT_TRUE(Comes(id, "suspended"));
  ASSERT_TRUE(Comes(second, "running"));
  ASSERT_TRUE(Within(kLongJob, [&] { return Running(1) == 4; }));
  EXPECT_EQ(Started(1).size(), 8u);  // its and the second's
  EXPECT_TRUE(gateway().Verify().ok());
}

TEST_F(JobsFault, ACordonSurvivesAKillAndRunningWorkContinues) {
  const std::string id = Submit("members: 1\ndevices: [{kind: gpu, count: 6}]\n");
  ASSERT_TRUE(Comes(id, "running"));
  ASSERT_TRUE(Within(kLongJob, [&] { return Started(1).size() == 1; }));
  const CliResult cordoned = Tidegate({"nodes", "cordon", "local", "--reason", "its fan is replaced"});
  EXPECT_EQ(cordoned.code, 0) << cordoned.err;
  gateway().Kill();
  gateway().Start();
  ASSERT_TRUE(Comes(id, "running")) << gateway().process().Output();
  EXPECT_THAT(Tidegate({"nodes"}).out,
              testing::AllOf(HasSubstr("cordoned"), HasSubstr("its fan is replaced")));
  const std::string second = Submit("members: 1\ndevices: [{kind: gpu, count: 1}]\n");
  EXPECT_TRUE(Within(kLongJob, [&] {
    return Tidegate({"jobs", "explain", second}).out.find("local gets no new work") != std::string::npos;
  })) << Tidegate({"jobs", "explain", second}).out;
  EXPECT_EQ(Show(second)["state"], "pending");
  EXPECT_EQ(Started(1).size(), 1u);
  EXPECT_EQ(Tidegate({"nodes", "uncordon", "local"}).code, 0);
  EXPECT_TRUE(Comes(second, "running")) << Tidegate({"jobs", "explain", second}).out;
  EXPECT_EQ(Tidegate({"nodes", "uncordon", "local"}).code, 1) << "it is not cordoned";
  EXPECT_THAT(Actions("local"), testing::ElementsAre("node.cordon", "node.uncordon"));
}

TEST_F(JobsFault, ADrainedNodeIsEmptyAndStaysSoAfterAKill) {
  const std::string id = Submit(
      "members: 1\ndevices: [{kind: gpu, count: 6}]\n"
      "checkpoint: {grace: 30s, interval: 1h, resume: [/bin/sh, train.sh, --resume]}\n");
  ASSERT_TRUE(Comes(id, "running"));
  ASSERT_TRUE(Within(kLongJob, [&] { return Started(1).size() == 1; }));
  const CliResult drained = Tidegate({"nodes", "drain", "local", "--reason", "new firmware"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  ASSERT_TRUE(Comes(id, "pending")) << Tidegate({"jobs", "explain", id}).out;
  EXPECT_THAT(Tidegate({"nodes"}).out, testing::AllOf(HasSubstr("drained"), HasSubstr("new firmware")));
  gateway().Restart();
  ASSERT_TRUE(Comes(id, "pending")) << gateway().process().Output();
  EXPECT_THAT(Tidegate({"nodes"}).out, HasSubstr("drained"));
  EXPECT_EQ(Tidegate({"nodes", "undrain", "local"}).code, 0);
  ASSERT_TRUE(Comes(id, "running", 2)) << Tidegate({"jobs", "explain", id}).out;
  EXPECT_EQ(Show(id)["restarts"], 0);
  EXPECT_EQ(Tidegate({"nodes", "undrain", "local"}).code, 1) << "it is not drained";
  EXPECT_THAT(Actions("local"), testing::ElementsAre("node.drain", "node.undrain"));
}

TEST_F(JobsFault, APausedModelRefusesRequestsAlsoAfterAKill) {
  const CliResult paused = Tidegate({"models", "pause", "chat-small", "--reason", "new weights"});
  EXPECT_EQ(paused.code, 0) << paused.err;
  EXPECT_THAT(Tidegate({"models"}).out, HasSubstr("new weights"));
  gateway().Restart();
  const Answer refused = gateway().Ask(Chat({{"max_tokens", 1}}));
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(refused.code(), "model_paused") << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("new weights"));
  EXPECT_EQ(Tidegate({"models", "resume", "chat-small"}).code, 0);
  EXPECT_EQ(gateway().Ask(Chat({{"max_tokens", 1}})).status, 200);
  EXPECT_EQ(Tidegate({"models", "resume", "chat-small"}).code, 1) << "it is not paused";
  EXPECT_THAT(Actions("chat-small"), testing::ElementsAre("model.pause", "model.resume"));
}

}  // namespace
}  // namespace tests
