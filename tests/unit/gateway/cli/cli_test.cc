#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "gateway/api/error.h"
#include "gateway/cli/output.h"
#include "gateway/net/transport.h"
#include "tests/support/run_cli.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Result = tests::CliResult;

class Cli {
 public:
  // Of its own folder when none is given.
  explicit Cli(const std::string& state_dir = "", const std::string& listen = "127.0.0.1:0",
               const std::string& key = "env:A_SECRET_THAT_IS_NOT_SET_HERE") {
    std::ofstream(path_)
        << "server: {listen: " << listen
        << ", admin: 127.0.0.1:0, state_dir: " << (state_dir.empty() ? dir_ / "var" : state_dir) << "}\n"
        << "admin: {bootstrap_key: \"" << key << "\"}\n"
        << "tenants: [{name: demo, models: ['*']}, {name: search, parent: demo}]\n"
        << "models: [{name: chat-small, endpoints: [{url: 'http://127.0.0.1:8000', engine: vllm}]}]\n";
  }

  Result operator()(const std::vector<std::string>& args) const { return tests::RunCli(args); }
  // With the configuration.
  Result With(std::vector<std::string> args) const {
    args.insert(args.end(), {"-c", path_});
    return (*this)(args);
  }

 private:
  tests::TempDir dir_;
  std::string path_ = dir_ / "t.yaml";
};

TEST(CliKeys, ASecretIsPrintedOnceAndByItself) {
  const Cli cli;
  const Result made = cli.With({"keys", "create", "--tenant", "search", "--name", "ci", "--expires", "30d"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("tg-"));
  const std::string secret = made.out.substr(0, made.out.size() - 1);
  EXPECT_THAT(made.err, AllOf(HasSubstr("demo/search"), HasSubstr("only time"), Not(HasSubstr(secret))));
  const Result listed = cli.With({"keys", "list"});
  EXPECT_THAT(listed.out,
              AllOf(HasSubstr(secret.substr(3, 10)), HasSubstr("active"), Not(HasSubstr(secret))));
}

TEST(CliKeys, ReportsEveryProblemAndMakesNoKey) {
  const Cli cli;
  const Result refused =
      cli.With({"keys", "create", "--tenant", "serch", "--models", "chat-smal", "--endpoints",
                "chats,embeddings", "--expires", "never", "--limits", "{\"requests_per_minut\":1}"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("--tenant: unknown tenant \"serch\", did you mean \"search\"?"),
                    HasSubstr("--models: \"chat-smal\" is not a model"), HasSubstr("--endpoints: \"chats\""),
                    HasSubstr("--expires: \"never\""), HasSubstr("--limits: ")));
  EXPECT_EQ(cli.With({"keys", "create", "--admin", "root"}).code, 2);
  EXPECT_EQ(cli.With({"keys", "create"}).code, 2);
  EXPECT_EQ(cli.With({"keys", "create", "--tenant", "demo", "--admin", "viewer"}).code, 2);
  EXPECT_THAT(cli.With({"keys", "create", "--admin", "viewer", "--models", "*"}).err, HasSubstr("no effect"));
  EXPECT_EQ(cli.With({"keys", "list", "--json"}).out, "[]\n");
}

TEST(Cli, WhatProblemsQuoteReachesNoTerminalAsItIs) {
  const Cli cli;
  const std::string bad = "no\x1b[2Jt\u202Ehere";
  const std::vector<std::vector<std::string>> commands = {{"keys", "create", "--tenant", bad},
                                                          {"usage", "--since", bad},
                                                          {"usage", "--by", bad},
                                                          {"keys", "list", bad}};
  for (const std::vector<std::string>& args : commands) {
    const Result refused = cli.With(args);
    EXPECT_EQ(refused.code, 2) << args.front() << refused.err;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("\\x1b[2J"), Not(HasSubstr("\x1b")), Not(HasSubstr("\u202E"))));
  }
}

