// Sweeps through a real Slurm: elements report to files that the gateway shares with the nodes, those that fall behind
// are stopped early, and together they never hold more devices than they may. A job with a data set is run again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "conf/json_parse.h"
#include "plugins/weights/fetch.h"
#include "tests/fault/gateway/job_commands.h"
#include "tests/fault/slurm/slurm_world.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr milliseconds kSweepPatience{90'000};

// Reports one step at once, and the second when the test says so; then it waits for its end.
constexpr std::string_view kReports = R"(#!/bin/sh
report() { echo "{\"step\": $1, \"value\": $TIDEGATE_PARAM_LOSS}" >> "$TIDEGATE_METRICS"; }
report 1
while [ ! -e "second.$TIDEGATE_ARRAY_INDEX" ]; do sleep 0.1; done
report 2
while [ ! -e end ]; do sleep 0.1; done
)";

class SlurmSweeps : public SlurmWorld {
 protected:
  static constexpr size_t kMostDevices = 3;

  SlurmCluster::Options ClusterOptions() const override { return {.nodes = 2, .gpus = 2}; }
  void Make(std::string_view name, std::string_view content = {}) const {
    std::ofstream(fmt::format("{}/{}", shared(), name)) << content;
  }
  // Of Slurm's jobs, those that hold devices.
  size_t Holding() const {
    const std::string jobs = Jobs("R,CG", "%j %b");
    size_t holding = 0;
    for (size_t at = jobs.find("gpu:"); at != jobs.npos; at = jobs.find("gpu:", at + 1)) ++holding;
    return holding;
  }
};

TEST_F(SlurmSweeps, TheWorseHalfIsStoppedEarlyWithinTheBudgetOfDevicesAndAJobWithADataSetIsRunAgain) {
  std::filesystem::create_directories(shared() + "/corpus");
  Make("corpus/part", "words");
  const std::string digest = plugins::weights::DigestOfPath(shared() + "/corpus").value_or("");
  Scaled scaled(ScaledModel{.replicas = "{min: 0, max: 1}"},
                fmt::format("{}, weights: {{store: {}/store, program: {}}}, "
                            "data_sets: [{{name: corpus, path: {}/corpus, digest: \"{}\"}}]",
                            Section("stop"), shared(), TIDEGATE_BINARY, shared(), digest));
  const JobCommands commands(scaled.gateway);
  Make("tune.sh", kReports);
  // The devices of the cluster would be enough for all of them.
  const std::string first = commands.Submit(fmt::format(
      "name: tune\ndirectory: {0}\ncommand: [/bin/sh, tune.sh]\ndevices: [{{kind: h100, count: 1}}]\n"
      "sweep: {{grid: {{loss: [0.2, 0.1, 0.3, 0.4]}}, max_devices: {1}, "
      "metric: {{name: loss, file: \"{0}/{{id}}.jsonl\"}}, halving: {{first: 2, factor: 2}}}}\n",
      shared(), kMostDevices));
  ASSERT_EQ(first, "tune-1.0");
  const auto compare = [&] {
    const Json all = conf::ParseJson(commands.Run({"jobs", "compare", "tune-1", "--json"}).out);
    return all.is_object() ? all["jobs"] : Json::array();
  };
  // Whether the elements have reported these steps; 0: none.
  const auto steps = [&](const std::vector<int>& wanted) {
    const Json jobs = compare();
    EXPECT_LE(Holding(), kMostDevices);
    if (jobs.size() != wanted.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if ((jobs[i]["step"].is_null() ? 0 : jobs[i]["step"].get<int>()) != wanted[i]) return false;
    }
    return true;
  };
  ASSERT_TRUE(Within(kSweepPatience, [&] { return steps({1, 1, 1, 0}); })) << compare();
  EXPECT_EQ(Holding(), kMostDevices);
  EXPECT_THAT(commands.Explain("tune-1.3"), HasSubstr("which is the most allowed"));

  // One after the other they reach the rung: the first is the best so far, and the second is better.
  Make("second.0");
  ASSERT_TRUE(Within(kSweepPatience, [&] { return steps({2, 1, 1, 0}); })) << compare();
  Make("second.1");
  ASSERT_TRUE(Within(kSweepPatience, [&] { return steps({2, 2, 1, 0}); })) << compare();
  Make("second.2");
  ASSERT_TRUE(commands.Comes("tune-1.2", "done")) << commands.Explain("tune-1.2");
  Make("second.3");
  ASSERT_TRUE(commands.Comes("tune-1.3", "done")) << commands.Explain("tune-1.3");
  EXPECT_TRUE(steps({2, 2, 2, 2})) << compare();
  EXPECT_EQ(commands.StateOf("tune-1.0"), "running");
  EXPECT_EQ(commands.StateOf("tune-1.1"), "running");
  EXPECT_THAT(commands.Explain("tune-1.3"), HasSubstr("stopped it early"));
  EXPECT_THAT(commands.Run({"jobs", "compare", "tune-1"}).out,
              AllOf(HasSubstr("PARAMETERS"), HasSubstr("loss=0.3"), HasSubstr("the best")));
  Make("end");
  for (const char* const better : {"tune-1.0", "tune-1.1"})
    EXPECT_TRUE(commands.Comes(better, "done")) << commands.Explain(better);
  const Json jobs = compare();
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i]["stopped"].is_null(), i < 2) << jobs[i];
    EXPECT_GT(jobs[i]["device_hours"].get<double>(), 0) << jobs[i];
  }

  const std::string read = commands.Submit(
      fmt::format("name: read\ndirectory: {}\ncommand: [/bin/sh, -c, \"cat {{data.corpus}}/part >> got; echo "
                  "$TIDEGATE_SEED >> seeds\"]\ndevices: [{{kind: h100, count: 1}}]\ndata: [corpus]\n",
                  shared()));
  ASSERT_TRUE(commands.Comes(read, "done"))
      << commands.Explain(read) << commands.Run({"jobs", "logs", read}).out;
  EXPECT_EQ(commands.Run({"jobs", "rerun", read}).out, "read-3\n");
  ASSERT_TRUE(commands.Comes("read-3", "done")) << commands.Explain("read-3");
  EXPECT_EQ(ReadFile(shared() + "/got"), "wordswords");
  const std::string seeds = ReadFile(shared() + "/seeds");
  EXPECT_EQ(seeds.substr(0, seeds.size() / 2), seeds.substr(seeds.size() / 2));
  EXPECT_EQ(scaled.Admin("/admin/v1/jobs/read-3")["provenance"]["rerun_of"], read);
  EXPECT_TRUE(commands.CancelAll(kSweepPatience));
}

}  // namespace
}  // namespace tests
