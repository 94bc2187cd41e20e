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
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kOnce = "health: {probe: false}, retries: {max: 0}, breaker: {failures: 1000}";

constexpr const char* kWhole =
    R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}})";
constexpr const char* kEmbed = R"({"model":"chat-small","input":"hi"})";
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

// The client has the engine's own words; only the record tells that nothing came of the request.
TEST(OddAnswer, AFailedResponseIsRelayedAndRecordedAsAFailure) {
  const std::string failed =
      R"({"id":"resp_1","object":"response","status":"failed","error":{"message":"boom","code":"server_error"},"output":[]})";
  FakeUpstream engine(JsonAnswer(failed));
  const GatewayProcess gateway(Before(engine));
  for (const bool stream : {false, true}) {
    if (stream) {
      engine.Say(Typed(
          "Content-Type: text/event-stream\r\n",
          fmt::format("event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{}}}\n\n",
                      failed)));
    }
    const Json body{{"model", "chat-small"}, {"input", "hi"}, {"stream", stream}};
    const Answer answer = gateway.Ask(Post("/v1/responses", body.dump()));
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr(failed));
    const Record record = gateway.CloseOf(answer.header("x-request-id"));
    EXPECT_EQ(record.reason, "upstream_failed") << stream;
    EXPECT_EQ(record.status, 200);
    EXPECT_EQ(record.output, 0) << stream;
  }
  EXPECT_EQ(gateway.Ask(Chat({})).status, 200) << "the connection goes on";
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

// Whole and streamed, without a report, with one of nothing, and with one of a total: the client is told what the
// ledger has.
TEST(OddAnswer, ATranslationTellsWhatTheLedgerCounts) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kOnce, .endpoint = "engine: chat-only"});
  const std::string text = "twelve bytes, and four more";
  for (
      const std::string usage :
      {"", R"(,"usage":{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5})",
       R"(,"usage":{"total_tokens":25})",
       R"(,"usage":{"prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":2}})"}) {
    for (const bool stream : {false, true}) {
      if (stream) {
        engine.Say(Typed("Content-Type: text/event-stream\r\n",
                         fmt::format("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},"
                                     "\"finish_reason\":\"stop\"}}]}}\n\ndata: {{\"choices\":[]{}}}\n\ndata: "
                                     "[DONE]\n\n",
                                     text, usage)));
      } else {
        engine.Say(JsonAnswer(fmt::format(
            R"({{"choices":[{{"index":0,"message":{{"content":"{}"}},"finish_reason":"stop"}}]{}}})", text,
            usage)));
      }
      for (const bool messages : {true, false}) {
        Json body = {{"model", "chat-small"}, {"stream", stream}};
        body[messages ? "max_tokens" : "max_output_tokens"] = 900;
        body[messages ? "messages" : "input"] =
            messages ? Json::parse(R"([{"role":"user","content":"hi"}])") : Json("hi");
        const Answer answer = gateway.Ask(Post(messages ? "/v1/messages" : "/v1/responses", body.dump()));
        const Record record = gateway.CloseOf(answer.header(messages ? "request-id" : "x-request-id"));
        const std::string which = fmt::format("{} stream {} messages {}", usage, stream, messages);
        EXPECT_EQ(record.reason, "done") << which;
        EXPECT_GT(record.output, 5) << which;
        EXPECT_LT(record.output, 30) << which << ": the text, not the whole answer";
        EXPECT_THAT(answer.body, HasSubstr(fmt::format("\"output_tokens\":{}", record.output))) << which;
        EXPECT_THAT(answer.body, HasSubstr(fmt::format("\"input_tokens\":{}",
                                                       record.input - (messages ? record.cached : 0))))
            << which;
      }
    }
  }
}

TEST(OddAnswer, AReportOfNothingTakesNoReportBack) {
  const std::string events(kEvents);
  const size_t end = events.find("data: [DONE]");
  const FakeUpstream engine(
      Typed("Content-Type: text/event-stream\r\n",
            events.substr(0, end) +
                "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n" +
                events.substr(end)));
  const GatewayProcess gateway(Before(engine));
  const Record record = gateway.CloseOf(gateway.Ask(AskForStream()).header("x-request-id"));
  EXPECT_EQ(record.input, 3);
  EXPECT_EQ(record.output, 7);
  EXPECT_EQ(record.source, "upstream");
}

