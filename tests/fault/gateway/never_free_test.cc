// Never free: a request that an engine worked on is charged what it used, or a bound from above, never
// nothing, wherever the engine writes its usage, in whatever coding, and however the answer ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/fake_upstream.h"
#include "tests/support/free_port.h"
#include "tests/support/gateway_process.h"
#include "tests/support/run_cli.h"

namespace tests {
namespace {

using gateway::ledger::Record;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kUnprobed = "health: {probe: false}";

GatewayConfig Metered(const FakeUpstream& engine, std::string model = kUnprobed,
                      std::string endpoint = "engine: vllm") {
  return {.replicas = {engine.port()},
          .model = std::move(model),
          .endpoint = std::move(endpoint),
          .price = "price: {input: 1, output: 1}"};
}

// Requests that callers made: the gateway itself asks engines for their health and their load.
size_t Calls(const FakeUpstream& engine) {
  const std::vector<FakeUpstream::Request> seen = engine.seen();
  return static_cast<size_t>(
      std::count_if(seen.begin(), seen.end(), [](const auto& one) { return one.head.starts_with("POST "); }));
}

FakeUpstream::Request LastCall(const FakeUpstream& engine) {
  const std::vector<FakeUpstream::Request> seen = engine.seen();
  const auto last =
      std::find_if(seen.rbegin(), seen.rend(), [](const auto& one) { return one.head.starts_with("POST "); });
  return last == seen.rend() ? FakeUpstream::Request() : *last;
}

// The header line with a new key of the tenant.
std::string NewKey(const GatewayProcess& gateway, const std::string& tenant) {
  const CliResult made = RunCli({"keys", "create", "--tenant", tenant, "-c", gateway.config_path()});
  EXPECT_EQ(made.code, 0) << made.err;
  return fmt::format("Authorization: Bearer {}\r\n", made.out.substr(0, made.out.find('\n')));
}

Record RecordOf(const GatewayProcess& gateway, const Answer& answer) {
  return gateway.CloseOf(answer.header("x-request-id"));
}

// An answer with one choice; `more` are further members, each behind a comma.
std::string ChatAnswer(std::string_view text, std::string_view more, std::string_view finish = "stop") {
  return fmt::format(
      R"({{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"{}"}}]{}}})",
      text, finish, more);
}

std::string Gzip(std::string_view text) {
  std::string coded(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(coded.data());
  stream.avail_out = static_cast<uInt>(coded.size());
  deflate(&stream, Z_FINISH);
  coded.resize(stream.total_out);
  deflateEnd(&stream);
  return coded;
}

std::string Coded(std::string_view type, std::string_view coding, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n{}", type,
      coding, body.size(), body);
}

// Chunks of one choice without usage, as a recorded stream has them.
std::string RecordedStream(int chunks, std::string_view last = "") {
  std::string events;
  for (int i = 0; i < chunks; ++i) {
    events += fmt::format(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" "
        "{}\"}},\"finish_reason\":null}}]}}\n\n",
        i % 2 == 0 ? "abc" : "tide");
  }
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{}"
      "data: "
      "{{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n{}data: "
      "[DONE]\n\n",
      events, last);
}

TEST(NeverFree, UsageThatStandsEarlyInALongAnswerIsFound) {
  std::string logprobs = R"(,"usage":{"prompt_tokens":11,"completion_tokens":222},"prompt_logprobs":[null)";
  while (logprobs.size() < 600'000) {
    logprobs += R"(,{"17":{"logprob":-0.5,"rank":1,"decoded_token":"usage"},"usage":{"prompt_tokens":0}})";
  }
  const std::string body = ChatAnswer("hi", logprobs + "]", "length");
  const FakeUpstream engine(JsonAnswer(body));
  const GatewayProcess gateway(Metered(engine));
  const Answer answer = gateway.Ask(Chat({{"prompt_logprobs", 1}}));
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, body);
  const Record record = RecordOf(gateway, answer);
  EXPECT_EQ(record.input, 11);
  EXPECT_EQ(record.output, 222);
  EXPECT_EQ(record.source, "upstream");
  EXPECT_EQ(record.reason, "length");
  EXPECT_EQ(record.cost_micro_usd, 233);
}

