// The ledger's sinks in a running gateway: a file, a webhook and syslog get every record at least once,
// whatever happens to them and to the gateway, and how far behind they are can be seen.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/silent_peer.h"

namespace tests {
namespace {

// A syslog daemon's socket.
class LogSocket {
 public:
  explicit LogSocket(std::string path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~LogSocket() { close(fd_); }

  // Numbers of the records in all that has come since.
  void Drain(std::set<uint64_t>& numbers) {
    std::array<char, 65536> message;
    ssize_t n = 0;
    while ((n = recv(fd_, message.data(), message.size(), MSG_DONTWAIT)) > 0) {
      const std::string text(message.data(), static_cast<size_t>(n));
      EXPECT_THAT(text, testing::StartsWith("<134>1 "));
      const size_t at = text.find(" seq=\"");
      ASSERT_NE(at, std::string::npos) << text;
      numbers.insert(std::stoull(text.substr(at + 6)));
    }
  }

 private:
  const int fd_;
};

struct Sinks : testing::Test {
  GatewayConfig Config(uint16_t webhook) const {
    return {
        .replicas = {engine.port()},
        .ledger = fmt::format(
            "sinks: [{{name: archive, type: file, path: {}, batch_interval: 20ms, max_backoff: 200ms}}, "
            "{{name: billing, type: webhook, url: \"http://127.0.0.1:{}/usage\", timeout: 500ms, "
            "batch_records: 5, batch_interval: 20ms, max_backoff: 200ms}}, "
            "{{name: siem, type: syslog, address: \"unix:{}\", batch_interval: 20ms, max_backoff: 200ms}}]",
            file, webhook, folder / "log")};
  }
  static std::string Series(std::string_view name, std::string_view sink) {
    return fmt::format("{}{{sink=\"{}\"}}", name, sink);
  }
  static std::set<uint64_t> LinesOf(const std::string& text) {
    std::set<uint64_t> numbers;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) numbers.insert(Json::parse(line)["seq"].get<uint64_t>());
    return numbers;
  }
  std::set<uint64_t> InFile() const { return LinesOf(tests::ReadFile(file)); }
  // Of the requests from the number `from` on: all that the webhook took.
  static std::set<uint64_t> InWebhook(const FakeUpstream& webhook, size_t from = 0) {
    std::set<uint64_t> numbers;
    const auto seen = webhook.seen();
    for (size_t i = from; i < seen.size(); ++i) {
      EXPECT_THAT(seen[i].head, testing::StartsWith("POST /usage HTTP/1.1\r\n"));
      const std::set<uint64_t> batch = LinesOf(seen[i].body);
      EXPECT_LE(batch.size(), 5u);
      EXPECT_EQ(seen[i].field("x-tidegate-first-seq"), std::to_string(*batch.begin()));
      EXPECT_EQ(seen[i].field("x-tidegate-last-seq"), std::to_string(*batch.rbegin()));
      numbers.insert(batch.begin(), batch.end());
    }
    return numbers;
  }
  static std::set<uint64_t> InLedger(const GatewayProcess& gateway) {
    std::set<uint64_t> numbers;
    for (const auto& record : gateway.Records()) numbers.insert(record.seq);
    return numbers;
  }
  static bool Holds(const std::set<uint64_t>& all, const std::set<uint64_t>& part) {
    return std::includes(all.begin(), all.end(), part.begin(), part.end());
  }
  static void Ask(const GatewayProcess& gateway, int requests) {
    RawClient client = gateway.Connect();
    for (int i = 0; i < requests; ++i) EXPECT_EQ(client.Ask(Chat({{"max_tokens", 1}})).status, 200);
    EXPECT_TRUE(gateway.Settles());
  }

  EngineProcess engine;
  tests::TempDir folder;
  const std::string file = folder / "archive.jsonl";
  LogSocket syslog{folder / "log"};
};

TEST_F(Sinks, EachGetsEveryRecordThoughTheWebhookFailsForAWhile) {
  FakeUpstream webhook(JsonAnswer("{}"));
  const GatewayProcess gateway(Config(webhook.port()));
  const auto lag = Series("tidegate_sink_lag_records", "billing");
  const auto failing = Series("tidegate_sink_failing", "billing");
  Ask(gateway, 5);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(lag) == 0; }));
  const size_t good = webhook.seen().size();
  std::set<uint64_t> taken = InWebhook(webhook);

  webhook.Say(JsonAnswer("{}", 503));
  Ask(gateway, 20);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(failing) == 1; }));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return webhook.seen().size() >= good + 3; }));
  EXPECT_GE(gateway.Metric(lag).value_or(0), 40) << "an open and a close each";
  EXPECT_GT(gateway.Metric(Series("tidegate_sink_lag_seconds", "billing")).value_or(0), 0);
  EXPECT_GT(gateway.Metric(Series("tidegate_sink_failures_total", "billing")).value_or(0), 0);
  EXPECT_THAT(gateway.AskAdmin(Get("/readyz")).body, testing::HasSubstr("sink:billing"));
  EXPECT_EQ(gateway.AskAdmin(Get("/readyz")).status, 200) << "requests are served all the same";
  // The others do not wait for it.
  std::set<uint64_t> logged;
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    syslog.Drain(logged);
    return Holds(InFile(), InLedger(gateway)) && Holds(logged, InLedger(gateway));
  }));
  EXPECT_EQ(gateway.Metric(Series("tidegate_sink_failing", "archive")), 0);

  const size_t before = webhook.seen().size();
  webhook.Say(JsonAnswer("{}"));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    std::set<uint64_t> all = taken;
    all.merge(InWebhook(webhook, before));
    return Holds(all, InLedger(gateway));
  }));
  EXPECT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Metric(lag) == 0 && gateway.Metric(failing) == 0; }));
  // What was tried again is the same batch under the same key, for whoever takes it to see that.
  std::set<std::string> refused;
  for (size_t i = good; i < before; ++i) refused.insert(webhook.seen()[i].field("idempotency-key"));
  EXPECT_EQ(refused.size(), 1u);
  EXPECT_TRUE(refused.contains(webhook.seen()[before].field("idempotency-key")));
}

