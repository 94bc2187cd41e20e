// `tidegate simulate requests` as an operator runs it: its output, and the options that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// Forty conversations of five turns each, over 200 seconds.
class CliSimulateRequests : public testing::Test {
 protected:
  CliSimulateRequests() {
    std::ofstream file(path_);
    for (int turn = 0; turn < 5; ++turn) {
      for (int talk = 0; talk < 40; ++talk) {
        std::vector<int> blocks;
        for (int block = 0; block < 4 * (turn + 1); ++block) blocks.push_back(1000 * talk + block);
        file << json{{"timestamp", 40'000 * turn + 1'000 * talk},
                     {"input_length", 512 * blocks.size()},
                     {"output_length", 100},
                     {"hash_ids", blocks}}
             << '\n';
      }
    }
  }

  tests::CliResult Simulate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"simulate", "requests", path_});
    return tests::RunCli(more);
  }
  json Json(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const tests::CliResult result = Simulate(std::move(more));
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }

  tests::TempDir dir_;
  const std::string path_ = dir_ / "talks.jsonl";
};

TEST_F(CliSimulateRequests, MayKeepSomeReplicasForPromptsAlone) {
  const json report = Json({"--replicas", "4", "--prefill", "2", "--policies", "cost"});
  EXPECT_EQ(report["prefill"], 2);
  EXPECT_EQ(report["policies"][0]["finished"], 200);
  EXPECT_GT(report["policies"][0]["handed_over"], 0);
  const tests::CliResult all = Simulate({"--replicas", "2", "--prefill", "2"});
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.err, HasSubstr("must be less than the 2 replicas: at least one must answer"));
}

TEST_F(CliSimulateRequests, QueueHoldsRequestsWhileReplicasAreFullAsInProduction) {
  const std::vector<std::string> busy = {"--replicas", "2", "--policies", "cost", "--utilization", "1.5"};
  std::vector<std::string> at_once_args = busy;
  at_once_args.emplace_back("--no-queue");
  const json at_once = Json(at_once_args);
  EXPECT_EQ(at_once["queue"], false);
  EXPECT_EQ(at_once["policies"][0]["held"], 0);
  const json report = Json(busy);
  EXPECT_EQ(report["queue"], true);
  EXPECT_GT(report["policies"][0]["held"], 0);
  EXPECT_GT(report["policies"][0]["wait_s"]["p50"], 0.0);
  EXPECT_EQ(report["policies"][0]["finished"].get<int>() + report["policies"][0]["refused"].get<int>(), 200);
}

TEST_F(CliSimulateRequests, ComparesTheRoutingPoliciesThatWereAskedFor) {
  const json report =
      Json({"--no-queue", "--replicas", "3", "--policies", "cost,round-robin", "--utilization", "0.7"});
  EXPECT_EQ(report["rows"], 200);
  EXPECT_EQ(report["requests"], 200);
  EXPECT_EQ(report["utilization"], 0.7);
  ASSERT_EQ(report["policies"].size(), 2u);
  const json& cost = report["policies"][0];
  const json& turns = report["policies"][1];
  EXPECT_EQ(cost["policy"], "cost");
  EXPECT_EQ(cost["finished"], 200);
  EXPECT_GT(cost["hit_ratio"].get<double>(), 2 * turns["hit_ratio"].get<double>());
  EXPECT_LE(cost["hit_ratio"].get<double>(), report["shared_cache_hit_ratio"].get<double>() + 1e-9);
}

TEST_F(CliSimulateRequests, PrintsATableOfAllPoliciesWhenNoneIsNamed) {
  const tests::CliResult result = Simulate({"--replicas", "2", "--speed-up", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("200 requests at 1 times their rate; 2 replicas"), HasSubstr("cost"),
                    HasSubstr("epp"), HasSubstr("least-load"), HasSubstr("TTFT P50 (s)")));
}

TEST_F(CliSimulateRequests, ADeadReplicaLosesOnlyWhatItWasAnswering) {
  const json whole = Json({"--replicas", "4", "--policies", "cost", "--speed-up", "1"});
  const json less = Json({"--replicas", "4", "--policies", "cost", "--speed-up", "1", "--die", "1@100s"});
  EXPECT_EQ(whole["policies"][0]["broken"], 0);
  const json& row = less["policies"][0];
  EXPECT_EQ(row["refused"], 0);
  EXPECT_EQ(row["finished"].get<int>() + row["broken"].get<int>(), 200);
  EXPECT_EQ(row["lost"]["broken"], row["broken"]);
}

TEST_F(CliSimulateRequests, SaysWhyRequestsWereLost) {
  const std::vector<std::string> args = {"--replicas", "1",   "--policies", "cost",
                                         "--speed-up", "300", "--die",      "0@1s"};
  const tests::CliResult result = Simulate(args);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("\ncost lost "), HasSubstr(" requests: ")));
  const json row = Json(args)["policies"][0];
  int lost = 0;
  for (const json& count : row["lost"]) lost += count.get<int>();
  EXPECT_GT(lost, 0);
  EXPECT_EQ(lost, row["broken"].get<int>() + row["refused"].get<int>());
}

