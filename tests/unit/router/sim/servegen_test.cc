#include "router/sim/servegen.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

namespace router::sim {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kDataset =
    R"({"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{7: 1.0}", "reason_ratio": "{}"},
        "600": {"input_tokens": "{}", "output_tokens": "{}"},
        "1200": {"input_tokens": "{50: 1.0}", "output_tokens": "{9: 9e-05}"}})";
// Nothing, then ten a second, then twenty; thirty minutes in all.
constexpr std::string_view kTrace = "0,0,0,,0,0\n600,10,1,Gamma,1,0.1\n1200,20,2,Weibull,0.5,0.025\n";

LoadedClient Read(std::string_view trace, std::string_view dataset = kDataset) {
  return ReadServegenClient({"c-trace.csv", trace}, {"c-dataset.json", dataset});
}

std::vector<Call> Mix(std::vector<MixPart> parts, TrafficWindow window = {}, uint64_t seed = 1) {
  const std::array clients = {*Read(kTrace).client};
  return *Mixed(clients, parts, window, seed);
}

size_t Between(const std::vector<Call>& calls, conf::Duration from, conf::Duration to) {
  return static_cast<size_t>(
      std::ranges::count_if(calls, [&](const Call& c) { return c.at >= from && c.at < to; }));
}

TEST(Servegen, SendsAtTheWindowsRatesWithTheSpansTokens) {
  const std::vector<Call> calls = Mix({{}});
  EXPECT_TRUE(std::ranges::is_sorted(calls, {}, &Call::at));
  EXPECT_EQ(Between(calls, {}, minutes(10)), 0u);
  EXPECT_NEAR(static_cast<double>(Between(calls, minutes(10), minutes(20))), 6000, 4 * std::sqrt(6000));
  // Of twice the deviation of Poisson's; Weibull's of shape 0.5 is the square root of five.
  EXPECT_NEAR(static_cast<double>(Between(calls, minutes(20), minutes(30))), 12000, 4 * std::sqrt(5 * 12000));
  EXPECT_EQ(Between(calls, minutes(30), hours(9)), 0u);
  double sum = 0;
  double count = 0;
  for (const Call& call : calls) {
    if (call.at < minutes(20)) {
      // The span in which nobody sent has no histogram: the one before it holds.
      EXPECT_TRUE(call.input == 100 || call.input == 300);
      EXPECT_EQ(call.output, 7u);
      sum += call.input;
      ++count;
    } else {
      EXPECT_EQ(call.input, 50u);
      EXPECT_EQ(call.output, 9u);
    }
  }
  EXPECT_NEAR(sum / count, 200, 10);
}

TEST(Servegen, AShapeBelowOneComesInBursts) {
  constexpr std::string_view kBursts = "0,10,6,Gamma,0.03,3\n600,10,1,Gamma,1,0.1\n";
  const std::array clients = {*Read(kBursts).client};
  const std::vector<Call> calls = *Mixed(clients, std::array{MixPart{}}, {}, 1);
  size_t most_in_bursts = 0;
  size_t most_else = 0;
  for (int second = 0; second < 1200; ++second) {
    const size_t in_second = Between(calls, seconds(second), seconds(second + 1));
    size_t& most = second < 600 ? most_in_bursts : most_else;
    most = std::max(most, in_second);
  }
  EXPECT_GT(most_in_bursts, 2 * most_else);
}

TEST(Servegen, TimesAndShiftScaleAndMoveAClient) {
  const auto count = [](const std::vector<Call>& calls) { return static_cast<double>(calls.size()); };
  EXPECT_NEAR(count(Mix({{.times = 3}})), 3 * 18000, 6 * std::sqrt(5 * 3 * 18000));
  // Its day of thirty minutes begins again: the last ten minutes of it come first.
  const std::vector<Call> later = Mix({{.shift = minutes(10)}});
  EXPECT_NEAR(static_cast<double>(Between(later, {}, minutes(10))), 12000, 4 * std::sqrt(5 * 12000));
  EXPECT_EQ(Between(later, minutes(10), minutes(20)), 0u);
}

TEST(Servegen, AClientIsIndependentOfOthersAndOfTheWindow) {
  const std::vector<Call> alone = Mix({{}});
  const std::vector<Call> cut = Mix({{}}, {.from = minutes(15), .length = minutes(4), .max_calls = 0});
  ASSERT_EQ(cut.size(), Between(alone, minutes(15), minutes(19)));
  EXPECT_EQ(cut.front().at, std::ranges::lower_bound(alone, conf::Duration(minutes(15)), {}, &Call::at)->at);
  const std::vector<Call> both = Mix({{}, {.times = 2}});
  EXPECT_TRUE(std::ranges::all_of(
      alone, [&](const Call& call) { return std::ranges::binary_search(both, call.at, {}, &Call::at); }));
  EXPECT_NE(Mix({{}}, {}, 2).front().at, alone.front().at);
}

