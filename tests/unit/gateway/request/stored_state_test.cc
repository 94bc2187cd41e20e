#include "gateway/request/stored_state.h"

#include <gtest/gtest.h>

#include <string>

#include "gateway/net/buffer.h"

namespace gateway {
namespace {

template <class Find>
std::string NamedBy(Find find, router::Api api, const std::string& members) {
  std::string body = R"({"model":"m",)" + members + "}";
  const size_t size = body.size();
  body.append(net::Buffer::kPadding, '\0');
  const std::string_view text = std::string_view(body).substr(0, size);
  router::FactsScanner scanner;
  router::BodyFacts facts;
  const auto error = scanner.Scan(text, api, facts);
  EXPECT_FALSE(error) << error->message;
  return std::string(find(scanner, text).value_or(""));
}

std::string Named(const std::string& members) {
  return NamedBy(NamesStoredState, router::Api::kResponses, members);
}

TEST(StoredState, FindsStateThatIsNamedByItsId) {
  const struct {
    const char* members;
    const char* named;
  } cases[] = {
      {R"("conversation":"conv_1","input":"x")", "conversation"},
      {R"("conversation":{"id":"conv_1"})", "conversation"},
      {R"("c\u006fnversation":"conv_1")", "conversation"},
      {R"("prompt":{"id":"pmpt_1","version":"2"})", "prompt"},
      {R"("input":[{"type":"item_reference","id":"msg_1"}])", "input"},
      {R"("input":[{"role":"user","content":"x"},{"id":"msg_1"}])", "input"},
      {R"("input":[{"id":"msg_1","type":"message"}])", "input"},
      {R"("input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}])", "input"},
      {R"("input":[{"role":"user","content":[{"type":"input_image","file\u005fid":"file-1"}]}])", "input"},
      {R"("tools":[{"type":"file_search","vector_store_ids":["vs_1"]}])", "tools"},
      {R"("tools":[{"type":"code_interpreter","container":"cntr_1"}])", "tools"},
      {R"("tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}])", "tools"},
  };
  for (const auto& c : cases) EXPECT_EQ(Named(c.members), c.named) << c.members;
}

TEST(StoredState, IgnoresTheContentOfTheRequestItself) {
  for (
      const char* members :
      {R"("input":"conversation")", R"("conversation":null,"prompt":null,"input":[])",
       R"("input":[{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}])",
       R"("input":[{"type":"function_call_output","call_id":"c","output":"{\"file_id\":\"x\"}"}])",
       R"("input":[{"role":"user","content":[{"type":"input_image","file_id":null,"image_url":"data:,"}]}])",
       R"("tools":[{"type":"function","name":"f","parameters":{"properties":{"file_id":{"type":"string"}}}}])",
       R"("tools":[{"type":"code_interpreter","container":{"type":"auto"}}])"})
    EXPECT_EQ(Named(members), "") << members;
}

TEST(StoredContent, IsFoundInChatAndMessages) {
  const struct {
    router::Api api;
    const char* members;
    const char* named;
  } cases[] = {
      {router::Api::kChatCompletions,
       R"("messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}])", "messages"},
      {router::Api::kChatCompletions,
       R"("messages":[{"role":"user","content":[{"type":"file","file":{"file\u005fid":"file-1"}}]}])",
       "messages"},
      {router::Api::kChatCompletions,
       R"("messages":[{"role":"user","content":"x"},{"role":"assistant","audio":{"id":"audio_1"}}])",
       "messages"},
      {router::Api::kMessages,
       R"("messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}])",
       "messages"},
      {router::Api::kMessages,
       R"("messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]}])",
       "messages"},
      {router::Api::kMessages,
       R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image",)"
       R"("source":{"type":"file","file_id":"file_1"}}]}]}])",
       "messages"},
      {router::Api::kMessages, R"("container":"container_1","messages":[{"role":"user","content":"x"}])",
       "container"},
      {router::Api::kMessages, R"("container":{"id":"container_1"},"messages":[])", "container"},
  };
  for (const auto& c : cases) EXPECT_EQ(NamedBy(NamesStoredContent, c.api, c.members), c.named) << c.members;
}

TEST(StoredContent, IsNotWhatTheRequestHoldsItself) {
  for (
      const char* members :
      {R"("messages":[{"role":"user","content":"file_id"}])",
       R"("messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:,","filename":"a"}}]}])",
       R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"read",)"
       R"("input":{"file_id":"file_1"}}]}])",
       R"("messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f",)"
       R"("arguments":"{\"file_id\":\"x\"}"}}]}])",
       R"("messages":[{"role":"assistant","content":[{"type":"text","text":"a","citations":[{"file_id":"f"}]}]}])",
       R"("messages":[],"container":null,"audio":{"voice":"alloy","format":"wav"})",
       R"("messages":[],"tools":[{"name":"f","input_schema":{"properties":{"file_id":{"type":"string"}}}}])"}) {
    EXPECT_EQ(NamedBy(NamesStoredContent, router::Api::kMessages, members), "") << members;
    EXPECT_EQ(NamedBy(NamesStoredContent, router::Api::kChatCompletions, members), "") << members;
  }
}

TEST(StoredState, KnowsAnswersInTheBackground) {
  const auto in_background = [](const std::string& members) {
    const auto find = [](const router::FactsScanner& scanner, std::string_view body) {
      return RunsInBackground(scanner, body) ? std::optional<std::string_view>("background") : std::nullopt;
    };
    return NamedBy(find, router::Api::kResponses, members) == "background";
  };
  EXPECT_TRUE(in_background(R"("background":true,"input":"x")"));
  EXPECT_TRUE(in_background(R"("b\u0061ckground": true )"));
  for (const char* members : {R"("background":false)", R"("background":null)", R"("input":"x")",
                              R"("metadata":{"background":true})", R"("background":"true")"}) {
    EXPECT_FALSE(in_background(members)) << members;
  }
}

}  // namespace
}  // namespace gateway