TEST(NeverFree, ALongAnswerWithoutUsageIsChargedByItsBytes) {
  const std::string body = ChatAnswer(std::string(400'000, 'x'), "");
  const FakeUpstream engine(JsonAnswer(body));
  const GatewayProcess gateway(Metered(engine));
  const Record unbounded = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_GE(unbounded.output, 100'000);
  EXPECT_EQ(unbounded.source, "counted");
  const Record bounded = RecordOf(gateway, gateway.Ask(Chat({{"max_tokens", 700}, {"n", 2}})));
  EXPECT_EQ(bounded.output, 1400) << "no more than its bound, for each choice";
}

TEST(NeverFree, AnAnswerWithoutUsageIsChargedByItsText) {
  FakeUpstream engine(JsonAnswer(ChatAnswer("twelve bytes, and four more", "")));
  const GatewayProcess gateway(Metered(engine));
  const Record record = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(record.output, 7);
  EXPECT_GT(record.input, 0);
  EXPECT_EQ(record.source, "counted");
  engine.Say(JsonAnswer(R"({"id":"c","choices":[{"index":0,"output":["a form","that nobody knows"]}]})"));
  EXPECT_GT(RecordOf(gateway, gateway.Ask(Chat())).output, 10);
}

// Engines may write a call at once, and need not report usage.
TEST(NeverFree, ACallInAResponseWithoutUsageIsChargedByItsArguments) {
  const std::string call = fmt::format(
      R"({{"type":"function_call","id":"fc_1","call_id":"c","name":"find","status":"completed","arguments":"{{\"text\":\"{}\"}}"}})",
      std::string(400, 'x'));
  const std::string done =
      fmt::format(R"({{"id":"resp_1","object":"response","status":"completed","output":[{}]}})", call);
  FakeUpstream engine(fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
      "event: response.output_item.done\ndata: {{\"item\":{},\"type\":\"response.output_item.done\"}}\n\n"
      "event: response.completed\ndata: {{\"response\":{},\"type\":\"response.completed\"}}\n\n",
      call, done));
  const GatewayProcess gateway(Metered(engine));
  const auto ask = [&gateway](bool stream) {
    const Json body{{"model", "chat-small"}, {"input", "hi"}, {"stream", stream}};
    return RecordOf(gateway, gateway.Ask(Post("/v1/responses", body.dump())));
  };
  const Record stream = ask(true);
  EXPECT_EQ(stream.source, "counted");
  EXPECT_GE(stream.output, 100);
  EXPECT_LE(stream.output, 120) << "the last event repeats the call";
  engine.Say(JsonAnswer(done));
  const Record whole = ask(false);
  EXPECT_EQ(whole.output, stream.output);
  EXPECT_EQ(whole.source, "counted");
}

// Providers and proxies report zeros, a null, or only a part.
TEST(NeverFree, AReportWithoutOutputIsCompletedByTheText) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  for (const char* usage : {R"({"prompt_tokens":5,"completion_tokens":null})", R"({"prompt_tokens":5})",
                            R"({"prompt_tokens":5,"completion_tokens":0,"total_tokens":5})"}) {
    engine.Say(JsonAnswer(ChatAnswer("twelve bytes, and four more", fmt::format(R"(,"usage":{})", usage))));
    const Record whole = RecordOf(gateway, gateway.Ask(Chat()));
    EXPECT_EQ(whole.input, 5) << usage;
    EXPECT_EQ(whole.output, 7) << usage;
    EXPECT_EQ(whole.source, "counted") << usage;
    engine.Say(RecordedStream(6, fmt::format("data: {{\"choices\":[],\"usage\":{}}}\n\n", usage)));
    const Record stream = RecordOf(gateway, gateway.Ask(Chat({{"stream", true}})));
    EXPECT_EQ(stream.input, 5) << usage;
    EXPECT_GE(stream.output, 6) << usage;
    EXPECT_EQ(stream.source, "counted") << usage;
  }
  engine.Say(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})")));
  const Record nothing = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_GT(nothing.input, 0);
  EXPECT_GT(nothing.output, 0);
  engine.Say(JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"total_tokens":25})")));
  const Record total = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(total.output, 20);
  EXPECT_EQ(total.source, "upstream");
  engine.Say(JsonAnswer(ChatAnswer("", R"(,"usage":{"prompt_tokens":5,"completion_tokens":0})")));
  const Record empty = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(empty.output, 0) << "nothing was shown";
  EXPECT_EQ(empty.source, "upstream");
}

