// Streams: nothing is held back, nothing that failed looks whole, and nobody is served who is not there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/fault/clients/cancel.h"
#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Record;

constexpr milliseconds kSoon{5000};

// One token every 20 ms.
EngineProcess SteadyEngine(const std::string& step = "20ms") {
  return EngineProcess(
      {"--preset", "demo", "--load-time", "0s", "--step-base", step, "--step-per-sequence", "0s"});
}

std::string Stream(int tokens, const Json& more = Json::object()) {
  Json body{{"stream", true}, {"max_tokens", tokens}, {"ignore_eos", true}};
  body.update(more);
  return Chat(body);
}

std::vector<std::string> Events(RawClient& client) {
  std::vector<std::string> events;
  while (auto event = client.ReadEvent(kSoon)) events.push_back(*std::move(event));
  return events;
}

bool IsError(const std::string& event) {
  const size_t data = event.find("data: ");
  if (data == std::string::npos) return false;
  const Json json = conf::ParseJson(event.substr(data + 6));
  return json.is_object() && json.contains("error");
}

size_t Count(const std::vector<std::string>& events, std::string_view sign) {
  size_t n = 0;
  for (const std::string& event : events) n += event.find(sign) != std::string::npos;
  return n;
}

TEST(Stream, PassesEachEventBeforeTheNextIsProduced) {
  const auto event = [](int i) {
    return fmt::format(R"(data: {{"choices":[{{"index":0,"delta":{{"content":"{}"}}}}]}})", i);
  };
  constexpr int kEvents = 12;
  std::vector<std::string> pieces;
  for (int i = 0; i < kEvents; ++i) pieces.push_back(event(i) + "\n\n");
  pieces.front().insert(0, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
  pieces.emplace_back("data: [DONE]\n\n");
  FakeUpstream engine("unused");
  engine.SayInTurns(std::move(pieces));
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = "health: {probe: false}"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Stream(kEvents)));
  ASSERT_EQ(client.ReadHead().status, 200);
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_EQ(client.ReadEvent(kSoon), event(i));
    engine.Next();
  }
  EXPECT_EQ(client.ReadEvent(kSoon), "data: [DONE]");
}

TEST(Stream, BeatsWhileItWaitsAndThenAnswers) {
  EngineProcess engine = SteadyEngine("400ms");
  const GatewayProcess gateway({.replicas = {engine.port()}, .server = "heartbeat: 100ms"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Stream(2)));
  const Answer head = client.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.header("content-type"), testing::StartsWith("text/event-stream"));
  const std::vector<std::string> events = Events(client);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front().front(), ':') << "a comment, which SDKs pass over";
  EXPECT_EQ(events.back(), "data: [DONE]");
  EXPECT_TRUE(client.ended());
}

TEST(Stream, TellsAFailureAfterAHeartbeatAsAnEvent) {
  const EngineProcess engine;
  engine.Fault({{"kind", "hang"}});
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .server = "heartbeat: 100ms", .model = "timeouts: {first_byte: 450ms}"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Stream(2)));
  const Answer head = client.ReadHead();
  ASSERT_EQ(head.status, 200) << "what the heartbeat began";
  const std::vector<std::string> events = Events(client);
  EXPECT_GE(Count(events, ": waiting"), 1u);
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(IsError(events.back())) << events.back();
  const Record record = gateway.CloseOf(head.header("x-request-id"));
  EXPECT_EQ(record.reason, "timed_out");
  EXPECT_EQ(record.error, "upstream_timeout");
}

struct Failure {
  std::string name;
  Json fault;
  std::string reason;
  std::string idle = "1m";    // time-out
  std::string step = "10ms";  // between tokens
};

// Under every protocol, streams and their failures are told in its own way.
struct BrokenStream : testing::TestWithParam<Failure> {};
// Tokens: so late that a gateway on a busy machine has read and sent its head before.
constexpr int kBreaksAt = 20;

