#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/api/responses.h"
#include "tests/support/codex_turns.h"

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
           "max_tokens":50,"temperature":0,"top_p":1,"user":"u","stream":true,
           "stream_options":{"include_usage":true},"reasoning_effort":"low","seed":7})"},
      {"messages of every role",
       R"({"model":"gpt","instructions":"one","input":[{"role":"developer","content":"two"},{"type":"message","role":"system","content":[{"type":"input_text","text":"three"}]},
           {"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"https://x/y.png","detail":"low"}]},
           {"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a cat","annotations":[]}]},
           {"role":"system","content":"later"},{"role":"user","content":"sure?"}]})",
       R"({"model":"engine","messages":[{"role":"system","content":"one\n\ntwo\n\nthree"},
           {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]},
           {"role":"assistant","content":"a cat"},{"role":"system","content":"later"},{"role":"user","content":"sure?"}]})"},
      {"sound",
       R"({"input":[{"role":"user","content":[{"type":"input_text","text":"what is this?"},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]})",
       R"({"model":"engine","messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]})"},
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
      {"json object", R"({"input":"x","text":{"format":{"type":"json_object"}}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}})"},
      {"a choice of tools without tools, which chat refuses",
       R"({"input":"x","tools":[],"tool_choice":"auto","parallel_tool_calls":false})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}]})"},
      {"a choice among tools",
       R"({"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":"none","parallel_tool_calls":false})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],
           "tool_choice":"none","parallel_tool_calls":false})"},
      {"some of the tools, of which one is to be called",
       R"({"input":"x","truncation":"auto","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"},{"type":"web_search"},
             {"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}],
           "tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"web_search"},
             {"type":"function","namespace":"n","name":"g"}]}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}},
             {"type":"function","function":{"name":"n__g"}}],"tool_choice":"required"})"},
      {"none of the tools",
       R"({"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}]})"},
      {"custom tools",
       R"({"input":[{"role":"user","content":"x"},{"type":"custom_tool_call","call_id":"c1","name":"sh","input":"echo \"é\"\n"},
             {"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"é"}]}],
           "tools":[{"type":"custom","name":"sh"},{"type":"custom","name":"sql","description":"Asks.","format":{"type":"text"}}],
           "tool_choice":{"type":"custom","name":"sh"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"},
             {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"input\":\"echo \\\"é\\\"\\n\"}"}}]},
             {"role":"tool","tool_call_id":"c1","content":"é"}],
           "tools":[
             {"type":"function","function":{"name":"sh","description":"Call it with one argument, \"input\": the text for the tool, as it is.",
               "parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}},
             {"type":"function","function":{"name":"sql","description":"Asks.\n\nCall it with one argument, \"input\": the text for the tool, as it is.",
               "parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}],
           "tool_choice":{"type":"function","function":{"name":"sh"}}})"},
      {"images of outputs follow the outputs",
       R"({"input":[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
             {"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"u1"},{"type":"input_text","text":"t"}]},
             {"type":"reasoning","summary":[]},
             {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_image","image_url":"u2","detail":"low"}]}]})",
       R"({"model":"engine","messages":[
             {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
               {"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},
             {"role":"tool","tool_call_id":"c1","content":"t"},{"role":"tool","tool_call_id":"c2","content":""},
             {"role":"user","content":[{"type":"image_url","image_url":{"url":"u1"}},{"type":"image_url","image_url":{"url":"u2","detail":"low"}}]}]})"},
      {"searches that OpenAI ran, and the tools that they found",
       R"({"input":[{"role":"user","content":"x"},{"type":"tool_search_call","call_id":null,"execution":"server","arguments":{}},
             {"type":"tool_search_output","call_id":null,"execution":"server","tools":[{"type":"function","name":"f"}]}],
           "tools":[{"type":"tool_search"},{"type":"function","name":"f","defer_loading":true}],"include":["web_search_call.action.sources"]})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]})"},
      {"levels of effort beyond those of all engines",
       R"({"input":"x","reasoning":{"effort":"minimal","summary":"auto"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"reasoning_effort":"low"})"},
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
      {R"({"input":"x","truncation":"always"})", "invalid_value", "truncation"},
      {R"({"input":"x","include":["message.output_text.logprobs"]})", "unsupported_parameter", "include[0]"},
      {R"({"input":"x","max_tokens":4})", "unsupported_parameter", "max_tokens"},
      {R"({"input":"x","instructions":[]})", "invalid_type", "instructions"},
      {R"({"input":"x","tools":[{"type":"function","name":"f"},{"type":"file_search"}]})",
       "unsupported_parameter", "tools[1].type"},
      {R"({"input":"x","tools":[{"type":"local_shell"}]})", "unsupported_parameter", "tools[0].type"},
      {R"({"input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}})",
       "unsupported_parameter", "tool_choice.type"},
      {R"({"input":"x","tools":[{"type":"web_search"}],"tool_choice":"required"})", "unsupported_parameter",
       "tool_choice"},
      {R"({"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}]})",
       "unsupported_parameter", "tools[0].tools[1].type"},
      {R"({"input":"x","tools":[{"type":"namespace","name":"n"}]})", "missing_required_parameter",
       "tools[0].tools"},
      {R"({"input":"x","tools":[{"type":"function","name":"n__f"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]})",
       "invalid_value", "tools[1].tools[0]"},
      {R"({"input":"x","tools":[{"type":"custom","name":"n","format":{"type":"regex"}}]})",
       "unsupported_parameter", "tools[0].format.type"},
      {R"({"input":"x","tools":[{"type":"custom","name":"n","format":{"type":"grammar"}}]})",
       "missing_required_parameter", "tools[0].format.definition"},
      {R"({"input":"x","reasoning":{"effort":3}})", "invalid_type", "reasoning.effort"},
      {R"({"input":"x","tools":[{"type":"function"}]})", "missing_required_parameter", "tools[0].name"},
      {R"({"input":"x","tool_choice":"maybe"})", "invalid_value", "tool_choice"},
      {R"({"input":"x","tool_choice":{"type":"allowed_tools"}})", "missing_required_parameter",
       "tool_choice.tools"},
      {R"({"input":"x","tool_choice":{"type":"allowed_tools","tools":[]}})", "missing_required_parameter",
       "tool_choice.mode"},
      {R"({"input":"x","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}})",
       "invalid_value", "tool_choice.tools[0].name"},
      {R"({"input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"}]}})",
       "unsupported_parameter", "tool_choice.mode"},
      {R"({"input":"x","text":{"format":{"type":"grammar"}}})", "unsupported_parameter", "text.format.type"},
      {R"({"input":"x","text":{"format":{"type":"json_schema","name":"n"}}})", "missing_required_parameter",
       "text.format.schema"},
      {R"({"input":[{"type":"item_reference","id":"x"}]})", "unsupported_parameter", "input[0].type"},
      {R"({"input":[{"type":"image_generation_call"}]})", "unsupported_parameter", "input[0].type"},
      {R"({"input":[{"type":"compaction","encrypted_content":"x"}]})", "unsupported_parameter",
       "input[0].type"},
      {R"({"input":[{"type":"custom_tool_call","call_id":"c","name":"f"}]})", "missing_required_parameter",
       "input[0].input"},
      {R"({"input":[{"type":"additional_tools","tools":[{"type":"mcp"}]}]})", "unsupported_parameter",
       "input[0].tools[0].type"},
      {R"({"input":[{"role":"tool","content":"x"}]})", "invalid_value", "input[0].role"},
      {R"({"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]})",
       "unsupported_parameter", "input[0].content[0].type"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]})",
       "missing_required_parameter", "input[0].content[0].image_url"},
      {R"({"input":[{"type":"function_call","name":"f","arguments":"{}"}]})", "missing_required_parameter",
       "input[0].call_id"},
      {R"({"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":"f"}]}]})",
       "missing_required_parameter", "input[0].output[0].image_url"},
      {R"({"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"encrypted_content"}]}]})",
       "unsupported_parameter", "input[0].output[0].type"},
  };
  for (const Fault& c : cases) {
    const auto translated = ChatFromResponses(c.body, "m");
    ASSERT_TRUE(std::holds_alternative<ApiError>(translated)) << c.body;
    EXPECT_EQ(std::get<ApiError>(translated).code, c.code) << c.body;
    EXPECT_EQ(std::get<ApiError>(translated).param, c.param) << c.body;
  }
}

