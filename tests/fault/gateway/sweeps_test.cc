// Sweeps, countable resources, data sets and provenance through the real gateway, launcher and command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "conf/json_parse.h"
#include "plugins/weights/fetch.h"
#include "tests/fault/gateway/job_commands.h"

namespace tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Sweeps : public testing::Test {
 protected:
  Sweeps() {
    std::filesystem::create_directories(folder_ / "corpus");
    std::ofstream(folder_ / "corpus/part") << "words";
    digest_ = plugins::weights::DigestOfPath(folder_ / "corpus").value_or("");
    scaled_ = std::make_unique<Scaled>(
        ScaledModel{.replicas = "{min: 0, max: 1}"},
        fmt::format("cluster: [{{kind: gpu, count: 3}}], resources: {{seat: 1}}, weights: {{store: {}}}, "
                    "data_sets: [{{name: corpus, path: {}, digest: \"{}\"}}]",
                    folder_ / "store", folder_ / "corpus", digest_));
    commands_ = std::make_unique<JobCommands>(scaled_->gateway);
  }
  ~Sweeps() override { EXPECT_TRUE(commands_->CancelAll()); }

  std::string Shell(std::string_view name, std::string_view script, std::string_view more) const {
    std::ofstream(folder_ / fmt::format("{}.sh", name)) << script;
    return fmt::format("name: {0}\ndirectory: {1}\ncommand: [/bin/sh, {0}.sh, \"{{sweep.v}}\"]\n{2}", name,
                       folder_.path(), more);
  }
  Json Compare(const std::string& jobs) const {
    const Json all = conf::ParseJson(commands_->Run({"jobs", "compare", jobs, "--json"}).out);
    return all.is_object() ? all["jobs"] : Json::array();
  }

  TempDir folder_;
  std::string digest_;
  std::unique_ptr<Scaled> scaled_;
  std::unique_ptr<JobCommands> commands_;
};

TEST_F(Sweeps, ElementsThatFallBehindAreStoppedAndAllAreComparedAlsoAfterAKill) {
  const std::string first = commands_->Submit(Shell(
      "tune",
      "for step in 1 2 3 4 5 6; do echo \"{\\\"step\\\": $step, \\\"value\\\": $1}\" >> $TIDEGATE_METRICS; "
      "sleep 0.2; done\necho \"$TIDEGATE_PARAM_V $TIDEGATE_SEED\" > told.$TIDEGATE_ARRAY_INDEX\n"
      "while [ ! -e go ]; do sleep 0.05; done\n",
      fmt::format("devices: [{{count: 1}}]\nseed: 17\nsweep: {{grid: {{v: [0.1, 0.5, 0.9]}}, max_devices: 3, "
                  "metric: {{name: loss, file: \"{}/{{id}}.jsonl\"}}, halving: {{first: 6, factor: 3}}}}\n",
                  folder_.path())));
  ASSERT_EQ(first, "tune-1.0");
  // The order of their reports is the disk's: the best of three goes on, and those after it end.
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] {
    const Json jobs = Compare("tune-1");
    size_t reported = 0;
    for (const Json& job : jobs) reported += job["step"] == 6 ? 1 : 0;
    return reported == 3;
  })) << Compare("tune-1").dump();
  EXPECT_EQ(ReadFile(folder_ / "told.0"), "0.1 17\n");
  scaled_->gateway.Kill();
  scaled_->gateway.Start();
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] { return Compare("tune-1").size() == 3; }));
  const std::string table = commands_->Run({"jobs", "compare", "tune-1"}).out;
  EXPECT_THAT(table,
              AllOf(HasSubstr("PARAMETERS"), HasSubstr("loss"), HasSubstr("v=0.5"), HasSubstr("the best")));
  std::ofstream(folder_ / "go") << "x";
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] {
    const Json jobs = Compare("tune-1");
    return jobs.size() == 3 &&
           std::ranges::all_of(jobs, [](const Json& job) { return job["state"] == "done"; });
  })) << Compare("tune-1").dump();
  const Json jobs = Compare("tune-1");
  EXPECT_TRUE(jobs[0]["stopped"].is_null()) << "the best of all goes on, whenever it reported";
  EXPECT_GT(jobs[0]["device_hours"].get<double>(), 0);
  EXPECT_EQ(jobs[0]["parameters"][0]["value"], "0.1");
}

TEST_F(Sweeps, AFileOfParametersIsSentAlong) {
  std::ofstream(folder_ / "p.jsonl") << "{\"v\": 1}\n{\"v\": 2}\n";
  std::ofstream(folder_ / "many.yaml") << Shell("many", "echo $1 > got.$1\n", "sweep: {file: p.jsonl}\n");
  CliResult submitted;
  ASSERT_TRUE(Within(JobCommands::kPatience, [&] {
    submitted = commands_->Run({"jobs", "submit", folder_ / "many.yaml"});
    return submitted.err.find("try again in a moment") == std::string::npos;
  }));
  EXPECT_EQ(submitted.out, "many-1.0\nmany-1.1\n") << submitted.err;
  ASSERT_TRUE(commands_->Comes("many-1.1", "done"));
  EXPECT_EQ(ReadFile(folder_ / "got.2"), "2\n");
  const CliResult missing = [&] {
    std::filesystem::remove(folder_ / "p.jsonl");
    return commands_->Run({"jobs", "submit", folder_ / "many.yaml"});
  }();
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.err, HasSubstr("p.jsonl"));
}

TEST_F(Sweeps, ASeatIsHeldByOneJobAtATimeAndARerunHasTheSeedAndTheDataSet) {
  const std::string job = fmt::format(
      "name: seat\ndirectory: {}\ncommand: [/bin/sh, -c, \"cat {{data.corpus}}/part >> got; echo "
      "$TIDEGATE_SEED >> "
      "seeds; while [ ! -e go ]; do sleep 0.05; done\"]\nresources: {{seat: 1}}\ndata: [corpus]\n",
      folder_.path());
  const std::string first = commands_->Submit(job);
  ASSERT_TRUE(commands_->Comes(first, "running"));
  const std::string second = commands_->Submit(job);
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] {
    return commands_->Explain(second).find("waits for the resource seat") != std::string::npos;
  })) << commands_->Explain(second);
  EXPECT_THAT(commands_->Run({"nodes", "--resources"}).out, AllOf(HasSubstr("seat"), HasSubstr(first)));
  EXPECT_TRUE(Within(JobCommands::kPatience, [&] { return ReadFile(folder_ / "got") == "words"; }));
  EXPECT_EQ(commands_->Run({"jobs", "cancel", second}).code, 0);
  std::ofstream(folder_ / "go") << "x";
  ASSERT_TRUE(commands_->Comes(first, "done"));
  const CliResult again = commands_->Run({"jobs", "rerun", first});
  EXPECT_EQ(again.out, "seat-3\n") << again.err;
  EXPECT_THAT(again.err,
              HasSubstr("not the same: The programs and files that the command names are not recorded"));
  ASSERT_TRUE(commands_->Comes("seat-3", "done"));
  const std::string seeds = ReadFile(folder_ / "seeds");
  EXPECT_EQ(seeds.substr(0, seeds.size() / 2), seeds.substr(seeds.size() / 2));
  const Json shown = scaled_->Admin("/admin/v1/jobs/seat-3");
  EXPECT_EQ(shown["provenance"]["rerun_of"], first);
  EXPECT_EQ(shown["provenance"]["data"][0]["value"], digest_);
}

}  // namespace
}  // namespace tests
