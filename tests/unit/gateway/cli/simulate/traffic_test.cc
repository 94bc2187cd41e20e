// `tidegate simulate traffic` as an operator runs it: its output, and the options that it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Ten minutes of traffic; the second half has three times the rate.
class CliSimulateTraffic : public testing::Test {
 protected:
  CliSimulateTraffic() {
    std::ofstream trace(trace_);
    trace << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    for (int i = 0; i < 600; ++i) {
      const int copies = i < 300 ? 2 : 6;
      for (int copy = 0; copy < copies; ++copy) {
        trace << fmt::format("2023-11-16 18:{:02}:{:02}.0000000,1000,100\n", i / 60, i % 60);
      }
    }
    std::ofstream(policy_) << "model: m\nreplicas: {min: 1, max: 8}\nscaling: {policy: demand}\n";
  }

  tests::CliResult Simulate(std::vector<std::string> more) const {
    more.insert(more.begin(), {"simulate", "traffic", trace_, "--policy", policy_});
    return tests::RunCli(more);
  }

  tests::TempDir dir_;
  const std::string trace_ = dir_ / "calls.csv";
  const std::string policy_ = dir_ / "policy.yaml";
};

TEST_F(CliSimulateTraffic, SizesByThePolicyBesideOtherLaws) {
  const tests::CliResult result = Simulate({"--engine", "llama-3.3-70b-4xa100", "--cold-start", "30s",
                                            "--beside", "kpa:8,hpa,fixed:3,fixed,oracle", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["requests"], 2400);
  EXPECT_EQ(report["gpus_per_replica"], 4);
  EXPECT_NEAR(report["cold_start_s"].get<double>(), 30, 1e-9);
  ASSERT_EQ(report["sized_by"].size(), 6u);
  const json& policy = report["sized_by"][0];
  EXPECT_EQ(policy["name"], "demand (the policy)");
  EXPECT_EQ(policy["finished"], 2400);
  EXPECT_GE(policy["scale_ups"], 1);
  EXPECT_EQ(report["sized_by"][1]["name"], "kpa, 8 each");
  EXPECT_EQ(report["sized_by"][3]["most_replicas"], 3);
  const json& oracle = report["sized_by"][5];
  EXPECT_EQ(oracle["name"], "oracle");
  EXPECT_LE(oracle["gpu_hours"].get<double>(), policy["gpu_hours"].get<double>());
}

TEST_F(CliSimulateTraffic, AReplicaOfSeveralMembersHoldsTheDevicesOfAllOfThem) {
  std::ofstream(policy_, std::ios::app) << "placement: {members: 2, devices: [{kind: h100, count: 8}]}\n";
  const tests::CliResult result =
      Simulate({"--engine", "llama-3.3-70b-4xa100", "--beside", "none", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["members"], 2);
  EXPECT_EQ(report["gpus_per_replica"], 16);
  EXPECT_EQ(report["engine_gpus"], 4);
  const json& policy = report["sized_by"][0];
  EXPECT_NEAR(policy["gpu_hours"].get<double>(),
              16 * policy["mean_replicas"].get<double>() * policy["seconds"].get<double>() / 3600, 0.2);
  EXPECT_THAT(Simulate({"--engine", "llama-3.3-70b-4xa100", "--beside", "none"}).out,
              HasSubstr("(2 members, 16 GPUs; the engine's speed is that of 4)"));
}

TEST_F(CliSimulateTraffic, PrintsATable) {
  const tests::CliResult result = Simulate({"--beside", "none", "--copies", "2", "--loop", "20m"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("9600 requests"), HasSubstr("GPU-HOURS"), HasSubstr("demand (the policy)")));
}

TEST_F(CliSimulateTraffic, MixesServeGensClients) {
  const std::string folder = dir_ / "clients";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/chunk-0-trace.csv") << "0,1,1,Gamma,1,1\n600,2,1,Gamma,1,0.5\n";
  std::ofstream(folder + "/chunk-0-dataset.json")
      << R"({"0": {"input_tokens": "{200: 1}", "output_tokens": "{20: 1}"}})";
  std::ofstream(folder + "/chunk-7-trace.csv") << "0,0.5,1,Gamma,1,2\n600,x,1,Gamma,1,2\n";
  std::ofstream(folder + "/chunk-7-dataset.json")
      << R"({"0": {"input_tokens": "{900: 1}", "output_tokens": "{90: 1}"}})";
  const auto simulate = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"simulate", "traffic", folder, "--policy", policy_, "--beside", "none", "--json"});
    return tests::RunCli(more);
  };
  const tests::CliResult all = simulate({"--window", "10m"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.err, HasSubstr("chunk-7-trace.csv"));
  EXPECT_THAT(all.err, HasSubstr("line 2"));
  EXPECT_NEAR(json::parse(all.out)["requests"].get<double>(), 600 + 300, 150);
  const tests::CliResult mix = simulate({"--window", "10m", "--clients", "0:2@10m"});
  ASSERT_EQ(mix.code, 0) << mix.err;
  EXPECT_NEAR(json::parse(mix.out)["requests"].get<double>(), 2400, 250);
  EXPECT_EQ(simulate({"--window", "10m", "--strict"}).code, 2);
  EXPECT_THAT(simulate({"--clients", "0:x,3"}).out, AllOf(HasSubstr("--clients"), HasSubstr("0:x")));
  EXPECT_THAT(simulate({"--clients", "3"}).out, HasSubstr("chunk-3-trace.csv"));
  EXPECT_EQ(Simulate({"--clients", "0"}).code, 2);
}

