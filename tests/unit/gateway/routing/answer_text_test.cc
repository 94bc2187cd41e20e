#include "gateway/routing/answer_text.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway::routing {
namespace {

struct Case {
  const char* name;
  const char* body;
  bool stream;
  std::string text;
};

TEST(AnswerText, IsTheTextOfTheAnswerInEveryApi) {
  const Case cases[] = {
      {"chat",
       R"({"id":"a","created":1,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."}}]})",
       false, "Hi."},
      {"chat stream",
       "data: "
       "{\"id\":\"b\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\"}}]}\n\n"
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"i.\"}}]}\n\ndata: [DONE]\n\n",
       true, "Hi."},
      {"choices in any order",
       "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n"
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
       true, std::string("a\0b", 3)},
      {"tools",
       R"({"choices":[{"message":{"content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}}]})",
       false, "f{}"},
      {"completion", R"({"choices":[{"index":0,"text":"more"}]})", false, "more"},
      {"messages", R"({"type":"message","content":[{"type":"text","text":"Hi."}]})", false, "Hi."},
      {"messages stream",
       "event: content_block_start\ndata: "
       "{\"type\":\"content_block_start\",\"content_block\":{\"text\":\"\"}}\n\n"
       "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi.\"}}\n\n"
       "event: message_delta\ndata: "
       "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
       true, "Hi."},
      {"responses",
       R"({"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"Hi."}]}]})",
       false, "Hi."},
      {"responses stream",
       "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi.\"}\n\n"
       "data: {\"type\":\"response.output_text.done\",\"text\":\"Hi.\"}\n\n",
       true, "Hi."},
      {"embeddings", R"({"data":[{"embedding":[1,2]}]})", false, ""},
      {"not JSON", "<html>", false, ""},
      {"odd types", R"({"choices":[1,{"message":"x","delta":[],"index":"y"}],"content":3})", false, ""},
  };
  for (const Case& c : cases) EXPECT_EQ(AnswerText(c.body, c.stream), c.text) << c.name;
}

}  // namespace
}  // namespace gateway::routing