TEST(InputTokens, GoThroughTheEnginesTokenizer) {
  constexpr const char* kBody =
      R"({"model":"c","instructions":"s","input":"hello","temperature":1,"text":{"format":{"type":"text"}},"conversation":null,
          "tools":[{"type":"function","name":"f","parameters":{}}],"tool_choice":"auto"})";
  const auto asked = [&](Tokenizer tokenizer) {
    return json::parse(std::get<ChatRequest>(TokenizeFromResponses(kBody, "engine", tokenizer)).body);
  };
  EXPECT_EQ(
      asked(Tokenizer::kMessages),
      json::parse(
          R"({"model":"engine","messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}],
              "tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"add_generation_prompt":true})"));
  EXPECT_EQ(asked(Tokenizer::kInputs), (json{{"inputs", "f\nsystem\ns\nuser\nhello"}}));
  EXPECT_EQ(json::parse(RenderTokenCount(17, Protocol::kOpenAi)),
            json::parse(R"({"object":"response.input_tokens","input_tokens":17})"));
  for (const char* member :
       {R"("previous_response_id":"resp_1")", R"("conversation":"c")", R"("prompt":{"id":"p"})"}) {
    const auto made =
        TokenizeFromResponses(std::string(R"({"input":"x",)") + member + "}", "m", Tokenizer::kMessages);
    ASSERT_TRUE(std::holds_alternative<ApiError>(made)) << member;
    EXPECT_EQ(std::get<ApiError>(made).code, "unsupported_parameter");
  }
}

