// `tidegate simulate jobs` and `fill` as an operator runs it: its output and files, and the options that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "gateway/cli/files.h"
#include "scheduler/sim/report.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Result = tests::CliResult;

// Two nodes of four GPUs for teams of two queues; three jobs, of which the last must wait.
class CliSimulate : public testing::Test {
 protected:
  CliSimulate() {
    Write("cluster.yaml",
          "devices: [{name: l40s}]\n"
          "types: [{name: server, cpu: 64, memory: 512GiB, device: l40s, count: 4}]\n"
          "nodes: [{name: 'gpu-{1..2}', type: server}]\n"
          "fabric: {nodes_per_leaf: 1}\n");
    Write("teams.yaml",
          "order: [{name: fair-share}, {name: age}]\n"
          "queues:\n"
          "  - {name: nlp, deserved: {'*': 4}}\n"
          "  - {name: vision, deserved: {'*': 4}, limit: {'*': 6}}\n");
    Write("fifo.yaml", "order: [{name: age}]\nplacement: binpack\nbackfill: {kind: fifo}\n");
    Write("jobs.jsonl",
          Job("a", "nlp", 0, 8, "2h") + Job("b", "nlp", 10, 4, "1h") + Job("c", "vision", 20, 4, "3h"));
  }

  static std::string Job(const std::string& id, const std::string& queue, int minute, int gpus,
                         const std::string& run) {
    return json{{"id", id},
                {"queue", queue},
                {"submitted", 60 * minute},
                {"roles", {{{"count", gpus / 4}, {"devices", {{{"count", 4}}}}}}},
                {"run", run}}
               .dump() +
           "\n";
  }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  std::string Read(const std::string& name) const { return tests::ReadFile(dir_ / name); }

  static Result Call(std::vector<std::string> args) {
    args.insert(args.begin(), {"simulate", "jobs"});
    return tests::RunCli(args);
  }
  // On the cluster, with the jobs.
  std::vector<std::string> Args(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {dir_ / "jobs.jsonl", "--cluster", dir_ / "cluster.yaml"});
    return more;
  }
  Result Simulate(std::vector<std::string> more = {}) const { return Call(Args(std::move(more))); }
  json Json(std::vector<std::string> more = {}) const {
    more.emplace_back("--json");
    const Result result = Simulate(std::move(more));
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  tests::TempDir dir_;
};

TEST_F(CliSimulate, PrintsATableOfEveryMetric) {
  const Result result = Simulate();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(
      result.out,
      StartsWith(dir_ /
                 "jobs.jsonl: 3 rows, 0 left out; 2 nodes, 8 GPUs; estimates trace (own for 0 of 3 jobs, "
                 "exact for the others)\n"));
  for (const scheduler::sim::Metric& metric : scheduler::sim::Metrics()) {
    EXPECT_THAT(result.out, HasSubstr("\n" + std::string(metric.title) + "  ")) << metric.key;
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr("easy + default"), HasSubstr("WAIT BY GPUS"), HasSubstr("\nnlp")));
}

TEST_F(CliSimulate, JsonHasStableKeys) {
  const json out = Json({"--seeds", "2"});
  EXPECT_EQ(out["trace"], json({{"file", dir_ / "jobs.jsonl"}, {"rows", 3}, {"left_out", 0}}));
  EXPECT_EQ(out["cluster"], json({{"nodes", 2}, {"gpus", 8}}));
  EXPECT_EQ(out["estimates"], "trace (own for 0 of 3 jobs, exact for the others)");
  ASSERT_EQ(out["policies"].size(), 1u);
  const json& policy = out["policies"][0];
  EXPECT_EQ(policy["name"], "easy + default");
  ASSERT_EQ(policy["runs"].size(), 2u);
  EXPECT_EQ(policy["runs"][1]["seed"], 2);
  for (const char* key :
       {"gar_pct",    "sor_pct",         "gfr_pct",       "fragmentation_pct", "wait_mean_h",
        "wait_p99_h", "jct_mean_h",      "slowdown_mean", "jtted_p50",         "useful_gpu_h",
        "lost_gpu_h", "restarted_gpu_h", "saved_gpu_h",   "goodput_pct",       "energy_kwh",
        "jain_index", "jobs_finished",   "preemptions",   "node_faults",       "node_quarantines",
        "hours"}) {
    EXPECT_TRUE(policy["mean"].contains(key)) << key;
    EXPECT_TRUE(policy["spread"].contains(key)) << key;
    EXPECT_TRUE(policy["runs"][0]["metrics"].contains(key)) << key;
  }
  // a has both nodes for two hours, then b and c have one each.
  EXPECT_EQ(policy["mean"]["jobs_finished"], 3);
  EXPECT_EQ(policy["mean"]["hours"], 5);
  EXPECT_EQ(policy["mean"]["useful_gpu_h"], 32);
  EXPECT_EQ(policy["runs"][0]["queues"][1]["name"], "vision");
  EXPECT_EQ(policy["runs"][0]["waits_by_gpus"]["8-63"]["jobs"], 1);
  EXPECT_FALSE(out.contains("what_if"));
}