TEST(CliKeys, TheListShowsLimits) {
  const Cli cli;
  EXPECT_EQ(cli.With({"keys", "create", "--tenant", "demo", "--limits",
                      R"({"requests_per_minute":60,"concurrency":4,"budget":{"usd":5,"period":"day"}})"})
                .code,
            0);
  EXPECT_EQ(cli.With({"keys", "create", "--tenant", "demo", "--limits", R"({"requests_per_minute":1})"}).code,
            0);
  EXPECT_EQ(cli.With({"keys", "create", "--tenant", "demo"}).code, 0);
  EXPECT_THAT(cli.With({"keys", "list"}).out,
              AllOf(HasSubstr("LIMITS"), HasSubstr("5 USD/day, 4 at once, 60 requests/min\n"),
                    HasSubstr("  1 request/min\n"), HasSubstr("  -\n")));
}

TEST(CliKeys, RotatesAndRevokes) {
  const Cli cli;
  const json made = json::parse(cli.With({"keys", "create", "--tenant", "demo", "--json"}).out);
  const std::string id = made["id"];
  const Result rotated = cli.With({"keys", "rotate", id, "--overlap", "1h", "--json"});
  EXPECT_EQ(rotated.code, 0) << rotated.err;
  const json next = json::parse(rotated.out);
  EXPECT_EQ(next["rotated_from"], id);
  EXPECT_NE(next["secret"], made["secret"]);
  EXPECT_EQ(cli.With({"keys", "rotate", id}).code, 1);
  EXPECT_EQ(cli.With({"keys", "rotate", id, "--overlap", "soon"}).code, 2);
  EXPECT_EQ(cli.With({"keys", "revoke", id, "--reason", "leaked"}).code, 0);
  EXPECT_EQ(cli.With({"keys", "revoke", id}).code, 1);
  EXPECT_EQ(cli.With({"keys", "revoke", "AAAAAAAAAA"}).code, 2);
  EXPECT_EQ(cli.With({"keys", "revoke"}).code, 2);
  const json all = json::parse(cli.With({"keys", "list", "--json"}).out);
  EXPECT_EQ(all[0]["state"], "revoked");
  EXPECT_EQ(all[1]["state"], "active");
}

TEST(CliUsage, ShowsWhatTheLedgerHas) {
  tests::World world;
  world.Serve("demo/search", "chat-small", 100, 20);
  world.Serve("demo", "chat-small", 1, 2);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const Cli cli(world.dir.path());
  const Result table = cli.With({"usage", "--by", "tenant,model", "--since", "1h"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("TENANT"), HasSubstr("demo/search"), HasSubstr("total"),
                               HasSubstr("0.000123")));
  const json rows = json::parse(cli.With({"usage", "--by", "tenant", "--json"}).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["tenant"], "demo/search");
  EXPECT_EQ(rows[1]["output_tokens"], 20);
  EXPECT_EQ(cli.With({"usage", "--by", "tenant", "--format", "csv"}).out,
            "tenant,requests,errors,failed,input_tokens,cached_tokens,output_tokens,cost_micro_usd\r\n"
            "demo,1,0,0,1,0,2,3\r\ndemo/search,1,0,0,100,0,20,120\r\n");
  EXPECT_EQ(json::parse(cli.With({"usage", "--tenant", "search", "--json"}).out).size(), 1u);
}

TEST(CliUsage, ErrorsOfCallersAreSeparateFromOurs) {
  using gateway::ledger::EndReason;
  tests::World world;
  for (const EndReason reason : {EndReason::kDone, EndReason::kRefused, EndReason::kBadRequest,
                                 EndReason::kUpstreamFailed, EndReason::kTimedOut, EndReason::kInterrupted})
    world.Serve("demo", "chat-small", 1, 1, reason);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const Cli cli(world.dir.path());
  const Result table = cli.With({"usage", "--by", "tenant", "--since", "1h"});
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("REQUESTS  REFUSED  FAILED"), testing::ContainsRegex("demo +6 +2 +3 ")))
      << table.err;
  const json rows = json::parse(cli.With({"usage", "--by", "tenant", "--json"}).out);
  EXPECT_EQ(rows[0]["errors"], 5);
  EXPECT_EQ(rows[0]["failed"], 3);
}