// --- As Codex CLI sends them ---

ChatRequest FromCodex(const std::string& input) {
  const auto translated = ChatFromResponses(tests::codex::Turn(input), "engine");
  const auto* const fault = std::get_if<ApiError>(&translated);
  if (fault != nullptr) ADD_FAILURE() << fault->param << ": " << fault->message;
  return fault != nullptr ? ChatRequest() : std::get<ChatRequest>(translated);
}

std::vector<std::string> NamesOfTools(const json& chat) {
  std::vector<std::string> names;
  for (const json& tool : chat["tools"]) names.push_back(tool["function"]["name"]);
  return names;
}

TEST(ChatFromCodex, FirstTurnBecomesChat) {
  const ChatRequest request = FromCodex("");
  json chat = json::parse(request.body);
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(NamesOfTools(chat),
            (std::vector<std::string>{"exec_command", "update_plan", "apply_patch", "view_image",
                                      "tool_search", "mcp__docs__find", "mcp__docs__read"}));
  const json& patch = chat["tools"][2]["function"];
  EXPECT_EQ(patch["parameters"]["required"], json::parse(R"(["input"])"));
  EXPECT_TRUE(patch["description"].get<std::string>().ends_with("start: begin_patch hunk+ end_patch\n"));
  EXPECT_EQ(chat["tools"][5]["function"]["description"], "Documentation of the team.\n\nFinds a page.");
  EXPECT_EQ(chat["tools"][6]["function"]["description"], "Reads a page.");
  chat.erase("tools");
  EXPECT_EQ(chat, json::parse(R"({"model":"engine","messages":[
      {"role":"system","content":"You are a coding agent.\n\n<permissions>read-only</permissions>"},
      {"role":"user","content":"<environment_context><cwd>/src</cwd></environment_context>"},
      {"role":"user","content":"Rename f to g."}],
      "tool_choice":"auto","parallel_tool_calls":true,"reasoning_effort":"high","stream":true,
      "stream_options":{"include_usage":true},"verbosity":"low"})"));
}

TEST(ChatFromCodex, CallsOfEveryKindBecomeFunctions) {
  const json chat = json::parse(FromCodex(tests::codex::kAfterSearch).body);
  json messages = chat["messages"];
  messages.erase(messages.begin(), messages.begin() + 3);
  EXPECT_EQ(messages, json::parse(R"([
      {"role":"assistant","content":"I look for uses.","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"exec_command","arguments":"{\"cmd\":\"rg -n 'f\\\\('\"}"}}]},
      {"role":"tool","tool_call_id":"call_1","content":"a.c:1:int f(void);"},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"call_2","type":"function","function":{"name":"apply_patch","arguments":
          "{\"input\":\"*** Begin Patch\\n*** Update File: a.c\\n-int f(void);\\n+int g(void);\\n*** End Patch\"}"}}]},
      {"role":"tool","tool_call_id":"call_2","content":"Success. Updated the following files:\nM a.c"},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"call_3","type":"function","function":{"name":"tool_search","arguments":"{\"query\":\"calendar\",\"limit\":1}"}}]},
      {"role":"tool","tool_call_id":"call_3","content":"These tools can be called now: mcp__calendar__create"},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"call_4","type":"function","function":{"name":"mcp__calendar__create","arguments":"{\"at\":\"9:00\"}"}},
        {"id":"call_5","type":"function","function":{"name":"view_image","arguments":"{\"path\":\"a.png\"}"}}]},
      {"role":"tool","tool_call_id":"call_4","content":"created"},
      {"role":"tool","tool_call_id":"call_5","content":""},
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"high"}}]},
      {"role":"user","content":"Thanks. And the docs?"}])"));
  EXPECT_EQ(NamesOfTools(chat).back(), "mcp__calendar__create") << "the tool that was found is offered";
}

TEST(ChatFromCodex, ToolsInTheConversationAreOffered) {
  const std::string again =
      R"(,{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec","format":{"type":"text"}},
           {"type":"function","name":"update_plan","parameters":{}}]})";
  const auto names = NamesOfTools(json::parse(FromCodex(again).body));
  EXPECT_EQ(std::count(names.begin(), names.end(), "exec"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "update_plan"), 1) << "it was offered already";
}

TEST(ChatFromCodex, RemembersWhatEachFunctionIs) {
  const ChatRequest request = FromCodex("");
  std::vector<std::string> told;
  for (const CalledTool& tool : request.tools)
    told.push_back(tool.called + " " + tool.space + " " + tool.name + " " + std::to_string(int(tool.kind)));
  EXPECT_EQ(told,
            (std::vector<std::string>{"apply_patch  apply_patch 1", "mcp__docs__find mcp__docs find 0",
                                      "mcp__docs__read mcp__docs read 0", "tool_search  tool_search 2"}));
}

}  // namespace
}  // namespace gateway::api
