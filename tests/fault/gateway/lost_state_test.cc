// A store that is gone or damaged, beside a replica and a job that run: the gateway starts nothing and ends
// nothing, and after `tidegate state rebuild` it goes on with both.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "gateway/net/process_handle.h"
#include "gateway/store/sqlite.h"
#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kLong{40'000};

// Notes its pid, and ends well when it is told to.
constexpr std::string_view kWork = R"(#!/bin/sh
echo $$ >> "pids.$TIDEGATE_JOB"
while [ ! -e finish ]; do sleep 0.05; done
)";

enum class Damage { kGone, kGoneButItsLog, kEmpty, kCut, kGarbage };

struct Finished {
  int code = -1;
  std::string out;
};

class LostState : public testing::TestWithParam<Damage> {
 protected:
  LostState()
      : scaled_({.replicas = "{min: 1, max: 1}", .more = "placement: {devices: [{kind: gpu, count: 1}]}\n"},
                "cluster: [{kind: gpu, count: 4}], on_exit: keep") {
    std::ofstream(folder_ / "work.sh") << kWork;
  }
  ~LostState() override {
    std::ofstream(folder_ / "finish") << "now";
    EXPECT_TRUE(commands_.CancelAll());
    scaled_.KeepNothing();
  }

  GatewayProcess& gateway() { return scaled_.gateway; }
  std::string store() { return gateway().state_dir() + "/state.db"; }

  // The program to its end, as an operator would start it.
  Finished Run(std::vector<std::string> words) {
    words.insert(words.begin(), TIDEGATE_BINARY);
    words.insert(words.end(), {"--config", gateway().config_path()});
    const std::string output = folder_ / fmt::format("output.{}", ++runs_);
    ChildProcess process(std::move(words), output);
    const std::optional<int> status = process.Wait(kLong);
    EXPECT_TRUE(status && WIFEXITED(*status)) << process.Output();
    return {status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1, process.Output()};
  }

  std::string Submit(std::string_view more) {
    return commands_.Submit(
        fmt::format("name: work\ndirectory: {}\ncommand: [/bin/sh, work.sh]\n{}", folder_.path(), more));
  }
  std::vector<pid_t> Started(const std::string& job) const {
    std::ifstream file(folder_ / fmt::format("pids.{}", job));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
  }
  static bool Runs(pid_t pid) {
    const auto stat = gateway::net::ReadProcessStat(pid);
    return stat && !stat->gone();
  }
  int Recorded(std::string_view action) const { return scaled_.Names(action); }

  void DamageStore(Damage damage) {
    // With all of it in the one file, as after an orderly end.
    ASSERT_TRUE(gateway::sqlite::Database::Open(store(), gateway::sqlite::Database::Sync::kFull).ok());
    const auto size = std::filesystem::file_size(store());
    switch (damage) {
      case Damage::kGone:
        std::filesystem::remove(store());
        return;
      case Damage::kGoneButItsLog:
        std::filesystem::rename(store(), store() + "-wal");
        return;
      case Damage::kEmpty:
        return std::filesystem::resize_file(store(), 0);
      case Damage::kCut:
        return std::filesystem::resize_file(store(), size / 2);
      case Damage::kGarbage: {
        std::fstream file(store(), std::ios::binary | std::ios::in | std::ios::out);
        for (size_t page = 1; page < size / 4096; ++page) {
          file.seekp(static_cast<std::streamoff>(page * 4096));
          for (size_t i = 0; i < 4096; ++i) file.put(static_cast<char>(page * 31 + i * 7));
        }
        return;
      }
    }
  }

  TempDir folder_;
  Scaled scaled_;
  JobCommands commands_{scaled_.gateway};
  int runs_ = 0;
};