TEST(NeverFree, ATotalThatStandsAloneIsDividedAndNotExceeded) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  const std::string usage = R"({"total_tokens":25})";
  engine.Say(JsonAnswer(ChatAnswer("twelve bytes, and four more", fmt::format(R"(,"usage":{})", usage))));
  const Record whole = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(whole.input, 18);
  EXPECT_EQ(whole.output, 7);
  EXPECT_EQ(whole.source, "counted");
  engine.Say(RecordedStream(6, fmt::format("data: {{\"choices\":[],\"usage\":{}}}\n\n", usage)));
  const Record stream = RecordOf(gateway, gateway.Ask(Chat({{"stream", true}})));
  EXPECT_GE(stream.output, 6);
  EXPECT_EQ(stream.input + stream.output, 25);
  engine.Say(JsonAnswer(ChatAnswer(std::string(400'000, 'x'), fmt::format(R"(,"usage":{})", usage))));
  const Record large = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(large.input + large.output, 25);
}

// Moonshot reports it in the last choice, Groq beside the choices.
TEST(NeverFree, AReportInAChoiceOrBesideThemIsTheEngines) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  const std::string usage = R"("usage":{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14})";
  for (const std::string& end :
       {R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop",)" + usage + "}]}",
        R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r",)" + usage + "}}"}) {
    engine.Say(RecordedStream(6, "data: " + end + "\n\n"));
    const Record stream = RecordOf(gateway, gateway.Ask(Chat({{"stream", true}})));
    EXPECT_EQ(stream.input, 5) << end;
    EXPECT_EQ(stream.output, 9) << end;
    EXPECT_EQ(stream.source, "upstream") << end;
  }
}

TEST(NeverFree, ALongAnswerThatReportsNoOutputIsChargedByItsBytes) {
  const FakeUpstream engine(JsonAnswer(
      ChatAnswer(std::string(400'000, 'x'), R"(,"usage":{"prompt_tokens":5,"completion_tokens":0})")));
  const GatewayProcess gateway(Metered(engine));
  const Record record = RecordOf(gateway, gateway.Ask(Chat()));
  EXPECT_EQ(record.input, 5);
  EXPECT_GE(record.output, 100'000);
}

TEST(NeverFree, EnginesAreAskedForNoCodingAndOneThatComesIsUndone) {
  const std::string body = ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})");
  for (const char* coding : {"gzip", "x-gzip"}) {
    const FakeUpstream engine(Coded("application/json", coding, Gzip(body)));
    const GatewayProcess gateway(Metered(engine));
    const Answer answer = gateway.Ask(Chat({}, "Accept-Encoding: gzip, br\r\n"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.header("content-encoding"), "");
    EXPECT_EQ(LastCall(engine).field("accept-encoding"), "identity");
    const Record record = RecordOf(gateway, answer);
    EXPECT_EQ(record.input, 5);
    EXPECT_EQ(record.output, 6);
    EXPECT_EQ(record.source, "upstream");
  }
}

TEST(NeverFree, ALongAnswerInACodingIsUndoneAndMeteredAsItFlows) {
  const std::string body =
      ChatAnswer(std::string(900'000, 'y'), R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})");
  const FakeUpstream engine(Coded("application/json", "gzip", Gzip(body)));
  const GatewayProcess gateway(Metered(engine));
  const Answer answer = gateway.Ask(Chat());
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, body);
  EXPECT_EQ(RecordOf(gateway, answer).output, 6);
}

TEST(NeverFree, AStreamInACodingIsUndone) {
  const std::string stream = RecordedStream(
      4, "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9}}\n\n");
  const std::string events = stream.substr(stream.find("\r\n\r\n") + 4);
  const FakeUpstream engine(Coded("text/event-stream", "gzip", Gzip(events)));
  const GatewayProcess gateway(Metered(engine));
  const Answer answer = gateway.Ask(Chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  EXPECT_EQ(answer.body, events);
  EXPECT_EQ(RecordOf(gateway, answer).output, 9);
}

TEST(NeverFree, AnAnswerThatExpandsWithoutEndIsCut) {
  const FakeUpstream engine(Coded("application/json", "gzip", Gzip(std::string(200u << 20, ' '))));
  const GatewayProcess gateway(Metered(engine));
  const Answer answer = gateway.Ask(Chat());
  EXPECT_FALSE(answer.whole);
  EXPECT_LE(answer.body.size(), (64u << 20) + (1u << 20));
  EXPECT_GT(RecordOf(gateway, answer).output, 0);
}

TEST(NeverFree, ACodingThatNobodyUndoesIsAFailureOfTheEngine) {
  const FakeUpstream engine(Coded("application/json", "br", "no such thing"));
  const GatewayProcess gateway(Metered(engine));
  EXPECT_EQ(gateway.Ask(Chat()).code(), "upstream_error");
}

TEST(NeverFree, ACallThatIsAbortedAfterDispatchIsChargedItsBound) {
  FakeUpstream engine("unused");
  engine.SayInTurns({"HTTP/1.1 200 OK\r\n", "unused"});
  const GatewayProcess gateway(Metered(engine));
  {
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Chat({{"max_tokens", 2}, {"n", 3}}, "x-request-id: aborted\r\n")));
    ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Calls(engine) == 1; }));
  }
  const Record record = gateway.CloseOf("aborted");
  EXPECT_EQ(record.reason, "client_gone");
  EXPECT_GT(record.input, 0);
  EXPECT_GE(record.output, 3) << "a token of each choice";
  EXPECT_LE(record.output, 6);
  EXPECT_EQ(record.source, "bound");
  EXPECT_EQ(record.cost_micro_usd, record.input + record.output);
}

TEST(NeverFree, AnAnswerThatBreaksOffIsCharged) {
  const std::string whole = JsonAnswer(ChatAnswer("some of this is missing", ""));
  const FakeUpstream engine(whole.substr(0, whole.size() - 30));
  const GatewayProcess gateway(Metered(engine, fmt::format("{}, retries: {{max: 0}}", kUnprobed)));
  const Answer answer = gateway.Ask(Chat({{"max_tokens", 4}}));
  EXPECT_EQ(answer.status, 502);
  const Record record = RecordOf(gateway, answer);
  EXPECT_EQ(record.reason, "upstream_failed");
  EXPECT_EQ(record.source, "bound");
  EXPECT_GE(record.output, 1);
  EXPECT_LE(record.output, 4);
}

TEST(NeverFree, ALongAnswerThatBreaksOffIsChargedByItsUsageOrItsBytes) {
  for (const char* usage : {R"(,"usage":{"prompt_tokens":5,"completion_tokens":77})", ""}) {
    const std::string whole = JsonAnswer(
        ChatAnswer("hi", fmt::format(R"({},"prompt_logprobs":["{}"])", usage, std::string(600'000, 'z'))));
    const FakeUpstream engine(whole.substr(0, whole.size() - 1000));
    const GatewayProcess gateway(Metered(engine));
    RawClient client = gateway.Connect();
    ASSERT_TRUE(client.Send(Chat({}, "x-request-id: broken\r\n")));
    EXPECT_FALSE(client.Read().whole);
    const Record record = gateway.CloseOf("broken");
    EXPECT_EQ(record.reason, "upstream_failed");
    if (*usage != '\0') {
      EXPECT_EQ(record.output, 77);
    } else {
      EXPECT_GT(record.output, 100'000);
    }
  }
}

constexpr const char* kStreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
constexpr const char* kRoleEvent =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"finish_reason\":null}]}\n\n";
constexpr const char* kTextEvent =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tide\"},"
    "\"finish_reason\":null}]}\n\n";

TEST(NeverFree, AStreamThatIsLeftBeforeItShowsAnythingIsChargedItsBound) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  for (const std::string& begin : {std::string("HTTP/1.1 200 OK\r\n"), std::string(kStreamHead),
                                   std::string(kStreamHead) + kRoleEvent}) {
    SCOPED_TRACE(begin);
    engine.SayInTurns({begin, "unused"});
    const size_t before = Calls(engine);
    const std::string id = fmt::format("left-{}", begin.size());
    {
      RawClient client = gateway.Connect();
      ASSERT_TRUE(client.Send(
          Chat({{"stream", true}, {"max_tokens", 2}, {"n", 3}}, fmt::format("x-request-id: {}\r\n", id))));
      ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Calls(engine) == before + 1; }));
      if (begin.ends_with("\n\n")) EXPECT_TRUE(client.ReadHead().status == 200 && client.ReadEvent());
    }
    engine.Next();
    const Record record = gateway.CloseOf(id);
    EXPECT_EQ(record.reason, "client_gone");
    EXPECT_EQ(record.source, "bound");
    EXPECT_GT(record.input, 0);
    EXPECT_GE(record.output, 3) << "a token of each choice";
    EXPECT_LE(record.output, 6);
  }
}

TEST(NeverFree, AStreamThatIsLeftWithinItsTextIsChargedItsBoundWhereTheModelHidesWhatItThinks) {
  FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  const auto leave = [&](const std::string& id) {
    engine.SayInTurns({std::string(kStreamHead) + kTextEvent, "unused"});
    {
      RawClient client = gateway.Connect();
      EXPECT_TRUE(
          client.Send(Chat({{"stream", true}, {"max_tokens", 3}}, fmt::format("x-request-id: {}\r\n", id))));
      EXPECT_TRUE(client.ReadHead().status == 200 && client.ReadEvent());
      Pause(milliseconds(50));  // no engine can have generated much before
    }
    engine.Next();
    return gateway.CloseOf(id);
  };
  const Record shown = leave("shown");
  EXPECT_EQ(shown.output, 1);
  EXPECT_EQ(shown.source, "counted");
  // Reported, and shown or not.
  const auto thought = [](std::string_view member) {
    return RecordedStream(20, fmt::format("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5,"
                                          "\"completion_tokens\":{}}}}}\n\n",
                                          member));
  };
  // A client has its answer before the gateway has learned of it.
  const auto teach = [&](std::string_view member) {
    engine.Say(thought(member));
    EXPECT_EQ(RecordOf(gateway, gateway.Ask(Chat({{"stream", true}}))).source, "upstream");
  };
  teach(R"(21,"completion_tokens_details":{"reasoning_tokens":10})");
  EXPECT_EQ(leave("visible").source, "counted") << "what was thought was shown";
  teach(R"(4000,"completion_tokens_details":{"reasoning_tokens":3980})");
  const Record hidden = leave("hidden");
  EXPECT_EQ(hidden.source, "bound");
  EXPECT_GE(hidden.output, 2);
  EXPECT_LE(hidden.output, 3);
}

TEST(NeverFree, WhatAStreamWroteToACacheHasItsPrice) {
  const FakeUpstream engine(
      std::string(kStreamHead) +
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{"
      "\"input_tokens\":10,\"cache_creation_input_tokens\":1000,\"output_tokens\":1}}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
      "\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},"
      "\"usage\":{\"output_tokens\":5}}\n\n"
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  GatewayConfig config = Metered(engine, kUnprobed, "engine: anthropic");
  config.price = "price: {input: 1, cache_write: 2, output: 1}";
  const GatewayProcess gateway(config);
  const Answer answer = gateway.Ask(Post(
      "/v1/messages",
      R"({"model":"chat-small","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]})"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Record record = gateway.CloseOf(answer.header("request-id"));
  EXPECT_EQ(record.input, 1010);
  EXPECT_EQ(record.cost_micro_usd, 10 + 2 * 1000 + 5);
}

TEST(NeverFree, TheSameStreamIsAlwaysCountedTheSame) {
  const std::string recorded = RecordedStream(48);
  FakeUpstream engine(recorded);
  const GatewayProcess gateway(Metered(engine));
  const auto count = [&] {
    engine.Say(recorded);
    const Record record = RecordOf(gateway, gateway.Ask(Chat({{"stream", true}})));
    EXPECT_EQ(record.source, "counted");
    return record.output;
  };
  const int64_t first = count();
  EXPECT_GE(first, 48);
  EXPECT_LE(first, 60);
  for (int i = 0; i < 20; ++i) {
    // Thought and hidden, and told of or not; and three choices, the texts of which stand in one stream.
    engine.Say(
        RecordedStream(8,
                       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4000,"
                       "\"completion_tokens_details\":{\"reasoning_tokens\":3992}}}\n\n"));
    gateway.Ask(Chat({{"stream", true}}));
    engine.Say(RecordedStream(
        8, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4000}}\n\n"));
    gateway.Ask(Chat({{"stream", true}}));
    engine.Say(RecordedStream(
        30, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":32}}\n\n"));
    gateway.Ask(Chat({{"stream", true}, {"n", 3}}));
  }
  EXPECT_NEAR(static_cast<double>(count()), static_cast<double>(first), 5);
}

TEST(NeverFree, EveryPromptAndEveryChoiceIsReserved) {
  const FakeUpstream engine(
      JsonAnswer(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}})"));
  GatewayConfig config = Metered(engine);
  config.tenant = "limits: {output_tokens_per_minute: 1000}";
  const GatewayProcess gateway(config);
  Json body{{"model", "chat-small"}, {"prompt", Json::array()}, {"max_tokens", 10}, {"n", 4}};
  for (int i = 0; i < 25; ++i) body["prompt"].push_back("say");
  EXPECT_EQ(gateway.Ask(Post("/v1/completions", body.dump())).status, 200)
      << "25 prompts, 4 choices, 10 tokens";
  body["prompt"].push_back("say");
  const Answer refused = gateway.Ask(Post("/v1/completions", body.dump()));
  EXPECT_EQ(refused.status, 429) << "it is more than the whole limit";
  EXPECT_THAT(refused.body, HasSubstr("1040 asked"));
  body["prompt"] = {"say", "say", 1};
  body["max_tokens"] = 90;
  EXPECT_EQ(gateway.Ask(Post("/v1/completions", body.dump())).status, 429)
      << "a number makes it no single prompt";
}

TEST(NeverFree, LlamaCppsOwnCountOfChoicesIsReserved) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  GatewayConfig config = Metered(engine, kUnprobed, "engine: llamacpp");
  config.tenant = "limits: {output_tokens_per_minute: 100}";
  const GatewayProcess gateway(config);
  const Answer refused = gateway.Ask(Chat({{"max_tokens", 10}, {"n", 1}, {"n_cmpl", 11}}));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("110 asked"));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 10}, {"n_cmpl", 9}})).status, 200);
  EXPECT_EQ(Calls(engine), 1u);
  for (const char* path : {"/v1/messages", "/v1/responses"}) {
    const Answer unknown = gateway.Ask(Post(path, R"({"model":"chat-small","n_cmpl":9})"));
    EXPECT_EQ(unknown.status, 400) << path;
    EXPECT_THAT(unknown.body, HasSubstr("n_cmpl")) << path;
  }
}