TEST_F(Sinks, WhatASinkHasNotHadComesAfterAKill) {
  const tests::FreePort port;
  GatewayProcess gateway(Config(port.number()));
  Ask(gateway, 10);
  gateway.Restart();
  Ask(gateway, 10);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    return gateway.Metric(Series("tidegate_sink_lag_records", "billing")).value_or(0) >= 40;
  }));
  const FakeUpstream webhook(JsonAnswer("{}"), port.number());
  std::set<uint64_t> logged;
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    syslog.Drain(logged);
    const std::set<uint64_t> all = InLedger(gateway);
    return Holds(InWebhook(webhook), all) && Holds(InFile(), all) && Holds(logged, all);
  }));
  EXPECT_EQ(gateway.Metric(Series("tidegate_sink_missing_records_total", "billing")), 0);
}

TEST_F(Sinks, AtTheEndEachGetsWhatIsLeftAndHowTheLastRequestsEnded) {
  FakeUpstream webhook(JsonAnswer("{}"));
  GatewayConfig config = Config(webhook.port());
  for (size_t at = 0; (at = config.ledger.find("batch_interval: 20ms", at)) != std::string::npos; ++at) {
    config.ledger.replace(at, 20, "batch_interval: 60s");
  }
  config.server = "shutdown_grace: 100ms";
  GatewayProcess gateway(config);
  Ask(gateway, 5);
  RawClient streaming = gateway.Connect();
  ASSERT_TRUE(streaming.Send(Chat({{"stream", true}, {"max_tokens", 100'000}, {"ignore_eos", true}})));
  const std::string id = streaming.ReadHead().header("x-request-id");
  auto stopped = std::async(std::launch::async, [&] { return gateway.Stop(); });
  std::set<uint64_t> logged;
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    syslog.Drain(logged);
    return stopped.wait_for(milliseconds(0)) == std::future_status::ready;
  }));
  EXPECT_EQ(stopped.get(), 0);
  syslog.Drain(logged);
  const auto cut = gateway.CloseOf(id);
  std::set<uint64_t> all;
  for (const auto& record : gateway.Records()) {
    if (record.seq <= cut.seq) all.insert(record.seq);
  }
  EXPECT_TRUE(Holds(InFile(), all));
  EXPECT_TRUE(Holds(InWebhook(webhook), all));
  EXPECT_TRUE(Holds(logged, all));
}

TEST_F(Sinks, ANewLedgerInTheSameFolderIsDeliveredFromItsBeginning) {
  FakeUpstream webhook(JsonAnswer("{}"));
  GatewayProcess gateway(Config(webhook.port()));
  Ask(gateway, 20);
  EXPECT_EQ(gateway.Stop(), 0);
  const size_t seen = webhook.seen().size();
  std::filesystem::remove_all(gateway.ledger_dir());
  std::filesystem::remove(file);
  gateway.Start();
  Ask(gateway, 3);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] {
    const std::set<uint64_t> all = InLedger(gateway);
    return Holds(InFile(), all) && Holds(InWebhook(webhook, seen), all);
  }));
  EXPECT_EQ(gateway.Metric(Series("tidegate_sink_new_ledgers_total", "archive")), 1);
  EXPECT_THAT(gateway.process().Output(), testing::HasSubstr("audit sink starts from the beginning"));
}

TEST_F(Sinks, AWebhookThatHangsHoldsUpNeitherRequestsNorTheEnd) {
  const FakeUpstream webhook("");  // which takes no connection
  GatewayProcess gateway(Config(webhook.port()));
  Ask(gateway, 50);
  EXPECT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Metric(Series("tidegate_sink_failing", "billing")) == 1; }));
  const std::set<uint64_t> all = InLedger(gateway);
  EXPECT_EQ(gateway.Stop(), 0);
  EXPECT_TRUE(Holds(InFile(), all));
}

TEST_F(Sinks, APostUnderWayEndsWithTheLastRoundHoweverLongItMayTake) {
  const SilentPeer webhook;
  GatewayConfig config = Config(webhook.port());
  config.ledger.replace(config.ledger.find("timeout: 500ms"), 14, "timeout: 10m");
  GatewayProcess gateway(config);
  Ask(gateway, 5);
  EXPECT_EQ(gateway.Stop(), 0);
}

}  // namespace
}  // namespace tests
