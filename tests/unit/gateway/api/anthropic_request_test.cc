#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/api/anthropic.h"
#include "tests/support/claude_code_turns.h"

namespace gateway::api {
namespace {

using nlohmann::json;

struct Golden {
  std::string name;
  std::string messages;
  std::string chat;
};

TEST(ChatFromMessages, SaysTheSameInChatForm) {
  const std::vector<Golden> cases = {
      {"smallest", R"({"model":"claude","max_tokens":64,"messages":[{"role":"user","content":"hi"}]})",
       R"({"model":"engine","messages":[{"role":"user","content":"hi"}],"max_tokens":64})"},
      {"system, sampling, user, stream",
       R"({"model":"c","max_tokens":9,"system":"Be brief.","temperature":0.5,"top_p":0.9,"top_k":40,"stream":true,
           "stop_sequences":["END"],"metadata":{"user_id":"u-1"},"messages":[{"role":"user","content":"hi"}]})",
       R"({"model":"engine","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],
           "max_tokens":9,"temperature":0.5,"top_p":0.9,"top_k":40,"stream":true,
           "stream_options":{"include_usage":true},"stop":["END"],"user":"u-1"})"},
      {"system blocks, cache control",
       R"({"model":"c","max_tokens":9,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],
           "messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]})",
       R"({"model":"engine","messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"hi"}],"max_tokens":9})"},
      {"images and documents",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":[
           {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
           {"type":"image","source":{"type":"url","url":"https://x/y.png"}},
           {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"body"}},
           {"type":"text","text":"what?"}]}]})",
       R"({"model":"engine","messages":[{"role":"user","content":[
           {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
           {"type":"image_url","image_url":{"url":"https://x/y.png"}},
           {"type":"text","text":"T\n\nbody"},{"type":"text","text":"what?"}]}],"max_tokens":9})"},
      {"documents with their context and search results, also as a result of a tool",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":[
           {"type":"document","title":"T","context":"C","citations":{"enabled":true},
            "source":{"type":"text","media_type":"text/plain","data":"body"}},
           {"type":"search_result","title":"S","source":"https://x","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]},
           {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
           {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"found"},
             {"type":"search_result","title":"S","source":"https://x","content":[{"type":"text","text":"a"}]},
             {"type":"document","source":{"type":"content","content":"d"}}]}]}]})",
       R"({"model":"engine","messages":[{"role":"user","content":[
           {"type":"text","text":"T\n\nC\n\nbody"},{"type":"text","text":"S\nhttps://x\n\na\nb"}]},
           {"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}}]},
           {"role":"tool","tool_call_id":"t1","content":"found\nS\nhttps://x\n\na"},
           {"role":"user","content":"d"}],"max_tokens":9})"},
      {"tool round trip",
       R"({"model":"c","max_tokens":9,"tools":[{"name":"get","description":"d","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{}}}}],
           "tool_choice":{"type":"any","disable_parallel_tool_use":true},
           "messages":[{"role":"user","content":"weather?"},
             {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Looking."},
               {"type":"tool_use","id":"t1","name":"get","input":{"z":"Paris"}},{"type":"tool_use","id":"t2","name":"get","input":{}}]},
             {"role":"user","content":[{"type":"text","text":"and?"},
               {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"sun"},{"type":"text","text":"20C"}]},
               {"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"no"}]}]})",
       R"({"model":"engine","messages":[{"role":"user","content":"weather?"},
             {"role":"assistant","content":"Looking.","tool_calls":[
               {"id":"t1","type":"function","function":{"name":"get","arguments":"{\"z\":\"Paris\"}"}},
               {"id":"t2","type":"function","function":{"name":"get","arguments":"{}"}}]},
             {"role":"tool","tool_call_id":"t1","content":"sun\n20C"},
             {"role":"tool","tool_call_id":"t2","content":"Error: no"},
             {"role":"user","content":"and?"}],
           "tools":[{"type":"function","function":{"name":"get","description":"d","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{}}}}}],
           "max_tokens":9,"tool_choice":"required","parallel_tool_calls":false})"},
      {"a result with an image, an empty result, a call without text",
       R"({"model":"c","max_tokens":9,"messages":[
             {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"shot","input":{}},{"type":"tool_use","id":"t2","name":"x"}]},
             {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"url","url":"u"}}]},
               {"type":"tool_result","tool_use_id":"t2"}]}]})",
       R"({"model":"engine","messages":[
             {"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"shot","arguments":"{}"}},
               {"id":"t2","type":"function","function":{"name":"x","arguments":"{}"}}]},
             {"role":"tool","tool_call_id":"t1","content":""},{"role":"tool","tool_call_id":"t2","content":""},
             {"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}],"max_tokens":9})"},
      {"named tool",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"tool","name":"get"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,
           "tool_choice":{"type":"function","function":{"name":"get"}}})"},
      {"no tool",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"none"})"},
      {"a choice of tools without tools, which chat refuses",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9})"},
      {"tools that Anthropic would search are all offered",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[
           {"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"},{"name":"f","input_schema":{},"defer_loading":true}]})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]})"},
      {"levels of effort beyond those of all engines, a user of 65 bytes",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"output_config":{"effort":"max"},
           "metadata":{"user_id":"01234567890123456789012345678901234567890123456789012345678901234"}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,"reasoning_effort":"high"})"},
      {"structured output",
       R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"x"}],"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,"reasoning_effort":"low",
           "response_format":{"type":"json_schema","json_schema":{"name":"output","schema":{"type":"object"},"strict":true}}})"},
      {"an engine's own members pass, nulls do not matter",
       R"({"model":"c","max_tokens":9,"container":null,"min_p":0.1,"seed":18446744073709551615,"chat_template_kwargs":{"x":[1]},"messages":[{"role":"user","content":"x"}]})",
       R"({"model":"engine","messages":[{"role":"user","content":"x"}],"max_tokens":9,"min_p":0.1,"seed":18446744073709551615,"chat_template_kwargs":{"x":[1]}})"},
  };
  for (const Golden& c : cases) {
    const auto translated = ChatFromMessages(c.messages, {.model = "engine"});
    ASSERT_TRUE(std::holds_alternative<ChatRequest>(translated))
        << c.name << std::get<ApiError>(translated).message;
    EXPECT_EQ(json::parse(std::get<ChatRequest>(translated).body), json::parse(c.chat)) << c.name;
  }
}

