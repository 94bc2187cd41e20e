// Answers of engines and providers that are not what their API promises: what the client is told in their place.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kOnce = "health: {probe: false}, retries: {max: 0}, breaker: {failures: 1000}";

constexpr const char* kWhole =
    R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}})";
constexpr const char* kMessage =
    R"({"model":"chat-small","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* kEvents =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7}}\n\n"
    "data: [DONE]\n\n";

GatewayConfig Before(const FakeUpstream& engine) {
  return {.replicas = {engine.port()}, .model = kOnce};
}

std::string AskForStream() {
  return Chat({{"stream", true}});
}

std::string Message(const Answer& answer) {
  const Json json = answer.json();
  return json.contains("error") ? json["error"].value("message", "") : "";
}

std::string Typed(std::string_view type, std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\n{}\r\n{}", type, body);
}

TEST(OddAnswer, AStreamOfAnotherTypeIsRelayedAndMeteredAsAStream) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  for (const char* type : {"", "Content-Type: text/plain\r\n", "Content-Type: application/json\r\n"}) {
    engine.Say(Typed(type, kEvents));
    const Answer answer = gateway.Ask(AskForStream());
    EXPECT_EQ(answer.status, 200) << type;
    EXPECT_THAT(answer.header("content-type"), StartsWith("text/event-stream")) << type;
    EXPECT_THAT(answer.body, HasSubstr("data: [DONE]")) << type;
    EXPECT_THAT(answer.body, Not(HasSubstr("usage"))) << "the client did not ask for it";
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.reason, "done") << type;
    EXPECT_EQ(record.output, 7) << type;
    EXPECT_EQ(record.source, "upstream") << type;
  }
}

// An SDK reads a document in place of a stream as a stream without events, and reports nothing.
TEST(OddAnswer, ADocumentInPlaceOfAStreamIsAnError) {
  const FakeUpstream engine(JsonAnswer(kWhole));
  const GatewayProcess gateway(Before(engine));
  const Answer answer = gateway.Ask(AskForStream());
  EXPECT_EQ(answer.status, 502);
  EXPECT_EQ(answer.code(), "upstream_error");
  EXPECT_THAT(Message(answer), HasSubstr("did not answer with a stream"));
  EXPECT_EQ(answer.header("x-should-retry"), "false");
  const Record record = gateway.CloseOf(answer.header("x-request-id"));
  EXPECT_EQ(record.reason, "upstream_failed");
  EXPECT_EQ(record.output, 1) << "the engine has worked";
  EXPECT_EQ(gateway.Ask(Chat()).status, 200) << "the same document, where it was asked for";
}

// Some proxies answer with 200 whatever their provider said.
TEST(OddAnswer, AnErrorWithTheStatusOfSuccessIsAnError) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  const struct {
    std::string body;
    int status;
    std::string message;
  } cases[] = {
      {R"({"error":{"message":"too many","type":"rate_limited","code":429}})", 429, "too many"},
      {R"({"error":{"message":"boom","type":"server_error"},"user_id":"u"})", 502, "boom"},
      {R"({"error":{"message":"no such key","code":401}})", 502, "does not accept the gateway's credentials"},
  };
  for (const auto& one : cases) {
    engine.Say(JsonAnswer(one.body));
    const Answer answer = gateway.Ask(Chat({{"max_tokens", 500}}));
    EXPECT_EQ(answer.status, one.status) << one.body;
    EXPECT_THAT(Message(answer), HasSubstr(one.message));
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.reason, "upstream_failed") << one.body;
    EXPECT_EQ(record.status, one.status);
    EXPECT_EQ(record.output, 0) << "no more than of any refusal";
  }
  engine.Say(JsonAnswer(cases[1].body));
  EXPECT_EQ(gateway.Ask(Chat({})).body, cases[1].body) << "as it came";
  engine.Say(JsonAnswer(
      R"({"error":{"message":"cut","code":500},"usage":{"prompt_tokens":3,"completion_tokens":7}})"));
  const Record worked = gateway.CloseOf(gateway.Ask(Chat({})).header("x-request-id"));
  EXPECT_EQ(worked.output, 7) << "what an engine reports is charged";
  for (const char* answer :
       {kWhole, R"({"object":"response","status":"failed","error":{"message":"m","code":"c"},"output":[]})",
        R"({"choices":[],"error":null})"}) {
    engine.Say(JsonAnswer(answer));
    EXPECT_EQ(gateway.Ask(Chat({})).status, 200) << answer;
  }
}

