#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/api/anthropic.h"
#include "tests/unit/gateway/api/sse_events.h"

namespace gateway::api {
namespace {

using nlohmann::json;

MessageIdentity Identity(bool thinking = false) {
  return {.id = "msg_1",
          .model = "claude",
          .request_id = "req_1",
          .show_thinking = thinking,
          .input_tokens_estimate = 7};
}

TEST(MessageFromChat, SaysTheSameAsAMessage) {
  struct Case {
    std::string name;
    std::string choice;
    std::string content;
    std::string stop;
  };
  const std::vector<Case> cases = {
      {"text", R"({"message":{"content":"hello"},"finish_reason":"stop","stop_reason":null})",
       R"([{"type":"text","text":"hello"}])", R"({"stop_reason":"end_turn","stop_sequence":null})"},
      {"length", R"({"message":{"content":"hel"},"finish_reason":"length"})",
       R"([{"type":"text","text":"hel"}])", R"({"stop_reason":"max_tokens","stop_sequence":null})"},
      {"stop sequence", R"({"message":{"content":"a"},"finish_reason":"stop","stop_reason":"END"})",
       R"([{"type":"text","text":"a"}])", R"({"stop_reason":"stop_sequence","stop_sequence":"END"})"},
      {"stop token", R"({"message":{"content":"a"},"finish_reason":"stop","stop_reason":128001})",
       R"([{"type":"text","text":"a"}])", R"({"stop_reason":"end_turn","stop_sequence":null})"},
      {"filtered", R"({"message":{"content":""},"finish_reason":"content_filter"})", "[]",
       R"({"stop_reason":"refusal","stop_sequence":null})"},
      {"tools, though the engine says stop",
       R"({"message":{"content":null,"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{\"b\":1,\"a\":[2]}"}},
           {"function":{"name":"g","arguments":""}},{"id":"t3","function":{"name":"h","arguments":"{\"cut"}}]},"finish_reason":"stop"})",
       R"([{"type":"tool_use","id":"t1","name":"f","input":{"b":1,"a":[2]}},
           {"type":"tool_use","id":"toolu_msg_1_1","name":"g","input":{}},
           {"type":"tool_use","id":"t3","name":"h","input":{"raw_arguments":"{\"cut"}}])",
       R"({"stop_reason":"tool_use","stop_sequence":null})"},
  };
  for (const Case& c : cases) {
    const std::string chat =
        R"({"id":"x","choices":[)" + c.choice +
        R"(],"usage":{"prompt_tokens":30,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":20}}})";
    const auto translated = MessageFromChat(chat, Identity());
    ASSERT_TRUE(std::holds_alternative<std::string>(translated)) << c.name;
    json expected = json::parse(c.stop);
    expected.update(json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"claude",
        "usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":20,"output_tokens":4}})"));
    expected["content"] = json::parse(c.content);
    EXPECT_EQ(json::parse(std::get<std::string>(translated)), expected) << c.name;
  }
}

TEST(MessageFromChat, ShowsThinkingOnlyToThoseWhoAsked) {
  const std::string chat =
      R"({"choices":[{"message":{"content":"a","reasoning_content":"hm"},"finish_reason":"stop"}]})";
  const json shown = json::parse(std::get<std::string>(MessageFromChat(chat, Identity(true))));
  EXPECT_EQ(shown["content"][0], json::parse(R"({"type":"thinking","thinking":"hm","signature":""})"));
  EXPECT_EQ(json::parse(std::get<std::string>(MessageFromChat(chat, Identity())))["content"].size(), 1u);
}

TEST(MessageFromChat, TellsTheCountedTokensInPlaceOfTheReport) {
  const std::string chat = R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]})";
  const json message = json::parse(std::get<std::string>(
      MessageFromChat(chat, Identity(), Usage{.input = 9, .cached_input = 2, .output = 4})));
  EXPECT_EQ(message["usage"], json::parse(R"({"input_tokens":7,"cache_creation_input_tokens":0,
      "cache_read_input_tokens":2,"output_tokens":4})"));
}