TEST_F(CliSimulateRequests, WritesAPageWithTenFiguresOfEachPolicyFirst) {
  const std::string page = dir_ / "page.html";
  const tests::CliResult result = Simulate({"--policies", "cost,random", "--html", page});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string html = tests::ReadFile(page);
  const std::string first = html.substr(0, html.find("<details>"));
  EXPECT_THAT(first, AllOf(HasSubstr("TTFT p99 (s)"), HasSubstr("random"), HasSubstr("lost")));
  EXPECT_THAT(html, AllOf(HasSubstr("<summary>All other figures</summary>"), HasSubstr("<polyline"),
                          testing::Not(HasSubstr("http://")), testing::Not(HasSubstr("src="))));
  EXPECT_EQ(Simulate({"--html", dir_ / "none/page.html"}).code, 2);
}

TEST_F(CliSimulateRequests, AWindowDoesNotEndAfterTheTrace) {
  const tests::CliResult result = Simulate({"--policies", "cost", "--from", "1m", "--window", "1h"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--window: 1h from 1m is beyond the end of the trace"),
                                HasSubstr("last request is at 3m19s"), HasSubstr("give at most 3m")));
}

TEST_F(CliSimulateRequests, RecognisesAFileOfAnotherFormatOnce) {
  const std::string csv = dir_ / "calls.jsonl";
  std::ofstream(csv) << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n"
                        "2023-11-16 18:15:50.99,396,109\n";
  EXPECT_EQ(tests::RunCli({"simulate", "requests", csv, "--policies", "cost"}).code, 0);  // not by its name
  const tests::CliResult told = tests::RunCli({"simulate", "requests", csv, "--format", "mooncake"});
  EXPECT_EQ(told.code, 2);
  EXPECT_THAT(told.err, AllOf(HasSubstr("looks like azure"), HasSubstr("did you mean --format azure?")));
  std::ofstream(csv) << "{\"id\":\"a\",\"roles\":[{}],\"run\":\"1h\"}\n";
  EXPECT_THAT(tests::RunCli({"simulate", "requests", csv}).err,
              HasSubstr("did you mean tidegate simulate jobs?"));
}

TEST_F(CliSimulateRequests, KeepsToTheWindow) {
  const json report = Json({"--policies", "cost", "--speed-up", "1", "--from", "40s", "--window", "80s"});
  EXPECT_EQ(report["rows"], 200);
  EXPECT_EQ(report["requests"], 80);
  EXPECT_LT(report["policies"][0]["seconds"].get<double>(), 100);
}

TEST_F(CliSimulateRequests, SameSeedSameFigures) {
  const std::vector<std::string> args = {"--policies", "random", "--seed", "7", "--json"};
  EXPECT_EQ(Simulate(args).out, Simulate(args).out);
}

TEST_F(CliSimulateRequests, RowsThatCannotBeReadAreNamedAndLeftOutOrRefused) {
  std::ofstream(path_, std::ios::app) << "{\"timestamp\":1}\n";
  const tests::CliResult lenient = Simulate({"--policies", "cost"});
  EXPECT_EQ(lenient.code, 0);
  EXPECT_THAT(lenient.err, AllOf(HasSubstr("talks.jsonl (line 201)"), HasSubstr("1 of 201 rows left out")));
  const tests::CliResult strict = Simulate({"--policies", "cost", "--strict"});
  EXPECT_EQ(strict.code, 2);
  EXPECT_EQ(strict.out, "");
}

TEST_F(CliSimulateRequests, PrintsEveryProblemAtOnce) {
  const tests::CliResult result = Simulate({"--policies", "cheapest", "--slow", "8@0.5", "--die", "1",
                                            "--hang", "0@soon", "--ttft-slo", "2", "--window", "ever"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--policies: no policy is called \"cheapest\""),
                                HasSubstr("--slow: \"8@0.5\" must be REPLICA@SPEED, a replica from 0 to 7"),
                                HasSubstr("--die: \"1\" must be"), HasSubstr("--hang: \"0@soon\" must be"),
                                HasSubstr("--ttft-slo: \"2\""), HasSubstr("--window: \"ever\""),
                                HasSubstr("6 problems")));
  EXPECT_EQ(Simulate({"--engine", "abacus"}).code, 2);
  EXPECT_EQ(Simulate({"--utilization", "0.5", "--speed-up", "2"}).code, 2);
  EXPECT_EQ(Simulate({"--nodes", "4"}).code, 2);
  EXPECT_THAT(tests::RunCli({"simulate", "requests", dir_ / "none"}).err, HasSubstr("No such file"));
}

}  // namespace