TEST_P(BrokenStream, EndsWithAnErrorInTheProtocolsOwnFormAndIsRecordedAsFailed) {
  EngineProcess engine = SteadyEngine(GetParam().step);
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = fmt::format("timeouts: {{idle: {}}}, breaker: {{failures: 100}}", GetParam().idle)});
  const struct {
    std::string path;
    std::string body;
    std::string id;
    std::string end;  // of a stream that is whole
  } dialects[] = {
      {"/v1/chat/completions", tests::ChatBody({{"stream", true}, {"max_tokens", 50}}).dump(), "x-request-id",
       "[DONE]"},
      {"/v1/completions", R"({"model":"chat-small","prompt":"Hi","max_tokens":50,"stream":true})",
       "x-request-id", "[DONE]"},
      {"/v1/messages",
       R"({"model":"chat-small","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"Hi"}]})",
       "request-id", "message_stop"},
      {"/v1/responses", R"({"model":"chat-small","input":"Hi","max_output_tokens":50,"stream":true})",
       "x-request-id", "response.completed"},
  };
  for (const auto& dialect : dialects) {
    SCOPED_TRACE(dialect.path);
    engine.ClearFaults();
    engine.Fault(GetParam().fault);
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Post(dialect.path, dialect.body)));
    const Answer head = client.ReadHead();
    ASSERT_EQ(head.status, 200);
    const std::vector<std::string> events = Events(client);
    ASSERT_GE(events.size(), 2u);
    EXPECT_TRUE(client.ended()) << "the HTTP message itself is whole";
    EXPECT_EQ(Count(events, dialect.end), 0u) << "it must not look whole";
    EXPECT_THAT(events.back(), testing::HasSubstr("error"));
    if (dialect.path == "/v1/messages") EXPECT_THAT(events.back(), testing::StartsWith("event: error\n"));
    if (dialect.end == "[DONE]") EXPECT_TRUE(IsError(events.back())) << events.back();
    const Record record = gateway.CloseOf(head.header(dialect.id));
    EXPECT_EQ(record.reason, GetParam().reason);
    EXPECT_EQ(record.error, "stream_interrupted");
    EXPECT_GT(record.output, 0) << "what was generated is counted";
    EXPECT_LT(record.output, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BrokenStream,
    testing::Values(
        Failure{"drop", {{"kind", "drop"}, {"arg", kBreaksAt}}, "upstream_failed"},
        Failure{"stall", {{"kind", "stall"}, {"arg", kBreaksAt}}, "timed_out", "400ms"},
        // What comes in one read with it is not sent.
        Failure{"bad_chunk", {{"kind", "bad-chunk"}, {"arg", kBreaksAt}}, "upstream_failed", "1m", "40ms"},
        Failure{"bad_json", {{"kind", "bad-json"}, {"arg", kBreaksAt}}, "upstream_failed"}),
    [](const auto& info) { return info.param.name; });

TEST(Stream, OneThatClosesCleanlyWithoutItsMarkerIsNotWhole) {
  const std::string event =
      "data: "
      "{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
      "\"a\"}}]}\n\n";
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
  const std::string chunked =
      fmt::format("{}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n", head, event.size(), event);
  const std::string cases[] = {
      chunked + "0\r\n\r\n",
      fmt::format("{}Content-Length: {}\r\n\r\n{}", head, event.size(), event),
      head + "Connection: close\r\n\r\n" + event,
      chunked,
      chunked + "5\r\ndata:\r\n0\r\n\r\n",
  };
  for (const std::string& answer : cases) {
    SCOPED_TRACE(answer);
    const FakeUpstream upstream(answer);
    const GatewayProcess gateway({.replicas = {upstream.port()}, .model = "health: {probe: false}"});
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Stream(5)));
    const Answer got = client.ReadHead();
    ASSERT_EQ(got.status, 200);
    const std::vector<std::string> events = Events(client);
    ASSERT_EQ(events.size(), 2u) << "the event that came whole, and the error";
    EXPECT_TRUE(IsError(events.back())) << events.back();
    EXPECT_EQ(Count(events, "[DONE]"), 0u);
    EXPECT_EQ(gateway.CloseOf(got.header("x-request-id")).reason, "upstream_failed");
  }
}

TEST(Stream, ALastEventWithoutItsBlankLineCounts) {
  const std::string event = R"(data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,)"
                            R"("delta":{"content":"a"},"finish_reason":"stop"}]})";
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
  const std::string ends[] = {"\n\ndata: [DONE]", "\n\ndata: [DONE]\n", "\r\n\r\ndata: [DONE]\r\n\r"};
  for (const std::string& end : ends) {
    for (const bool translated : {false, true}) {
      SCOPED_TRACE(end);
      const FakeUpstream upstream(head + event + end);
      const GatewayProcess gateway({.replicas = {upstream.port()},
                                    .model = "health: {probe: false}",
                                    .endpoint = translated ? "engine: chat-only" : "engine: vllm"});
      RawClient client = gateway.Connect();
      const std::string messages = R"({"model":"chat-small","max_tokens":5,"stream":true,)"
                                   R"("messages":[{"role":"user","content":"hi"}]})";
      ASSERT_TRUE(client.Send(translated ? Post("/v1/messages", messages) : Stream(5)));
      const Answer got = client.ReadHead();
      ASSERT_EQ(got.status, 200);
      const std::vector<std::string> events = Events(client);
      ASSERT_FALSE(events.empty());
      EXPECT_THAT(events.back(), testing::HasSubstr(translated ? "message_stop" : "[DONE]"));
      EXPECT_EQ(gateway.CloseOf(got.header(translated ? "request-id" : "x-request-id")).reason, "done");
    }
  }
}