// Some engines send the object itself.
TEST(MessageFromChat, TakesArgumentsThatAreAnObject) {
  const std::string chat =
      R"({"choices":[{"message":{"content":null,"tool_calls":[
          {"id":"t1","function":{"name":"f","arguments":{"b":1,"a":[2]}}}]},"finish_reason":"tool_calls"}]})";
  const json message = json::parse(std::get<std::string>(MessageFromChat(chat, Identity())));
  EXPECT_EQ(message["content"],
            json::parse(R"([{"type":"tool_use","id":"t1","name":"f","input":{"b":1,"a":[2]}}])"));
}

TEST(MessageFromChat, TakesContentThatIsAListOfParts) {
  const std::string chat =
      R"({"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},
          {"type":"text","text":"m"}]},{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          "finish_reason":"stop"}]})";
  const json message = json::parse(std::get<std::string>(MessageFromChat(chat, Identity(true))));
  EXPECT_EQ(message["content"], json::parse(R"([{"type":"thinking","thinking":"hm","signature":""},
      {"type":"text","text":"ab"}])"));
}

TEST(MessageFromChat, RefusesWhatIsNoWholeAnswer) {
  for (const std::string chat :
       {"", "nonsense", "[]", "{}", R"({"choices":[]})", R"({"choices":[{"message":{"content":"x"}}]})",
        R"({"choices":[{"message":{},"finish_reason":"abort"}]})"}) {
    const auto translated = MessageFromChat(chat, Identity());
    ASSERT_TRUE(std::holds_alternative<ApiError>(translated)) << chat;
    EXPECT_EQ(std::get<ApiError>(translated).status, 502);
  }
}

TEST(FromUpstream, KeepsStatusMessageAndCode) {
  const ApiError nested = FromUpstream(
      400,
      R"({"error":{"message":"too long","type":"BadRequestError","param":"messages","code":"context_length_exceeded"}})");
  EXPECT_EQ(nested.status, 400);
  EXPECT_EQ(nested.message, "too long");
  EXPECT_EQ(nested.code, "context_length_exceeded");
  EXPECT_EQ(nested.param, "messages");
  EXPECT_FALSE(nested.should_retry);
  const ApiError flat =
      FromUpstream(404, R"({"object":"error","message":"no such model","type":"NotFoundError","code":404})");
  EXPECT_EQ(flat.status, 404);
  EXPECT_EQ(flat.message, "no such model");
  EXPECT_EQ(FromUpstream(422, R"({"error":"bad"})").message, "bad");
  EXPECT_EQ(FromUpstream(500, "<html>").message, "The model's engine answered with status 500.");
  EXPECT_EQ(FromUpstream(500, "[]").message, "The model's engine answered with status 500.");
}

TEST(FromUpstream, KeepsTheMessagesOfFastApiAndGoogle) {
  EXPECT_EQ(FromUpstream(400, R"({"detail":"no such voice"})").message, "no such voice");
  EXPECT_EQ(FromUpstream(422, R"({"detail":[{"loc":["body","messages",0,"role"],"msg":"Field required"}]})")
                .message,
            "body.messages.0.role: Field required");
  EXPECT_EQ(FromUpstream(422, R"({"detail":[]})").message,
            "The model's engine reported an error without a message.");
  const ApiError google = FromUpstream(
      400, "[{\n  \"error\": {\"code\": 400, \"message\": \"no such field\", \"status\": \"X\"}}\n]\n");
  EXPECT_EQ(google.message, "no such field");
  EXPECT_EQ(google.status, 400);
}

TEST(FromUpstream, HasTheTypeOfItsStatusInMessages) {
  for (const auto& [status, type] : std::vector<std::pair<int, std::string>>{{400, "invalid_request_error"},
                                                                             {404, "not_found_error"},
                                                                             {413, "request_too_large"},
                                                                             {429, "rate_limit_error"},
                                                                             {500, "api_error"},
                                                                             {529, "overloaded_error"}}) {
    const ApiError error =
        FromUpstream(status, R"({"error":{"message":"no","type":"BadRequestError","code":)" +
                                 std::to_string(status) + "}}");
    EXPECT_EQ(nlohmann::json::parse(RenderError(Protocol::kAnthropic, error, ""))["error"]["type"], type);
  }
}

