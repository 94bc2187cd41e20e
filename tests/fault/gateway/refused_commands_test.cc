// What a command says when a gateway refuses what it asks for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

using testing::HasSubstr;

TEST(RefusedCommands, NameTheMemberThatIsWrong) {
  const FakeUpstream gateway(JsonAnswer(
      R"({"error":{"message":"weight: must be from 1 to 1; job.yaml:/x (line 1): is wrong","code":"invalid_value",)"
      R"("details":[{"param":"weight","message":"must be from 1 to 1"},)"
      R"({"param":"x","message":"job.yaml:/x (line 1): is wrong"}]}})",
      400));
  const TempDir dir;
  std::ofstream(dir / "key") << "tg-0123456789-abcdefghijklmnopqrstuvwxyz0123456789\n";
  const CliResult refused = RunCli({"tenants", "create", "demo/x", "--key-file", dir / "key", "--gateway",
                                    fmt::format("http://127.0.0.1:{}", gateway.port())});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, "tidegate: weight: must be from 1 to 1\ntidegate: job.yaml:/x (line 1): is wrong\n");
}

TEST(RefusedCommands, TellTheAddressForApplicationsFromThatOfTheConsole) {
  const FakeUpstream engine(JsonAnswer("{}"));
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const CliResult refused = RunCli({"login", fmt::format("http://127.0.0.1:{}", gateway.port())});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("this is the address for applications: give that of the console"));
}

TEST(RefusedCommands, ArgumentsWithoutEffectAndFoldersWithoutALedgerAreRefused) {
  const CliResult second = RunCli({"statement", "--verify", "january.csv", "february.csv"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err,
              HasSubstr("--verify checks one file, january.csv, so \"february.csv\" has no effect"));
  EXPECT_EQ(RunCli({"statement", "--verify", "january.csv", "--format", "csv"}).code, 2);
  const CliResult proof = RunCli({"audit", "verify", "--proof", "p.json", "--ledger", "ledger"});
  EXPECT_EQ(proof.code, 2);
  EXPECT_THAT(proof.err, HasSubstr("have no effect with --proof"));
  const TempDir folder;
  std::filesystem::create_directories(folder / "state/ledger");
  const CliResult none = RunCli({"audit", "export", "--ledger", folder / "state"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("has no ledger: neither segments nor signing.pub; did you mean " +
                                  (folder / "state/ledger?")));
  EXPECT_EQ(RunCli({"audit", "export", "--all", folder / "state"}).code, 1);
  EXPECT_EQ(RunCli({"logout", "--all", "https://a.example.com:9090"}).code, 2);
}

TEST(RefusedCommands, UsageRefusesOptionsThatHaveNoEffectAndTellsUnknownNames) {
  const FakeUpstream engine(JsonAnswer("{}"));
  const GatewayProcess gateway({.replicas = {engine.port()}});
  const auto usage = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"usage", "--config", gateway.config_path()});
    return RunCli(args);
  };
  const CliResult focus = usage({"--format", "focus", "--by", "tenant"});
  EXPECT_EQ(focus.code, 2);
  EXPECT_THAT(focus.err, HasSubstr("--by: has no effect with --format focus"));
  EXPECT_EQ(usage({"--format", "focus"}).code, 0);
  const CliResult both = usage({"--json", "--format", "csv"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--json and --format csv exclude each other"));
  EXPECT_EQ(usage({"--json", "--format", "json"}).code, 0);

  EXPECT_THAT(
      usage({"--tenant", "dmeo"}).err,
      HasSubstr("no usage of \"dmeo\" in this time, and the configuration has no such tenant, did you mean "
                "\"demo\"?"));
  EXPECT_THAT(usage({"--model", "nope"}).err, HasSubstr("the configuration has no such model"));
  EXPECT_EQ(usage({"--tenant", "demo"}).err, "");
}

TEST(RefusedCommands, SayHowTheyReachAGateway) {
  const TempDir dir;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"usage"},
                                                  {"keys", "list"},
                                                  {"audit", "tail"},
                                                  {"route", "explain", "--last"}}) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--config", dir / "none.yaml"});
    const CliResult refused = RunCli(args);
    EXPECT_EQ(refused.code, 2) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("sign in with tidegate login, or give the address of the gateway"))
        << command[0];
  }
}

}  // namespace
}  // namespace tests
