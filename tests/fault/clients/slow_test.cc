// Clients that are slow to send or to read: they are told so, or waited for, and no replica is blamed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/silent_peer.h"
#include "tests/support/tls_files.h"

namespace {

using gateway::ledger::Record;
using tests::Answer;
using tests::Chat;
using tests::EngineProcess;
using tests::FakeUpstream;
using tests::GatewayConfig;
using tests::GatewayProcess;
using tests::Json;
using tests::milliseconds;
using tests::RawClient;
using tests::SilentPeer;

// One failure and the replica is left alone for a minute.
constexpr const char* kStrict = "health: {probe: false}, breaker: {failures: 1, open: 1m}, retries: {max: 0}";

constexpr std::string_view kFormHead =
    "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: gateway\r\n"
    "Content-Type: multipart/form-data; boundary=b\r\n";

std::string Part(std::string_view name, std::string_view value) {
  return fmt::format("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n", name, value);
}

std::string Form(size_t file_bytes, std::string_view more = {}) {
  return fmt::format("{}{}{}--b--\r\n", more, Part("model", "chat-small"),
                     Part("file", std::string(file_bytes, 'x')));
}

std::string WithLength(const std::string& form) {
  return fmt::format("{}Content-Length: {}\r\n\r\n{}", kFormHead, form.size(), form);
}

double TimeoutsOf(const GatewayProcess& gateway) {
  return gateway.Metric(R"(tidegate_replica_failures_total{model="chat-small",replica="r0",kind="timeout"})")
      .value_or(-1);
}

// How an answer of many megabytes is framed.
struct Large {
  const char* name;
  std::string (*answer)(const std::string& much);
  bool events = false;
};

class SlowReader : public testing::TestWithParam<Large> {};

TEST_P(SlowReader, IsNotTakenForAReplicaThatFellSilent) {
  const std::string much(24u << 20, 'x');
  const FakeUpstream upstream(GetParam().answer(much));
  const GatewayProcess gateway(
      {.replicas = {upstream.port()},
       .model = fmt::format("{}, timeouts: {{idle: 1500ms, first_byte: 2500ms}}", kStrict)});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", GetParam().events}})));
  tests::Pause(milliseconds(4000));  // the system has taken what it could, and all time-outs have passed
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole) << answer.body.size() << " bytes came";
  EXPECT_GE(answer.body.size(), much.size());
  EXPECT_EQ(TimeoutsOf(gateway), 0);
}

std::string Events(const std::string& much) {
  std::string body;
  const std::string event = fmt::format("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
                                        much.substr(0, 16 * 1024));
  while (body.size() < much.size()) body += event;
  return body + "data: [DONE]\n\n";
}

INSTANTIATE_TEST_SUITE_P(
    Framing, SlowReader,
    testing::Values(
        Large{"length",
              [](const std::string& much) { return tests::JsonAnswer(Json{{"text", much}}.dump()); }},
        Large{"chunked",
              [](const std::string& much) {
                return fmt::format(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "{:x}\r\n{}\r\n0\r\n\r\n",
                    much.size(), much);
              }},
        Large{"stream",
              [](const std::string& much) {
                return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + Events(much);
              },
              true}),
    [](const auto& info) { return info.param.name; });