TEST_F(CliSimulate, WritesTheSeriesAsCsvAndASelfContainedPage) {
  const Result result = Simulate({"--compare", dir_ / "fifo.yaml", dir_ / "teams.yaml", "--csv",
                                  dir_ / "s.csv", "--html", dir_ / "p.html"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string csv = Read("s.csv");
  EXPECT_THAT(csv, StartsWith("policy,seed,hour,gar_pct,"));
  EXPECT_THAT(csv, AllOf(HasSubstr("\nfifo,1,1.0000,100.0000,"), HasSubstr("\nteams,1,1.0000,")));
  EXPECT_EQ(std::ranges::count(csv.substr(0, csv.find('\n')), ','), 11);
  const std::string page = Read("p.html");
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), EndsWith("</html>\n"), HasSubstr("difference"),
                          HasSubstr("teams")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("http:")), Not(HasSubstr("https:")), Not(HasSubstr("src=")),
                          Not(HasSubstr("@import"))));
}

TEST_F(CliSimulate, ComparesTwoPoliciesOnTheSameJobs) {
  const json out = Json({"--compare", dir_ / "fifo.yaml", dir_ / "teams.yaml"});
  ASSERT_EQ(out["policies"].size(), 2u);
  EXPECT_EQ(out["policies"][0]["name"], "fifo");
  EXPECT_EQ(out["policies"][1]["name"], "teams");
  EXPECT_EQ(out["policies"][0]["mean"]["jobs_submitted"], 3);
  EXPECT_EQ(out["policies"][1]["mean"]["jobs_submitted"], 3);
  EXPECT_THAT(Simulate({"--compare", dir_ / "fifo.yaml", dir_ / "teams.yaml"}).out,
              testing::ContainsRegex("METRIC +fifo +teams +DIFFERENCE +UNIT"));
  EXPECT_EQ(Simulate({"--compare", dir_ / "fifo.yaml"}).code, 2);
  EXPECT_EQ(
      Simulate({"--compare", dir_ / "fifo.yaml", dir_ / "teams.yaml", "--policy", dir_ / "fifo.yaml"}).code,
      2);
}

TEST_F(CliSimulate, SeedsGiveMeanAndSpreadAndTheSameSeedTheSameBytes) {
  const std::vector<std::string> faults = {"--mtbf", "6h", "--repair", "10m", "--seeds", "3", "--seed", "7"};
  const Result first = Simulate(faults);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr(" ± "));
  EXPECT_EQ(first.out, Simulate(faults).out);
  EXPECT_NE(first.out, Simulate({"--mtbf", "6h", "--repair", "10m", "--seeds", "3", "--seed", "8"}).out);
}

TEST_F(CliSimulate, AWhatIfIsShownBesideThePresentSystem) {
  const json nodes = Json({"--add-nodes", "1"});
  EXPECT_EQ(nodes["what_if"], "1 more node");
  ASSERT_EQ(nodes["policies"].size(), 2u);
  EXPECT_EQ(nodes["policies"][1]["name"], "what if");
  EXPECT_EQ(nodes["policies"][0]["mean"]["hours"], 5);
  EXPECT_LT(nodes["policies"][1]["mean"]["hours"], 4.5);
  EXPECT_THAT(Simulate({"--add-nodes", "1"}).out,
              AllOf(HasSubstr("\nWhat if: 1 more node\n"), HasSubstr("DIFFERENCE")));

  const json leaf = Json({"--fail-leaf", "leaf-1@1h", "--repair", "8h"});
  EXPECT_EQ(leaf["policies"][0]["mean"]["node_faults"], 0);
  EXPECT_EQ(leaf["policies"][1]["mean"]["node_faults"], 1);

  EXPECT_EQ(Json({"--add-nodes", "1", "--without-base"})["policies"].size(), 1u);
  const json both = Json({"--add-nodes", "1", "--compare", dir_ / "fifo.yaml", dir_ / "teams.yaml"});
  ASSERT_EQ(both["policies"].size(), 2u);
  EXPECT_EQ(both["policies"][0]["name"], "fifo");
  EXPECT_LT(both["policies"][0]["mean"]["hours"], 4.5);
}