TEST(CliUsage, ExitCodesTellWhatWasWrong) {
  const Cli cli;
  EXPECT_EQ(cli.With({"usage"}).code, 1);  // no ledger yet
  EXPECT_EQ(cli.With({"usage", "--by", "tenants"}).code, 2);
  EXPECT_EQ(cli.With({"usage", "--format", "xml"}).code, 2);
  EXPECT_EQ(cli({"usage", "-c", "/nonexistent.yaml"}).code, 2);
  EXPECT_EQ(cli({}).code, 2);
  EXPECT_EQ(cli({"usages"}).code, 2);
}

TEST(CliAudit, ExportsContinuesAndVerifies) {
  tests::World world;
  world.Serve("demo/search", "chat-small", 100, 20);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  const Cli cli(world.dir.path());
  const std::string file = world.dir / "out.jsonl";
  Result exported = cli.With({"audit", "export", "--kind", "close", "--out", file});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(std::ranges::count(tests::ReadFile(file), '\n'), 1);
  world.Serve("demo/search", "chat-small", 1, 2);
  ASSERT_TRUE(world.shared.ledger->Flush().ok());
  exported = cli.With({"audit", "export", "--kind", "close", "--out", file, "--json"});
  EXPECT_EQ(json::parse(exported.out)["records"], 1);
  EXPECT_EQ(std::ranges::count(tests::ReadFile(file), '\n'), 2);
  EXPECT_EQ(std::ranges::count(cli.With({"audit", "export", "--kind", "open"}).out, '\n'), 2);
  EXPECT_EQ(cli.With({"audit", "export", "--kind", "opens"}).code, 2);
  EXPECT_EQ(std::ranges::count(cli.With({"audit", "tail", "-n", "2"}).out, '\n'), 2);

  ASSERT_TRUE(world.shared.ledger->Stop().ok());
  const Result good = cli.With({"audit", "verify"});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("good"));
  const auto segments = gateway::ledger::ListSegments(world.ledger_dir());
  std::string text = tests::ReadFile(segments->front().path);
  text.replace(text.find("\"input\":100"), 11, "\"input\":101");
  std::ofstream(segments->front().path) << text;
  const Result bad = cli.With({"audit", "verify"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("BAD"), HasSubstr("line"), HasSubstr("record")));
  const json report = json::parse(cli.With({"audit", "verify", "--json"}).out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_GT(report["first_bad"]["seq"], 0);
  EXPECT_EQ(cli({"audit", "verify", "--ledger", world.ledger_dir()}).code, 1);
  EXPECT_EQ(cli.With({"audit", "verify", "--anchor", "7"}).code, 2);
}

TEST(CliAudit, VerifySaysWhatItCouldNotCompareAndFindsACutTailByCheckpointsFromElsewhere) {
  tests::World world;
  world.Serve("demo/search", "chat-small", 100, 20);
  ASSERT_TRUE(world.shared.ledger->Stop().ok());
  const Cli cli(world.dir.path());
  const std::string ledger = world.ledger_dir();
  const Result alone = cli.With({"audit", "verify"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("--public-key"), HasSubstr("no checkpoint from elsewhere")));
  EXPECT_EQ(json::parse(cli.With({"audit", "verify", "--json"}).out)["not_compared"].size(), 2u);

  // As a sink, and syslog, write it.
  const std::string head = tests::ReadFile(ledger + "/head.json");
  const std::string kept = world.dir / "archive.jsonl";
  std::ofstream(kept) << "{\"seq\":1,\"kind\":\"open\"}\nNov 20 host tidegate: " << head;
  const std::string key = world.dir / "auditor.pub";
  std::filesystem::copy_file(ledger + "/signing.pub", key);
  const std::vector<std::string> audited = {"audit",        "verify", "--ledger",      ledger,
                                            "--public-key", key,      "--checkpoints", kept};
  const Result whole = cli(audited);
  EXPECT_EQ(whole.code, 0) << whole.out << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("compared with " + kept + ": 1 checkpoint"));
  EXPECT_EQ(whole.err, "");
  EXPECT_EQ(cli({"audit", "verify", "--ledger", ledger, "--checkpoints", key}).code, 1)
      << "has no checkpoint";

  // Another gateway's ledger in its place, with its own key and head.
  tests::World other;
  other.Serve("demo", "chat-small", 1, 2);
  ASSERT_TRUE(other.shared.ledger->Stop().ok());
  std::filesystem::remove_all(ledger);
  std::filesystem::copy(other.ledger_dir(), ledger);
  EXPECT_EQ(cli.With({"audit", "verify"}).code, 0) << "this much cannot be seen from state_dir alone";
  const Result replaced = cli({"audit", "verify", "--ledger", ledger, "--checkpoints", kept});
  EXPECT_EQ(replaced.code, 1);
  EXPECT_THAT(replaced.out, HasSubstr("replaced"));
  EXPECT_THAT(cli(audited).out, HasSubstr("signature"));
}