TEST(SlowForm, IsWaitedForWithoutBlameForTheReplica) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .server = "limits: {body_timeout: 20s}",
                                .model = fmt::format("{}, timeouts: {{first_byte: 1s}}", kStrict)});
  const std::string request = WithLength(Form(100'000));
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(request.substr(0, 500)));
  tests::Pause(milliseconds(1200));
  ASSERT_TRUE(client.Send(request.substr(500, 10'000)));
  tests::Pause(milliseconds(1200));
  ASSERT_TRUE(client.Send(request.substr(10'500)));
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(engine.Stats()["last_request"]["body_bytes"], Form(100'000).size());
}

struct Trickle {
  const char* name;
  milliseconds between;  // bytes, until the answer comes
};

class SlowFormTimeOut : public testing::TestWithParam<Trickle> {};

TEST_P(SlowFormTimeOut, IsTheClientsFault) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .server = "limits: {body_timeout: 1500ms}",
                                .model = fmt::format("{}, timeouts: {{first_byte: 1s}}", kStrict)});
  RawClient client = gateway.Connect();
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.Send(WithLength(Form(100'000)).substr(0, 500)));
  Answer answer;
  for (int i = 0; i < 50 && answer.status == 0; ++i) {
    ASSERT_TRUE(client.Send("x"));
    answer = client.Read(GetParam().between);
  }
  EXPECT_EQ(answer.status, 408) << answer.body;
  EXPECT_EQ(answer.code(), "request_timeout");
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(1500));
  const Record record = gateway.CloseOf(answer.header("x-request-id"));
  EXPECT_EQ(record.reason, "timed_out");
  EXPECT_EQ(record.error, "request_timeout");
  EXPECT_EQ(record.output, 0);
  EXPECT_EQ(TimeoutsOf(gateway), 0);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200) << "the replica's breaker is closed";
}

INSTANTIATE_TEST_SUITE_P(Of, SlowFormTimeOut,
                         testing::Values(Trickle{"silence", milliseconds(5000)},
                                         Trickle{"drops", milliseconds(100)}),
                         [](const auto& info) { return info.param.name; });

// Over TLS every write waits for the loop, so that heartbeats and the body's time-out meet.
TEST(SlowForm, ItsTimeOutHoldsBesideHeartbeats) {
  const EngineProcess engine;
  const tests::TlsFiles files;
  for (const bool tls : {false, true}) {
    SCOPED_TRACE(tls ? "TLS" : "plain");
    GatewayConfig config{.replicas = {engine.port()},
                         .server = "heartbeat: 50ms, limits: {body_timeout: 700ms}",
                         .model = kStrict};
    if (tls) {
      config.server += fmt::format(", tls: {{certificate: {}, key: {}}}", files.certificate(), files.key());
      config.tls = tests::TlsClient{.ca = files.certificate()};
    }
    const GatewayProcess gateway(config);
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(WithLength(Form(100'000, Part("stream", "true"))).substr(0, 500)));
    const Answer head = client.ReadHead(milliseconds(5000));
    ASSERT_EQ(head.status, 200) << "what the heartbeats began";
    std::string last = ":";
    for (int beats = 0; beats < 100 && last.front() == ':'; ++beats) {
      last = client.ReadEvent(milliseconds(3000)).value_or("the end");
    }
    EXPECT_THAT(last, testing::HasSubstr("request_timeout"));
    EXPECT_EQ(gateway.CloseOf(head.header("x-request-id")).error, "request_timeout");
  }
}

TEST(SlowForm, ItsClientsLeavingIsNoticedWhileTheReplicaTakesNothing) {
  const SilentPeer replica;
  const GatewayProcess gateway(
      {.replicas = {replica.port()}, .model = fmt::format("{}, timeouts: {{first_byte: 10m}}", kStrict)});
  RawClient client = gateway.Connect();
  std::string request = WithLength(Form(48u << 20));
  request.insert(request.find("Host:"), "X-Request-Id: leaver\r\n");
  EXPECT_FALSE(client.Send(request, milliseconds(2000))) << "all that stands between them is full";
  client.Reset();
  const Record record = gateway.CloseOf("leaver", milliseconds(3000));
  EXPECT_EQ(record.reason, "client_gone");
  EXPECT_EQ(TimeoutsOf(gateway), 0);
}

TEST(SlowForm, IsTakenUpToItsLastChunkAlsoWhenItIsSentAgain) {
  const EngineProcess bad;
  const EngineProcess good;
  bad.Fault({{"kind", "500"}});
  const GatewayProcess gateway({.replicas = {bad.port(), good.port()},
                                .model = "routing: {policy: round-robin}, health: {probe: false}, retries: "
                                         "{budget: 1, min_per_minute: 1000}, breaker: {failures: 1000}, "
                                         "timeouts: {first_byte: 3s}"});
  const std::string form = Form(50'000);
  std::string request = fmt::format("{}Transfer-Encoding: chunked\r\n\r\n", kFormHead);
  for (size_t at = 0; at < form.size(); at += 7'000) {
    const std::string piece = form.substr(at, 7'000);
    request += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  request += "0\r\n\r\n";
  for (uint64_t i = 1; i <= 4; ++i) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(good.Stat("/requests/received"), i);
    EXPECT_EQ(good.Stats()["last_request"]["body"], form);
  }
  EXPECT_GT(bad.Stat("/requests/received"), 0u) << "none was sent again";
}

}  // namespace
