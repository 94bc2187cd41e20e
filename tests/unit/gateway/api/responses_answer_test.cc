#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/api/responses.h"
#include "tests/unit/gateway/api/sse_events.h"

namespace gateway::api {
namespace {

using nlohmann::json;

ResponseIdentity Identity() {
  return {.id = "resp_1",
          .model = "gpt",
          .request_id = "req_1",
          .echo = R"("tools":[],"metadata":{})",
          .tools = {{.kind = CalledTool::Kind::kCustom, .called = "apply_patch", .name = "apply_patch"},
                    {.called = "mcp__docs__find", .name = "find", .space = "mcp__docs"},
                    {.kind = CalledTool::Kind::kSearch, .called = "tool_search", .name = "tool_search"}},
          .created_at = 1700000000};
}

TEST(ResponseFromChat, SaysTheSameAsAResponse) {
  const auto translated = ResponseFromChat(
      R"({"choices":[{"message":{"content":"hello","reasoning":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],
          "usage":{"prompt_tokens":30,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":2}}})",
      Identity());
  ASSERT_TRUE(std::holds_alternative<std::string>(translated));
  EXPECT_EQ(json::parse(std::get<std::string>(translated)),
            json::parse(R"({"id":"resp_1","object":"response","created_at":1700000000,
      "status":"completed","background":false,"error":null,"incomplete_details":null,"model":"gpt","previous_response_id":null,
      "store":false,"truncation":"disabled","tools":[],"metadata":{},"output":[
        {"id":"rs_1_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
        {"id":"msg_1_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hello","annotations":[],"logprobs":[]}]},
        {"id":"fc_1_2","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1}"}],
      "usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":34}})"));
}

TEST(ResponseFromChat, TellsWhyItIsIncomplete) {
  for (const auto& [finish, reason] : std::vector<std::pair<std::string, std::string>>{
           {"length", "max_output_tokens"}, {"content_filter", "content_filter"}}) {
    const json response = json::parse(std::get<std::string>(ResponseFromChat(
        R"({"choices":[{"message":{"content":"h"},"finish_reason":")" + finish + R"("}]})", Identity())));
    EXPECT_EQ(response["status"], "incomplete");
    EXPECT_EQ(response["incomplete_details"]["reason"], reason);
    EXPECT_EQ(response["output"][0]["status"], "incomplete");
    EXPECT_TRUE(response["usage"].is_null());
  }
}

TEST(ResponseFromChat, RefusesWhatIsNoWholeAnswer) {
  for (const std::string chat :
       {"", "{}", R"({"choices":[{"message":{"content":"x"},"finish_reason":null}]})",
        R"({"error":{"message":"m"}})"}) {
    EXPECT_TRUE(std::holds_alternative<ApiError>(ResponseFromChat(chat, Identity()))) << chat;
  }
}

std::string Chunk(const std::string& delta, const std::string& finish = "null") {
  return R"({"choices":[{"index":0,"delta":)" + delta + R"(,"finish_reason":)" + finish + "}]}";
}
const std::string kUsageChunk =
    R"({"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}})";

// Rebuilds the response from its events by the rules of the SDK's accumulator, which throws where this fails.
struct Snapshot {
  json response;
  std::vector<std::string> names;
  json error;
};

Snapshot Accumulate(std::string_view text) {
  Snapshot snapshot;
  size_t sequence = 0;
  for (const SseEvent& event : ParseEvents(text)) {
    const json& data = event.data;
    snapshot.names.push_back(event.name);
    EXPECT_EQ(data["sequence_number"], sequence++);
    if (data.contains("response")) {
      if (event.name == "response.completed" || event.name == "response.incomplete") {
        EXPECT_EQ(snapshot.response["output"], data["response"]["output"]);
      }
      snapshot.response = data["response"];
      continue;
    }
    if (event.name == "error") {
      snapshot.error = data;
      continue;
    }
    json& output = snapshot.response["output"];
    const size_t index = data["output_index"];
    if (event.name == "response.output_item.added") {
      EXPECT_EQ(index, output.size());
      output.push_back(data["item"]);
      continue;
    }
    if (index >= output.size()) {
      ADD_FAILURE() << "no item " << index << " for " << event.name;
      return snapshot;
    }
    json& item = output[index];
    if (event.name == "response.output_item.done") {
      item = data["item"];
      continue;
    }
    EXPECT_EQ(item["id"], data["item_id"]);
    if (event.name == "response.content_part.added") {
      EXPECT_EQ(data["content_index"], item["content"].size());
      item["content"].push_back(data["part"]);
    } else if (event.name == "response.content_part.done") {
      EXPECT_EQ(item["content"][0], data["part"]);
    } else if (event.name == "response.custom_tool_call_input.delta") {
      item["input"] = item["input"].get<std::string>() + data["delta"].get<std::string>();
    } else if (event.name == "response.custom_tool_call_input.done") {
      EXPECT_EQ(item["input"], data["input"]);
    } else if (event.name == "response.function_call_arguments.delta") {
      item["arguments"] = item["arguments"].get<std::string>() + data["delta"].get<std::string>();
    } else if (event.name == "response.function_call_arguments.done") {
      EXPECT_EQ(item["arguments"], data["arguments"]);
    } else {
      const std::string member = event.name.find("refusal") == std::string::npos ? "text" : "refusal";
      json& part = item["content"].at(data["content_index"].get<size_t>());
      if (event.name.ends_with(".delta")) {
        part[member] = part[member].get<std::string>() + data["delta"].get<std::string>();
      } else {
        EXPECT_TRUE(event.name.ends_with(".done")) << event.name;
        EXPECT_EQ(part[member], data[member]);
      }
    }
  }
  return snapshot;
}