TEST(NeverFree, NoNameOfABoundReachesAnEngineUnlowered) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  const GatewayProcess gateway(Metered(engine, fmt::format("{}, max_output_tokens: 8", kUnprobed)));
  const Answer refused = gateway.Ask(Chat({{"max_tokens", 50}, {"max_output_tokens", 50}}));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.code(), "unsupported_parameter");
  EXPECT_EQ(refused.json()["error"]["param"], "max_output_tokens");
  EXPECT_EQ(Calls(engine), 0u);
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 50}, {"max_completion_tokens", 50}})).status, 200);
  EXPECT_THAT(LastCall(engine).body, HasSubstr(R"("max_tokens":8)"));
  EXPECT_THAT(LastCall(engine).body, HasSubstr(R"("max_completion_tokens":8)"));
}

TEST(NeverFree, MoreChoicesThanAnyoneNeedsAreRefused) {
  const FakeUpstream engine("unused");
  const GatewayProcess gateway(Metered(engine));
  for (const char* n : {"129", "4294967296", "4294967297", "1e30"}) {
    for (const char* name : {"n", "n_cmpl", "best_of"}) {
      const Answer refused = gateway.Ask(
          Post("/v1/completions", fmt::format(R"({{"model":"chat-small","prompt":"a","{}":{}}})", name, n)));
      EXPECT_EQ(refused.status, 400) << n;
      EXPECT_EQ(refused.code(), "invalid_value");
      EXPECT_EQ(refused.json()["error"]["param"], name);
    }
  }
  EXPECT_EQ(Calls(engine), 0u);
}