TEST(CliCheck, FindsAStateDirThatCannotBeUsed) {
  const tests::TempDir folder;
  std::ofstream(folder / "file") << "x";
  std::ofstream(folder / "key") << tests::kBootstrapKey;
  const std::string key = "file:" + (folder / "key");
  for (const std::string path : {"file", "file/below/it"}) {
    const Result checked = Cli(folder / path, "127.0.0.1:0", key).With({"check"});
    EXPECT_EQ(checked.code, 2) << checked.out;
    EXPECT_THAT(checked.err, AllOf(HasSubstr("t.yaml:/server/state_dir (line 1): "),
                                   HasSubstr("is not a folder"), HasSubstr("1 problem\n")));
  }
  EXPECT_EQ(Cli("", "127.0.0.1:0", key).With({"check"}).err, "") << "what is missing is made by serve";
}

TEST(CliCheck, WarnsOfAPortThatIsTaken) {
  const auto taken = gateway::net::ListeningSocket::Open("127.0.0.1:0", 1);
  ASSERT_TRUE(taken.ok());
  const tests::TempDir folder;
  std::ofstream(folder / "key") << tests::kBootstrapKey;
  const std::string key = "file:" + (folder / "key");
  const Cli cli("", fmt::format("127.0.0.1:{}", (*taken)->port()), key);
  const Result checked = cli.With({"check"});
  EXPECT_EQ(checked.code, 0) << "it may be another machine's configuration";
  EXPECT_THAT(checked.err, AllOf(StartsWith("warning: "), HasSubstr("/server/listen (line 1): "),
                                 HasSubstr("the port is in use")));
  EXPECT_THAT(checked.out, HasSubstr("1 model, 2 tenants, 1 warning"));
  const json warnings = json::parse(cli.With({"check", "--json"}).out)["warnings"];
  EXPECT_EQ(warnings.at(0)["pointer"], "/server/listen");
}

