// `tidegate simulate --requests` as an operator runs it: its output, and the options that it refuses.
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
    more.insert(more.begin(), {"simulate", "--requests", path_});
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

TEST_F(CliSimulateRequests, QueueHoldsRequestsWhileReplicasAreFull) {
  const std::vector<std::string> busy = {"--replicas", "2", "--policies", "cost", "--utilization", "1.5"};
  const json at_once = Json(busy);
  EXPECT_EQ(at_once["queue"], false);
  EXPECT_EQ(at_once["policies"][0]["held"], 0);
  std::vector<std::string> queued = busy;
  queued.emplace_back("--queue");
  const json report = Json(queued);
  EXPECT_EQ(report["queue"], true);
  EXPECT_GT(report["policies"][0]["held"], 0);
  EXPECT_GT(report["policies"][0]["wait_s"]["p50"], 0.0);
  EXPECT_EQ(report["policies"][0]["finished"].get<int>() + report["policies"][0]["refused"].get<int>(), 200);
}

TEST_F(CliSimulateRequests, ComparesTheRoutingPoliciesThatWereAskedFor) {
  const json report = Json({"--replicas", "3", "--policies", "cost,round-robin", "--utilization", "0.7"});
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
  EXPECT_EQ(Simulate({"--trace", path_}).code, 2);
  EXPECT_EQ(Simulate({"--utilization", "0.5", "--speed-up", "2"}).code, 2);
  EXPECT_EQ(tests::RunCli({"simulate", "--replicas", "4"}).code, 2);
  EXPECT_THAT(tests::RunCli({"simulate", "--requests", dir_ / "none"}).err, HasSubstr("No such file"));
}

}  // namespace