TEST(OddAnswer, AnEventOfSeveralLinesIsOneEvent) {
  const std::string lines =
      "data: {\"choices\":[{\"index\":0,\ndata: "
      "\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\ndata: \"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7}}\n\n"
      "data: [DONE]\n\n";
  const FakeUpstream engine(Typed("Content-Type: text/event-stream\r\n", lines));
  for (const char* kind : {"engine: vllm", "engine: chat-only"}) {
    const GatewayProcess gateway({.replicas = {engine.port()}, .model = kOnce, .endpoint = kind});
    for (const char* path : {"/v1/chat/completions", "/v1/messages", "/v1/responses"}) {
      const bool chat = std::string_view(path) == "/v1/chat/completions";
      if (!chat && std::string_view(kind) == "engine: vllm") continue;
      const bool responses = std::string_view(path) == "/v1/responses";
      const Answer answer =
          gateway.Ask(Post(path, responses ? R"({"model":"chat-small","stream":true,"input":"hi"})"
                                           : R"({"model":"chat-small","max_tokens":9,"stream":true,)"
                                             R"("messages":[{"role":"user","content":"hi"}]})"));
      EXPECT_EQ(answer.status, 200) << path << answer.body;
      EXPECT_THAT(answer.body, HasSubstr("hello")) << path;
      EXPECT_THAT(answer.body, HasSubstr(chat        ? "[DONE]"
                                         : responses ? "response.completed"
                                                     : "message_stop"));
      if (chat) EXPECT_THAT(answer.body, Not(HasSubstr("usage"))) << "the client did not ask for it";
      const std::string id = answer.header("x-request-id");
      const Record record = gateway.CloseOf(id.empty() ? answer.header("request-id") : id);
      EXPECT_EQ(record.reason, "done") << path;
      EXPECT_EQ(record.output, 7) << path;
    }
  }
}

TEST(OddAnswer, AByteOrderMarkBeforeAStreamIsDropped) {
  const FakeUpstream engine(
      Typed("Content-Type: text/event-stream\r\n", "\xEF\xBB\xBF" + std::string(kEvents)));
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kOnce, .endpoint = "engine: chat-only"});
  const Answer passed = gateway.Ask(AskForStream());
  EXPECT_THAT(passed.body, StartsWith("data: {\"choices\""));
  const Answer translated = gateway.Ask(Post("/v1/messages", kMessage));
  EXPECT_THAT(translated.body, AllOf(HasSubstr(R"("text":"a")"), HasSubstr("message_stop")));
}

// Not one token for each event: an event may hold many.
TEST(OddAnswer, AMessageWithoutUsageTellsTheCountedTokens) {
  const std::string text(400, 'w');
  const FakeUpstream engine(
      Typed("Content-Type: text/event-stream\r\n",
            fmt::format("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},"
                        "\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n",
                        text)));
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kOnce, .endpoint = "engine: chat-only"});
  const Answer answer = gateway.Ask(Post("/v1/messages", kMessage));
  const Record record = gateway.CloseOf(answer.header("request-id"));
  EXPECT_EQ(record.source, "counted");
  EXPECT_GT(record.output, 50);
  EXPECT_THAT(answer.body, HasSubstr(fmt::format("\"output_tokens\":{}}}", record.output)));
}

// A proxy before an engine may bound the size of requests, and close while the rest of one is on its way.
TEST(OddAnswer, ARefusalBeforeTheRequestIsReadIsTheClients) {
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"too large for me","code":413}})", 413));
  engine.AnswerEarly();
  GatewayConfig config = Before(engine);
  config.endpoint = "engine: vllm, apis: [chat, images]";
  const GatewayProcess gateway(std::move(config));
  const std::string large(20'000'000, 'x');
  const std::string form = fmt::format(
      "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat-small\r\n--b\r\n"
      "Content-Disposition: form-data; name=\"image\"; filename=\"i\"\r\n\r\n{}\r\n--b--\r\n",
      large);
  const std::string upload = fmt::format(
      "POST /v1/images/edits HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
      "Content-Length: {}\r\n\r\n{}",
      form.size(), form);
  const Json question = {{"model", "chat-small"}, {"messages", {{{"role", "user"}, {"content", large}}}}};
  for (const std::string& request : {Post("/v1/chat/completions", question.dump()), upload}) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 413) << request.substr(0, 40) << answer.body;
    EXPECT_EQ(Message(answer), "too large for me");
    EXPECT_EQ(gateway.CloseOf(answer.header("x-request-id")).reason, "bad_request");
  }
}

