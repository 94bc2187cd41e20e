// The disk of state_dir fills up while jobs run: by what they print, or by somebody else. Requests are served
// while there is room for their records; nothing starts without; and what runs can always be ended.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fault/gateway/job_commands.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

using testing::HasSubstr;

constexpr milliseconds kPatience = JobCommands::kPatience;

class FullDiskOfJobs : public testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  }
  void TearDown() override {
    if (!scaled_) return;
    disk_.Empty();
    scaled_->gateway.Kill();
    scaled_->gateway.Start();
    EXPECT_TRUE(commands_->CancelAll());
    EXPECT_TRUE(scaled_->gateway.Verify().ok());
  }

  // Its disk holds what a gateway keeps for itself, some 40 MiB, and little more.
  void Serve(const std::string& runs, const std::string& min_free = "4MiB") {
    scaled_ = std::make_unique<Scaled>(
        ScaledModel{.replicas = "{min: 0, max: 1}"},
        fmt::format("cluster: [{{kind: gpu, count: 4}}], runs: {{same_user: true{}}}", runs),
        GatewayConfig{.replicas = {},
                      .ledger = fmt::format("min_free_bytes: {}, segment_bytes: 1MiB", min_free),
                      .models = fmt::format("  - {{name: fixed, endpoints: [{{name: f0, url: "
                                            "http://127.0.0.1:{}, engine: vllm}}]}}\n",
                                            engine_.port()),
                      .state_dir = disk_.path() + "/state"});
    commands_ = std::make_unique<JobCommands>(scaled_->gateway);
    ASSERT_TRUE(Within(kPatience, [&] { return commands_->Run({"jobs", "list"}).code == 0; }));
    EXPECT_EQ(Ask().status, 200) << Ask().body;
  }
  Answer Ask() const { return scaled_->gateway.Ask(Chat({{"model", "fixed"}, {"max_tokens", 1}})); }
  std::string Submit(std::string_view name, std::string_view script, int devices = 1) const {
    return commands_->Submit(
        fmt::format("name: {}\ndevices: [{{count: {}}}]\nrestarts: 0\ncommand: [/bin/sh, -c, '{}']\n", name,
                    devices, script));
  }
  // Prints that it has run, and waits to be told to end.
  std::string SubmitWaiting(std::string_view name, int devices = 1) const {
    return Submit(name,
                  fmt::format("echo ran >>{0}/{1}; while [ ! -e {0}/{1}.end ]; do sleep 0.02; done",
                              folder_.path(), name),
                  devices);
  }
  void End(std::string_view name) const { std::ofstream(folder_ / (std::string(name) + ".end")) << "x"; }
  uint64_t BytesOfLogs(const std::string& folder) const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      if (name == "log" || name == "log.1" || name.ends_with(".log") || name.ends_with(".log.1"))
        bytes += entry.file_size();
    }
    return bytes;
  }
  Json Ready() const { return scaled_->gateway.AskAdmin(Get("/readyz")).json(); }

  const SmallDisk disk_{128};
  TempDir folder_;
  EngineProcess engine_{{"--model", "fixed"}};
  std::unique_ptr<Scaled> scaled_;
  std::unique_ptr<JobCommands> commands_;
};

constexpr char kTwoMegabytes[] = "yes flood | head -c 2000000";

TEST_F(FullDiskOfJobs, LogsOfJobsThatHaveEndedMakeRoomForThoseThatRun) {
  Serve(", log_mib: 1, logs_mib: 4");
  std::vector<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(Submit(fmt::format("floods-{}", i), kTwoMegabytes));
    ASSERT_TRUE(commands_->Comes(ids.back(), "done")) << commands_->Explain(ids.back());
  }
  const std::string runs = scaled_->gateway.state_dir() + "/launcher/runs";
  EXPECT_TRUE(Within(kPatience, [&] { return BytesOfLogs(runs) <= uint64_t{4} << 20; })) << BytesOfLogs(runs);
  EXPECT_THAT(commands_->Run({"jobs", "logs", ids.back()}).out, HasSubstr("flood"));
  EXPECT_THAT(commands_->Run({"jobs", "logs", ids.front()}).out, HasSubstr("scaling.runs.logs_mib"));
}