TEST(ChatFromMessages, KeepsTheOrderOfASchemasProperties) {
  const auto translated = ChatFromMessages(
      R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
          "tools":[{"name":"f","input_schema":{"type":"object","properties":{"zeta":{},"alpha":{},"mid":{}}}}]})",
      {.model = "m"});
  EXPECT_NE(std::get<ChatRequest>(translated).body.find(R"("properties":{"zeta":{},"alpha":{},"mid":{}})"),
            std::string::npos);
}

TEST(ChatFromMessages, GivesThinkingBackOnlyWhenTold) {
  const std::string body = R"({"max_tokens":1,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"}]}]})";
  const auto kept = std::get<ChatRequest>(ChatFromMessages(body, {.model = "m", .forward_thinking = true}));
  EXPECT_EQ(json::parse(kept.body)["messages"][0]["reasoning_content"], "hm");
  EXPECT_TRUE(kept.show_thinking);
  const auto dropped = std::get<ChatRequest>(ChatFromMessages(body, {.model = "m"}));
  EXPECT_FALSE(json::parse(dropped.body)["messages"][0].contains("reasoning_content"));
}

struct Fault {
  std::string body;
  std::string code;
  std::string param;
};

TEST(ChatFromMessages, NamesWhatItCannotSayByItsPath) {
  const std::string user = R"("messages":[{"role":"user","content":"x"}])";
  const std::vector<Fault> cases = {
      {"", "invalid_json", ""},
      {"{", "invalid_json", ""},
      {"[]", "invalid_type", ""},
      {"{\"a\":\"\xff\"}", "invalid_json", ""},
      {"{" + user + R"(,"a":1,"a":2})", "duplicate_key", "a"},
      {R"({"max_tokens":1})", "missing_required_parameter", "messages"},
      {R"({"messages":[]})", "invalid_value", "messages"},
      {R"({"messages":{}})", "invalid_type", "messages"},
      {R"({"messages":[1]})", "invalid_type", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "missing_required_parameter", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "missing_required_parameter", "messages[0].content"},
      {R"({"messages":[{"role":"tool","content":"x"}]})", "invalid_value", "messages[0].role"},
      {R"({"context_management":{"edits":[{"type":"clear_thinking_20251015"},{"type":"compact_20260112"}]},)" +
           user + "}",
       "unsupported_parameter", "context_management.edits[1].type"},
      {R"({"context_management":{"window":5},)" + user + "}", "unsupported_parameter",
       "context_management.window"},
      {R"({"messages":[{"role":"user","content":7}]})", "invalid_type", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "missing_required_parameter",
       "messages[0].content[0].text"},
      {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", "missing_required_parameter",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"container_upload"}]}]})", "unsupported_parameter",
       "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"search_result","title":"t"}]}]})",
       "missing_required_parameter", "messages[0].content[0].source"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]})",
       "unsupported_parameter", "messages[0].content[0].source.type"},
      {R"({"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","data":"x"}}]}]})",
       "unsupported_parameter", "messages[0].content[0].source.type"},
      {R"({"messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}]})",
       "unsupported_parameter", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":[]}]}]})",
       "invalid_type", "messages[0].content[0].input"},
      {R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"web_search_result"}]}]}]})",
       "unsupported_parameter", "messages[0].content[0].content[0].type"},
      {"{" + user + R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}]})",
       "unsupported_parameter", "tools[0].type"},
      {"{" + user + R"(,"tools":[{"name":"f"}]})", "missing_required_parameter", "tools[0].input_schema"},
      {"{" + user + R"(,"tool_choice":{"type":"some"}})", "invalid_value", "tool_choice.type"},
      {"{" + user + R"(,"mcp_servers":[{"type":"url"}]})", "unsupported_parameter", "mcp_servers"},
      {"{" + user + R"(,"fallbacks":[{"model":"b"}]})", "unsupported_parameter", "fallbacks"},
      {"{" + user + R"(,"output_config":{"effort":9}})", "invalid_type", "output_config.effort"},
      {"{" + user + R"(,"tools":[{"name":"f","input_schema":{},"defer_loading":1}]})", "invalid_type",
       "tools[0].defer_loading"},
      {"{" + user + R"(,"n":2})", "unsupported_parameter", "n"},
      {"{" + user + R"(,"stream":"yes"})", "invalid_type", "stream"},
      {"{" + user + R"(,"metadata":"x"})", "invalid_type", "metadata"},
      {"{" + user + R"(,"system":[{"type":"image"}]})", "unsupported_parameter", "system[0].type"},
  };
  for (const Fault& c : cases) {
    const auto translated = ChatFromMessages(c.body, {.model = "m"});
    ASSERT_TRUE(std::holds_alternative<ApiError>(translated)) << c.body;
    const ApiError& error = std::get<ApiError>(translated);
    EXPECT_EQ(error.code, c.code) << c.body;
    EXPECT_EQ(error.param, c.param) << c.body;
    EXPECT_EQ(error.status, 400);
    EXPECT_FALSE(error.message.empty());
  }
}