TEST(NeverFree, LlamaCppsOwnBoundIsLoweredAndReserved) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  GatewayConfig config =
      Metered(engine, fmt::format("{}, max_output_tokens: 20", kUnprobed), "engine: llamacpp");
  config.tenant = "limits: {output_tokens_per_minute: 60}";
  const GatewayProcess gateway(config);
  const struct {
    Json more;
    std::vector<std::string> sent;
  } cases[] = {
      {{{"max_tokens", 8}, {"n_predict", 5000}}, {R"("max_tokens":8)", R"("n_predict":20)"}},
      {{{"max_tokens", 8}, {"n_predict", nullptr}}, {R"("max_tokens":8)", R"("n_predict":20)"}},
      {{{"n_predict", 3}}, {R"("max_tokens":20)", R"("n_predict":3)"}},
  };
  for (const auto& c : cases) {
    ASSERT_EQ(gateway.Ask(Chat(c.more)).status, 200) << c.more;
    for (const std::string& member : c.sent) EXPECT_THAT(LastCall(engine).body, HasSubstr(member));
  }
}

TEST(NeverFree, AMessagesRequestThatIsTranslatedIsLoweredToTheModelsMaximum) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  const GatewayProcess gateway(
      Metered(engine, fmt::format("{}, max_output_tokens: 20", kUnprobed), "engine: chat-only"));
  const std::string body =
      R"({"model":"chat-small","max_tokens":5000,"messages":[{"role":"user","content":"hi"}]})";
  ASSERT_EQ(gateway.Ask(Post("/v1/messages", body)).status, 200);
  EXPECT_THAT(LastCall(engine).body, HasSubstr(R"("max_tokens":20)"));
  EXPECT_THAT(LastCall(engine).body, Not(HasSubstr("5000")));
}