TEST_F(CliSimulate, JobsThatNoLongerFitAreLeftOutOfBothRuns) {
  const Result result = Simulate({"--remove-nodes", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("jobs.jsonl (line 1): job a: impossible on this cluster: asks for 8 "
                              "devices in total (2 members), the whole cluster has 4"),
                    HasSubstr("1 of 3 rows left out")));
  const json out = Json({"--remove-nodes", "1"});
  EXPECT_EQ(out["policies"][0]["mean"]["jobs_submitted"], 2);
  EXPECT_EQ(out["policies"][1]["mean"]["jobs_submitted"], 2);
}

TEST_F(CliSimulate, AnotherQuotaIsAWhatIf) {
  const auto held = [](const json& policy, size_t queue) {
    return policy["runs"][0]["queues"][queue]["satisfaction"];
  };
  const json out = Json({"--policy", dir_ / "teams.yaml", "--quota", "nlp=8"});
  EXPECT_EQ(out["what_if"], "quota nlp=8");
  EXPECT_LT(held(out["policies"][0], 1), 1);  // vision is due its four while a has all
  const json none = Json({"--policy", dir_ / "teams.yaml", "--quota", "nlp=8", "--quota", "vision=l40s:0"});
  EXPECT_EQ(none["what_if"], "quota nlp=8, quota vision=l40s:0");

  Write("other.yaml", "queues: [{name: nlp, limit: {'*': 4}}, {name: vision}]\n");
  const Result file = Simulate({"--policy", dir_ / "teams.yaml", "--queues", dir_ / "other.yaml"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_THAT(file.out, HasSubstr("What if: queues of " + dir_ / "other.yaml"));
}

TEST_F(CliSimulate, AQuotaThatCannotHoldIsRefused) {
  const struct {
    std::vector<std::string> quotas;
    std::string why;
  } kWrong[] = {
      {{"vision=7"}, "--quota: queue vision: 7 of * are deserved, above the limit of 6"},
      {{"visoin=4"}, "--quota: there is no queue \"visoin\", did you mean \"vision\"?"},
      {{"vision=h100:4"}, "--quota: queue vision: unknown device kind \"h100\""},
      {{"vision"}, "--quota: \"vision\" must be QUEUE=DEVICES"},
      {{"vision=-1"}, "--quota: \"vision=-1\" must be QUEUE=DEVICES"},
      {{"vision=1e3"}, "--quota: \"vision=1e3\" must be QUEUE=DEVICES"},
      {{"=1"}, "--quota: there is no queue \"\""},
  };
  for (const auto& [quotas, why] : kWrong) {
    std::vector<std::string> args = {"--policy", dir_ / "teams.yaml"};
    for (const std::string& quota : quotas) args.insert(args.end(), {"--quota", quota});
    const Result result = Simulate(args);
    EXPECT_EQ(result.code, 2) << why;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(Simulate({"--queues", dir_ / "fifo.yaml"}).err, HasSubstr("fifo.yaml: has no queues"));
}

TEST_F(CliSimulate, FillShowsTheShareAtEachLoad) {
  const auto fill = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"simulate", "fill", dir_ / "jobs.jsonl", "--cluster", dir_ / "cluster.yaml"});
    return tests::RunCli(more);
  };
  const Result table = fill({"--seeds", "2"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("8 devices"), HasSubstr("means of 2 seeds"), HasSubstr("\n     130  ")));
  const json out = json::parse(fill({"--add-nodes", "1", "--json", "--html", dir_ / "p.html"}).out);
  ASSERT_EQ(out["policies"].size(), 2u);
  EXPECT_EQ(out["policies"][0]["placement"], "default");
  EXPECT_EQ(out["policies"][1]["placement"], "what if");
  EXPECT_GT(out["policies"][0]["allocated_percent_by_load_percent"].size(), 100u);
  const std::string page = Read("p.html");
  EXPECT_THAT(page, AllOf(HasSubstr("at 130 %"), HasSubstr("1 more node"), HasSubstr("<polyline")));
  for (const char* option : {"--estimates", "--mtbf", "--scale", "--quota"})
    EXPECT_EQ(fill({option, "1"}).code, 2) << option;

  Write("jobs.jsonl", R"({"id":"a","roles":[{"cpu_milli":1000}],"run":"1h"})");
  const Result cpu = fill({});
  EXPECT_EQ(cpu.code, 1);
  EXPECT_THAT(cpu.err, HasSubstr("no job asks for devices"));
}