TEST_F(CliSimulateTraffic, WritesAPageWithPlotsThatLoadsNothing) {
  const std::string page = dir_ / "page.html";
  const tests::CliResult result = Simulate({"--beside", "fixed:3,oracle", "--html", page});
  ASSERT_EQ(result.code, 0) << result.err;
  std::ifstream file(page);
  const std::string html{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(html,
              AllOf(HasSubstr("Demand and capacity"), HasSubstr("Replicas over time"), HasSubstr("TTFT"),
                    HasSubstr("demand (the policy)"), HasSubstr("fixed, 3"), HasSubstr("<polyline")));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")), Not(HasSubstr("src="))));
  const tests::CliResult nowhere = Simulate({"--beside", "none", "--html", dir_ / "none/page.html"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("--html"));
}

TEST_F(CliSimulateTraffic, PrintsEveryProblemAtOnce) {
  std::ofstream(policy_) << "model: m\nreplicas: {min: 9, max: 8}\nscaling: {policy: kpa}\n";
  const tests::CliResult result =
      Simulate({"--engine", "gpt-9", "--beside", "vpa", "--starts-at", "noon", "--cold-start", "soon"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("--engine"), HasSubstr("--beside"), HasSubstr("--starts-at"),
                    HasSubstr("--cold-start"), HasSubstr("/replicas/min"), HasSubstr("/scaling")));
}

TEST_F(CliSimulateTraffic, RefusesTrafficOfMoreThanAMonth) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--speed-up", "1e-6"}, {"--loop", "800h"}}) {
    const tests::CliResult result = Simulate(more);
    EXPECT_EQ(result.code, 1) << more[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr("days; at most 31"), HasSubstr("--window"))) << more[0];
  }
}

TEST_F(CliSimulateTraffic, RefusesOptionsThatItWouldIgnore) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--nodes", "4"},
                                               {"--replicas", "4"},
                                               {"--policies", "cost"},
                                               {"--seeds", "3"}}) {
    EXPECT_EQ(Simulate(more).code, 2) << more[0];
  }
  EXPECT_EQ(tests::RunCli({"simulate", "jobs", trace_, "--copies", "2"}).code, 2);
  EXPECT_EQ(tests::RunCli({"simulate", "jobs", trace_, "--engine", "demo"}).code, 2);
  EXPECT_EQ(tests::RunCli({"simulate", "traffic", trace_}).code, 2);  // no policy
}

TEST_F(CliSimulateTraffic, ScheduleStartsAtTheGivenDate) {
  std::ofstream(policy_)
      << "model: m\nreplicas: {min: 1, max: 8}\nscaling: {policy: schedule}\n"
         "schedule: [{cron: '5 8 * * *', timezone: Asia/Shanghai, min: 6}, {cron: '0 0 * * *', min: 0}]\n";
  const auto most = [&](const std::string& begin) {
    const tests::CliResult result = Simulate({"--beside", "none", "--starts-at", begin, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out)["sized_by"][0]["most_replicas"].get<int>();
  };
  EXPECT_EQ(most("2026-11-23T00:00:00Z"), 6);
  EXPECT_LT(most("2026-11-23T12:00:00+08:00"), 8);
}

}  // namespace
