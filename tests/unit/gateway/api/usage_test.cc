#include "gateway/api/usage.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gateway::api {
namespace {

struct UsageCase {
  std::string name;
  std::string text;
  std::optional<Usage> usage;
};

const std::vector<UsageCase>& Cases() {
  static const std::vector<UsageCase> cases = {
      {"chat body",
       R"({"id":"c","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"total_tokens":19,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}},"kv_transfer_params":null})",
       Usage{12, 8, 7, 3}},
      {"pretty printed", "{\n  \"usage\" : {\n \"prompt_tokens\" : 4 ,\n \"completion_tokens\" : 2 }\n}\n",
       Usage{4, 0, 2, 0}},
      {"chat event",
       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":6,\"total_tokens\":11,"
       "\"prompt_tokens_details\":null}}\n\n",
       Usage{5, 0, 6, 0}},
      {"more tokens than any call has",
       R"({"usage":{"prompt_tokens":12,"completion_tokens":18446744073709551615,"total_tokens":7}})",
       std::nullopt},
      {"a total that no call has", R"({"usage":{"prompt_tokens":12,"total_tokens":9007199254740993}})",
       std::nullopt},
      {"many choices", R"({"usage":{"prompt_tokens":12,"completion_tokens":128000000}})",
       Usage{12, 0, 128'000'000, 0}},
      {"null in a chunk", R"({"choices":[{"delta":{"content":"x"}}],"usage":null})", std::nullopt},
      {"embeddings",
       R"({"object":"list","data":[{"embedding":[0.1,-0.2]}],"usage":{"prompt_tokens":9,"total_tokens":9}})",
       Usage{9, 0, 0, 0}},
      {"rerank before its results",
       R"({"id":"r","model":"m","usage":{"total_tokens":56},"results":[{"index":0,"document":{"text":"{\"usage\":1}"}}]})",
       Usage{56, 0, 0, 0}},
      {"message",
       R"({"type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":20,"output_tokens":5}})",
       Usage{33, 20, 5, 0}},
      {"message_start",
       "event: message_start\ndata: "
       "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":25,"
       "\"output_tokens\":1}}}\n\n",
       Usage{25, 0, 1, 0}},
      {"message_delta",
       R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}})",
       Usage{0, 0, 15, 0}},
      {"response",
       R"({"object":"response","status":"completed","usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":30},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123},"user":null,"metadata":{"a":"b"}})",
       Usage{36, 30, 87, 64}},
      {"response.completed",
       R"({"response":{"id":"r","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3},"metadata":{}},"sequence_number":9,"type":"response.completed"})",
       Usage{1, 0, 2, 0}},
      {"only in an escaped string",
       R"({"choices":[{"delta":{"content":"{\"usage\":{\"prompt_tokens\":1}}"}}]})", std::nullopt},
      {"as a string's whole value",
       R"({"choices":[{"delta":{"content":"usage"}}],"x":["usage",{"prompt_tokens":1}]})", std::nullopt},
      {"in a tool's input",
       R"({"type":"message","content":[{"type":"tool_use","input":{"usage":{"input_tokens":999}}}]})",
       std::nullopt},
      {"in a tool's input and for real",
       R"({"usage":{"input_tokens":1,"output_tokens":2},"content":[{"input":{"usage":{"input_tokens":999}}}]})",
       Usage{1, 0, 2, 0}},
      {"in metadata", R"({"object":"response","metadata":{"usage":{"input_tokens":999}}})", std::nullopt},
      {"brackets in strings around it",
       R"({"a":"}]\\","usage":{"prompt_tokens":1,"completion_tokens":1},"b":"{[\"}"})", Usage{1, 0, 1, 0}},
      {"cached exceeds input", R"({"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":9}}})",
       Usage{3, 3, 0, 0}},
      {"wrong types", R"({"usage":{"prompt_tokens":"7","completion_tokens":-2,"total_tokens":1.5}})",
       std::nullopt},
      {"wrong type beside a right one",
       R"({"usage":{"prompt_tokens":null,"completion_tokens":4,"prompt_tokens_details":[1]}})",
       Usage{0, 0, 4, 0}},
      {"with a fraction that is zero", R"({"usage":{"prompt_tokens":7.0,"completion_tokens":2e1}})",
       Usage{7, 0, 20, 0}},
      {"output by the total", R"({"usage":{"prompt_tokens":7,"completion_tokens":null,"total_tokens":19}})",
       Usage{7, 0, 12, 0}},
      {"of a choice",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}]})",
       Usage{5, 4, 7, 0}},
      {"of a choice in a large body",
       R"({"choices":[{"message":{"content":")" + std::string(20'000, 'x') +
           R"("},"usage":{"prompt_tokens":5,"completion_tokens":7}}],"x":")" + std::string(20'000, 'x') +
           R"("})",
       Usage{5, 0, 7, 0}},
      {"of a choice behind the document's own",
       R"({"usage":{"prompt_tokens":5,"completion_tokens":14},"choices":[{"usage":{"prompt_tokens":5,"completion_tokens":7}}]})",
       Usage{5, 0, 14, 0}},
      {"of Groq", R"({"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":5,"completion_tokens":7}}})",
       Usage{5, 0, 7, 0}},
      {"in a choice's tool call", R"({"choices":[{"message":{"input":{"usage":{"prompt_tokens":999}}}}]})",
       std::nullopt},
      {"in the entries of another list", R"({"data":[{"usage":{"prompt_tokens":999}}]})", std::nullopt},
      {"an array", R"({"usage":[1]})", std::nullopt},
      {"a string", R"({"usage":"much"})", std::nullopt},
      {"empty", R"({"usage":{}})", std::nullopt},
      {"truncated", R"({"usage":{"prompt_tokens":3)", std::nullopt},
      {"truncated after it", R"({"usage":{"prompt_tokens":3},"data":[1)", std::nullopt},
      {"done", "data: [DONE]\n\n", std::nullopt},
      {"nothing", "", std::nullopt},
  };
  return cases;
}