TEST_F(CliSimulate, UsesTheEstimatesOfTheJobsThatHaveOne) {
  // d is expected to end before b could begin and a is not: without its estimate d would wait behind b.
  const auto job = [](const std::string& id, int minute, int nodes, const char* run, const char* estimate) {
    json made = json::parse(Job(id, "nlp", minute, 4 * nodes, run));
    if (*estimate != 0) made["estimate"] = estimate;
    return made.dump() + "\n";
  };
  Write("jobs.jsonl", job("a", 0, 1, "2h", "") + job("b", 1, 2, "1h", "") + job("d", 2, 1, "1h", "10h"));
  const json own = Json();
  EXPECT_EQ(own["estimates"], "trace (own for 1 of 3 jobs, exact for the others)");
  const json exact = Json({"--estimates", "exact"});
  EXPECT_EQ(exact["policies"][0]["mean"]["hours"], 3);
  EXPECT_GT(own["policies"][0]["mean"]["hours"], 3);
}

TEST_F(CliSimulate, ANumberOfNodesBesideAFileOfNodesIsRefused) {
  for (const char* const option : {"--nodes", "--devices", "--nodes-per-leaf", "--leaves-per-spine"}) {
    const Result refused = Call(Args({option, "2"}));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr(option), HasSubstr("excludes")));
  }
}

TEST_F(CliSimulate, RecognisesAFileOfAnotherFormatOnce) {
  const std::string philly = Write("philly.txt",
                                   "timestamp,duration,num_gpus,gpu_time,cluster\n"
                                   "2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 07:02:55,66.0,2,66.0,a\n");
  const Result found = Call({philly, "--nodes", "1"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr("2 rows, 0 left out"));
  const Result told = Call({philly, "--format", "jsonl"});
  EXPECT_EQ(told.code, 2);
  EXPECT_THAT(told.err, AllOf(HasSubstr("looks like philly (CSV of timestamp,duration"),
                              HasSubstr("did you mean --format philly?"), Not(HasSubstr("line 1"))));
  const std::string calls = Write("calls.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n");
  EXPECT_THAT(Call({calls}).err, HasSubstr("did you mean tidegate simulate requests?"));
  const std::string nodes = Write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\n");
  EXPECT_THAT(Call({nodes}).err, HasSubstr("did you mean --node-list?"));
  const std::string prose = Write("prose.txt", "Dear reader,\n");
  EXPECT_THAT(Call({prose}).err, HasSubstr("its format is not recognised; give --format"));
}

TEST_F(CliSimulate, ADumpReplaysToTheSamePlan) {
  const std::vector<std::string> policy = {"--policy", dir_ / "teams.yaml", "--placement", "spread"};
  std::vector<std::string> dump = policy;
  dump.insert(dump.end(), {"--dump", dir_ / "s.json", "--dump-at", "20m"});
  EXPECT_EQ(Simulate(dump).code, 0);
  std::vector<std::string> replay = policy;
  replay.insert(replay.begin(), {"policy", "replay", dir_ / "s.json"});
  const Result first = tests::RunCli(replay);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("at 1970-01-01T00:20:00.000000Z: 2 nodes, 3 jobs"), HasSubstr("WAITS")));
  EXPECT_EQ(tests::RunCli(replay).out, first.out);

  replay.emplace_back("--json");
  const json plan = json::parse(tests::RunCli(replay).out);
  EXPECT_EQ(plan["as_of"], "1970-01-01T00:20:00.000000Z");
  for (const char* key : {"based_on", "actions", "waiting", "reserved"})
    EXPECT_TRUE(plan.contains(key)) << key;

  replay.insert(replay.end(), {"--explain", "b"});
  const json why = json::parse(tests::RunCli(replay).out);
  EXPECT_EQ(why["job"], "b");
  replay.back() = "nobody";
  const Result nobody = tests::RunCli(replay);
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("no job \"nobody\""));
}

