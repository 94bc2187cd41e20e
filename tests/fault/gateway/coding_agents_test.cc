// Coding agents against an engine that only has chat completions: their requests, turn by turn, through the
// whole gateway, and what they are told of the engine's answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "conf/json_parse.h"
#include "tests/support/claude_code_turns.h"
#include "tests/support/codex_turns.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/unit/gateway/api/sse_events.h"

namespace tests {
namespace {

using gateway::api::ParseEvents;
using gateway::api::SseEvent;
using testing::Contains;

// A stream of chat chunks with one choice each.
std::string ChatStream(const std::vector<Json>& deltas, std::string_view finish) {
  std::string out = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
  const auto event = [&](const Json& data) { out += fmt::format("data: {}\n\n", data.dump()); };
  for (const Json& delta : deltas)
    event({{"id", "c"}, {"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", nullptr}}}}});
  event({{"id", "c"}, {"choices", {{{"index", 0}, {"delta", Json::object()}, {"finish_reason", finish}}}}});
  event({{"id", "c"},
         {"choices", Json::array()},
         {"usage", {{"prompt_tokens", 900}, {"completion_tokens", 40}}}});
  return out + "data: [DONE]\n\n";
}

Json CallDelta(int index, const std::string& id, const std::string& name, const std::string& arguments) {
  Json call = {{"index", index}, {"function", {{"arguments", arguments}}}};
  if (!id.empty()) call["id"] = id;
  if (!name.empty()) call["function"]["name"] = name;
  return {{"tool_calls", Json::array({call})}};
}

Json LastChat(const FakeUpstream& engine) {
  const std::vector<FakeUpstream::Request> seen = engine.seen();
  const auto last =
      std::find_if(seen.rbegin(), seen.rend(), [](const auto& one) { return one.head.starts_with("POST "); });
  if (last == seen.rend()) return {};
  EXPECT_TRUE(last->head.starts_with("POST /v1/chat/completions")) << last->head;
  return conf::ParseJson(last->body);
}

GatewayConfig ChatOnly(const FakeUpstream& engine) {
  return {.replicas = {engine.port()},
          .model = "health: {probe: false}",
          .endpoint = "engine: openai, apis: [chat]"};
}

std::vector<std::string> Names(const std::vector<SseEvent>& events) {
  std::vector<std::string> names;
  for (const SseEvent& event : events) names.push_back(event.name);
  return names;
}

TEST(CodingAgents, CodexEditsAFileWithAnEngineThatOnlyChats) {
  FakeUpstream engine(ChatStream({{{"content", "I edit it."}},
                                  CallDelta(0, "call_2", "apply_patch", ""),
                                  CallDelta(0, "", "", R"({"input": "*** Begin)"),
                                  CallDelta(0, "", "", R"( Patch\n*** End Patch"})"),
                                  CallDelta(1, "call_6", "mcp__docs__find", R"({"q":"style"})")},
                                 "tool_calls"));
  const GatewayProcess gateway(ChatOnly(engine));
  const Answer first = gateway.Ask(Post("/v1/responses", codex::Turn("")));
  ASSERT_EQ(first.status, 200) << first.body;
  const std::vector<SseEvent> events = ParseEvents(first.body);
  EXPECT_THAT(Names(events), Contains("response.custom_tool_call_input.delta").Times(2));
  ASSERT_EQ(events.back().name, "response.completed");
  const Json& response = events.back().data["response"];
  EXPECT_EQ(response["usage"]["total_tokens"], 940);
  const Json& output = response["output"];
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["content"][0]["text"], "I edit it.");
  EXPECT_EQ(output[1]["type"], "custom_tool_call");
  EXPECT_EQ(output[1]["input"], "*** Begin Patch\n*** End Patch");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["namespace"], "mcp__docs");
  EXPECT_EQ(output[2]["name"], "find");

  engine.Say(ChatStream({{{"content", "Done."}}}, "stop"));
  for (const std::string& turn : {codex::kAfterPatch, codex::kAfterSearch}) {
    const Answer answer = gateway.Ask(Post("/v1/responses", codex::Turn(turn)));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(ParseEvents(answer.body).back().name, "response.completed");
    const Json chat = LastChat(engine);
    EXPECT_EQ(chat["messages"][4]["tool_call_id"], "call_1");
    EXPECT_EQ(chat["messages"][6]["content"], "Success. Updated the following files:\nM a.c");
    for (const char* unknown : {"client_metadata", "prompt_cache_key", "include", "store", "service_tier"})
      EXPECT_FALSE(chat.contains(unknown)) << unknown;
  }
  EXPECT_EQ(gateway.CloseOf(first.header("x-request-id")).output, 40);
}

TEST(CodingAgents, ClaudeCodeUsesToolsWithAnEngineThatOnlyChats) {
  FakeUpstream engine(ChatStream({{{"reasoning_content", "I run it."}},
                                  {{"content", "I run the test."}},
                                  CallDelta(0, "toolu_1", "Bash", R"({"command":)"),
                                  CallDelta(0, "", "", R"("make test"})"),
                                  CallDelta(1, "toolu_2", "ToolSearch", R"({"query":"select:WebFetch"})")},
                                 "tool_calls"));
  const GatewayProcess gateway(ChatOnly(engine));
  const Answer first = gateway.Ask(Post("/v1/messages?beta=true", claude_code::Turn("36ee5", "")));
  ASSERT_EQ(first.status, 200) << first.body;
  const std::vector<SseEvent> events = ParseEvents(first.body);
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back().name, "message_stop");
  EXPECT_EQ(events[events.size() - 2].data["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(events[events.size() - 2].data["usage"]["output_tokens"], 40);
  std::vector<std::string> blocks;
  for (const SseEvent& event : events) {
    if (event.name == "content_block_start") blocks.push_back(event.data["content_block"]["type"]);
  }
  EXPECT_EQ(blocks, (std::vector<std::string>{"thinking", "text", "tool_use", "tool_use"}));
  const Json before = LastChat(engine);

  engine.Say(ChatStream({{{"content", "It is a missing rule."}}}, "stop"));
  const Answer second =
      gateway.Ask(Post("/v1/messages?beta=true", claude_code::Turn("0aaa9", claude_code::kAfterTools)));
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(ParseEvents(second.body).back().name, "message_stop");
  const Json chat = LastChat(engine);
  EXPECT_EQ(chat["messages"][0], before["messages"][0]) << "the prompt stands in the engine's cache";
  EXPECT_EQ(chat["tools"].size(), before["tools"].size() + 1) << "a tool was found";
  EXPECT_EQ(chat["messages"].back()["content"].size(), 3u);
  for (const char* unknown :
       {"betas", "context_management", "metadata", "thinking", "output_config", "speed"})
    EXPECT_FALSE(chat.contains(unknown)) << unknown;
}

TEST(CodingAgents, AToolThatNobodyHereRunsIsRefusedByItsPath) {
  const FakeUpstream engine(JsonAnswer("{}"));
  const GatewayProcess gateway(ChatOnly(engine));
  const Answer refused = gateway.Ask(Post(
      "/v1/responses",
      R"({"model":"chat-small","input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.code(), "unsupported_parameter");
  EXPECT_EQ(refused.json()["error"]["param"], "tool_choice.type");
}

}  // namespace
}  // namespace tests
