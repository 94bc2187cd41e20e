#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "bench/client/samples.h"
#include "bench/replay/prompt.h"
#include "bench/replay/reconcile.h"
#include "bench/replay/traffic_file.h"
#include "tests/support/temp_dir.h"

namespace bench {
namespace {

// A token of a prompt is a space and five letters.
size_t TokensOf(const std::string& text) {
  return text.size() / 6;
}

std::string WriteTrace(const tests::TempDir& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

TEST(TrafficFile, NamesTheLineThatCannotBeRead) {
  const tests::TempDir folder;
  const std::string path =
      WriteTrace(folder, "bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n");
  const auto calls = ReadTrafficFile(path, TrafficFormat::kAzure, {});
  ASSERT_FALSE(calls.ok());
  EXPECT_NE(calls.status().message().find("bad.csv (line 2): TIMESTAMP"), absl::string_view::npos)
      << calls.status();
}

TEST(Prompts, HaveTheLengthOfTheTraceTemplateIncluded) {
  const Prompts prompts(1, 1.0);
  for (const Call& call : {Call{.at = {}, .input = 374, .output = 44, .blocks = {}},
                           Call{.at = {}, .input = 1100, .output = 44, .blocks = {0, 5, 9}}}) {
    EXPECT_EQ(prompts.InputTokens(call), call.input);
    EXPECT_EQ(TokensOf(prompts.Text(call, 0)) + kTemplateTokens, call.input);
  }
}

TEST(Prompts, ShareExactlyTheBlocksThatTheTraceShares) {
  for (double scale : {1.0, 0.1}) {
    const Prompts prompts(1, scale);
    const Call a{.at = {}, .input = 1536, .output = 1, .blocks = {0, 5, 9}};
    const Call b{.at = {}, .input = 1536, .output = 1, .blocks = {0, 5, 8}};
    const std::string x = prompts.Text(a, 0);
    const std::string y = prompts.Text(b, 1);
    const size_t shared = 2 * static_cast<size_t>(std::lround(router::sim::kTrafficBlockTokens * scale)) * 6;
    EXPECT_EQ(x.substr(0, shared), y.substr(0, shared));
    EXPECT_NE(x.substr(shared, 60), y.substr(shared, 60));
  }
}

TEST(Prompts, WithoutBlocksShareNothing) {
  const Prompts prompts(1, 1.0);
  const Call call{.at = {}, .input = 100, .output = 1, .blocks = {}};
  EXPECT_NE(prompts.Text(call, 0).substr(0, 60), prompts.Text(call, 1).substr(0, 60));
  EXPECT_EQ(prompts.Text(call, 3), prompts.Text(call, 3));
}

TEST(Samples, QuantilesAreOfTheSamplesThemselves) {
  Samples samples;
  for (int i = 100; i > 0; --i) samples.Add(std::chrono::microseconds(i));
  EXPECT_EQ(samples.Quantile(0.5), std::chrono::microseconds(50));
  EXPECT_EQ(samples.Quantile(0.99), std::chrono::microseconds(99));
  EXPECT_EQ(samples.Quantile(1), std::chrono::microseconds(100));
}

TEST(Reconcile, OneTokenOfDifferenceIsNotEqual) {
  const TokensByModel client{{"m", {.calls = 1, .input = 10, .cached = 4, .output = 7}}};
  TokensByModel gateway = client;
  bool equal = false;
  Compare(client, gateway, equal);
  EXPECT_TRUE(equal);
  gateway["m"].cached = 5;
  Compare(client, gateway, equal);
  EXPECT_FALSE(equal);
}

TEST(Reconcile, CountsWhatCommandsPrintAndOnlyWhatWasAdded) {
  const auto before = RunUsage(
      R"(echo '[{"model":"m","requests":2,"input_tokens":10,"cached_tokens":4,"output_tokens":7}]')");
  const auto after = RunUsage(
      R"(echo '[{"model":"m","requests":3,"input_tokens":15,"cached_tokens":4,"output_tokens":9}]')");
  ASSERT_TRUE(before.ok() && after.ok());
  const TokensByModel added = Difference(*before, *after);
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added.at("m"), (Tokens{.calls = 1, .input = 5, .cached = 0, .output = 2}));
  EXPECT_FALSE(RunUsage("false").ok());
  EXPECT_FALSE(RunUsage("echo hello").ok());
}

TEST(Reconcile, ReadsTheCloseRecordsOfALedger) {
  const tests::TempDir dir;
  std::ofstream(dir / "1.jsonl") << R"({"seq":1,"kind":"open","model":"m","input":99})" << "\n"
                                 << R"({"seq":2,"kind":"close","model":"m","input":8,"cached":2,"output":3})"
                                 << "\n"
                                 << R"({"seq":3,"kind":"close","mod)";
  const auto read = ReadLedger(dir.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at("m"), (Tokens{.calls = 1, .input = 8, .cached = 2, .output = 3}));
}

}  // namespace
}  // namespace bench