TEST(ChatFromMessages, RefusesTenThousandLevels) {
  const std::vector<std::pair<std::string, std::string>> brackets = {{"[", "]"}, {R"({"a":)", "}"}};
  for (const auto& [open, close] : brackets) {
    std::string body = R"({"messages":)";
    for (int i = 0; i < 10'000; ++i) body += open;
    EXPECT_EQ(std::get<ApiError>(ChatFromMessages(body, {.model = "m"})).code, "invalid_json");
    body += "1";
    for (int i = 0; i < 10'000; ++i) body += close;
    body += "}";
    EXPECT_EQ(std::get<ApiError>(ChatFromMessages(body, {.model = "m"})).code, "nesting_too_deep");
  }
}

// As Claude Code sends them.
TEST(ChatFromMessages, LeavesOutFieldsOfAgentsThatChangeNothing) {
  const auto request = std::get<ChatRequest>(ChatFromMessages(
      R"({"model":"c","max_tokens":32000,"stream":true,"betas":["context-management-2025-06-27"],
          "anthropic_version":"2023-06-01","thinking":{"type":"adaptive"},
          "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},
                                         {"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":9}}]},
          "metadata":{"user_id":"u"},
          "messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"},
                      {"role":"system","content":"The file has changed."},
                      {"role":"user","content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}]})",
      {.model = "engine"}));
  EXPECT_EQ(json::parse(request.body),
            json::parse(R"({"model":"engine","max_tokens":32000,"stream":true,"user":"u",
                "stream_options":{"include_usage":true},
                "messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"},
                            {"role":"system","content":"The file has changed."},
                            {"role":"user","content":"go on"}]})"));
}