TEST_F(FullDiskOfJobs, LogsMayLieOnAnotherDisk) {
  const SmallDisk other(8);
  ASSERT_TRUE(other.mounted());
  Serve(fmt::format(", log_mib: 64, logs_mib: 128, logs_dir: {}/logs", other.path()));
  const std::string id = Submit("floods", "yes flood | head -c 20000000");
  ASSERT_TRUE(commands_->Comes(id, "done")) << commands_->Explain(id);
  EXPECT_THAT(commands_->Run({"jobs", "logs", id}).out, HasSubstr("flood"));
  EXPECT_GT(BytesOfLogs(other.path() + "/logs"), uint64_t{4} << 20);
  EXPECT_EQ(BytesOfLogs(scaled_->gateway.state_dir()), 0u);
  EXPECT_EQ(Ask().status, 200);
  const std::string next = Submit("small", "echo more");
  EXPECT_TRUE(commands_->Comes(next, "done")) << "its log is full, and its disk is not";
}

// No file of it is large.
TEST_F(FullDiskOfJobs, AJobThatFillsItsFolderWithFilesHoldsNobodyUpWhereThatIsAnotherDisk) {
  const SmallDisk other(16);
  ASSERT_TRUE(other.mounted());
  Serve("");
  const std::string id = commands_->Submit(fmt::format(
      "name: hoards\ndirectory: {}\nrestarts: 0\ncommand: [/bin/sh, -c, 'i=0; while head -c 65536 "
      "/dev/zero >f$i; do i=$((i+1)); done 2>/dev/null; echo full; exec sleep 1000']\n",
      other.path()));
  ASSERT_TRUE(Within(kPatience, [&] {
    return commands_->Run({"jobs", "logs", id}).out.find("full") != std::string::npos;
  })) << commands_->Explain(id);
  EXPECT_LT(other.free(), uint64_t{1} << 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask().status, 200);
  EXPECT_EQ(Ready()["ready"], true);
  EXPECT_EQ(commands_->Run({"jobs", "cancel", id}).code, 0);
  EXPECT_TRUE(commands_->Comes(id, "cancelled"));
}

TEST_F(FullDiskOfJobs, AFloodThatRunsLeavesRoomForRecords) {
  Serve(", log_mib: 1024, logs_mib: 65536", "24MiB");
  const std::string id = Submit("floods", "yes flood");
  ASSERT_TRUE(commands_->Comes(id, "running"));
  const std::string log = scaled_->gateway.state_dir() + "/launcher/runs";
  const uint64_t free = disk_.free();
  EXPECT_TRUE(Within(kPatience, [&] { return BytesOfLogs(log) + (uint64_t{30} << 20) >= free; }));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask().status, 200);
  EXPECT_GE(disk_.free(), uint64_t{24} << 20);
  EXPECT_EQ(commands_->Run({"jobs", "cancel", id}).code, 0);
  EXPECT_TRUE(commands_->Comes(id, "cancelled"));
}

