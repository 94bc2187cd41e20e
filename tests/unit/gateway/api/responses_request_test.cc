#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/api/responses.h"

namespace gateway::api {
namespace {

using nlohmann::json;

struct Golden {
  std::string name;
  std::string responses;
  std::string chat;
};

TEST(ChatFromResponses, SaysTheSameInChatForm) {
  const std::vector<Golden> cases = {
      {"smallest", R"({"model":"gpt","input":"hi"})",
       R"({"model":"engine","messages":[{"role":"user","content":"hi"}]})"},
      {"options",
       R"({"model":"gpt","input":"hi","instructions":"Be brief.","max_output_tokens":50,"temperature":0,"top_p":1,
           "parallel_tool_calls":false,"metadata":{"a":"b"},"user":"u","store":false,"stream":true,"truncation":"disabled",
           "background":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"},"previous_response_id":null,
           "prompt_cache_key":"k","top_logprobs":0,"seed":7})",
       R"({"model":"engine","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],
           "max_tokens":50,"temperature":0,"top_p":1,"parallel_tool_calls":false,"user":"u","stream":true,
           "stream_options":{"include_usage":true},"reasoning_effort":"low","seed":7})"},
      {"messages of every role",
       R"({"model":"gpt","instructions":"one","input":[{"role":"developer","content":"two"},{"type":"message","role":"system","content":[{"type":"input_text","text":"three"}]},
           {"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"https://x/y.png","detail":"low"}]},
           {"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a cat","annotations":[]}]},
           {"role":"system","content":"later"},{"role":"user","content":"sure?"}]})",
       R"({"model":"engine","messages":[{"role":"system","content":"one\n\ntwo\n\nthree"},
           {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]},
           {"role":"assistant","content":"a cat"},{"role":"system","content":"later"},{"role":"user","content":"sure?"}]})"},
      {"tool round trip",
       R"({"model":"gpt","input":[{"role":"user","content":"weather?"},{"type":"reasoning","id":"r","summary":[]},
           {"role":"assistant","content":"Looking."},
           {"type":"function_call","call_id":"c1","name":"get","arguments":"{\"z\":1}","id":"fc"},{"type":"function_call","call_id":"c2","name":"get","arguments":"{}"},
           {"type":"function_call_output","call_id":"c1","output":"sun"},
           {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"rain"}]},
           {"type":"function_call","call_id":"c3","name":"get","arguments":"{}"},{"type":"function_call_output","call_id":"c3","output":""}],
           "tools":[{"type":"function","name":"get","description":"d","strict":true,"parameters":{"type":"object","properties":{"z":{},"a":{}}}}],
           "tool_choice":{"type":"function","name":"get"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"weather?"},
           {"role":"assistant","content":"Looking.","tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"z\":1}"}},
             {"id":"c2","type":"function","function":{"name":"get","arguments":"{}"}}]},
           {"role":"tool","tool_call_id":"c1","content":"sun"},{"role":"tool","tool_call_id":"c2","content":"rain"},
           {"role":"assistant","content":null,"tool_calls":[{"id":"c3","type":"function","function":{"name":"get","arguments":"{}"}}]},
           {"role":"tool","tool_call_id":"c3","content":""}],
           "tools":[{"type":"function","function":{"name":"get","description":"d","parameters":{"type":"object","properties":{"z":{},"a":{}}},"strict":true}}],
           "tool_choice":{"type":"function","function":{"name":"get"}}})"},
      {"two assistant messages stay two",
       R"({"input":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]})",
       R"({"model":"engine","messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]})"},
      {"structured output",
       R"({"input":"x","text":{"verbosity":"low","format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"verbosity":"low",
           "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}})"},
      {"json object", R"({"input":"x","text":{"format":{"type":"json_object"}},"tool_choice":"none"})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"},"tool_choice":"none"})"},
      {"only instructions", R"({"input":[],"instructions":"x"})",
       R"({"model":"engine","messages":[{"role":"system","content":"x"}]})"},
  };
  for (const Golden& c : cases) {
    const auto translated = ChatFromResponses(c.responses, "engine");
    ASSERT_TRUE(std::holds_alternative<ChatRequest>(translated))
        << c.name << std::get<ApiError>(translated).message;
    EXPECT_EQ(json::parse(std::get<ChatRequest>(translated).body), json::parse(c.chat)) << c.name;
  }
}

