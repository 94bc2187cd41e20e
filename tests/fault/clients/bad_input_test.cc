// Bodies that no engine should see: each is refused in the form of the protocol that was spoken, with a
// stable code, leaves its record, and never its connection in doubt.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

using gateway::ledger::Record;

struct Dialect {
  std::string name;
  std::string path;
  bool anthropic;
  std::string rest;  // members that make a body of it, after the model
};

const std::vector<Dialect> kDialects = {
    {"chat", "/v1/chat/completions", false, R"("max_tokens":2,"messages":[{"role":"user","content":"Hi"}])"},
    {"messages", "/v1/messages", true, R"("max_tokens":2,"messages":[{"role":"user","content":"Hi"}])"},
    {"responses", "/v1/responses", false, R"("max_output_tokens":2,"input":"Hi")"},
};

std::string Body(const Dialect& dialect, std::string_view model = R"("model":"chat-small")") {
  return fmt::format("{{{},{}}}", model, dialect.rest);
}

std::string Deep(const Dialect& dialect, size_t depth) {
  return fmt::format("{{\"model\":\"chat-small\",{},\"extra\":{}{}}}", dialect.rest, std::string(depth, '['),
                     std::string(depth, ']'));
}

struct Bad {
  std::string name;
  std::string request;
  int status;
  std::string code;
};