TEST_P(LostState, EndsNothingAndIsRebuiltWithWhatRuns) {
  ASSERT_TRUE(scaled_.Becomes(1, "ready", kLong)) << gateway().process().Output();
  const std::string replica = scaled_.Replicas()[0]["id"];
  const std::string runs = Submit("devices: [{kind: gpu, count: 2}]\n");
  const std::string waits = Submit("devices: [{kind: gpu, count: 2}]\n");
  ASSERT_TRUE(commands_.Comes(runs, "running")) << commands_.Explain(runs);
  ASSERT_TRUE(Within(kLong, [&] { return Started(runs).size() == 1; }));
  const pid_t pid = Started(runs).front();
  const std::string key = Run({"keys", "create", "--tenant", "demo", "--name", "app"}).out.substr(3, 10);
  ASSERT_TRUE(Within(kLong, [&] {
    return std::ranges::any_of(gateway().Records(), [](const auto& r) { return r.kind == Kind::kKey; });
  }));
  gateway().Kill();
  DamageStore(GetParam());

  const Finished refused = Run({"serve"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, AllOf(HasSubstr(store()), HasSubstr("tidegate state rebuild --config")));
  EXPECT_EQ(Run({"keys", "list"}).code, 1) << "nor does a command begin a new store";
  EXPECT_TRUE(Runs(pid));

  const Finished rebuilt = Run({"state", "rebuild", "--json"});
  ASSERT_EQ(rebuilt.code, 0) << rebuilt.out;
  const Json report = conf::ParseJson(rebuilt.out);
  ASSERT_TRUE(report.is_object()) << rebuilt.out;
  EXPECT_EQ(report["replicas"], Json::array({replica}));
  EXPECT_EQ(report["jobs"]["running"], Json::array({runs}));
  EXPECT_EQ(report["jobs"]["waiting"], Json::array({waits}));
  EXPECT_EQ(report["keys"].get<int>() + static_cast<int>(report["lost_keys"].size()), 1) << report;
  if (report["keys"] == 0) EXPECT_EQ(report["lost_keys"][0]["id"], key);
  const bool was_there = GetParam() != Damage::kGone && GetParam() != Damage::kGoneButItsLog;
  if (was_there) EXPECT_TRUE(std::filesystem::exists(report["kept_as"].get<std::string>()));
  if (GetParam() == Damage::kGone || GetParam() == Damage::kEmpty)
    EXPECT_EQ(report["learned_anew"], Json::array({"chat-small"}));
  EXPECT_TRUE(Runs(pid));

  gateway().Start();
  ASSERT_TRUE(scaled_.Becomes(1, "ready", kLong)) << gateway().process().Output();
  EXPECT_EQ(scaled_.Replicas()[0]["id"], replica);
  EXPECT_TRUE(commands_.Comes(runs, "running")) << commands_.Explain(runs);
  EXPECT_TRUE(commands_.Comes(waits, "pending", 0)) << commands_.Explain(waits);
  EXPECT_TRUE(Runs(pid));
  std::ofstream(folder_ / "finish") << "now";
  EXPECT_TRUE(commands_.Comes(runs, "done")) << commands_.Explain(runs);
  EXPECT_TRUE(commands_.Comes(waits, "done")) << commands_.Explain(waits);
  EXPECT_EQ(Started(runs).size(), 1u) << "it was started twice";
  EXPECT_EQ(Recorded("replica.launch"), 1);
  EXPECT_EQ(Recorded("replica.stop"), 0);
  const std::string next = Submit("devices: [{kind: gpu, count: 1}]\n");
  EXPECT_NE(next, runs);
  EXPECT_NE(next, waits);
  EXPECT_TRUE(gateway().Verify().ok());
}

INSTANTIATE_TEST_SUITE_P(Each, LostState,
                         testing::Values(Damage::kGone, Damage::kGoneButItsLog, Damage::kEmpty, Damage::kCut,
                                         Damage::kGarbage));

TEST_F(LostState, ARebuildIsRefusedWhileAGatewayRunsAndWhileTheStoreIsSound) {
  const Finished beside = Run({"state", "rebuild"});
  EXPECT_EQ(beside.code, 1);
  EXPECT_THAT(beside.out, HasSubstr("another gateway runs"));
  gateway().Kill();
  const Finished sound = Run({"state", "rebuild"});
  EXPECT_EQ(sound.code, 1);
  EXPECT_THAT(sound.out, HasSubstr("is sound"));
  gateway().Start();
}

}  // namespace
}  // namespace tests
