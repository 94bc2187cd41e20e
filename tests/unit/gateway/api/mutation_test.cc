// Broken and shuffled input: nothing crashes, what is written stays well-formed, a failed stream never looks
// whole.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "gateway/api/anthropic.h"
#include "gateway/api/responses.h"
#include "gateway/api/usage.h"
#include "tests/unit/gateway/api/sse_events.h"

namespace gateway::api {
namespace {

const std::vector<std::string> kSeeds = {
    R"({"model":"c","max_tokens":9,"system":[{"type":"text","text":"s"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"messages":[{"role":"user","content":[{"type":"text","text":"é\n"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":[1,2.5,null,true]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x","is_error":true}]}]})",
    R"({"model":"g","instructions":"i","stream":true,"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}],"text":{"format":{"type":"json_schema","name":"n","schema":{}}}})",
    R"({"id":"c","choices":[{"index":0,"message":{"content":"hi","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}})",
    R"({"input":[{"type":"custom_tool_call","call_id":"c","name":"p","input":"i"},{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_image","image_url":"u"}]},{"type":"tool_search_output","call_id":"d","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}],"tools":[{"type":"custom","name":"p","format":{"type":"grammar","definition":"d"}},{"type":"web_search"},{"type":"tool_search","execution":"client"}],"tool_choice":"required"})",
    R"({"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":1,"function":{"name":"g","arguments":"{"}}]},"finish_reason":null}],"usage":null})",
};

const MessageIdentity kMessage = {.id = "m", .model = "m", .request_id = "r", .show_thinking = true};
const ResponseIdentity kResponse = {
    .id = "resp_r",
    .model = "m",
    .request_id = "r",
    .echo = "",
    .tools = {{.kind = CalledTool::Kind::kCustom, .called = "f", .name = "f"},
              {.kind = CalledTool::Kind::kSearch, .called = "h", .name = "h"}},
    .created_at = 1};

uint32_t Below(std::mt19937& random, size_t bound) {
  return static_cast<uint32_t>(random() % bound);
}

std::string Mutate(std::mt19937& random) {
  constexpr std::string_view kBytes = "{}[]\":,\\0e-tfn\x80\xff u\n";
  std::string text = kSeeds[Below(random, kSeeds.size())];
  for (uint32_t changes = Below(random, 5); changes > 0 && !text.empty(); --changes) {
    const size_t at = Below(random, text.size());
    const size_t length = Below(random, std::min<size_t>(text.size() - at, 24) + 1);
    switch (random() % 5) {
      case 0:
        text[at] = kBytes[Below(random, kBytes.size())];
        break;
      case 1:
        text.insert(at, 1, kBytes[Below(random, kBytes.size())]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(Below(random, text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST(Mutation, TranslationsAnswerAnyBytesWithJsonOrAnError) {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = Mutate(random);
    for (const auto& request :
         {ChatFromMessages(text, {.model = "m", .forward_thinking = true}), ChatFromResponses(text, "m")}) {
      if (const auto* chat = std::get_if<ChatRequest>(&request)) {
        ASSERT_TRUE(nlohmann::json::accept(chat->body)) << text;
      } else {
        ASSERT_TRUE(nlohmann::json::accept(RenderError(Protocol::kOpenAi, std::get<ApiError>(request), "r")))
            << text;
      }
    }
    for (const auto& answer : {MessageFromChat(text, kMessage), ResponseFromChat(text, kResponse)}) {
      if (const auto* body = std::get_if<std::string>(&answer))
        ASSERT_TRUE(nlohmann::json::accept(*body)) << text;
    }
    (void)CountFromTokenize(text);
    (void)FromUpstream(500, text);
  }
}

TEST(Mutation, UsageScansNeverCutOutsideOfTheEvent) {
  std::mt19937 random(8);
  for (int round = 0; round < 50'000; ++round) {
    const std::string text = Mutate(random);
    (void)UsageFromJson(text);
    (void)FinishFromJson(text);
    const StripPlan plan = StripUsage(text);
    ASSERT_LE(plan.offset + plan.length, text.size());
    if (plan.drop_event || !nlohmann::json::accept(text)) continue;
    std::string cut = text;
    cut.erase(plan.offset, plan.length);
    ASSERT_TRUE(nlohmann::json::accept(cut)) << text;
  }
}

TEST(Mutation, StreamsStayWellFormedWhateverTheEngineSends) {
  std::mt19937 random(9);
  const std::vector<std::string> deltas = {
      R"({"content":"a"})",
      R"({"reasoning":"b"})",
      R"({"refusal":"c"})",
      "{}",
      R"({"content":null})",
      R"({"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]})",
      R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})",
      R"({"tool_calls":[{"index":0,"function":{"arguments":"\"input\":\"a\\u00"}}]})",
      R"({"tool_calls":[{"index":1,"id":"y","function":{"name":"g","arguments":"{}"}},{"index":2,"function":{"name":"h"}}]})",
  };
  int clean = 0;
  for (int round = 0; round < 3'000; ++round) {
    MessagesStream messages({.id = "m", .model = "m", .request_id = "r", .show_thinking = round % 2 == 0});
    ResponsesStream responses(kResponse);
    std::string said;
    std::string told;
    for (uint32_t chunks = Below(random, 9); chunks > 0; --chunks) {
      std::string chunk =
          R"({"choices":[{"delta":)" + deltas[Below(random, deltas.size())] + R"(,"finish_reason":null}]})";
      if (Below(random, 60) == 0) chunk = Mutate(random);
      messages.OnData(chunk, said);
      responses.OnData(chunk, told);
    }
    if (round % 3 != 0) {
      const std::string last = R"({"choices":[{"delta":{},"finish_reason":"stop"}]})";
      messages.OnData(last, said);
      responses.OnData(last, told);
    }
    messages.OnDone(said);
    responses.OnDone(told);
    ASSERT_NE(messages.state(), StreamState::kRunning);
    ASSERT_NE(responses.state(), StreamState::kRunning);
    const auto events = ParseEvents(said);
    ASSERT_EQ(events.back().name, messages.state() == StreamState::kDone ? "message_stop" : "error");
    const auto others = ParseEvents(told);
    ASSERT_EQ(others.back().name, responses.state() == StreamState::kDone ? "response.completed" : "error");
    clean += messages.state() == StreamState::kDone;
  }
  EXPECT_GT(clean, 500);
}

}  // namespace
}  // namespace gateway::api
