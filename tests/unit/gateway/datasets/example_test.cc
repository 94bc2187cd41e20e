#include "gateway/datasets/example.h"

#include <gtest/gtest.h>

namespace gateway::datasets {
namespace {

using Tree = nlohmann::ordered_json;

constexpr char kBody[] =
    R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function"}],"stream":true})";

TEST(Example, AWholeAnswerOfChatBecomesTheLastMessage) {
  const auto example = MakeExample(
      "chat_completions", kBody,
      R"({"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"finish_reason":"stop"}]})",
      "");
  ASSERT_TRUE(example);
  EXPECT_EQ(
      *example,
      Tree::parse(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],
                                      "tools":[{"type":"function"}]})"));
}

TEST(Example, AStreamOfChatIsPutTogetherWithItsCalls) {
  const char stream[] =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"He\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another choice\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo\"}}]}\n\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{"
      "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":\"}}]}}]}\n\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}"
      "}]}}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n";
  const auto message = AnswerMessage("chat_completions", stream);
  ASSERT_TRUE(message);
  EXPECT_EQ((*message)["content"], "Hello");
  EXPECT_EQ((*message)["tool_calls"][0]["id"], "c1");
  EXPECT_EQ((*message)["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
}

TEST(Example, MessagesBecomeChat) {
  const char body[] =
      R"({"model":"m","system":"Be brief","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},
          {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"3"}]}]})";
  const char stream[] =
      "event: content_block_delta\ndata: "
      "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Th\"}}\n\n"
      "event: content_block_delta\ndata: "
      "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"ree\"}}"
      "\n\n";
  const auto example = MakeExample("messages", body, stream, "");
  ASSERT_TRUE(example);
  const Tree& messages = (*example)["messages"];
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0], (Tree{{"role", "system"}, {"content", "Be brief"}}));
  EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(messages[3], (Tree{{"role", "tool"}, {"tool_call_id", "t1"}, {"content", "3"}}));
  EXPECT_EQ(messages[4], (Tree{{"role", "assistant"}, {"content", "Three"}}));
}

TEST(Example, ACorrectionTakesTheAnswersPlace) {
  const auto example = MakeExample("chat_completions", kBody, "", "Better");
  ASSERT_TRUE(example);
  EXPECT_EQ((*example)["messages"].back()["content"], "Better");
}

TEST(Example, WhatHasNoTextIsNone) {
  EXPECT_FALSE(MakeExample("chat_completions", "{", "{}", ""));
  EXPECT_FALSE(MakeExample("chat_completions", kBody, R"({"error":{"message":"no"}})", ""));
  EXPECT_FALSE(MakeExample("chat_completions", kBody, "<html>", ""));
  EXPECT_FALSE(
      MakeExample("messages", R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})", "{}", "x"));
  EXPECT_FALSE(IsExported("embeddings"));
}

}  // namespace
}  // namespace gateway::datasets