TEST(UsageFromJson, ReadsEveryProtocol) {
  for (const UsageCase& c : Cases()) {
    const auto usage = UsageFromJson(c.text);
    ASSERT_EQ(usage.has_value(), c.usage.has_value()) << c.name;
    if (!usage) continue;
    EXPECT_EQ(usage->input, c.usage->input) << c.name;
    EXPECT_EQ(usage->cached_input, c.usage->cached_input) << c.name;
    EXPECT_EQ(usage->output, c.usage->output) << c.name;
    EXPECT_EQ(usage->reasoning, c.usage->reasoning) << c.name;
  }
}

TEST(UsageFromJson, TellsATotalThatStandsAlone) {
  EXPECT_EQ(UsageFromJson(R"({"usage":{"total_tokens":9}})"), (Usage{.input = 9, .total_alone = true}));
  EXPECT_EQ(UsageFromJson(R"({"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":9}})"),
            (Usage{.input = 9, .total_alone = true}));
  EXPECT_EQ(UsageFromJson(R"({"usage":{"prompt_tokens":9,"total_tokens":9}})"), (Usage{.input = 9}));
}

TEST(UsageFromJson, ReadsATailThatBeginsAnywhere) {
  const std::string body =
      R"({"choices":[{"message":{"content":"a \"usage\":{ \\\" b"}}],"usage":{"prompt_tokens":41,"completion_tokens":1}})";
  const size_t member = body.find(R"("usage":{"p)");
  for (size_t start = 0; start < body.size(); ++start) {
    const auto usage = UsageFromJson(std::string_view(body).substr(start));
    if (start <= member) {
      ASSERT_TRUE(usage) << start;
      EXPECT_EQ(usage->input, 41u);
    } else {
      EXPECT_FALSE(usage) << start;
    }
  }
}

TEST(UsageFromJson, FindsItInLargeBodiesAtEitherEnd) {
  const std::string filler(1 << 20, 'x');
  const std::string front = R"({"usage":{"total_tokens":5},"results":[")" + filler + R"("]})";
  const std::string back = R"({"data":[")" + filler + R"("],"usage":{"prompt_tokens":6,"total_tokens":6}})";
  const std::string wrapped = R"({"type":"response.completed","response":{"output":[")" + filler +
                              R"("],"usage":{"input_tokens":7,"output_tokens":8}}})";
  EXPECT_EQ(UsageFromJson(front), (Usage{.input = 5, .total_alone = true}));
  EXPECT_EQ(UsageFromJson(back), (Usage{6, 0, 0, 0}));
  EXPECT_EQ(UsageFromJson(wrapped), (Usage{7, 0, 8, 0}));
}

