// `tidegate simulate` without what to simulate, and the spelling that it had before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gateway/cli/simulate/old_spelling.h"
#include "tests/support/run_cli.h"

namespace {

using gateway::cli::NewSpelling;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kWhat[] = {"jobs", "requests", "traffic", "fill"};

TEST(CliSimulateCommand, ListsWhatCanBeSimulated) {
  const tests::CliResult result = tests::RunCli({"simulate"});
  EXPECT_EQ(result.code, 0);
  for (const char* what : kWhat) {
    const std::string line = std::string("\n  tidegate simulate ") + what + " ";
    EXPECT_THAT(result.out, HasSubstr(line));
  }
  EXPECT_LT(std::ranges::count(result.out, '\n'), 12);
}

TEST(CliSimulateCommand, HelpOfEachFitsTwoScreensAndHasExamplesOnShippedFiles) {
  for (const char* what : kWhat) {
    const tests::CliResult result = tests::RunCli({"simulate", what, "--help"});
    EXPECT_EQ(result.code, 0) << what;
    EXPECT_LE(std::ranges::count(result.out, '\n'), 70) << what << result.out;
    EXPECT_THAT(result.out, AllOf(HasSubstr("Examples:\n"), HasSubstr("conf/"), HasSubstr("--html")));
  }
  EXPECT_THAT(tests::RunCli({"simulate", "fill", "--help"}).out, Not(HasSubstr("--mtbf")));
  EXPECT_THAT(tests::RunCli({"simulate", "requests", "--help"}).out, Not(HasSubstr("--nodes")));
}

TEST(CliSimulateCommand, OldSpellingNamesTheNewOne) {
  const tests::CliResult result =
      tests::RunCli({"simulate", "--trace", "philly.csv", "--format", "philly", "--nodes", "56"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("tidegate simulate jobs philly.csv --format philly --nodes 56\n"));
  EXPECT_EQ(
      NewSpelling({"--requests=a.jsonl", "--requests-format", "mooncake", "--queue", "--replicas", "4"}),
      "tidegate simulate requests a.jsonl --format mooncake --replicas 4");
  EXPECT_EQ(NewSpelling({"--policy", "p.yaml", "--traffic", "a b.csv"}),
            "tidegate simulate traffic 'a b.csv' --policy p.yaml");
  EXPECT_EQ(NewSpelling({"--trace", "pods.csv", "--until-allocated", "--seeds", "10"}),
            "tidegate simulate fill pods.csv --seeds 10");
  EXPECT_EQ(NewSpelling({"--snapshot", "day.json", "--explain", "j"}),
            "tidegate policy replay day.json --explain j");
  EXPECT_EQ(NewSpelling({"--trace"}), "tidegate simulate jobs FILE");
  EXPECT_EQ(NewSpelling({"--nodes", "4"}), "");
}

TEST(CliSimulateCommand, SuggestsTheWordThatWasMeant) {
  const tests::CliResult result = tests::RunCli({"simulate", "trafic", "x"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown \"trafic\", did you mean \"traffic\"?"));
}

}  // namespace