// Two models: chat-small, which is down and falls back, and big, which `engine` serves.
GatewayConfig FallsBack(const FakeUpstream& engine, uint16_t down, std::string_view tenant,
                        std::string_view price) {
  return {
      .replicas = {down},
      .tenant = std::string(tenant),
      .model = fmt::format("{}, retries: {{max: 0}}, fallbacks: [big]", kUnprobed),
      .models = fmt::format("  - {{name: big{}, health: {{probe: false}}, max_output_tokens: 30, endpoints: "
                            "[{{name: b0, url: http://127.0.0.1:{}, engine: vllm}}]}}\n",
                            price, engine.port())};
}

TEST(NeverFree, AFallbackIsPricedAndBoundedAsTheModelThatServes) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  const FreePort down;
  const GatewayProcess gateway(FallsBack(engine, down.number(), "budget: {usd: 1, period: day}",
                                         ", price: {input: 1000, output: 1000}"));
  const Answer answer = gateway.Ask(Chat({{"max_tokens", 100}}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(RecordOf(gateway, answer).cost_micro_usd, 11'000);
  EXPECT_THAT(LastCall(engine).body, HasSubstr(R"("max_tokens":30)"));
}

TEST(NeverFree, AFallbackThatTheKeyMayNotUseDoesNotServe) {
  const FakeUpstream engine(JsonAnswer(ChatAnswer("hi", "")));
  const FreePort down;
  GatewayConfig config = FallsBack(engine, down.number(), "", ", price: {input: 1, output: 1}");
  config.tenants = "  - {name: narrow, parent: demo, models: [chat-small]}\n";
  const GatewayProcess gateway(config);
  const std::string key = NewKey(gateway, "narrow");
  EXPECT_EQ(gateway.Ask(Chat()).status, 200) << "demo may use both";
  const Answer refused = gateway.Ask(Chat({}, key));
  EXPECT_NE(refused.status, 200);
  EXPECT_EQ(Calls(engine), 1u);
}

TEST(NeverFree, AFallbackServesOnlyBodiesThatHaveWhatItForces) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  const FreePort down;
  const GatewayProcess gateway(
      FallsBack(engine, down.number(), "", ", price: {input: 1, output: 1}, parameters: {force: {seed: 7}}"));
  EXPECT_NE(gateway.Ask(Chat()).status, 200);
  EXPECT_NE(gateway.Ask(Chat({{"seed", 8}})).status, 200);
  EXPECT_EQ(Calls(engine), 0u);
  EXPECT_EQ(gateway.Ask(Chat({{"seed", 7}})).status, 200);
  EXPECT_THAT(LastCall(engine).body, HasSubstr("\"seed\":7"));
}

TEST(NeverFree, EachPromptThatIsGivenAsEmbeddingsIsReserved) {
  const FakeUpstream engine(
      JsonAnswer(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}})"));
  GatewayConfig config = Metered(engine);
  config.tenant = "limits: {output_tokens_per_minute: 100}";
  const GatewayProcess gateway(config);
  Json body{{"model", "chat-small"}, {"prompt_embeds", {"AAAA", "AAAA"}}, {"max_tokens", 50}};
  EXPECT_EQ(gateway.Ask(Post("/v1/completions", body.dump())).status, 200);
  body["prompt_embeds"].push_back("AAAA");
  EXPECT_EQ(gateway.Ask(Post("/v1/completions", body.dump())).status, 429) << "150 tokens";
}