TEST(OddAnswer, AnErrorInPlaceOfAStreamKeepsItsWords) {
  const FakeUpstream engine(JsonAnswer(R"({"error":{"message":"no such voice","code":400}})"));
  const GatewayProcess gateway(Before(engine));
  const Answer answer = gateway.Ask(AskForStream());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(Message(answer), "no such voice");
}

TEST(OddAnswer, AnEmptyAnswerIsAnError) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  for (const char* head : {"200 OK\r\nContent-Length: 0", "204 No Content"}) {
    engine.Say(fmt::format("HTTP/1.1 {}\r\nContent-Type: application/json\r\n\r\n", head));
    const Answer answer = gateway.Ask(Chat());
    EXPECT_EQ(answer.status, 502) << head;
    EXPECT_THAT(Message(answer), HasSubstr("empty answer")) << head;
  }
}

TEST(OddAnswer, ARedirectIsAnErrorThatNamesTheEndpointsUrl) {
  const FakeUpstream engine(
      "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n");
  const GatewayProcess gateway(Before(engine));
  for (const std::string& request : {Chat(), AskForStream()}) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 502);
    EXPECT_EQ(answer.code(), "upstream_error");
    EXPECT_THAT(Message(answer), HasSubstr("redirects its calls (status 308)"));
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.reason, "upstream_failed");
    EXPECT_EQ(record.output, 0);
  }
}

TEST(OddAnswer, ARedirectOfOneReplicaIsNotTheClients) {
  const FakeUpstream wrong("HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\n\r\n");
  const FakeUpstream right(JsonAnswer(kWhole));
  const GatewayProcess gateway({.replicas = {wrong.port(), right.port()},
                                .model = "health: {probe: false}, retries: {max: 1, budget: 1}"});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

TEST(OddAnswer, WhatIsNoHttpIsCalledThat) {
  FakeUpstream engine("\x15\x03\x03\x02\x02\x16\x02\x02\x02\x02\x02\x02");  // an alert of TLS
  const GatewayProcess gateway(Before(engine));
  const Answer answer = gateway.Ask(Chat());
  EXPECT_EQ(answer.status, 502);
  EXPECT_THAT(Message(answer), HasSubstr("not valid HTTP"));
}

TEST(OddAnswer, AnErrorWithinAChunkEndsTheStreamAsFailed) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  const std::string first =
      R"(data: {"id":"c","error":null,"choices":[{"index":0,"delta":{"content":"a"}}]})";
  engine.Say(
      Typed("Content-Type: text/event-stream\r\n",
            first + "\n\n" +
                R"(data: {"id":"c","error":{"code":502,"message":"provider gone"},"choices":[{"index":0,)"
                R"("delta":{"content":""},"finish_reason":"error"}]})"
                "\n\ndata: [DONE]\n\n"));
  const Answer failed = gateway.Ask(AskForStream());
  EXPECT_THAT(failed.body, HasSubstr("provider gone"));
  EXPECT_EQ(gateway.CloseOf(failed.header("x-request-id")).reason, "upstream_failed");
  engine.Say(
      Typed("Content-Type: text/event-stream\r\n",
            R"(data: {"error":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]})"
            "\n\ndata: [DONE]\n\n"));
  const Answer whole = gateway.Ask(AskForStream());
  EXPECT_THAT(whole.body, HasSubstr("data: [DONE]"));
  EXPECT_EQ(gateway.CloseOf(whole.header("x-request-id")).reason, "done") << "a null is no error";
}

TEST(OddAnswer, AnErrorInAnArrayKeepsItsWords) {
  const FakeUpstream engine(
      JsonAnswer(R"([{"error":{"code":400,"message":"no such field","status":"X"}}])", 400));
  const GatewayProcess gateway(Before(engine));
  const Answer answer = gateway.Ask(Chat());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(Message(answer), "no such field");
}

}  // namespace
}  // namespace tests