TEST(ReportedError, IsAMemberThatIsNotNull) {
  EXPECT_EQ(ReportedError(R"({"id":"c","error":{"message":"boom","code":500},"choices":[]})")->message,
            "boom");
  EXPECT_EQ(ReportedError(R"({"error":"boom"})")->message, "boom");
  EXPECT_FALSE(ReportedError(R"({"error":null,"choices":[]})"));
  EXPECT_FALSE(ReportedError(R"({"choices":[{"delta":{"content":"\"error\""}}]})"));
  EXPECT_FALSE(ReportedError("nonsense"));
}

std::string Chunk(const std::string& delta, const std::string& finish = "null") {
  return R"({"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":)" + delta +
         R"(,"finish_reason":)" + finish + "}]}";
}
const std::string kUsageChunk =
    R"({"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}})";

// What a client of the stream ends up with; checks on the way that blocks are opened, filled and closed in
// turn.
struct Heard {
  json content = json::array();
  std::vector<std::string> names;
  json delta;
  bool stopped = false;
  json error;
};

Heard Listen(std::string_view text) {
  Heard heard;
  std::optional<size_t> open;
  std::string arguments;
  for (const SseEvent& event : ParseEvents(text)) {
    heard.names.push_back(event.name);
    EXPECT_FALSE(event.name.empty());
    EXPECT_FALSE(heard.stopped) << "an event after the end";
    const json& data = event.data;
    if (event.name == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(data["index"], heard.content.size());
      open = data["index"];
      heard.content.push_back(data["content_block"]);
      arguments.clear();
    } else if (event.name == "content_block_delta") {
      EXPECT_EQ(open, data["index"].get<size_t>());
      json& block = heard.content.back();
      const std::string type = data["delta"]["type"];
      if (type == "text_delta")
        block["text"] = block["text"].get<std::string>() + data["delta"]["text"].get<std::string>();
      if (type == "thinking_delta")
        block["thinking"] =
            block["thinking"].get<std::string>() + data["delta"]["thinking"].get<std::string>();
      if (type == "input_json_delta") arguments += data["delta"]["partial_json"].get<std::string>();
    } else if (event.name == "content_block_stop") {
      EXPECT_EQ(open, data["index"].get<size_t>());
      if (!arguments.empty()) heard.content.back()["input"] = json::parse(arguments);
      arguments.clear();
      open.reset();
    } else if (event.name == "message_delta") {
      EXPECT_FALSE(open);
      heard.delta = data;
    } else if (event.name == "message_stop") {
      heard.stopped = true;
    } else if (event.name == "error") {
      heard.error = data["error"];
    }
  }
  return heard;
}

Heard Stream(const std::vector<std::string>& chunks, bool thinking = false, bool done = true) {
  MessagesStream stream(Identity(thinking));
  std::string out;
  for (const std::string& chunk : chunks) stream.OnData(chunk, out);
  if (done) stream.OnDone(out);
  return Listen(out);
}

TEST(MessagesStream, TellsTextWithUsageAtItsEnd) {
  const Heard heard = Stream({Chunk(R"({"role":"assistant","content":""})"), Chunk(R"({"content":"Hel"})"),
                              Chunk(R"({"content":"lo"})"), Chunk("{}", R"("stop")"), kUsageChunk});
  EXPECT_EQ(heard.names, (std::vector<std::string>{"message_start", "content_block_start",
                                                   "content_block_delta", "content_block_delta",
                                                   "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(heard.content, json::parse(R"([{"type":"text","text":"Hello"}])"));
  EXPECT_EQ(heard.delta,
            json::parse(R"({"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},
      "usage":{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3}})"));
}

TEST(MessagesStream, StartsWithTheMessageAndWhatIsKnownOfItsInput) {
  MessagesStream stream(Identity());
  std::string out;
  stream.OnData(Chunk(R"({"role":"assistant"})"), out);
  const auto events = ParseEvents(out);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].data["message"],
            json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"claude",
      "content":[],"stop_reason":null,"stop_sequence":null,
      "usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}})"));
}