std::vector<Bad> AllBad(const Dialect& d) {
  const auto post = [&](std::string body) { return Post(d.path, std::move(body)); };
  std::string other_type = post(Body(d));
  other_type.replace(other_type.find("application/json"), 16, "text/plain");
  const std::string twice = R"("model":"chat-small","model":"chat-large")";
  return {
      {"empty", post(""), 400, "invalid_json"},
      {"no JSON", post("model=chat-small"), 400, "invalid_type"},
      {"cut off", post(Body(d).substr(0, 30)), 400, "invalid_json"},
      {"an unclosed string", post(R"({"model":"chat-small)"), 400, "invalid_json"},
      {"something behind it", post(Body(d) + "{}"), 400, "invalid_json"},
      {"a NUL behind it", post(Body(d) + std::string(1, '\0')), 400, "invalid_json"},
      {"a missing comma", post(R"({"model":"chat-small" "stream":true})"), 400, "invalid_json"},
      {"invalid UTF-8", post(Body(d, "\"model\":\"chat-small\",\"user\":\"\xc3\x28\"")), 400, "invalid_json"},
      {"invalid UTF-8 in the model", post(Body(d, "\"model\":\"\xff\"")), 400, "invalid_json"},
      {"a list", post("[]"), 400, "invalid_type"},
      {"a string", post("\"chat-small\""), 400, "invalid_type"},
      {"a numeric model", post(Body(d, R"("model":5)")), 400, "invalid_type"},
      {"no model at all", post(fmt::format("{{{}}}", d.rest)), 400, "missing_model"},
      {"a null model", post(Body(d, R"("model":null)")), 400, "invalid_type"},
      {"stream is a word", post(Body(d, R"("model":"chat-small","stream":"yes")")), 400, "invalid_type"},
      {"two models", post(Body(d, twice)), 400, "duplicate_key"},
      {"two models, one of them escaped", post(Body(d, R"("model":"chat-small","mod\u0065l":"chat-large")")),
       400, "duplicate_key"},
      {"two streams", post(Body(d, R"("model":"chat-small","stream":false,"stream":true)")), 400,
       "duplicate_key"},
      {"an unknown model", post(Body(d, R"("model":"gpt-9")")), 404, "model_not_found"},
      {"a model not its own", post(Body(d, R"("model":"secret-large")")), 404, "model_not_found"},
      {"ten thousand levels", post(Deep(d, 10'000)), 400, "nesting_too_deep"},
      {"too large",
       post(Body(d, fmt::format(R"("model":"chat-small","user":"{}")", std::string(300'000, 'u')))), 413,
       "request_too_large"},
      {"another type of content", other_type, 415, "unsupported_media_type"},
      {"a form under the name of JSON", post("--b\r\n\r\n--b--\r\n"), 400, "invalid_type"},
  };
}

struct BadInput : testing::TestWithParam<Dialect> {
  EngineProcess engine;
  GatewayProcess gateway{
      {.replicas = {engine.port()},
       .server = "limits: {body_bytes: 256KiB}",
       .tenant = "models: [chat-*]",
       .models = fmt::format(
           "  - {{name: secret-large, endpoints: [{{url: http://127.0.0.1:{}, engine: vllm}}]}}\n",
           engine.port())}};
};

void ExpectForm(const Dialect& dialect, const Answer& answer, const std::string& code) {
  const Json body = answer.json();
  ASSERT_TRUE(body.is_object() && body.contains("error")) << answer.body;
  const Json& error = body["error"];
  EXPECT_TRUE(error["message"].is_string() && !error["message"].get<std::string>().empty());
  EXPECT_TRUE(error["type"].is_string());
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(answer.header("x-should-retry"), "false");
  if (dialect.anthropic) {
    EXPECT_EQ(body["type"], "error");
    EXPECT_NE(answer.header("request-id"), "");
  } else {
    EXPECT_EQ(error["code"], code);
    EXPECT_TRUE(error.contains("param"));
    EXPECT_NE(answer.header("x-request-id"), "");
  }
}

// The connection carries the next request, or it says that it will not and is closed.
void ExpectConnectionInOrder(RawClient& client, const Answer& answer) {
  if (answer.header("connection") == "close") {
    client.ShutdownWrite();
    EXPECT_TRUE(client.WaitClosed(milliseconds(5000)));
  } else {
    EXPECT_EQ(client.Ask(Chat({{"max_tokens", 1}})).status, 200);
  }
}

TEST_P(BadInput, IsRefusedInTheFormOfItsProtocolAndRecorded) {
  const Dialect& dialect = GetParam();
  uint64_t reached = 0;
  for (const Bad& bad : AllBad(dialect)) {
    SCOPED_TRACE(bad.name);
    RawClient client = gateway.Connect();
    const Answer answer = client.Ask(bad.request);
    EXPECT_EQ(answer.status, bad.status) << answer.body;
    ExpectForm(dialect, answer, bad.code);
    EXPECT_EQ(engine.Stat("/requests/received"), reached) << "the engine saw it";
    ExpectConnectionInOrder(client, answer);
    reached = engine.Stat("/requests/received");

    const Record record = gateway.CloseOf(answer.header(dialect.anthropic ? "request-id" : "x-request-id"));
    EXPECT_EQ(record.reason, "refused");
    EXPECT_EQ(record.status, bad.status);
    EXPECT_EQ(record.error, bad.code);
    EXPECT_EQ(record.tenant, "demo");
    EXPECT_EQ(record.open_seq, 0u) << "it was never admitted";
    EXPECT_EQ(record.input + record.output + record.cost_micro_usd, 0);
  }
  EXPECT_TRUE(gateway.Settles());
  EXPECT_TRUE(gateway.Verify().ok());
}

TEST_P(BadInput, AnUnknownModelIsAnsweredWithTheModelsOfTheKey) {
  const Answer answer = gateway.Ask(Post(GetParam().path, Body(GetParam(), R"("model":"gpt-9")")));
  const std::string message = answer.json()["error"]["message"];
  EXPECT_THAT(message, testing::HasSubstr("gpt-9"));
  EXPECT_THAT(message, testing::HasSubstr("chat-small"));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("secret-large")));
}

// Declared longer than what comes: whoever half-closes can still read why.
TEST_P(BadInput, ATruncatedBodyIsRefusedAndRecorded) {
  const std::string whole = Post(GetParam().path, Body(GetParam()), "X-Request-Id: truncated\r\n");
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(whole.substr(0, whole.size() - 10)));
  client.ShutdownWrite();
  const Answer answer = client.Read(milliseconds(5000));
  EXPECT_EQ(answer.status, 400);
  ExpectForm(GetParam(), answer, "incomplete_body");
  EXPECT_TRUE(client.WaitClosed(milliseconds(5000)));

  RawClient leaver = gateway.Connect();
  std::string other = whole.substr(0, whole.size() - 10);
  other.replace(other.find("truncated"), 9, "abandoned");
  ASSERT_TRUE(leaver.Send(other));
  leaver.Reset();
  for (const std::string id : {"truncated", "abandoned"}) {
    const Record record = gateway.CloseOf(id);
    EXPECT_EQ(record.error, "incomplete_body") << id;
    EXPECT_EQ(record.reason, "client_gone") << id;
    EXPECT_EQ(record.open_seq, 0u);
  }
  EXPECT_EQ(engine.Stat("/requests/received"), 0u);
}

// What only an engine can judge is the engine's to refuse; its words go through, and are recorded.
TEST_P(BadInput, ARefusalOfTheEngineKeepsItsWords) {
  RawClient client = gateway.Connect();
  const Answer answer =
      client.Ask(Post(GetParam().path, Body(GetParam(), R"("model":"chat-small","temperature":"hot")")));
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_TRUE(answer.json().contains("error")) << answer.body;
  ExpectConnectionInOrder(client, answer);
  const Record record = gateway.CloseOf(answer.header(GetParam().anthropic ? "request-id" : "x-request-id"));
  EXPECT_EQ(record.reason, "bad_request");
  EXPECT_NE(record.open_seq, 0u);
}

INSTANTIATE_TEST_SUITE_P(Protocols, BadInput, testing::ValuesIn(kDialects),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tests
