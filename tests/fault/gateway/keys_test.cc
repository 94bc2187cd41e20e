// Keys changed by the command line and by the admin API, beside a gateway that runs, and without one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gateway/store/sqlite.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"
#include "tests/support/small_disk.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using testing::HasSubstr;

CliResult Keys(const GatewayProcess& gateway, std::vector<std::string> args) {
  args.insert(args.begin(), "keys");
  args.insert(args.end(), {"-c", gateway.config_path()});
  return RunCli(args);
}

// The secret of a new key of the tenant demo.
std::string MakeKey(const GatewayProcess& gateway,
                    std::vector<std::string> args = {"create", "--tenant", "demo"}) {
  const CliResult made = Keys(gateway, std::move(args));
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, testing::Not(HasSubstr("does not work by it")));
  return made.out.substr(0, made.out.find('\n'));
}

std::string IdOf(const std::string& secret) {
  return secret.substr(3, 10);
}

std::string With(const std::string& secret) {
  return fmt::format("Authorization: Bearer {}\r\n", secret);
}

// What the ledger has of keys: how often each action and key.
std::map<std::string, int> KeyRecords(const GatewayProcess& gateway) {
  std::map<std::string, int> records;
  for (const Record& record : gateway.Records()) {
    if (record.kind == Kind::kKey) ++records[record.action + " " + record.subject];
  }
  return records;
}

TEST(Keys, ACommandsChangeIsInForceInTheRunningGatewayWhenTheCommandEnds) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  for (int i = 0; i < 10; ++i) {
    const std::string secret = MakeKey(gateway);
    EXPECT_EQ(gateway.Ask(Chat({}, With(secret))).status, 200);
    EXPECT_EQ(Keys(gateway, {"revoke", IdOf(secret)}).code, 0);
    const Answer refused = gateway.Ask(Chat({}, With(secret)));
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.code(), "key_revoked");
  }
}

TEST(Keys, AreMadeWithoutAGatewayAndReachTheLedgerOnceWhateverItSurvives) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  std::map<std::string, int> expected;
  std::vector<std::string> secrets;
  for (int round = 0; round < 4; ++round) {
    const std::string running = MakeKey(gateway);
    expected["created " + IdOf(running)] = 1;
    gateway.Kill();
    const std::string alone = MakeKey(gateway);
    const std::string gone = MakeKey(gateway);
    EXPECT_EQ(Keys(gateway, {"revoke", IdOf(gone)}).code, 0);
    expected["created " + IdOf(alone)] = 1;
    expected["created " + IdOf(gone)] = 1;
    expected["revoked " + IdOf(gone)] = 1;
    gateway.Start();
    secrets.insert(secrets.end(), {running, alone});
    for (const std::string& secret : secrets) EXPECT_EQ(gateway.Ask(Chat({}, With(secret))).status, 200);
    EXPECT_EQ(gateway.Ask(Chat({}, With(gone))).code(), "key_revoked");
  }
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return KeyRecords(gateway) == expected; }));
  EXPECT_EQ(KeyRecords(gateway), expected);
  const CliResult listed = Keys(gateway, {"list", "--json"});
  EXPECT_EQ(Json::parse(listed.out).size(), 12u);
}

TEST(Keys, ACommandSaysWhenTheRunningGatewayDoesNotFollow) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  gateway.process().Signal(SIGSTOP);
  const CliResult made = Keys(gateway, {"create", "--tenant", "demo"});
  gateway.process().Signal(SIGCONT);
  EXPECT_EQ(made.code, 0);
  EXPECT_THAT(made.err, HasSubstr("the change is stored, but the running gateway"));
  const std::string secret = made.out.substr(0, made.out.find('\n'));
  EXPECT_TRUE(
      Within(RawClient::kPatience, [&] { return gateway.Ask(Chat({}, With(secret))).status == 200; }));
}

TEST(Keys, AStoreThatAnotherProcessLocksRefusesChangesAndRequestsAreServed) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  const std::string admin = MakeKey(gateway, {"create", "--admin", "admin"});
  const std::string secret = MakeKey(gateway);
  const auto lock = gateway::sqlite::Database::Open(gateway.state_dir() + "/state.db",
                                                    gateway::sqlite::Database::Sync::kFull);
  ASSERT_TRUE(lock.ok()) << lock.status();
  ASSERT_TRUE((*lock)->Execute("BEGIN IMMEDIATE").ok());
  const std::string revoke = fmt::format("/admin/v1/keys/{}:revoke", IdOf(secret));
  std::atomic<bool> answered{false};
  std::thread asking([&] {
    const Answer refused = gateway.AskAdmin(Post(revoke, "{}", With(admin)));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.code(), "store_unavailable");
    // The second where something else of the gateway waited for the lock before it.
    EXPECT_THAT(refused.body, testing::AnyOf(HasSubstr("another process keeps it locked"),
                                             HasSubstr("the disk or another process delays it")));
    answered = true;
  });
  int served = 0;
  while (!answered) {
    EXPECT_EQ(gateway.Ask(Chat({}, With(secret))).status, 200);
    ++served;
  }
  asking.join();
  EXPECT_GE(served, 3) << "while the change waited for the lock";
  ASSERT_TRUE((*lock)->Execute("ROLLBACK").ok());
  EXPECT_EQ(gateway.AskAdmin(Post(revoke, "{}", With(admin))).status, 200);
  EXPECT_EQ(gateway.Ask(Chat({}, With(secret))).code(), "key_revoked");
}