TEST(MessagesStream, TellsThinkingThenTextThenParallelTools) {
  const Heard heard = Stream(
      {Chunk(R"({"reasoning_content":"hm"})"), Chunk(R"({"content":"Let me see."})"),
       Chunk(
           R"({"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]})"),
       Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]})"),
       Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]})"),
       Chunk(R"({"tool_calls":[{"index":1,"id":"t2","function":{"name":"g","arguments":"{}"}}]})"),
       Chunk("{}", R"("tool_calls")")},
      true);
  EXPECT_EQ(
      heard.content,
      json::parse(R"([{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"Let me see."},
      {"type":"tool_use","id":"t1","name":"f","input":{"a":1}},{"type":"tool_use","id":"t2","name":"g","input":{}}])"));
  EXPECT_EQ(heard.delta["delta"]["stop_reason"], "tool_use");
  EXPECT_TRUE(heard.stopped);
}

TEST(MessagesStream, UntanglesInterleavedToolCalls) {
  const Heard heard = Stream(
      {Chunk(
           R"({"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{\"a\":"}},{"index":1,"id":"t2","function":{"name":"g","arguments":"{\"b\""}}]})"),
       Chunk(R"({"tool_calls":[{"index":1,"function":{"arguments":":\"}\"}"}}]})"),
       Chunk(R"({"content":"aside"})"),
       Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"[1]}"}}]})"),
       Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(heard.content, json::parse(R"([{"type":"tool_use","id":"t1","name":"f","input":{"a":[1]}},
      {"type":"tool_use","id":"t2","name":"g","input":{"b":"}"}},{"type":"text","text":"aside"}])"));
}

TEST(MessagesStream, StreamsASecondCallWithoutWaitingForTheEnd) {
  MessagesStream stream(Identity());
  std::string out;
  stream.OnData(Chunk(R"({"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{}"}}]})"),
                out);
  out.clear();
  stream.OnData(Chunk(R"({"tool_calls":[{"index":1,"id":"t2","function":{"name":"g","arguments":"{\"x"}}]})"),
                out);
  const Heard heard = [&] {
    Heard h;
    for (const SseEvent& event : ParseEvents(out)) h.names.push_back(event.name);
    return h;
  }();
  EXPECT_EQ(heard.names,
            (std::vector<std::string>{"content_block_stop", "content_block_start", "content_block_delta"}));
}

TEST(MessagesStream, NeverEndsCleanlyWithoutAFinishReason) {
  const Heard heard = Stream({Chunk(R"({"content":"half an ans"})")});
  EXPECT_FALSE(heard.stopped);
  EXPECT_TRUE(heard.delta.is_null());
  EXPECT_EQ(heard.error["code"], "stream_interrupted");
  MessagesStream untouched(Identity());
  std::string out;
  untouched.OnDone(out);
  EXPECT_EQ(Listen(out).error["code"], "stream_interrupted");
  EXPECT_EQ(untouched.state(), StreamState::kFailed);
}

TEST(MessagesStream, SendsAFailureAndThenNothing) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"not json", "upstream_error"},
      {R"({"error":{"message":"out of memory","code":500}})", "upstream_error"},
      {R"({"error":"boom"})", "upstream_error"},
      {R"({"id":"no choices"})", "upstream_error"},
      {Chunk("{}", R"("abort")"), "upstream_error"},
  };
  for (const auto& [chunk, code] : cases) {
    MessagesStream stream(Identity());
    std::string out;
    stream.OnData(Chunk(R"({"content":"a"})"), out);
    stream.OnData(chunk, out);
    EXPECT_EQ(stream.state(), StreamState::kFailed);
    const size_t size = out.size();
    stream.OnData(Chunk(R"({"content":"b"})", R"("stop")"), out);
    stream.OnDone(out);
    stream.OnError(Make(Code::kInternalError, "x"), out);
    EXPECT_EQ(out.size(), size) << chunk;
    const Heard heard = Listen(out);
    EXPECT_EQ(heard.error["code"], code) << chunk;
    EXPECT_FALSE(heard.stopped);
  }
}