TEST(NeverFree, AFallbackHasToFitItsOwnLimitsAndBudgets) {
  const FakeUpstream engine(
      JsonAnswer(ChatAnswer("hi", R"(,"usage":{"prompt_tokens":5,"completion_tokens":6})")));
  const FreePort down;
  for (const char* limits : {"limits: {per_model: {big: {requests_per_minute: 2}}}",
                             "limits: {per_model: {big: {tokens_per_minute: 40}}}",
                             "budget: {usd: 0.04, period: day, model: big}"}) {
    SCOPED_TRACE(limits);
    const GatewayProcess gateway(
        FallsBack(engine, down.number(), limits, ", price: {input: 1000, output: 1000}"));
    int served = 0;
    for (int i = 0; i < 8; ++i) served += gateway.Ask(Chat({{"max_tokens", 10}})).status == 200;
    EXPECT_GE(served, 1);
    EXPECT_LE(served, 4) << "the fallback's limit is exhausted";
  }
}

TEST(NeverFree, WhatHasNoPriceIsRefusedWhereABudgetInMoneyApplies) {
  const FakeUpstream engine(JsonAnswer(R"({"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}})"));
  const auto ask = [&](std::string_view price, std::string_view path, std::string_view body,
                       std::string_view tenant) {
    const GatewayProcess gateway(
        {.replicas = {engine.port()},
         .tenant = std::string(tenant),
         .model = kUnprobed,
         .endpoint = "engine: vllm, apis: [chat, embeddings, images, audio, tokenize]",
         .price = std::string(price)});
    return gateway.Ask(Post(path, body));
  };
  constexpr const char* kBudget = "budget: {usd: 5, period: month}";
  constexpr const char* kImage = R"({"model":"chat-small","prompt":"a boat"})";
  constexpr const char* kEmbedding = R"({"model":"chat-small","input":"a boat"})";
  const Answer refused = ask("", "/v1/embeddings", kEmbedding, kBudget);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.code(), "model_unpriced");
  EXPECT_EQ(Calls(engine), 0u);
  EXPECT_EQ(ask("", "/v1/embeddings", kEmbedding, "").status, 200) << "no budget in money";
  EXPECT_EQ(ask("", "/v1/embeddings", kEmbedding, "budget: {tokens: 500, period: month}").status, 200);
  EXPECT_EQ(ask("unpriced: allow", "/v1/embeddings", kEmbedding, kBudget).status, 200);
  EXPECT_EQ(ask("price: {input: 0}", "/v1/embeddings", kEmbedding, kBudget).status, 200) << "free is a price";
  EXPECT_EQ(ask("price: {input: 1}", "/v1/chat/completions", ChatBody().dump(), kBudget).status, 403);
  EXPECT_EQ(ask("price: {input: 1, output: 1}", "/v1/images/generations", kImage, kBudget).status, 403);
  EXPECT_EQ(ask("price: {image: 0.04}", "/v1/images/generations", kImage, kBudget).status, 200);
}