TEST(ChatFromResponses, RemembersWhatTheAnswerRepeats) {
  const auto request = std::get<ChatRequest>(ChatFromResponses(
      R"({"input":"x","instructions":"i","metadata":{"a":"b"},"tools":[{"type":"function","name":"f"}],"temperature":0.2,"user":null})",
      "m"));
  EXPECT_EQ(json::parse("{" + request.echo + "}"),
            json::parse(R"({"instructions":"i","max_output_tokens":null,"metadata":{"a":"b"},
      "parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},"temperature":0.2,"text":{"format":{"type":"text"}},
      "tool_choice":"auto","tools":[{"type":"function","name":"f"}],"top_p":1,"user":null})"));
}

struct Fault {
  std::string body;
  std::string code;
  std::string param;
};

TEST(ChatFromResponses, NamesWhatItCannotSayByItsPath) {
  const std::vector<Fault> cases = {
      {"{", "invalid_json", ""},
      {R"({"model":"m"})", "missing_required_parameter", "input"},
      {R"({"input":1})", "invalid_type", "input"},
      {R"({"input":"x","input":"y"})", "duplicate_key", "input"},
      {R"({"input":"x","store":true})", "unsupported_parameter", "store"},
      {R"({"input":"x","previous_response_id":"resp_1"})", "unsupported_parameter", "previous_response_id"},
      {R"({"input":"x","conversation":"c"})", "unsupported_parameter", "conversation"},
      {R"({"input":"x","background":true})", "unsupported_parameter", "background"},
      {R"({"input":"x","top_logprobs":3})", "unsupported_parameter", "top_logprobs"},
      {R"({"input":"x","truncation":"auto"})", "unsupported_parameter", "truncation"},
      {R"({"input":"x","include":["message.output_text.logprobs"]})", "unsupported_parameter", "include[0]"},
      {R"({"input":"x","max_tokens":4})", "unsupported_parameter", "max_tokens"},
      {R"({"input":"x","instructions":[]})", "invalid_type", "instructions"},
      {R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"web_search"}]})",
       "unsupported_parameter", "tools[1].type"},
      {R"({"input":"x","tools":[{"type":"function"}]})", "missing_required_parameter", "tools[0].name"},
      {R"({"input":"x","tool_choice":"maybe"})", "invalid_value", "tool_choice"},
      {R"({"input":"x","tool_choice":{"type":"allowed_tools"}})", "unsupported_parameter",
       "tool_choice.type"},
      {R"({"input":"x","text":{"format":{"type":"grammar"}}})", "unsupported_parameter", "text.format.type"},
      {R"({"input":"x","text":{"format":{"type":"json_schema","name":"n"}}})", "missing_required_parameter",
       "text.format.schema"},
      {R"({"input":[{"type":"item_reference","id":"x"}]})", "unsupported_parameter", "input[0].type"},
      {R"({"input":[{"type":"web_search_call"}]})", "unsupported_parameter", "input[0].type"},
      {R"({"input":[{"role":"tool","content":"x"}]})", "invalid_value", "input[0].role"},
      {R"({"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]})",
       "unsupported_parameter", "input[0].content[0].type"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]})",
       "missing_required_parameter", "input[0].content[0].image_url"},
      {R"({"input":[{"type":"function_call","name":"f","arguments":"{}"}]})", "missing_required_parameter",
       "input[0].call_id"},
      {R"({"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"u"}]}]})",
       "unsupported_parameter", "input[0].output[0].type"},
  };
  for (const Fault& c : cases) {
    const auto translated = ChatFromResponses(c.body, "m");
    ASSERT_TRUE(std::holds_alternative<ApiError>(translated)) << c.body;
    EXPECT_EQ(std::get<ApiError>(translated).code, c.code) << c.body;
    EXPECT_EQ(std::get<ApiError>(translated).param, c.param) << c.body;
  }
}

}  // namespace
}  // namespace gateway::api