Snapshot Stream(const std::vector<std::string>& chunks) {
  ResponsesStream stream(Identity());
  std::string out;
  for (const std::string& chunk : chunks) stream.OnData(chunk, out);
  stream.OnDone(out);
  return Accumulate(out);
}

TEST(ResponsesStream, TellsTextInTheOrderOfTheSdk) {
  const Snapshot snapshot =
      Stream({Chunk(R"({"role":"assistant","content":""})"), Chunk(R"({"content":"Hel"})"),
              Chunk(R"({"content":"lo"})"), Chunk("{}", R"("stop")"), kUsageChunk});
  EXPECT_EQ(snapshot.names,
            (std::vector<std::string>{"response.created", "response.in_progress",
                                      "response.output_item.added", "response.content_part.added",
                                      "response.output_text.delta", "response.output_text.delta",
                                      "response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"}));
  EXPECT_EQ(snapshot.response["status"], "completed");
  EXPECT_EQ(snapshot.response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(snapshot.response["usage"]["total_tokens"], 14);
}

TEST(ResponsesStream, EndsAsTheWholeAnswerWould) {
  const std::vector<std::string> chunks = {
      Chunk(R"({"reasoning_content":"hm"})"), Chunk(R"({"content":"one"})"),
      Chunk(R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}]})"),
      Chunk("{}", R"("length")"), kUsageChunk};
  const json whole = json::parse(std::get<std::string>(ResponseFromChat(
      R"({"choices":[{"message":{"reasoning_content":"hm","content":"one","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"length"}],
          "usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14}})",
      Identity())));
  json streamed = Stream(chunks).response;
  EXPECT_EQ(streamed["output"][1]["status"], "completed");  // it was whole when the tool call began
  streamed["output"][1]["status"] = "incomplete";
  EXPECT_EQ(streamed, whole);
}

TEST(ResponsesStream, KeepsInterleavedToolCallsApart) {
  const Snapshot snapshot = Stream(
      {Chunk(
           R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}},{"index":1,"id":"c2","function":{"name":"g","arguments":""}}]})"),
       Chunk(
           R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]})"),
       Chunk(R"({"content":"aside"})"), Chunk("{}", R"("tool_calls")")});
  const json& output = snapshot.response["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["arguments"], R"({"a":1})");
  EXPECT_EQ(output[0]["call_id"], "c1");
  EXPECT_EQ(output[1]["arguments"], "{}");
  EXPECT_EQ(output[2]["content"][0]["text"], "aside");
}

TEST(ResponsesStream, TellsCallsOfOneIndexApart) {
  const Snapshot snapshot =
      Stream({Chunk(R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]})"),
              Chunk(R"({"tool_calls":[{"index":0,"id":"c2","function":{"name":"f","arguments":{"a":1}}}]})"),
              Chunk("{}", R"("tool_calls")")});
  const json& output = snapshot.response["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0]["call_id"], "c1");
  EXPECT_EQ(output[0]["arguments"], "{}");
  EXPECT_EQ(output[1]["call_id"], "c2");
  EXPECT_EQ(output[1]["arguments"], R"({"a":1})");
}

// Some engines send the id of a call, or a part of its arguments, before its name.
TEST(ResponsesStream, ACallBeginsOnceItsNameHasCome) {
  const Snapshot snapshot = Stream(
      {Chunk(
           R"({"tool_calls":[{"index":0,"id":"c1","type":"function"},{"index":1,"id":"c2","function":{"arguments":"{\"b\""}}]})"),
       Chunk(R"({"tool_calls":[{"index":1,"function":{"name":"g","arguments":":2"}}]})"),
       Chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f"}}]})"),
       Chunk(
           R"({"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":"}"}}]})"),
       Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(snapshot.response["status"], "completed");
  const json& output = snapshot.response["output"];
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0]["call_id"], "c2");
  EXPECT_EQ(output[0]["name"], "g");
  EXPECT_EQ(output[0]["arguments"], R"({"b":2})");
  EXPECT_EQ(output[1]["call_id"], "c1");
  EXPECT_EQ(output[1]["name"], "f");
  EXPECT_EQ(output[1]["arguments"], "{}");
}