TEST(Stream, OneThatNeverEndsIsEnded) {
  const struct {
    std::string limit;
    std::string step;
  } cases[] = {{"stream_time: 700ms", "5ms"}, {"stream_bytes: 64KiB", "1ms"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.limit);
    EngineProcess engine = SteadyEngine(c.step);
    engine.Fault({{"kind", "endless"}});
    const GatewayProcess gateway(
        {.replicas = {engine.port()}, .server = fmt::format("limits: {{{}}}", c.limit)});
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Stream(5)));
    const Answer head = client.ReadHead();
    const std::vector<std::string> events = Events(client);
    ASSERT_FALSE(events.empty());
    EXPECT_THAT(events.back(), testing::HasSubstr("stream_limit"));
    EXPECT_TRUE(IsError(events.back()));
    EXPECT_EQ(gateway.CloseOf(head.header("x-request-id")).error, "stream_limit");
    EXPECT_TRUE(tests::Within(kSoon, [&] { return engine.Stat("/requests/cancelled") == 1; }));
  }
}

TEST(Stream, ASlowClientSlowsTheEngineAndTakesNoMemory) {
  const EngineProcess engine;
  engine.Fault({{"kind", "endless"}});
  GatewayProcess gateway({.replicas = {engine.port()}});
  EXPECT_EQ(gateway.Ask(Stream(10, {{"model", "nobody"}})).status, 404);
  const size_t before = gateway.process().ResidentBytes();
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(RawClient::Narrow(gateway.port()));
    ASSERT_TRUE(clients.back().Send(Stream(5)));
    ASSERT_EQ(clients.back().ReadHead().status, 200);
  }
  // Until nothing moves any more: the engine's own socket is full.
  uint64_t generated = 0;
  ASSERT_TRUE(tests::Within(RawClient::kPatience, [&] {
    const uint64_t last = std::exchange(generated, engine.Stat("/tokens/generated"));
    tests::Pause(milliseconds(200));
    return last == generated;
  })) << "the engine is never held back";
  if (!tests::kSanitized) {
    EXPECT_LT(gateway.process().ResidentBytes(), before + 8 * (2u << 20)) << "2 MiB for each such stream";
  }
  EXPECT_EQ(gateway.Ask(Chat({{"model", "nobody"}})).status, 404) << "and others are served";
  for (RawClient& client : clients) client.Close();
  EXPECT_TRUE(tests::Within(kSoon, [&] { return engine.Stat("/requests/cancelled") == 8; }));
  EXPECT_TRUE(gateway.Settles());
}

TEST(Stream, AClientThatLeavesIsNoticedInEveryPhase) {
  using tests::ClientLeaves;
  for (const auto phase : tests::kLeavingPhases) {
    SCOPED_TRACE(phase.name);
    ClientLeaves(phase);
  }
}

// The attempt to connect would take 30 s: the record's reason shows that the client's end came first.
TEST(Stream, AClientThatLeavesWhileTheEngineIsConnectedToIsNoticed) {
  const FakeUpstream deaf("");
  const GatewayProcess gateway(
      {.replicas = {deaf.port()}, .model = "health: {probe: false}, timeouts: {connect: 30s}"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({}, "X-Request-Id: leaver\r\n")));
  ASSERT_TRUE(tests::Within(kSoon, [&] { return gateway.Metric("tidegate_requests_active") == 1; }));
  client.Close();
  const Record record = gateway.CloseOf("leaver", kSoon);
  EXPECT_EQ(record.reason, "client_gone");
  EXPECT_TRUE(gateway.Settles());
}

TEST(Stream, AClientThatLeftWhileItsRecordWasWrittenIsNotDispatched) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .ledger = "durability: strict", .threads = 1});
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200) << "and its connection to the engine stands";
  // On a busy machine a record may be on disk before the shard has looked for the client's end.
  int dispatched = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string id = fmt::format("leaver-{}", i);
    ASSERT_TRUE(gateway.Connect().SendAndClose(Chat({}, fmt::format("X-Request-Id: {}\r\n", id))));
    if (gateway.CloseOf(id).reason != "client_gone" || gateway.CloseOf(id).input > 0) ++dispatched;
  }
  EXPECT_LE(dispatched, 2);
  EXPECT_LE(engine.Stat("/requests/received"), 3u);
}

// The head goes out with the first event that is for the client; by then, more has been read where it stood.
TEST(Stream, TheHeadOutlivesEventsThatAreNotForTheClient) {
  FakeUpstream upstream("unused");
  const std::string usage =
      R"(data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}})"
      "\n\n";
  upstream.SayInPieces(
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Engine: blue\r\n\r\n" + usage, usage,
       ": " + std::string(2000, 'z') + "\n\n" +
           R"(data: {"choices":[{"delta":{"content":"Hi"}}]})"
           "\n\ndata: [DONE]\n\n"});
  const GatewayProcess gateway({.replicas = {upstream.port()}, .model = "health: {probe: false}"});
  const Answer answer = gateway.Ask(Chat({{"stream", true}}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("x-engine"), "blue");
  EXPECT_THAT(answer.body, testing::AllOf(testing::HasSubstr("Hi"), testing::EndsWith("data: [DONE]\n\n")));
}

}  // namespace
}  // namespace tests
