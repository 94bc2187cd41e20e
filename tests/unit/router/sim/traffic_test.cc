#include "router/sim/traffic.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "router/sim/offered_load.h"
#include "scheduler/engine/presets.h"

namespace router::sim {
namespace {

constexpr std::string_view kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

TEST(Traffic, CountsAzureTimesFromTheFirstCallOn) {
  const Traffic traffic = ReadTraffic(std::string(kAzureHeader) +
                                          "2023-11-16 18:15:46.6800000,374,44\r\n"
                                          "2023-11-16 18:15:50.9300000,396,109\n",
                                      "azure.csv", TrafficFormat::kAzure);
  ASSERT_EQ(traffic.calls.size(), 2u);
  EXPECT_EQ(traffic.calls[1].at, std::chrono::milliseconds(4250));
  EXPECT_EQ(traffic.calls[1].input, 396u);
  EXPECT_EQ(traffic.calls[1].output, 109u);
}

TEST(Traffic, AzureTimesMayHaveAZoneAndTheHeaderMayBeMissing) {
  const Traffic traffic = ReadTraffic(
      "2024-05-10 00:00:00.009930+00:00,2162,5\n"
      "2024-05-10 02:00:01.009930+02:00,2399,6\n",
      "azure.csv", TrafficFormat::kAzure);
  EXPECT_EQ(traffic.report.left_out, 0u);
  ASSERT_EQ(traffic.calls.size(), 2u);
  EXPECT_EQ(traffic.calls[0].input, 2162u);
  EXPECT_EQ(traffic.calls[1].at, std::chrono::seconds(1));
}

TEST(Traffic, AzureTimesThatAreCenturiesApartAreLeftOut) {
  for (const std::string_view begin : {"0211-11-16 18:15:46.68", "1800-01-01 00:00:00.0"}) {
    const Traffic traffic = ReadTraffic(std::string(kAzureHeader) + std::string(begin) +
                                            ",374,44\n"
                                            "2823-11-16 18:15:51.39,91,16\n",
                                        "azure.csv", TrafficFormat::kAzure);
    EXPECT_EQ(traffic.calls.size(), 1u) << begin;
    ASSERT_EQ(traffic.report.left_out, 1u) << begin;
    EXPECT_NE(traffic.report.problems[0].message.find("100 years"), std::string::npos) << begin;
  }
}

TEST(Traffic, KeepsToTheWindowAndTheNumberOfCalls) {
  std::string text;
  for (int ms : {0, 1000, 2000, 3000}) {
    text += R"({"timestamp": )" + std::to_string(ms) +
            R"(, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]})" + "\n";
  }
  const auto read = [&](const TrafficWindow& window) {
    return ReadTraffic(text, "mooncake.jsonl", TrafficFormat::kMooncake, window).calls.size();
  };
  EXPECT_EQ(read({.from = std::chrono::seconds(1), .length = std::chrono::seconds(2), .max_calls = 0}), 2u);
  EXPECT_EQ(read({.from = {}, .length = {}, .max_calls = 3}), 3u);
}

TEST(Traffic, RowsThatCannotBeReadAreLeftOutCountedAndNamed) {
  struct Case {
    TrafficFormat format;
    std::string_view row;
    std::string_view says;
  };
  using enum TrafficFormat;
  constexpr std::string_view kGoodAzure = "2023-11-16 18:15:46,374,44\n";
  constexpr std::string_view kGoodMooncake =
      "{\"timestamp\":5,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n";
  const auto cases = std::to_array<Case>({
      {kAzure, "yesterday,1,2\n", "TIMESTAMP"},
      {kAzure, "2023-11-16 18:15:47,374\n", "expected TIMESTAMP,ContextTokens"},
      {kAzure, "2023-11-16 18:15:47,-3,4\n", "ContextTokens"},
      {kAzure, "2023-11-16 18:15:47,3,16777217\n", "GeneratedTokens"},
      {kAzure, "2023-11-16 18:15:45,3,4\n", "earlier"},
      {kMooncake, "[1,2]\n", "JSON object"},
      {kMooncake, "{\"timestamp\":6,\"input_length\":1,\"output_length\":1}\n",
       "hash_ids: expected 1 numbers"},
      {kMooncake, "{\"timestamp\":6,\"input_length\":600,\"output_length\":1,\"hash_ids\":[1]}\n",
       "hash_ids: expected 2 numbers"},
      {kMooncake, "{\"timestamp\":6,\"input_length\":1,\"output_length\":1,\"hash_ids\":[\"a\"]}\n",
       "hash_ids"},
      {kMooncake, "{\"timestamp\":6,\"input_length\":5000000000,\"output_length\":1,\"hash_ids\":[]}\n",
       "input_length"},
      {kMooncake,
       "{\"timestamp\":18446744073709551615,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n",
       "timestamp"},
      {kMooncake, "{\"timestamp\":4,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n", "earlier"},
  });
  for (const Case& c : cases) {
    const bool azure = c.format == kAzure;
    const std::string_view good = azure ? kGoodAzure : kGoodMooncake;
    const std::string text = std::string(azure ? kAzureHeader : std::string_view()) + std::string(good) +
                             std::string(c.row) + std::string(good);
    const Traffic traffic = ReadTraffic(text, "trace", c.format);
    EXPECT_EQ(traffic.calls.size(), 2u) << c.row;
    EXPECT_EQ(traffic.report.lines, 3u) << c.row;
    ASSERT_EQ(traffic.report.left_out, 1u) << c.row;
    EXPECT_EQ(traffic.report.problems.front().line, azure ? 3 : 2) << c.row;
    EXPECT_NE(traffic.report.problems.front().message.find(c.says), std::string::npos)
        << c.row << traffic.report.problems.front().message;
  }
}

TEST(OfferedLoad, CallsThatShareBlocksBecomeRequestsThatShareAsMuch) {
  const std::array<Call, 3> calls = {
      Call{.at = {}, .input = 1024, .output = 1, .blocks = {1, 2}},
      Call{.at = {}, .input = 1000, .output = 1, .blocks = {1, 3}},
      Call{.at = {}, .input = 0, .output = 1, .blocks = {}},
  };
  const std::vector<Request> requests = RequestsOf(calls);
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_EQ(requests[0].blocks.size(), 16u);
  ASSERT_EQ(requests[1].blocks.size(), 15u);
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(requests[0].blocks[i] == requests[1].blocks[i], i < 8) << i;
}

TEST(OfferedLoad, TwiceTheReplicasAreAsLoadedByTwiceTheRate) {
  const std::array<Call, 2> calls = {
      Call{.at = {}, .input = 1024, .output = 100, .blocks = {1, 2}},
      Call{.at = std::chrono::seconds(10), .input = 1024, .output = 100, .blocks = {1, 2}},
  };
  const std::vector<Request> requests = RequestsOf(calls);
  const auto profile = scheduler::engine::FindPreset("llama-3.1-8b-h100");
  ASSERT_TRUE(profile);
  const double one = SpeedUpFor(0.5, 8, requests, *profile, 0);
  EXPECT_DOUBLE_EQ(SpeedUpFor(0.5, 16, requests, *profile, 0), 2 * one);
  EXPECT_LT(one, SpeedUpFor(0.5, 8, requests, *profile, 0.5));
  EXPECT_EQ(Faster(requests, 4).back().at, std::chrono::milliseconds(2500));
}

}  // namespace
}  // namespace router::sim