TEST_F(FullDiskOfJobs, NothingStartsBelowMinFreeBytesAndTheLoopHealsByItself) {
  Serve("");
  const std::string first = SubmitWaiting("first", 4);
  ASSERT_TRUE(commands_->Comes(first, "running"));
  const std::string second = SubmitWaiting("second", 4);
  disk_.Fill(uint64_t{2} << 20);
  ASSERT_TRUE(Within(kPatience, [&] { return scaled_->gateway.Metric("tidegate_disk_low") == 1; }));

  std::ofstream(folder_ / "third.yaml") << "name: third\ncommand: [/bin/true]\n";
  const CliResult refused = commands_->Run({"jobs", "submit", folder_ / "third.yaml"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("min_free_bytes"));
  EXPECT_EQ(Ask().code(), "ledger_unavailable");
  const Json ready = Ready();
  EXPECT_EQ(ready["ready"], false);
  EXPECT_THAT(ready["degraded"].dump(), HasSubstr("nothing is started"));

  End("first");
  ASSERT_TRUE(commands_->Comes(first, "done")) << "what ends is settled";
  EXPECT_TRUE(Within(kPatience, [&] {
    return commands_->Explain(second).find("min_free_bytes") != std::string::npos;
  })) << commands_->Explain(second);
  EXPECT_EQ(commands_->StateOf(second), "pending");
  EXPECT_THAT(commands_->Show(second)["reason"].get<std::string>(), HasSubstr("min_free_bytes"));
  const std::string log = scaled_->gateway.process().Output();
  const size_t told = log.find("disk nearly full");
  EXPECT_NE(told, std::string::npos);
  EXPECT_EQ(log.find("disk nearly full", told + 1), std::string::npos) << "once";

  disk_.Empty();
  EXPECT_TRUE(commands_->Comes(second, "running")) << commands_->Explain(second);
  EXPECT_EQ(Ask().status, 200);
  End("second");
  EXPECT_TRUE(commands_->Comes(second, "done"));
}

TEST_F(FullDiskOfJobs, NoReplicaStartsBelowMinFreeBytes) {
  Serve("");
  disk_.Fill(uint64_t{2} << 20);
  ASSERT_TRUE(Within(kPatience, [&] { return scaled_->gateway.Metric("tidegate_disk_low") == 1; }));
  scaled_->WritePolicy({.replicas = "{min: 1, max: 1}"});
  scaled_->gateway.Reload();
  EXPECT_TRUE(Within(kPatience, [&] {
    const Json replicas = scaled_->Replicas();
    return replicas.size() == 1 && replicas.dump().find("min_free_bytes") != std::string::npos;
  })) << scaled_->Replicas();
  EXPECT_EQ(scaled_->Replicas()[0]["state"], "waiting");
  disk_.Empty();
  EXPECT_TRUE(scaled_->Becomes(1, "ready"));
}

TEST_F(FullDiskOfJobs, OnAFullDiskJobsAreCancelledAndSettledAndItEndsAndStartsAgain) {
  Serve("");
  const std::string cancelled = SubmitWaiting("cancelled");
  const std::string ends = SubmitWaiting("ends");
  const std::string ends_meanwhile = SubmitWaiting("ends-meanwhile");
  const std::string stays = SubmitWaiting("stays");
  for (const std::string& id : {cancelled, ends, ends_meanwhile, stays})
    ASSERT_TRUE(commands_->Comes(id, "running"));
  disk_.Fill();
  ASSERT_TRUE(Within(kPatience, [&] { return scaled_->gateway.Metric("tidegate_disk_low") == 1; }));
  EXPECT_EQ(disk_.free(), 0u);

  const CliResult cancel = commands_->Run({"jobs", "cancel", cancelled});
  EXPECT_EQ(cancel.code, 0) << cancel.err;
  EXPECT_TRUE(commands_->Comes(cancelled, "cancelled")) << commands_->Explain(cancelled);
  End("ends");
  EXPECT_TRUE(commands_->Comes(ends, "done")) << commands_->Explain(ends);
  EXPECT_EQ(Ask().code(), "ledger_unavailable");

  // SIGTERM ends it. What was given back is taken by somebody else at once.
  EXPECT_EQ(scaled_->gateway.Stop(milliseconds(60'000)), 0) << scaled_->gateway.process().Output();
  End("ends-meanwhile");
  disk_.Fill();
  scaled_->gateway.Start();
  if (HasFatalFailure()) return;
  const Answer ready = scaled_->gateway.AskAdmin(Get("/readyz"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, HasSubstr("min_free_bytes"));
  EXPECT_EQ(Ask().code(), "ledger_unavailable");
  EXPECT_TRUE(commands_->Comes(ends_meanwhile, "done")) << commands_->Explain(ends_meanwhile);
  EXPECT_EQ(commands_->StateOf(ends), "done");
  EXPECT_EQ(commands_->StateOf(stays), "running");
  const CliResult second = commands_->Run({"jobs", "cancel", stays});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(commands_->Comes(stays, "cancelled")) << commands_->Explain(stays);

  // Killed, and started once more on a disk that is full to the last page.
  scaled_->gateway.Kill();
  disk_.Fill();
  scaled_->gateway.Start();
  if (HasFatalFailure()) return;
  EXPECT_TRUE(Within(kPatience, [&] { return commands_->StateOf(stays) == "cancelled"; }))
      << commands_->StateOf(stays) << scaled_->gateway.process().Output();
  disk_.Empty();
  EXPECT_TRUE(Within(kPatience, [&] { return Ask().status == 200; }));
  EXPECT_EQ(Ready()["ready"], true);
  for (const char* name : {"ends", "ends-meanwhile", "stays"})
    EXPECT_EQ(ReadFile(folder_ / name), "ran\n") << "once";
}

TEST_F(FullDiskOfJobs, AJobThatEndedBeforeItWasSettledRunsOnce) {
  Serve("");
  const std::string id = SubmitWaiting("short");
  ASSERT_TRUE(commands_->Comes(id, "running"));
  disk_.Fill();
  scaled_->gateway.process().Signal(SIGSTOP);
  End("short");
  EXPECT_TRUE(Within(kPatience, [&] {
    std::string all;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(scaled_->gateway.state_dir() + "/launcher/runs"))
      if (entry.path().filename() == "result") all += ReadFile(entry.path());
    return all.find("\"ended\"") != std::string::npos;
  }));
  scaled_->gateway.Kill();
  scaled_->gateway.Start();
  if (HasFatalFailure()) return;
  EXPECT_TRUE(commands_->Comes(id, "done")) << commands_->Explain(id);
  disk_.Empty();
  scaled_->gateway.Restart();
  EXPECT_TRUE(commands_->Comes(id, "done"));
  EXPECT_EQ(ReadFile(folder_ / "short"), "ran\n");
}

// 24 short jobs print 1.5 GB together, each by itself half of the disk; no bound of logs is configured.
TEST_F(FullDiskOfJobs, TwentyFourJobsThatPrintMoreThanTheDiskHolds) {
  Serve("", "8MiB");
  const std::string array = commands_->Submit(
      "name: floods\ndevices: [{count: 1}]\nrestarts: 0\narray: {count: 24}\n"
      "command: [/bin/sh, -c, 'yes flood | head -c 64000000']\n");
  const std::string waits = SubmitWaiting("waits");
  size_t asked = 0;
  const bool ended = Within(kPatience * 2, [&] {
    ++asked;
    EXPECT_EQ(Ask().status, 200);
    return commands_->List(false).size() == 1;
  });
  EXPECT_TRUE(ended) << commands_->Run({"jobs", "list"}).out;
  EXPECT_GT(asked, 1u);
  size_t done = 0;
  for (const Json& job : commands_->List(true)) done += job["state"] == "done" ? 1 : 0;
  EXPECT_EQ(done, 24u);
  EXPECT_EQ(commands_->Run({"jobs", "cancel", waits}).code, 0);
  EXPECT_TRUE(commands_->Comes(waits, "cancelled"));
  EXPECT_EQ(scaled_->gateway.Stop(milliseconds(60'000)), 0);
  scaled_->gateway.Start();
  if (HasFatalFailure()) return;
  EXPECT_EQ(Ask().status, 200);
}

}  // namespace
}  // namespace tests