TEST_F(CliSimulate, ExplainsInWordsWhyAJobWaits) {
  ASSERT_EQ(Simulate({"--dump", dir_ / "s.json", "--dump-at", "20m"}).code, 0);
  const Result why = tests::RunCli({"policy", "replay", dir_ / "s.json", "--explain", "c"});
  EXPECT_EQ(why.code, 0) << why.err;
  EXPECT_THAT(why.out, AllOf(HasSubstr("c"), HasSubstr("l40s")));
}

TEST_F(CliSimulate, ReportsADumpThatWasNeverTaken) {
  const Result result = Simulate({"--dump", dir_ / "s.json", "--dump-at", "9d"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("nothing was decided at 9d or later"));
  EXPECT_THAT(Files(), Not(testing::Contains("s.json")));
}

TEST_F(CliSimulate, WhatCannotBeWrittenIsRefusedBeforeTheRun) {
  const std::string gone = dir_ / "gone/x";
  for (const char* option : {"--csv", "--html", "--dump"}) {
    const Result missing = Simulate({option, gone});
    EXPECT_EQ(missing.code, 2) << option;
    EXPECT_EQ(missing.out, "");
    EXPECT_THAT(missing.err, HasSubstr(std::string(option) + ": " + gone +
                                       " cannot be written: No such file or directory"));
    EXPECT_THAT(Simulate({option, dir_.path()}).err,
                HasSubstr(dir_.path() + " cannot be written: Is a directory"));
  }
  EXPECT_THAT(Simulate({"--csv", dir_ / "x", "--html", dir_ / "x"}).err,
              HasSubstr("x is given for two outputs"));
  EXPECT_THAT(Files(), ElementsAre("cluster.yaml", "fifo.yaml", "jobs.jsonl", "teams.yaml"));
}

TEST_F(CliSimulate, ReportsAFullDiskAndLeavesNoHalfFile) {
  const Result full = Simulate({"--csv", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("cannot write /dev/full: No space left on device"));

  Write("s.csv", "as it was");
  const auto refused = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status written = gateway::cli::WriteWhole(dir_ / "s.csv", std::string(10'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, refused);
  EXPECT_THAT(std::string(written.message()),
              AllOf(HasSubstr("cannot write " + dir_ / "s.csv"), HasSubstr("File too large")));
  EXPECT_EQ(Read("s.csv"), "as it was");
  EXPECT_THAT(Files(), ElementsAre("cluster.yaml", "fifo.yaml", "jobs.jsonl", "s.csv", "teams.yaml"));
}

TEST_F(CliSimulate, AFileThatCannotBeWrittenIsNamedAsItWasGiven) {
  EXPECT_EQ(gateway::cli::WriteWhole(dir_ / "none/s.csv", "x").message(),
            "cannot open " + (dir_ / "none/s.csv") + ": No such file or directory");
}

TEST_F(CliSimulate, ExitCodesTellWhatWasWrong) {
  EXPECT_EQ(Call({}).code, 2);
  EXPECT_EQ(Call({dir_ / "none.jsonl"}).code, 2);
  EXPECT_THAT(Call({dir_ / "none.jsonl"}).err,
              HasSubstr("none.jsonl: cannot open it: No such file or directory"));
  EXPECT_THAT(Call({dir_.path()}).err, HasSubstr(dir_.path() + ": cannot read it: Is a directory"));
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--placement", "fdg"},
           {"--estimates", "noisy:99"},
           {"--estimates", "noisy:nan"},
           {"--mtbf", "soon"},
           {"--mtbf", "1e300d"},
           {"--horizon", "-1h"},
           {"--checkpoint", "1ms"},
           {"--fail-leaf", "leaf-9@1h"},
           {"--fail-leaf", "leaf-1"},
           {"--drain-node", "gpu-1@200000d"},
           {"--seeds", "0"},
           {"--seed", "-1"},
           {"--scale", "0"},
           {"--scale", "nan"},
           {"--repeat", "1000000"},
           {"--remove-nodes", "2"},
           {"--dump", dir_ / "d", "--dump-at", "noon"},
       }) {
    const Result result = Simulate(wrong);
    EXPECT_EQ(result.code, 2) << wrong[0] << " " << wrong[1];
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(wrong[0])) << wrong[1];
  }
}

TEST_F(CliSimulate, RowsThatCannotBeSimulatedAreReportedOrRefused) {
  Write("jobs.jsonl", Job("a", "nlp", 0, 4, "2h") + "{\"id\":\n" + Job("b", "art", 1, 4, "1h"));
  const Result reported = Simulate({"--policy", dir_ / "teams.yaml"});
  EXPECT_EQ(reported.code, 0);
  EXPECT_THAT(reported.err, AllOf(HasSubstr("jobs.jsonl (line 2): is not JSON"),
                                  HasSubstr("(line 3): job b: there is no leaf queue art"),
                                  HasSubstr("2 of 3 rows left out")));
  const Result strict = Simulate({"--policy", dir_ / "teams.yaml", "--strict"});
  EXPECT_EQ(strict.code, 2);
  EXPECT_EQ(strict.out, "");
  EXPECT_THAT(strict.err, HasSubstr("--strict: 2 of 3 rows cannot be simulated"));
  Write("jobs.jsonl", "");
  EXPECT_EQ(Simulate().code, 1);
  EXPECT_THAT(Simulate().err, HasSubstr("no job is left to simulate"));
}

TEST_F(CliSimulate, JobsWithoutAQueueAreInTheDefaultOne) {
  Write("jobs.jsonl", R"({"id":"a","roles":[{"devices":[{"count":1}]}],"run":"1h"})");
  EXPECT_EQ(Json()["policies"][0]["runs"][0]["queues"][0]["name"], "default");
}

TEST_F(CliSimulate, AFigureOfNoJobIsADash) {
  const Result table = Simulate({"--horizon", "30m"});
  EXPECT_THAT(table.out, AllOf(testing::ContainsRegex("completion time, mean +- +h"),
                               testing::ContainsRegex("wait, mean +0.00 +h")));
  const json out = Json({"--horizon", "30m"});
  EXPECT_TRUE(out["policies"][0]["mean"]["jct_mean_h"].is_null());
  EXPECT_EQ(out["policies"][0]["mean"]["wait_mean_h"], 0);
}

TEST_F(CliSimulate, NamesAMissingFileOnceAndTakesZeroForNone) {
  EXPECT_THAT(Call({"/no/such/file"}).err,
              StartsWith("/no/such/file: cannot open it: No such file or directory\n"));
  EXPECT_EQ(Simulate({"--mtbf", "0s", "--checkpoint", "0s"}).out, Simulate().out);
  EXPECT_THAT(Simulate({"--mtbf", ""}).err, HasSubstr("--mtbf: \"\" must be a duration"));
}

// Like an operator who sees that it runs: once the signal no longer ends the process by itself.
void InterruptOnceHandled(int) {
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) == 0 && now.sa_handler != SIG_DFL) kill(getpid(), SIGINT);
}

// By a timer, in a run of many seeds.
void RunUntilInterrupted(const std::vector<std::string>& args) {
  std::signal(SIGINT, SIG_DFL);
  struct sigaction action{};
  action.sa_handler = InterruptOnceHandled;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 100'000},
                        .it_value = {.tv_sec = 0, .tv_usec = 300'000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<const char*> argv = {"tidegate", "simulate", "jobs"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  _exit(gateway::cli::RunCommandLine(static_cast<int>(argv.size()), argv.data()));
}

using CliSimulateDeathTest = CliSimulate;

TEST_F(CliSimulateDeathTest, CtrlCEndsARunCleanly) {
  std::string jobs;
  for (int i = 0; i < 2000; ++i) jobs += Job("job-" + std::to_string(i), "nlp", i, 4, "30m");
  Write("jobs.jsonl", jobs);
  const std::vector<std::string> args = Args({"--seeds", "1000", "--html", dir_ / "p.html"});
  EXPECT_EXIT(RunUntilInterrupted(args), testing::KilledBySignal(SIGINT), "interrupted; nothing was written");
  EXPECT_THAT(Files(), ElementsAre("cluster.yaml", "fifo.yaml", "jobs.jsonl", "teams.yaml"));
}

}  // namespace