TEST(NeverFree, ImagesSoundAndSpeechHavePricesOfTheirOwn) {
  FakeUpstream engine(JsonAnswer(R"({"data":[{"b64_json":"AAAA"},{"b64_json":"AAAA"}]})"));
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .model = kUnprobed,
                                .endpoint = "engine: vllm, apis: [images, audio]",
                                .price = "price: {image: 0.04, audio_second: 0.0001, characters: 15}"});
  const auto cost = [&](const std::string& request) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return RecordOf(gateway, answer).cost_micro_usd;
  };
  EXPECT_EQ(cost(Post("/v1/images/generations", R"({"model":"chat-small","prompt":"a boat","n":2})")),
            80'000);
  engine.Say("HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 4\r\n\r\n\x01\x02\x03\x04");
  EXPECT_EQ(
      cost(Post("/v1/audio/speech", R"({"model":"chat-small","input":"h\u00f6rt \"ihr\"","voice":"a"})")),
      150)
      << "ten characters";
  const auto upload = [](size_t bytes) {
    const std::string body = fmt::format(
        "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat-small\r\n--b\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n{}\r\n--b--\r\n",
        std::string(bytes, 'a'));
    return fmt::format(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: g\r\nContent-Type: multipart/form-data; "
        "boundary=b\r\n"
        "Content-Length: {}\r\n\r\n{}",
        body.size(), body);
  };
  engine.Say(JsonAnswer(R"({"text":"hi","usage":{"type":"duration","seconds":90}})"));
  EXPECT_EQ(cost(upload(2000)), 9000);
  engine.Say(JsonAnswer(R"({"text":"hi"})"));
  EXPECT_GE(cost(upload(50'000)), 5000) << "no sound of so many bytes is longer";
  engine.Say(JsonAnswer(R"({"error":{"message":"no"}})", 400));
  EXPECT_EQ(gateway.Ask(Post("/v1/images/generations", R"({"model":"chat-small","prompt":"x"})")).status,
            400);
  ASSERT_TRUE(gateway.Settles());
  EXPECT_EQ(gateway.Records().back().cost_micro_usd, 0) << "nothing was made";
}

TEST(NeverFree, CountingTokensIsFreeAndAskedInEachEnginesWords) {
  constexpr std::pair<const char*, const char*> kCounts[] = {
      {"/v1/messages/count_tokens",
       R"({"model":"chat-small","messages":[{"role":"user","content":"How many tokens does this question have, all in all?"}]})"},
      {"/v1/responses/input_tokens",
       R"({"model":"chat-small","input":"How many tokens does this question have, all in all?"})"},
  };
  const struct {
    const char* endpoint;
    const char* answer;
    const char* path;  // empty: the engine is not asked
    const char* member;
    int count;
  } cases[] = {
      {"engine: llamacpp", R"({"tokens":[1,2,3,4]})", "/tokenize ", R"("content":)", 4},
      {"engine: sglang", R"({"tokens":[1,2,3],"count":3})", "/tokenize ", R"("prompt":)", 3},
      {"engine: tgi", R"([{"id":1},{"id":2}])", "/tokenize ", R"("inputs":)", 2},
      {"engine: vllm, apis: [chat, responses, tokenize]", R"({"count":9})", "/tokenize ", R"("messages":)",
       9},
      {"engine: chat-only", "unused", "", "", 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.endpoint);
    const FakeUpstream engine(JsonAnswer(c.answer));
    GatewayConfig config = Metered(engine, kUnprobed, c.endpoint);
    config.tenant = "limits: {tokens_per_minute: 10}";
    const GatewayProcess gateway(config);
    for (const auto& [path, body] : kCounts) {
      const size_t before = Calls(engine);
      const Answer answer = gateway.Ask(Post(path, body));
      ASSERT_EQ(answer.status, 200) << answer.body;
      const int64_t counted = answer.json()["input_tokens"];
      if (*c.path != '\0') {
        EXPECT_EQ(counted, c.count) << path;
        EXPECT_THAT(LastCall(engine).head, HasSubstr(c.path));
        EXPECT_THAT(LastCall(engine).body, HasSubstr(c.member));
        EXPECT_EQ(Calls(engine), before + 1);
      } else {
        EXPECT_GT(counted, 8) << path;
        EXPECT_EQ(Calls(engine), 0u);
      }
      const Record record = RecordOf(gateway, answer);
      EXPECT_EQ(record.input, 0) << path;
      EXPECT_EQ(record.cost_micro_usd, 0) << path;
    }
  }
}

TEST(NeverFree, CountingTokensIsLeftToAnEngineThatCountsItself) {
  const FakeUpstream engine(JsonAnswer(R"({"object":"response.input_tokens","input_tokens":12})"));
  const GatewayProcess gateway(Metered(engine, kUnprobed, "engine: openai"));
  const Answer answer =
      gateway.Ask(Post("/v1/responses/input_tokens", R"({"model":"chat-small","input":"hi","text":null})"));
  EXPECT_EQ(answer.json()["input_tokens"], 12);
  EXPECT_THAT(LastCall(engine).head, HasSubstr("/v1/responses/input_tokens "));
  EXPECT_THAT(LastCall(engine).body, HasSubstr(R"("input":"hi","text":null)"));
  const Record record = RecordOf(gateway, answer);
  EXPECT_EQ(record.input, 0);
  EXPECT_EQ(record.cost_micro_usd, 0);
}

}  // namespace
}  // namespace tests
