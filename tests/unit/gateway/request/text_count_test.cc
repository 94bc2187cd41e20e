#include "gateway/request/text_count.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

TEST(TextCount, CountsTheTextOfEveryChoiceAndForm) {
  const struct {
    TextCount::Form form;
    std::string event;
    uint64_t bytes;
  } cases[] = {
      {TextCount::Form::kChat, R"({"choices":[{"index":0,"delta":{"content":"four"}}]})", 4},
      {TextCount::Form::kChat,
       R"({"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"bc"}}]})", 3},
      {TextCount::Form::kChat, R"({"choices":[{"delta":{"reasoning_content":"think","content":null}}]})", 5},
      {TextCount::Form::kChat,
       R"({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":"}}]}}]})", 5},
      {TextCount::Form::kChat, R"({"choices":[{"text":" token","logprobs":{"tokens":["content"]}}]})", 6},
      {TextCount::Form::kChat, R"({"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop"}]})", 0},
      {TextCount::Form::kChat, R"({"choices":[{"delta":{"content":"\n\u00e9\"x"}}]})", 5},
      {TextCount::Form::kMessages,
       R"({"type":"content_block_delta","delta":{"type":"text_delta","text":"abc"}})", 3},
      {TextCount::Form::kMessages, R"({"delta":{"type":"input_json_delta","partial_json":"{}"}})", 2},
      {TextCount::Form::kResponses, R"({"type":"response.output_text.delta","delta":"abc"})", 3},
      {TextCount::Form::kResponses, R"({"type":"response.output_text.done","text":"abc"})", 0},
      {TextCount::Form::kChat, R"({"choices":[{"delta":{"content":"cut)", 3},
      {TextCount::Form::kChat, "", 0},
  };
  for (const auto& c : cases) {
    TextCount text(c.form);
    for (uint64_t times = 1; times <= 3; ++times) {
      text.Add(c.event);
      EXPECT_EQ(text.bytes(), times * c.bytes) << c.event;
      EXPECT_EQ(text.events(), c.bytes > 0 ? times : 0);
    }
  }
}

// Engines send a call, or a whole item, without pieces before.
TEST(TextCount, CountsItemsThatCameInNoPieces) {
  const std::string call =
      R"({"type":"response.output_item.done","item":{"type":"function_call","name":"get","arguments":"{\"a\":1}"}})";
  TextCount text(TextCount::Form::kResponses);
  text.AddItem(call);
  EXPECT_EQ(text.bytes(), 10u);
  EXPECT_EQ(text.events(), 1u);
  text.AddOutput(
      R"({"type":"response.completed","response":{"tools":[{"name":"get"}],"text":{"output":["x"]},"instructions":"\"output\":[",)"
      R"("output":[{"type":"function_call","name":"get","arguments":"{\"a\":1}"}]}})");
  EXPECT_EQ(text.bytes(), 10u) << "the last event repeats the items";
  TextCount spoken(TextCount::Form::kResponses);
  spoken.Add(R"({"type":"response.output_text.delta","delta":"hello"})");
  spoken.AddItem(R"({"item":{"type":"message","content":[{"type":"output_text","text":"hello"}]}})");
  EXPECT_EQ(spoken.bytes(), 5u) << "an item repeats its pieces";
  spoken.AddItem(call);
  EXPECT_EQ(spoken.bytes(), 15u);
  TextCount whole(TextCount::Form::kResponses);
  whole.AddOutput(
      R"({"output" : [{"content":[{"text":"four"}]},{"input":"five5","refusal":"no"}],"name":"x"})");
  EXPECT_EQ(whole.bytes(), 11u);
  for (const char* broken :
       {"", "{", R"({"output)", R"({"output":)", R"({"response":{"output":[{"text":"ab)", "[]", "7"})
    TextCount(TextCount::Form::kResponses).AddOutput(broken);
}

TEST(TextCount, CountsArgumentsThatAreNoText) {
  TextCount messages(TextCount::Form::kMessages);
  messages.Add(R"({"content":[{"type":"tool_use","name":"get","input":{"city":"a \"}\" b"}}],"usage":{}})");
  EXPECT_EQ(messages.bytes(), 3u + 20u);
  TextCount chat(TextCount::Form::kChat);
  chat.Add(R"({"choices":[{"message":{"tool_calls":[{"function":{"name":"get","arguments":{"a":[1]}}}]}}]})");
  EXPECT_EQ(chat.bytes(), 3u + 9u);
}

TEST(TextCount, NoticesWhenAnEventIsNotLikeTheLast) {
  TextCount text(TextCount::Form::kChat);
  text.Add(R"({"choices":[{"delta":{"content":"ab"}}]})");
  text.Add(R"({"choices":[{"delta":{"content":"abc","reasoning_content":"de"}}]})");
  text.Add(R"({"choices":[{"delta":{"content":"f"}}]})");
  text.Add(R"({"choices":[{"delta":{"content":null}}]})");
  EXPECT_EQ(text.bytes(), 8u);
  EXPECT_EQ(text.events(), 3u);
}

TEST(TextCount, RecognizesAnEventThatDiffersFromTheLastOnlyInItsText) {
  TextCount text(TextCount::Form::kChat);
  EXPECT_FALSE(text.Add(R"({"id":1,"choices":[{"delta":{"content":"ab"},"finish_reason":null}]})"));
  EXPECT_TRUE(text.Add(R"({"id":1,"choices":[{"delta":{"content":"\"c"},"finish_reason":null}]})"));
  EXPECT_FALSE(text.Add(R"({"id":2,"choices":[{"delta":{"content":"d"},"finish_reason":null}]})"));
  EXPECT_FALSE(text.Add(R"({"id":1,"choices":[{"delta":{"content":"e"},"finish_reason":"stop"}]})"));
  EXPECT_FALSE(text.Add("[DONE]"));
  EXPECT_EQ(text.bytes(), 6u);
}

}  // namespace
}  // namespace gateway