TEST(ResponsesStream, ACallWithoutArgumentsHasAnEmptyObject) {
  const std::string call = R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""}}]})";
  const Snapshot snapshot = Stream({Chunk(call), Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(snapshot.response["output"][0]["arguments"], "{}");
  const json whole = json::parse(std::get<std::string>(ResponseFromChat(
      R"({"choices":[{"message":)" + call + R"(,"finish_reason":"tool_calls"}]})", Identity())));
  EXPECT_EQ(whole["output"][0]["arguments"], "{}");
}

TEST(ResponsesStream, ACallWithoutANameIsAFailureOfTheEngine) {
  const Snapshot snapshot =
      Stream({Chunk(R"({"tool_calls":[{"index":0,"id":"c1","function":{"arguments":"{}"}}]})"),
              Chunk("{}", R"("tool_calls")")});
  EXPECT_EQ(snapshot.error["error"]["code"], "upstream_error");
  EXPECT_EQ(snapshot.response["status"], "failed");
}

TEST(ResponsesStream, TellsTheCountedTokensInPlaceOfTheReport) {
  ResponsesStream stream(Identity());
  std::string out;
  stream.OnData(Chunk(R"({"content":"a"})", R"("stop")"), out);
  stream.OnDone(out, Usage{.input = 8, .output = 17});
  EXPECT_EQ(Accumulate(out).response["usage"]["total_tokens"], 25);
}

TEST(ResponsesStream, TellsRefusalsAsSuch) {
  const Snapshot snapshot =
      Stream({Chunk(R"({"refusal":"I "})"), Chunk(R"({"refusal":"won't"})"), Chunk("{}", R"("stop")")});
  EXPECT_EQ(snapshot.response["output"][0]["content"][0],
            json::parse(R"({"type":"refusal","refusal":"I won't"})"));
}

TEST(ResponsesStream, TellsFailuresTwiceAndThenIsSilent) {
  for (const std::string chunk : {"not json", R"({"error":{"message":"boom","code":500}})", R"({"x":1})"}) {
    ResponsesStream stream(Identity());
    std::string out;
    stream.OnData(Chunk(R"({"content":"half"})"), out);
    stream.OnData(chunk, out);
    const size_t size = out.size();
    stream.OnData(Chunk("{}", R"("stop")"), out);
    stream.OnDone(out);
    EXPECT_EQ(out.size(), size);
    EXPECT_EQ(stream.state(), StreamState::kFailed);
    const Snapshot snapshot = Accumulate(out);
    EXPECT_EQ(snapshot.response["status"], "failed");
    EXPECT_EQ(snapshot.response["error"]["code"], "server_error");
    EXPECT_EQ(snapshot.error["error"]["code"], "upstream_error");
    EXPECT_EQ(snapshot.error["error"]["request_id"], "req_1");
    EXPECT_EQ(snapshot.names.back(), "error");
  }
}

TEST(ResponsesStream, NeverEndsCleanlyWithoutAFinishReason) {
  for (const std::vector<std::string>& chunks :
       {std::vector<std::string>{}, {Chunk(R"({"content":"half"})")}}) {
    const Snapshot snapshot = Stream(chunks);
    EXPECT_EQ(snapshot.error["error"]["code"], "stream_interrupted");
    EXPECT_EQ(std::count(snapshot.names.begin(), snapshot.names.end(), "response.completed"), 0);
  }
}

TEST(ResponsesStream, HoldsNoMoreThanItsBound) {
  ResponsesStream stream(Identity());
  std::string out;
  const std::string chunk = Chunk(R"({"content":")" + std::string(1 << 20, 'x') + R"("})");
  int chunks = 0;
  for (; stream.state() == StreamState::kRunning && chunks < 100; ++chunks) {
    out.clear();
    stream.OnData(chunk, out);
  }
  EXPECT_EQ(chunks, 17);
  EXPECT_NE(out.find("stream_limit"), std::string::npos);
}

// --- Tools that are no plain functions ---

// A call of one tool whose arguments come in these pieces.
std::vector<std::string> Called(const std::string& name, const std::vector<std::string>& pieces) {
  std::vector<std::string> chunks = {
      Chunk(json{{"tool_calls", {{{"index", 0}, {"id", "c1"}, {"function", {{"name", name}}}}}}}.dump())};
  for (const std::string& piece : pieces) {
    chunks.push_back(
        Chunk(json{{"tool_calls", {{{"index", 0}, {"function", {{"arguments", piece}}}}}}}.dump()));
  }
  chunks.push_back(Chunk("{}", R"("tool_calls")"));
  chunks.push_back(kUsageChunk);
  return chunks;
}

std::vector<std::string> ByteByByte(const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

json WholeCall(const std::string& name, const std::string& arguments) {
  const json chat = {
      {"choices",
       {{{"message",
          {{"tool_calls", {{{"id", "c1"}, {"function", {{"name", name}, {"arguments", arguments}}}}}}}},
         {"finish_reason", "tool_calls"}}}}};
  return json::parse(std::get<std::string>(ResponseFromChat(chat.dump(), Identity())))["output"][0];
}

TEST(ResponsesStream, TellsACustomToolsInputAsItComes) {
  const std::string input = "*** Begin Patch\n+\t\"é\" \\ \U0001F600/\n*** End Patch";
  const Snapshot snapshot = Stream(Called(
      "apply_patch",
      ByteByByte(R"( { "input" : "*** Begin Patch\n+\t\"\u00e9\" \\ \ud83d\uDE00\/\n*** End Patch" } )")));
  const json item = {{"id", "ctc_1_0"}, {"type", "custom_tool_call"}, {"status", "completed"},
                     {"call_id", "c1"}, {"name", "apply_patch"},      {"input", input}};
  EXPECT_EQ(snapshot.response["output"], json::array({item}));
  const auto count = [&](std::string_view name) {
    return std::count(snapshot.names.begin(), snapshot.names.end(), name);
  };
  EXPECT_GT(count("response.custom_tool_call_input.delta"), 20);
  EXPECT_EQ(count("response.custom_tool_call_input.done"), 1);
  EXPECT_EQ(count("response.function_call_arguments.delta"), 0);
}

TEST(ResponsesStream, ACustomToolsInputIsTheSameHoweverItIsWritten) {
  const struct {
    std::string arguments, input;
  } cases[] = {
      {R"({"input":"a\nb"})", "a\nb"},
      {R"({"input":""})", ""},
      {R"({"input":"cut o)", "cut o"},
      {R"({"input":"\ud83d"})", "\uFFFD"},
      {R"({"input":"\ud83dx\ude00\u12"})", "\uFFFDx\uFFFD\uFFFD"},
      {R"({"input":"\q\b"})", "q\b"},
      {R"({"input":"x","why":"y"})", "x"},
      {R"({"why":"y","input":"x"})", "x"},
      {R"({"patch":"x"})", R"({"patch":"x"})"},
      {R"({"input":{"a":1}})", R"({"input":{"a":1}})"},
      {"*** Begin Patch", "*** Begin Patch"},
      {"", ""},
      {" {", " {"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(WholeCall("apply_patch", c.arguments)["input"], c.input) << c.arguments;
    const Snapshot streamed = Stream(Called("apply_patch", ByteByByte(c.arguments)));
    EXPECT_EQ(streamed.response["output"][0]["input"], c.input) << c.arguments;
  }
}

TEST(ResponsesStream, CallsGoBackToTheToolsThatTheClientNamed) {
  const json find = {
      {"id", "fc_1_0"}, {"type", "function_call"},  {"status", "completed"},      {"call_id", "c1"},
      {"name", "find"}, {"namespace", "mcp__docs"}, {"arguments", R"({"q":"x"})"}};
  EXPECT_EQ(WholeCall("mcp__docs__find", R"({"q":"x"})"), find);
  EXPECT_EQ(Stream(Called("mcp__docs__find", {R"({"q":)", R"("x"})"})).response["output"][0], find);

  const json search = {{"id", "tsc_1_0"}, {"type", "tool_search_call"}, {"status", "completed"},
                       {"call_id", "c1"}, {"execution", "client"},      {"arguments", {{"query", "x"}}}};
  EXPECT_EQ(WholeCall("tool_search", R"({"query":"x"})"), search);
  const Snapshot streamed = Stream(Called("tool_search", {R"({"query":)", R"("x"})"}));
  EXPECT_EQ(streamed.response["output"][0], search);
  EXPECT_EQ(streamed.names, (std::vector<std::string>{"response.created", "response.in_progress",
                                                      "response.output_item.added",
                                                      "response.output_item.done", "response.completed"}));
  EXPECT_EQ(WholeCall("tool_search", "no JSON")["arguments"], (json{{"raw_arguments", "no JSON"}}));
  EXPECT_EQ(WholeCall("unknown", "{}")["type"], "function_call");
}

}  // namespace
}  // namespace gateway::api