TEST(OddAnswer, ACallWithoutArgumentsIsNotFree) {
  const FakeUpstream engine(Typed(
      "Content-Type: text/event-stream\r\n",
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":"
      "{\"name\":\"look_around\",\"arguments\":\"\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: "
      "[DONE]\n\n"));
  const GatewayProcess gateway(Before(engine));
  const Record record = gateway.CloseOf(gateway.Ask(AskForStream()).header("x-request-id"));
  EXPECT_GT(record.output, 0);
  EXPECT_EQ(record.source, "counted");
}

// Sign-in pages and proxies answer with the status of success. Clients take them for an answer, or for a stream
// without events.
TEST(OddAnswer, APageInPlaceOfAnAnswerIsAnError) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  for (const std::string& body : {std::string("<html>sign in</html>"), std::string("\"overloaded\""),
                                  std::string(300'000, '<'), std::string("null")}) {
    engine.Say(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{}",
                           body.size(), body));
    const Answer stream = gateway.Ask(AskForStream());
    EXPECT_EQ(stream.status, 502) << body.substr(0, 40);
    EXPECT_THAT(Message(stream), HasSubstr("did not answer with a stream"));
    if (body.size() > 100'000) continue;
    const Answer whole = gateway.Ask(Chat());
    const Answer embedding = gateway.Ask(Post("/v1/embeddings", kEmbed));
    for (const Answer& answer : {whole, embedding}) {
      EXPECT_EQ(answer.status, 502) << body;
      EXPECT_THAT(Message(answer), HasSubstr("not a JSON object"));
    }
    for (const Answer& answer : {stream, whole, embedding}) {
      const Record record = gateway.CloseOf(answer.header("x-request-id"));
      EXPECT_EQ(record.reason, "upstream_failed");
      EXPECT_EQ(record.input + record.output, 0) << "no engine has worked";
    }
  }
  engine.Say(JsonAnswer("\xEF\xBB\xBF\n" + std::string(kWhole)));
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
  engine.Say(JsonAnswer(R"([{"error":{"code":429,"message":"slow down","status":"X"}}])"));
  for (const std::string& request : {Chat(), AskForStream()}) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(Message(answer), "slow down");
  }
}

// In the form that FastChat introduced, the event is the error.
TEST(OddAnswer, AnErrorWithoutTheMemberErrorIsAnError) {
  const std::string error = R"({"object":"error","message":"out of memory","code":50002})";
  FakeUpstream engine("unused");
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kOnce, .endpoint = "engine: chat-only"});
  const std::string begin(kEvents, std::string_view(kEvents).find("\n\n") + 2);
  for (const std::string& request : {AskForStream(), Post("/v1/messages", kMessage)}) {
    engine.Say(Typed("Content-Type: text/event-stream\r\n",
                     fmt::format("{}event: ping\ndata: {{}}\n\ndata: {}\n\ndata: [DONE]\n\n", begin, error)));
    const Answer answer = gateway.Ask(request);
    EXPECT_THAT(answer.body, HasSubstr(R"("error":{)")) << "what clients look for";
    EXPECT_THAT(answer.body, HasSubstr(R"("message":"out of memory",)"));
    EXPECT_THAT(answer.body, Not(AnyOf(HasSubstr("message_stop"), HasSubstr("[DONE]"))));
    const std::string id = answer.header("x-request-id");
    EXPECT_EQ(gateway.CloseOf(id.empty() ? answer.header("request-id") : id).reason, "upstream_failed");
  }
  engine.Say(JsonAnswer(error));
  const Answer whole = gateway.Ask(Chat());
  EXPECT_EQ(whole.status, 502);
  EXPECT_EQ(Message(whole), "out of memory");
}

TEST(OddAnswer, AnObjectIsJsonWhateverItsTypeSays) {
  FakeUpstream engine("unused");
  for (const char* kind : {"engine: vllm", "engine: chat-only"}) {
    const GatewayProcess gateway({.replicas = {engine.port()}, .model = kOnce, .endpoint = kind});
    for (const char* type :
         {"", "Content-Type: text/plain\r\n", "Content-Type: application/json; charset=utf-8\r\n"}) {
      engine.Say(Typed(type, kWhole));
      EXPECT_THAT(gateway.Ask(Chat()).header("content-type"), StartsWith("application/json")) << type;
      if (std::string_view(kind) == "engine: vllm") continue;
      const Answer translated = gateway.Ask(Post("/v1/responses", R"({"model":"chat-small","input":"hi"})"));
      EXPECT_THAT(translated.header("content-type"), StartsWith("application/json")) << type;
    }
  }
}