TEST(ChatFromClaudeCode, FirstTurnBecomesChatAndIsTheSameEveryTime) {
  const auto translated = ChatFromMessages(tests::claude_code::Turn("36ee5", ""), {.model = "engine"});
  ASSERT_TRUE(std::holds_alternative<ChatRequest>(translated)) << std::get<ApiError>(translated).message;
  const auto& request = std::get<ChatRequest>(translated);
  EXPECT_TRUE(request.show_thinking);
  EXPECT_EQ(json::parse(request.body), json::parse(R"({"model":"engine","messages":[
      {"role":"system","content":"You are a coding agent.\n\n# Environment\nLinux"},
      {"role":"user","content":[
        {"type":"text","text":"<system-reminder>\nThe following deferred tools are available: WebFetch, mcp__jira__search\n</system-reminder>"},
        {"type":"text","text":"Why does the test fail?"}]},
      {"role":"system","content":"Plan mode is off."}],
      "tools":[
        {"type":"function","function":{"name":"Bash","description":"Runs a command.","parameters":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}},
        {"type":"function","function":{"name":"Read","description":"Reads a file.","parameters":{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]},"strict":true}},
        {"type":"function","function":{"name":"ToolSearch","description":"Loads deferred tools.","parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}}}],
      "max_tokens":32000,"reasoning_effort":"high","stream":true,"stream_options":{"include_usage":true}})"));
  const auto again =
      std::get<ChatRequest>(ChatFromMessages(tests::claude_code::Turn("0aaa9", ""), {.model = "engine"}));
  EXPECT_EQ(again.body, request.body) << "engines find the prompt in their caches";
}

TEST(ChatFromClaudeCode, ToolsAreOfferedOnceTheyAreFoundAndResultsKeepTheirPictures) {
  const auto translated = ChatFromMessages(tests::claude_code::Turn("36ee5", tests::claude_code::kAfterTools),
                                           {.model = "engine"});
  ASSERT_TRUE(std::holds_alternative<ChatRequest>(translated)) << std::get<ApiError>(translated).message;
  const json chat = json::parse(std::get<ChatRequest>(translated).body);
  json messages = chat["messages"];
  messages.erase(messages.begin(), messages.begin() + 3);
  EXPECT_EQ(messages, json::parse(R"([
      {"role":"assistant","content":"I run the test.","tool_calls":[
        {"id":"toolu_1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"make test\"}"}},
        {"id":"toolu_2","type":"function","function":{"name":"ToolSearch","arguments":"{\"query\":\"select:WebFetch\"}"}}]},
      {"role":"tool","tool_call_id":"toolu_1","content":"Error: Exit code 2\nno rule"},
      {"role":"tool","tool_call_id":"toolu_2","content":"The tool WebFetch can be called now."},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"toolu_3","type":"function","function":{"name":"Read","arguments":"{\"file_path\":\"/src/shot.png\"}"}}]},
      {"role":"tool","tool_call_id":"toolu_3","content":"An image:"},
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
        {"type":"text","text":"notes.txt\n\nall of it"},{"type":"text","text":"Go on."}]}])"));
  std::vector<std::string> names;
  for (const json& tool : chat["tools"]) names.push_back(tool["function"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"Bash", "Read", "ToolSearch", "WebFetch"}));
}