TEST(UsageFromJson, GivesUpOnBodiesMadeOfNothingButTheKey) {
  std::string hostile = "{";
  for (int i = 0; i < 50'000; ++i) hostile += R"("usage":{)";
  EXPECT_FALSE(UsageFromJson(hostile));
}

TEST(FinishFromJson, LooksAtEveryChoice) {
  std::string text = R"({"choices":[{"finish_reason":"length"})";
  for (int i = 0; i < 100; ++i) text += R"(,{"finish_reason":"stop"})";
  EXPECT_EQ(FinishFromJson(text + "]}"), Finish::kLength);
}

TEST(FinishFromJson, TellsDoneFromLength) {
  const std::vector<std::pair<std::string, Finish>> cases = {
      {R"({"choices":[{"delta":{"content":"x"},"finish_reason":null}]})", Finish::kNone},
      {R"({"choices":[{"delta":{},"finish_reason":"stop","stop_reason":null}]})", Finish::kDone},
      {R"({"choices":[{"finish_reason" : "length"},{"finish_reason":"stop"}]})", Finish::kLength},
      {R"({"choices":[{"finish_reason":"stop"},{"finish_reason":null}]})", Finish::kDone},
      {R"({"choices":[{"finish_reason":"tool_calls"}]})", Finish::kDone},
      {R"({"choices":[{"delta":{"content":"\"finish_reason\":\"stop\""},"finish_reason":null}]})",
       Finish::kNone},
      {R"({"type":"message_delta","delta":{"stop_reason":"max_tokens"}})", Finish::kLength},
      {R"({"type":"message","stop_reason":"end_turn"})", Finish::kDone},
      {R"({"type":"message_start","message":{"stop_reason":null}})", Finish::kNone},
      {R"({"response":{"status":"in_progress","incomplete_details":null},"type":"response.created"})",
       Finish::kNone},
      {R"({"response":{"status":"completed","incomplete_details":null},"type":"response.completed"})",
       Finish::kDone},
      {R"({"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}})",
       Finish::kLength},
      {R"({"object":"response","status":"incomplete","incomplete_details":{"reason":"content_filter"}})",
       Finish::kDone},
      {R"({"object":"response","status":"failed","incomplete_details":null})", Finish::kNone},
      {"data: [DONE]", Finish::kNone},
      {"", Finish::kNone},
  };
  for (const auto& [text, finish] : cases) EXPECT_EQ(FinishFromJson(text), finish) << text;
}

TEST(IsUsageOnlyChunk, WantsEmptyChoices) {
  EXPECT_TRUE(IsUsageOnlyChunk(R"(data: {"choices":[],"usage":{}})"));
  EXPECT_TRUE(IsUsageOnlyChunk("{\"choices\" : [ \n ] }"));
  EXPECT_FALSE(IsUsageOnlyChunk(R"({"choices":[{}],"usage":{}})"));
  EXPECT_FALSE(IsUsageOnlyChunk(R"({"usage":{}})"));
  EXPECT_FALSE(IsUsageOnlyChunk(R"({"choices":)"));
}

std::string Cut(std::string event, const StripPlan& plan) {
  return event.erase(plan.offset, plan.length);
}

TEST(StripUsage, LeavesNothingButTheMemberOut) {
  struct Case {
    std::string event;
    std::string left;
  };
  const std::vector<Case> cases = {
      {R"({"id":"a","choices":[{"delta":{}}],"usage":null})", R"({"id":"a","choices":[{"delta":{}}]})"},
      {R"({"usage": null ,"id":"a"})", R"({"id":"a"})"},
      {R"({"id":"a" , "usage" : {"prompt_tokens":1,"d":{"x":"}"}} , "z":1})", R"({"id":"a"  , "z":1})"},
      {R"({"usage":{"prompt_tokens":1}})", R"({})"},
      {R"({"id":"a","choices":[{"delta":{"content":"usage"}}]})",
       R"({"id":"a","choices":[{"delta":{"content":"usage"}}]})"},
      {R"({"choices":[{"delta":{"content":"\"usage\":null"}}]})",
       R"({"choices":[{"delta":{"content":"\"usage\":null"}}]})"},
      {R"({"response":{"usage":{"input_tokens":1}}})", R"({"response":{"usage":{"input_tokens":1}}})"},
      {R"({"choices":[{"usage":null}]})", R"({"choices":[{"usage":null}]})"},
      {R"({"choices":[],"prompt_filter_results":[],"usage":null})",
       R"({"choices":[],"prompt_filter_results":[]})"},
  };
  for (const Case& c : cases) {
    const std::string event = "data: " + c.event + "\n\n";
    const StripPlan plan = StripUsage(event);
    EXPECT_FALSE(plan.drop_event) << c.event;
    EXPECT_EQ(Cut(event, plan), "data: " + c.left + "\n\n");
    EXPECT_TRUE(nlohmann::json::accept(c.left)) << c.left;
  }
}

TEST(StripUsage, DropsTheChunkThatIsForUsageAlone) {
  EXPECT_TRUE(StripUsage(R"(data: {"id":"a","choices":[],"usage":{"prompt_tokens":1}})").drop_event);
}

}  // namespace
}  // namespace gateway::api