TEST(Keys, OnAFullDiskKeysAreStillRevokedAndARefusedChangeSaysWhy) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .ledger = "min_free_bytes: 1MiB",
                                .anonymous = false,
                                .state_dir = disk.path() + "/state"});
  const std::string admin = MakeKey(gateway, {"create", "--admin", "admin"});
  const std::string kept = MakeKey(gateway);
  std::vector<std::string> leaked;
  for (int i = 0; i < 20; ++i) leaked.push_back(MakeKey(gateway));
  disk.Fill();
  for (const std::string& secret : leaked) {
    const Answer answer =
        gateway.AskAdmin(Post(fmt::format("/admin/v1/keys/{}:revoke", IdOf(secret)), "{}", With(admin)));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(gateway.Ask(Chat({}, With(secret))).code(), "key_revoked");
  }
  const auto create = [&] {
    return gateway.AskAdmin(Post("/admin/v1/keys", R"({"tenant":"demo"})", With(admin)));
  };
  // The room that the store keeps has an end.
  std::optional<Answer> refused;
  for (int i = 0; i < 5000 && !refused; ++i) {
    if (Answer answer = create(); answer.status != 201) refused = std::move(answer);
  }
  ASSERT_TRUE(refused) << "the disk was not full";
  EXPECT_EQ(refused->status, 503);
  EXPECT_THAT(refused->code(), testing::AnyOf("store_unavailable", "ledger_unavailable"));
  EXPECT_EQ(gateway.AskAdmin(Get("/livez")).status, 200);
  disk.Empty();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return create().status == 201; }));
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Ask(Chat({}, With(kept))).status == 200; }));
  EXPECT_EQ(gateway.Ask(Chat({}, With(leaked.back()))).code(), "key_revoked");
}

std::string AnthropicStream(const std::string& secret) {
  return Post("/v1/messages",
              Json{{"model", "chat-small"},
                   {"stream", true},
                   {"max_tokens", 2000},
                   {"messages", {{{"role", "user"}, {"content", "count"}}}}}
                  .dump(),
              With(secret));
}

TEST(Keys, ARevokedKeyEndsItsRunningRequestsWithAnErrorAndTheyAreCharged) {
  const EngineProcess engine(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms", "--step-per-sequence", "0s"});
  const GatewayProcess gateway({.replicas = {engine.port()}, .anonymous = false});
  const std::string secret = MakeKey(gateway);
  const std::string other = MakeKey(gateway);
  const Json stream{{"stream", true}, {"max_tokens", 2000}, {"ignore_eos", true}};
  const Json whole{{"max_tokens", 2000}, {"ignore_eos", true}};

  RawClient openai = gateway.Connect();
  ASSERT_TRUE(openai.Send(Chat(stream, With(secret) + "X-Request-Id: openai\r\n")));
  RawClient anthropic = gateway.Connect();
  ASSERT_TRUE(anthropic.Send(AnthropicStream(secret)));
  RawClient not_streaming = gateway.Connect();
  ASSERT_TRUE(not_streaming.Send(Chat(whole, With(secret) + "X-Request-Id: whole\r\n")));
  RawClient others = gateway.Connect();
  ASSERT_TRUE(others.Send(Chat(stream, With(other))));
  for (RawClient* client : {&openai, &anthropic, &others}) {
    ASSERT_EQ(client->ReadHead().status, 200);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->ReadEvent(RawClient::kPatience));
  }
  EXPECT_EQ(Keys(gateway, {"revoke", IdOf(secret), "--reason", "leaked"}).code, 0);

  const auto last_of = [](RawClient& client) {
    std::string last;
    while (auto event = client.ReadEvent(RawClient::kPatience)) last = *std::move(event);
    return last;
  };
  const std::string openai_end = last_of(openai);
  EXPECT_THAT(openai_end, testing::AllOf(testing::StartsWith("data: "), HasSubstr("\"error\""),
                                         HasSubstr("key_revoked")));
  const std::string anthropic_end = last_of(anthropic);
  EXPECT_THAT(anthropic_end, testing::AllOf(HasSubstr("event: error"), HasSubstr("revoked")));
  const Answer refused = not_streaming.Read();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.code(), "key_revoked");
  EXPECT_TRUE(others.ReadEvent(RawClient::kPatience)) << "of another key";

  const Record close = gateway.CloseOf("openai");
  EXPECT_EQ(close.reason, "key_revoked");
  EXPECT_EQ(close.error, "key_revoked");
  EXPECT_GT(close.input, 0u);
  EXPECT_GE(close.output, 2u);
  EXPECT_LT(close.output, 2000u);
  EXPECT_EQ(gateway.CloseOf("whole").reason, "key_revoked");
}

TEST(Keys, ADamagedStoreStartsNothingAndNamesTheFile) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}});
  gateway.Kill();
  const std::string path = gateway.state_dir() + "/state.db";
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path + suffix);
  std::ofstream(path) << "this is no database, whatever its name says, and long enough to be read as one";
  ChildProcess process({TIDEGATE_BINARY, "serve", "-c", gateway.config_path()}, gateway.state_dir() + ".log");
  EXPECT_NE(process.Wait(RawClient::kPatience), 0);
  EXPECT_THAT(process.Output(),
              testing::AllOf(HasSubstr(path), HasSubstr("not a database"), HasSubstr("restore")));
}

}  // namespace
}  // namespace tests