TEST(Servegen, RefusesMoreCallsThanAllowed) {
  const std::array clients = {*Read(kTrace).client};
  EXPECT_FALSE(Mixed(clients, std::array{MixPart{}}, {.from = {}, .length = {}, .max_calls = 1000}, 1));
  EXPECT_FALSE(
      Mixed(clients, std::array{MixPart{.times = 1e6}}, {.from = {}, .length = {}, .max_calls = 1000}, 1));
}

TEST(Servegen, RowsThatCannotBeReadAreLeftOutCountedAndNamed) {
  struct Case {
    std::string_view row;
    std::string_view says;
  };
  for (const auto& [row, says] : std::to_array<Case>({
           {"1800,1,1,Gamma,1\n", "expected begin,rate"},
           {"1800,1,1,Gamma,1,1,1\n", "expected begin,rate"},
           {"soon,1,1,Gamma,1,1\n", "begin"},
           {"1e99,1,1,Gamma,1,1\n", "begin"},
           {"1800,-1,1,Gamma,1,1\n", "rate"},
           {"1800,nan,1,Gamma,1,1\n", "rate"},
           {"1800,1,1,Poisson,1,1\n", "distribution"},
           {"1800,1,1,Gamma,0,1\n", "shape"},
           {"1200,1,1,Gamma,1,1\n", "no later"},
       })) {
    const LoadedClient loaded = Read(std::string(kTrace) + std::string(row));
    EXPECT_TRUE(loaded.client) << row;
    EXPECT_EQ(loaded.report.lines, 4u) << row;
    ASSERT_EQ(loaded.report.left_out, 1u) << row;
    EXPECT_EQ(loaded.report.problems[0].file, "c-trace.csv") << row;
    EXPECT_EQ(loaded.report.problems[0].line, 4) << row;
    EXPECT_NE(loaded.report.problems[0].message.find(says), std::string::npos)
        << row << loaded.report.problems[0].message;
  }
}

TEST(Servegen, ADataSetThatCannotBeReadIsRefusedWithItsPlace) {
  struct Case {
    std::string_view dataset;
    std::string_view pointer;
  };
  for (const auto& [dataset, pointer] : std::to_array<Case>({
           {"[]", ""},
           {"{}", ""},
           {R"({"0": 3})", "/0/input_tokens"},
           {R"({"soon": {"input_tokens": "{1: 1}", "output_tokens": "{1: 1}"}})", "/soon"},
           {R"({"0": {"input_tokens": "{1: 1}", "output_tokens": "{1 1}"}})", "/0/output_tokens"},
           {R"({"0": {"input_tokens": "{1: 2}", "output_tokens": "{1: 1}"}})", "/0/input_tokens"},
           {R"({"0": {"input_tokens": "{1: 1", "output_tokens": "{1: 1}"}})", "/0/input_tokens"},
           {R"({"0": {"input_tokens": "{16777217: 1}", "output_tokens": "{1: 1}"}})", "/0/input_tokens"},
           {R"({"0": {"input_tokens": "{}", "output_tokens": "{}"}})", ""},
       })) {
    const LoadedClient loaded = Read(kTrace, dataset);
    EXPECT_FALSE(loaded.client) << dataset;
    ASSERT_FALSE(loaded.report.problems.empty()) << dataset;
    EXPECT_EQ(loaded.report.problems[0].file, "c-dataset.json") << dataset;
    EXPECT_EQ(loaded.report.problems[0].pointer, pointer) << dataset;
  }
  EXPECT_FALSE(Read("").client);
}

TEST(Servegen, AMixNamesClientsWithTheirRatesAndShifts) {
  const auto part = ParseMixPart("5:2.5@6h");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->client, 5u);
  EXPECT_EQ(part->times, 2.5);
  EXPECT_EQ(part->shift, hours(6));
  EXPECT_EQ(ParseMixPart("0")->times, 1);
  for (const std::string_view wrong : {"", "x", "1:", "1:0", "1:-2", "1:nan", "1@", "1@-1h", "1:2:3", "1 "}) {
    EXPECT_FALSE(ParseMixPart(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace router::sim
