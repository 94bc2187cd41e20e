// Stored prompts and answers: sealed wherever they lie, erased for good, and nobody reads them without a
// record.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gateway/ledger/segment.h"
#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using gateway::ledger::Kind;
using gateway::ledger::Record;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "the patient is called Ada Lovelace";
constexpr char kAdminKey[] = "bootstrap-0123456789-0123456789-0123456789";

struct StoredContent : ::testing::Test {
  EngineProcess engine;
  TempDir secrets;
  GatewayConfig config;
  std::unique_ptr<GatewayProcess> gateway;

  void SetUp() override {
    std::ofstream(secrets / "admin") << kAdminKey;
    config.replicas = {engine.port()};
    config.tenant = "store_content: full";
    config.sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", secrets / "admin");
    gateway = std::make_unique<GatewayProcess>(config);
  }
  void Tell() const {
    const Json messages = Json::array({{{"role", "user"}, {"content", kSecret}}});
    const Answer answer = gateway->Ask(Chat({{"max_tokens", 2}, {"messages", messages}}));
    ASSERT_EQ(answer.status, 200) << answer.body;
    gateway->CloseOf(answer.header("x-request-id"));
  }
  CliResult Audit(std::vector<std::string> args) const {
    args.insert(args.begin(), "audit");
    args.insert(args.end(), {"-c", gateway->config_path()});
    return RunCli(args);
  }
  std::string Opened() const { return Audit({"export", "--kind", "content", "--open-content"}).out; }
  // Of the records that commands and readers left.
  bool HasAction(const std::string& action) const {
    return Within(RawClient::kPatience, [&] {
      const std::vector<Record> records = gateway->Records();
      return std::ranges::any_of(records, [&](const Record& record) { return record.action == action; });
    });
  }
};

TEST_F(StoredContent, NoFileOfTheGatewayHasAPromptInClear) {
  Tell();
  gateway->Kill();  // what stands in the journals stays there
  size_t looked_at = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(gateway->state_dir())) {
    if (!file.is_regular_file()) continue;
    ++looked_at;
    EXPECT_THAT(ReadFile(file.path()), Not(HasSubstr("Lovelace"))) << file.path();
  }
  EXPECT_GT(looked_at, 3u);
  gateway->Start();
  EXPECT_THAT(Opened(), HasSubstr(kSecret));
  EXPECT_THAT(Audit({"export", "--kind", "content"}).out,
              AllOf(HasSubstr("ciphertext"), Not(HasSubstr("Lovelace"))));
}

TEST_F(StoredContent, ARunningGatewayErasesATenantAndSealsWhatComesUnderANewKey) {
  Tell();
  ASSERT_THAT(Opened(), HasSubstr(kSecret));
  setenv("TIDEGATE_ADMIN_KEY", kAdminKey, 1);
  const CliResult erased = Audit({"erase-content", "demo", "--reason", "request 4711", "--admin",
                                  fmt::format("http://127.0.0.1:{}", gateway->admin_port())});
  unsetenv("TIDEGATE_ADMIN_KEY");
  ASSERT_EQ(erased.code, 0) << erased.err;
  EXPECT_THAT(Opened(), AllOf(HasSubstr("erased: its key was destroyed"), Not(HasSubstr("Lovelace"))));
  EXPECT_TRUE(HasAction("content.erase"));
  Tell();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    Tell();  // until the shards have the new key
    return Opened().find(kSecret) != std::string::npos;
  }));
  EXPECT_EQ(gateway->Stop(), 0);
  EXPECT_EQ(Audit({"verify"}).code, 0);
}

TEST_F(StoredContent, WhereNoGatewayRunsTheCommandErasesAndTheLedgerHasIt) {
  Tell();
  EXPECT_EQ(gateway->Stop(), 0);
  const CliResult erased = Audit({"erase-content", "demo"});
  EXPECT_EQ(erased.code, 0) << erased.err;
  EXPECT_EQ(Audit({"erase-content", "nobody"}).code, 2);
  EXPECT_THAT(Opened(), AllOf(HasSubstr("erased"), Not(HasSubstr("Lovelace"))));
  EXPECT_EQ(Audit({"verify"}).code, 0);
  gateway->Start();
  EXPECT_TRUE(HasAction("content.erase"));
  Tell();
  EXPECT_THAT(Opened(), HasSubstr(kSecret));
}

TEST_F(StoredContent, CommandsThatReadLeaveARecord) {
  Tell();
  EXPECT_THAT(Opened(), HasSubstr(kSecret));
  EXPECT_EQ(Audit({"tail", "-n", "1"}).code, 0);
  EXPECT_TRUE(HasAction("audit.export"));
  EXPECT_TRUE(HasAction("audit.tail"));
  for (const Record& record : gateway->Records()) {
    if (record.action != "audit.export") continue;
    EXPECT_THAT(record.actor, HasSubstr("cli:"));
    EXPECT_THAT(record.detail, AllOf(HasSubstr("open"), Not(HasSubstr("Lovelace"))));
  }
}