TEST(CliUpgradeCheck, NamesWhatReplacesAnOption) {
  const tests::TempDir folder;
  const std::string path = folder / "t.yaml";
  std::ofstream(path) << "server: {listen: 127.0.0.1:8080, state_dir: " << folder / "state" << "}\n"
                      << "tenants: [{name: default, models: [\"*\"]}]\n"
                      << "models: [{name: m, endpoints: [{url: http://127.0.0.1:8000, engine: vllm}]}]\n";
  const Cli cli;
  const Result good = cli({"upgrade-check", path, "--json"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(json::parse(good.out)["refused"], false);
  std::ofstream(path, std::ios::app) << "ledger: {sinks: [{name: a, type: file, path: x, format: csv}]}\n";
  const Result refused = cli({"upgrade-check", path});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the last with this option: sinks write JSON lines"));
}

TEST(CliHealthcheck, FailsWhenNobodyAnswers) {
  const auto unused = gateway::net::ListeningSocket::Open("127.0.0.1:0", 1);
  ASSERT_TRUE(unused.ok());
  const uint16_t port = (*unused)->port();
  const Cli cli;
  const Result asked =
      cli({"healthcheck", "--timeout", "1", "--gateway", fmt::format("http://127.0.0.1:{}", port)});
  EXPECT_EQ(asked.code, 1);
  EXPECT_THAT(asked.err, HasSubstr("does not answer"));
}

TEST(CliRoute, WithoutALogItSaysHowToGetOne) {
  const Result explained = Cli().With({"route", "explain", "--last"});
  EXPECT_EQ(explained.code, 1);
  EXPECT_THAT(explained.err,
              AllOf(HasSubstr("there is no routing log yet"), HasSubstr("routing_log: {sample: 1}")));
}

TEST(Cli, EveryCommandHelpsWithAnExample) {
  const Cli cli;
  const json commands = json::parse(cli({"reference", "commands"}).out);
  EXPECT_GT(commands.size(), 25U);
  for (const json& command : commands) {
    const std::string help = command["help"];
    EXPECT_THAT(help, HasSubstr("Usage: " + command["command"].get<std::string>()));
    if (help.find("Subcommands:") == std::string::npos)
      EXPECT_THAT(help, HasSubstr("Example")) << command["command"];
  }
  EXPECT_EQ(cli({"keys", "create", "--help"}).code, 0);
}

TEST(Cli, ReferenceHasAMeaningForEveryErrorCode) {
  const Cli cli;
  const json errors = json::parse(cli({"reference", "errors"}).out);
  EXPECT_EQ(errors.size(), gateway::api::AllCodes().size());
  for (const json& error : errors)
    EXPECT_THAT(error["meaning"].get<std::string>(), EndsWith(".")) << error["code"];
  EXPECT_TRUE(json::parse(cli({"reference", "admin-api"}).out).contains("paths"));
}

TEST(Cli, VersionIsPrinted) {
  const Cli cli;
  EXPECT_THAT(cli({"version"}).out, StartsWith("tidegate "));
  EXPECT_TRUE(json::parse(cli({"version", "--json"}).out).contains("version"));
  EXPECT_EQ(cli({"--version"}).out, cli({"version"}).out);
  EXPECT_EQ(cli({"--version"}).code, 0);
}

TEST(Cli, NamesWhatItDoesNotKnow) {
  const Cli cli;
  struct Case {
    std::vector<std::string> words;
    std::string told;
  };
  for (const Case& c : std::vector<Case>{
           {{"usages"}, "tidegate has no command \"usages\", did you mean \"usage\"?"},
           {{"keys", "lsit"}, "tidegate keys has no command \"lsit\", did you mean \"list\"?"},
           {{"keys", "list", "--jsno"}, "tidegate keys list has no option --jsno, did you mean \"--json\"?"},
           {{"check", "--confg=x", "y"}, "tidegate check has no option --confg"},
           {{"keys", "list", "all"}, "tidegate keys list does not take the argument \"all\""},
           {{"keys"}, "tidegate keys needs a command: create, "},
           {{}, "tidegate needs a command: serve, check, "}}) {
    const Result run = cli(c.words);
    EXPECT_EQ(run.code, 2) << c.told;
    EXPECT_EQ(run.out, "") << c.told;
    EXPECT_THAT(run.err, StartsWith(c.told));
  }
}

TEST(Cli, UnderSudoTheActorIsTheOneWhoCalledIt) {
  const std::string before = gateway::cli::Actor();
  setenv("SUDO_UID", "4242", 1);
  EXPECT_EQ(gateway::cli::Actor(), getuid() == 0 ? "cli:4242" : before) << "only root is believed";
  setenv("SUDO_UID", "ada", 1);
  EXPECT_EQ(gateway::cli::Actor(), before);
  unsetenv("SUDO_UID");
}

TEST(Cli, CountsAreDigits) {
  const Cli cli;
  for (const char* count : {"-1", "010", "0x10", "1.5", "1e3", "", "99999999999999999999"}) {
    const Result run = cli.With({"audit", "tail", "--last", count});
    EXPECT_EQ(run.code, 2) << count;
    EXPECT_THAT(run.err, HasSubstr("must be a whole number of at least 0")) << count;
  }
}

}  // namespace
