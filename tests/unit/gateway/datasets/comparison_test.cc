#include "gateway/datasets/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gateway::datasets {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSet[] =
    R"({"messages":[{"role":"user","content":"1+1?"},{"role":"assistant","content":"2"}]}

{"messages":[{"role":"user","content":[{"type":"text","text":"<b>Hi</b>"}]}],"tools":[{"type":"function"}]}
)";

std::string ResultLine(std::string_view id, int status, std::string_view body, std::string_view use = "") {
  return fmt::format(
             R"({{"id":"x","custom_id":"{}","response":{{"status_code":{},"body":{}{}}},"error":null}})", id,
             status, body, use) +
         "\n";
}
std::string Said(std::string_view text) {
  return fmt::format(
      R"({{"choices":[{{"index":0,"message":{{"content":"{}"}}}}],"usage":{{"prompt_tokens":5,"completion_tokens":2}}}})",
      text);
}

TEST(Comparison, EachModelIsAskedForEachExampleWithoutItsAnswer) {
  const auto set = ReadSet(kSet, 10);
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_EQ(set->size(), 2U);
  EXPECT_EQ((*set)[0].reference, "2");
  const std::string input = BatchInput(*set, {"a", "b\"c"}, 7);
  EXPECT_EQ(std::ranges::count(input, '\n'), 4);
  const auto line = nlohmann::json::parse(input.substr(0, input.find('\n')));
  EXPECT_EQ(line["custom_id"], "0:0");
  EXPECT_EQ(line["body"]["messages"].size(), 1U);
  EXPECT_EQ(line["body"]["max_tokens"], 7);
  EXPECT_THAT(input, HasSubstr("\"model\":\"b\\\"c\""));
}

TEST(Comparison, AWrongSetNamesItsLine) {
  const auto why = [](std::string_view text) { return std::string(ReadSet(text, 2).status().message()); };
  EXPECT_THAT(why("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\nnot json\n"), HasSubstr("line 2"));
  EXPECT_THAT(why("{}"), HasSubstr("must have messages"));
  EXPECT_THAT(why("{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}"),
              HasSubstr("only an answer"));
  EXPECT_THAT(why("\n \n"), HasSubstr("no examples"));
  const std::string line = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n";
  EXPECT_THAT(why(line + line + line), HasSubstr("more than 2 examples"));
}

TEST(Comparison, AnswersStandSideBySideWithWhatTheyCost) {
  const auto set = ReadSet(kSet, 10);
  ASSERT_TRUE(set.ok());
  const std::string use = R"(,"tidegate":{"latency_ms":1500,"queue_ms":500,"cost_usd":0.000250})";
  const std::string results =
      ResultLine("0:0", 200, Said(" 2 "), use) + ResultLine("0:1", 200, Said("3"), use) +
      ResultLine("1:0", 500, R"({"error":{"message":"broken"}})") +
      R"({"id":"x","custom_id":"1:1","response":null,"error":{"code":"e","message":"late"}})";
  const Comparison got = Compare(*set, {"a", "b"}, results);
  ASSERT_EQ(got.models.size(), 2U);
  EXPECT_EQ(got.models[0].answered, 1U);
  EXPECT_EQ(got.models[0].failed, 1U);
  EXPECT_EQ(got.models[0].as_reference, 1U);
  EXPECT_EQ(got.models[1].as_reference, 0U);
  EXPECT_EQ(got.models[0].output_tokens, 2);
  EXPECT_DOUBLE_EQ(got.models[0].cost_usd, 0.00025);
  EXPECT_DOUBLE_EQ(*got.models[0].latency_p50_s, 1.0);
  EXPECT_EQ(got.rows[1].answers[0].error, "broken");
  EXPECT_EQ(got.rows[1].answers[1].error, "late");
  const std::string text = ComparisonText(got, 80);
  EXPECT_THAT(text, HasSubstr("set: 2"));
  EXPECT_THAT(text, HasSubstr("ERROR broken"));
}

TEST(Comparison, ThePageEscapesEveryText) {
  const auto set = ReadSet(kSet, 10);
  ASSERT_TRUE(set.ok());
  Comparison got = Compare(*set, {"<m>"}, ResultLine("0:0", 200, Said("<script>alert(1)</script>")));
  got.set = "<set>";
  const std::string page = ComparisonHtml(got);
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, Not(HasSubstr("<b>Hi")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("&lt;m&gt;"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

}  // namespace
}  // namespace gateway::datasets