TEST(MessagesStream, FailsOnToolCallsThatDoNotFit) {
  const std::string closed = Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"more"}}]})");
  const Heard heard = Stream(
      {Chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]})"),
       Chunk(R"({"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]})"), closed});
  EXPECT_EQ(heard.error["code"], "upstream_error");
  EXPECT_EQ(
      Stream({Chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]})", R"("tool_calls")")})
          .error["code"],
      "upstream_error");
}

TEST(MessagesStream, HoldsNoMoreThanItsBound) {
  MessagesStream stream(Identity());
  std::string out;
  stream.OnData(Chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]})"),
                out);
  const std::string big(1 << 20, 'x');
  int chunks = 0;
  while (stream.state() == StreamState::kRunning && chunks < 100) {
    stream.OnData(Chunk(R"({"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":")" + big +
                        R"("}}]})"),
                  out);
    ++chunks;
  }
  EXPECT_EQ(chunks, 9);
  EXPECT_EQ(Listen(out).error["code"], "stream_limit");
}

// From servers that cut text between UTF-16 units.
TEST(MessagesStream, TellsHalfASurrogatePairAsAReplacementCharacter) {
  const struct {
    const char* json;
    const char* text;
  } cases[] = {
      {R"(a\ud83d)", "a\xEF\xBF\xBD"},
      {R"(\ude00 b)", "\xEF\xBF\xBD b"},
      {R"(\uD83Dx\uD83D\uDE00)", "\xEF\xBF\xBDx\xF0\x9F\x98\x80"},
      {R"(\\ud83d\ud83d)", "\\ud83d\xEF\xBF\xBD"},
  };
  for (const auto& one : cases) {
    const Heard heard =
        Stream({Chunk(fmt::format(R"({{"content":"{}"}})", one.json)), Chunk("{}", R"("stop")")});
    EXPECT_TRUE(heard.stopped) << one.json;
    EXPECT_EQ(heard.content[0]["text"], one.text) << one.json;
  }
}

TEST(MessagesStream, TellsTheCountedTokensInPlaceOfTheReport) {
  MessagesStream stream(Identity());
  std::string out;
  for (const std::string& chunk : {Chunk(R"({"content":"a"})"), Chunk("{}", R"("stop")"), kUsageChunk})
    stream.OnData(chunk, out);
  stream.OnDone(out, Usage{.input = 8, .output = 17});
  const Heard heard = Listen(out);
  EXPECT_EQ(heard.delta["usage"]["output_tokens"], 17);
  EXPECT_EQ(heard.delta["usage"]["input_tokens"], 8);
}

// Gemini and others give all calls of a stream the index 0, or none.
TEST(MessagesStream, TellsCallsOfOneIndexApart) {
  const std::string first = R"("id":"t1","function":{"name":"f","arguments":"{\"a\":1}"}}]})";
  const std::string second = R"("id":"t2","function":{"name":"g","arguments":"{\"b\":2}"}}]})";
  for (const std::string index : {R"("index":0,)", ""}) {
    const std::string begin = R"({"tool_calls":[{)" + index;
    const Heard heard = Stream({Chunk(begin + first), Chunk(begin + second), Chunk("{}", R"("tool_calls")")});
    EXPECT_EQ(heard.content, json::parse(R"([{"type":"tool_use","id":"t1","name":"f","input":{"a":1}},
        {"type":"tool_use","id":"t2","name":"g","input":{"b":2}}])"))
        << index;
  }
  const std::string nameless = R"({"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})";
  EXPECT_EQ(Stream({Chunk(nameless), Chunk(nameless), Chunk("{}", R"("tool_calls")")}).content.size(), 2u);
}

TEST(MessagesStream, TakesACallWhoseNameIsRepeatedAsOne) {
  const auto piece = [](const char* id, const char* arguments) {
    return Chunk(fmt::format(
        R"({{"tool_calls":[{{"index":0,"id":"{}","function":{{"name":"f","arguments":"{}"}}}}]}})", id,
        arguments));
  };
  const Heard heard = Stream({piece("t1", R"({\"a\")"), piece("t1", ":1}"), piece("t1", ""), piece("", ""),
                              Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(heard.content, json::parse(R"([{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}])"));
}

}  // namespace
}  // namespace gateway::api