TEST(OddAnswer, AnErrorEventKeepsItsWordsInATranslation) {
  const FakeUpstream engine(Typed("Content-Type: text/event-stream\r\n",
                                  "event: error\ndata: {\"message\":\"out of memory\",\"code\":500}\n\n"));
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .model = kOnce, .endpoint = "engine: chat-only"});
  EXPECT_THAT(gateway.Ask(Post("/v1/messages", kMessage)).body,
              AllOf(HasSubstr("event: error"), HasSubstr("out of memory")));
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
    for (const std::string& request : {Chat(), Post("/v1/embeddings", kEmbed)}) {
      const Answer answer = gateway.Ask(request);
      EXPECT_EQ(answer.status, 502) << head;
      EXPECT_THAT(Message(answer), HasSubstr("empty answer")) << head;
    }
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

// OpenAI's libraries read the member `error`, and tell nothing of other forms.
TEST(OddAnswer, AnErrorInAnEnginesOwnFormGetsTheFormOfTheApi) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Before(engine));
  const struct {
    const char* body;
    const char* message;
    const char* type;
  } cases[] = {
      {R"({"object":"error","message":"too hot","type":"BadRequestError","param":"temperature","code":400})",
       "too hot", "BadRequestError"},
      {R"({"detail":[{"loc":["body","n"],"msg":"not a number"}]})", "body.n: not a number",
       "invalid_request_error"},
      {R"({"error":"no such token","error_type":"validation"})", "no such token", "invalid_request_error"},
      {R"({"error":{"message":"as it is","type":"t","code":400,"more":1}})", "as it is", "t"},
  };
  for (const auto& one : cases) {
    engine.Say(JsonAnswer(one.body, 400));
    const Answer answer = gateway.Ask(Chat());
    EXPECT_EQ(answer.status, 400) << one.body;
    EXPECT_EQ(Message(answer), one.message) << one.body;
    EXPECT_EQ(answer.json()["error"]["type"], one.type) << one.body;
    EXPECT_EQ(gateway.CloseOf(answer.header("x-request-id")).reason, "bad_request");
    const Json messages = gateway
                              .Ask(Post("/v1/messages", R"({"model":"chat-small","max_tokens":9,)"
                                                        R"("messages":[{"role":"user","content":"hi"}]})"))
                              .json();
    EXPECT_EQ(messages["type"], "error") << one.body;
    EXPECT_EQ(messages["error"]["message"], one.message) << one.body;
  }
  engine.Say(JsonAnswer(cases[3].body, 400));
  EXPECT_EQ(gateway.Ask(Chat()).body, cases[3].body) << "as it came";
}

// Coding agents shorten the conversation when they are told so in words that they know.
TEST(OddAnswer, APromptThatIsTooLongIsCalledThatInATranslation) {
  FakeUpstream engine("unused");
  GatewayConfig config = Before(engine);
  config.endpoint = "engine: chat-only";
  const GatewayProcess gateway(config);
  for (
      const char* body :
      {R"({"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400})",
       R"({"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size","type":"exceed_context_size_error"}})",
       R"({"error":{"message":"The input (9 tokens) is longer than the model's context length (8 tokens)."}})"}) {
    engine.Say(JsonAnswer(body, 400));
    const Answer response = gateway.Ask(Post("/v1/responses", R"({"model":"chat-small","input":"hi"})"));
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(response.json()["error"]["code"], "context_length_exceeded") << body;
    const Answer message = gateway.Ask(
        Post("/v1/messages",
             R"({"model":"chat-small","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})"));
    EXPECT_EQ(message.status, 400);
    EXPECT_EQ(message.json()["error"]["type"], "invalid_request_error");
    EXPECT_THAT(Message(message), StartsWith("prompt is too long: ")) << body;
  }
  engine.Say(JsonAnswer(R"({"error":{"message":"no such role"}})", 400));
  EXPECT_EQ(Message(gateway.Ask(Post(
                "/v1/messages",
                R"({"model":"chat-small","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})"))),
            "no such role");
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