TEST_F(StoredContent, AGatewayDoesNotStartWithoutTheMasterKeyOfItsKeys) {
  EXPECT_EQ(gateway->Stop(), 0);
  std::filesystem::remove(gateway->state_dir() + "/content.key");
  ChildProcess again({TIDEGATE_BINARY, "serve", "--config", gateway->config_path()}, secrets / "log");
  const std::optional<int> status = again.Wait(RawClient::kPatience);
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 1);
  EXPECT_THAT(again.Output(), HasSubstr("content.key"));
}

// --- The ledger and what is kept of it elsewhere ---

struct KeptElsewhere : StoredContent {};

TEST_F(KeptElsewhere, ALedgerThatWasReplacedWithoutTheStoreIsNoticedAtTheStartAndByVerify) {
  config.ledger = "checkpoint: {interval: 50ms}";
  GatewayProcess one(config);
  ASSERT_EQ(one.Ask(Chat({{"max_tokens", 1}})).status, 200);
  const auto verify = [&] { return RunCli({"audit", "verify", "-c", one.config_path()}); };
  ASSERT_TRUE(Within(RawClient::kPatience, [&] {
    return verify().out.find("compared with the store: 1 checkpoint") != std::string::npos;
  })) << verify().out;
  EXPECT_EQ(one.Stop(), 0);
  EXPECT_EQ(gateway->Stop(), 0);
  std::filesystem::remove_all(one.ledger_dir());
  std::filesystem::copy(gateway->ledger_dir(), one.ledger_dir(), std::filesystem::copy_options::recursive);
  const CliResult replaced = verify();
  EXPECT_EQ(replaced.code, 1);
  EXPECT_THAT(replaced.out, HasSubstr("replaced"));
  one.Start();
  EXPECT_THAT(one.AskAdmin(Get("/readyz")).body, HasSubstr("which the store knows"));
  EXPECT_EQ(verify().code, 1) << "the evidence stays";
}

constexpr std::string_view kCheckpoint = "\"kind\":\"checkpoint\"";

TEST_F(KeptElsewhere, ATailThatWasCutWithItsHeadIsFoundByTheFileOfASink) {
  config.ledger = fmt::format(
      "checkpoint: {{interval: 50ms}}, segment_bytes: 64KiB, sinks: [{{name: archive, "
      "type: file, path: {}, batch_interval: 10ms}}]",
      secrets / "archive.jsonl");
  GatewayProcess one(config);
  ASSERT_EQ(one.Ask(Chat({{"max_tokens", 1}})).status, 200);
  // The sink has the first checkpoint before the second call, and one that covers this call before the end.
  const auto delivered = [&](size_t checkpoints) {
    return Within(RawClient::kPatience, [&] {
      const std::string text = ReadFile(secrets / "archive.jsonl");
      size_t found = 0;
      for (size_t at = text.find(kCheckpoint); at != std::string::npos; at = text.find(kCheckpoint, at + 1))
        ++found;
      return found >= checkpoints;
    });
  };
  ASSERT_TRUE(delivered(1));
  ASSERT_EQ(one.Ask(Chat({{"max_tokens", 1}})).status, 200);
  ASSERT_TRUE(delivered(2));
  EXPECT_EQ(one.Stop(), 0);
  const CliResult whole = RunCli({"audit", "verify", "-c", one.config_path()});
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, HasSubstr("compared with " + secrets / "archive.jsonl"));
  // Back to the first checkpoint, with the head that stood there then.
  const auto segments = gateway::ledger::ListSegments(one.ledger_dir());
  ASSERT_TRUE(segments.ok() && segments->size() == 1);
  std::string text = ReadFile(segments->front().path);
  const size_t checkpoint = text.rfind('\n', text.find("\"kind\":\"checkpoint\"")) + 1;
  const size_t end = text.find('\n', checkpoint) + 1;
  std::ofstream(one.ledger_dir() + "/head.json") << text.substr(checkpoint, end - checkpoint);
  std::ofstream(segments->front().path) << text.substr(0, end);
  EXPECT_EQ(RunCli({"audit", "verify", "--ledger", one.ledger_dir()}).code, 0)
      << "this much cannot be seen beside the ledger";
  const CliResult cut = RunCli({"audit", "verify", "-c", one.config_path()});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.out, HasSubstr("the tail is cut"));
}

}  // namespace
}  // namespace tests