TEST(ChatFromMessages, ThinkingThatIsToBeLeftOutIsNotShown) {
  const auto shows = [](const std::string& thinking) {
    return std::get<ChatRequest>(
               ChatFromMessages(R"({"messages":[{"role":"user","content":"x"}],"thinking":)" + thinking + "}",
                                {.model = "m"}))
        .show_thinking;
  };
  EXPECT_TRUE(shows(R"({"type":"adaptive"})"));
  EXPECT_TRUE(shows(R"({"type":"enabled","budget_tokens":1024,"display":"summarized"})"));
  EXPECT_FALSE(shows(R"({"type":"adaptive","display":"omitted"})"));
  EXPECT_FALSE(shows(R"({"type":"disabled"})"));
}

TEST(ChatFromMessages, TopKIsRefusedWhereTheEngineDoesNotKnowIt) {
  constexpr const char* kBody = R"({"max_tokens":5,"top_k":40,"messages":[{"role":"user","content":"hi"}]})";
  const auto known = std::get<ChatRequest>(ChatFromMessages(kBody, {.model = "m"}));
  EXPECT_EQ(json::parse(known.body)["top_k"], 40);
  const auto refused = std::get<ApiError>(ChatFromMessages(kBody, {.model = "m", .knows_top_k = false}));
  EXPECT_EQ(refused.code, "unsupported_parameter");
  EXPECT_EQ(refused.param, "top_k");
}

TEST(ChatFromMessages, TheBoundHasTheEnginesName) {
  const auto chat = std::get<ChatRequest>(
      ChatFromMessages(R"({"model":"c","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})",
                       {.model = "m", .bound = "max_completion_tokens"}));
  EXPECT_EQ(chat.body,
            R"({"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9})");
}

TEST(CountTokens, AsksEachEngineInItsOwnWords) {
  constexpr const char* kBody = R"({"model":"c","max_tokens":5,"system":"be brief","messages":[
      {"role":"user","content":[{"type":"text","text":"hello"},
                                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]})";
  const auto asked = [&](Tokenizer tokenizer) {
    return json::parse(
        std::get<ChatRequest>(TokenizeFromMessages(kBody, {.model = "engine"}, tokenizer)).body);
  };
  const std::string text = "system\nbe brief\nuser\nhello";
  EXPECT_EQ(asked(Tokenizer::kPrompt), (json{{"model", "engine"}, {"prompt", text}}));
  EXPECT_EQ(asked(Tokenizer::kContent), (json{{"content", text}, {"add_special", true}}));
  EXPECT_EQ(asked(Tokenizer::kInputs), (json{{"inputs", text}}));
  EXPECT_EQ(CountFromTokenize(R"([{"id":1,"text":"be"},{"id":2,"text":" brief"}])"), 2u);
}

TEST(CountTokens, GoesThroughTheEnginesTokenizer) {
  const auto request = std::get<ChatRequest>(TokenizeFromMessages(
      R"({"model":"c","max_tokens":5,"system":"s","messages":[{"role":"user","content":"hello"}],
          "tools":[{"name":"f","input_schema":{}}]})",
      {.model = "engine"}));
  EXPECT_EQ(
      json::parse(request.body),
      json::parse(
          R"({"model":"engine","messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}],
                "tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"add_generation_prompt":true})"));
  EXPECT_EQ(CountFromTokenize(R"({"count":17,"max_model_len":4096,"tokens":[1,2]})"), 17u);
  EXPECT_EQ(CountFromTokenize(R"({"tokens":[1,2,3]})"), 3u);
  EXPECT_EQ(CountFromTokenize(R"({"error":"no"})"), std::nullopt);
  EXPECT_EQ(CountFromTokenize("nope"), std::nullopt);
  EXPECT_EQ(RenderTokenCount(17, Protocol::kAnthropic), R"({"input_tokens":17})");
}

TEST(CountTokens, EstimatesByTextAndImages) {
  ChatRequest request;
  request.text_bytes = 400;
  EXPECT_EQ(EstimateTokens(request, 4.0), 101u);
  EXPECT_EQ(EstimateTokens(request, 0.0), 101u);
  request.images = 2;
  EXPECT_EQ(EstimateTokens(request, 4.0), 2101u);
}

}  // namespace
}  // namespace gateway::api
