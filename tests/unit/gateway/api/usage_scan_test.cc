#include "gateway/api/usage_scan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/api/usage.h"

namespace gateway::api {
namespace {

UsageScan InPieces(std::string_view text, size_t size) {
  UsageScan scan;
  for (size_t at = 0; at < text.size(); at += size) scan.Feed(text.substr(at, size));
  return scan;
}

std::string Logprobs(size_t bytes) {
  std::string text = "[null";
  while (text.size() < bytes) {
    text +=
        R"(,{"1":{"logprob":-0.1,"decoded_token":"usage"},"2":{"decoded_token":"\"usage\":{\\"},"usage":{"prompt_tokens":9}})";
  }
  return text + "]";
}

TEST(UsageScan, FindsUsageWhereverItStandsInPiecesOfAnySize) {
  const std::string choices =
      R"("choices":[{"index":0,"message":{"content":"a \"}] \\"},"finish_reason":"stop"}])";
  const std::string usage =
      R"("usage" : {"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}})";
  const std::string more = "\"prompt_logprobs\":" + Logprobs(3000) + ",\"prompt_token_ids\":[1,2,3]";
  for (const std::string& text :
       {fmt::format("{{{},{},{}}}", choices, usage, more), fmt::format("{{{},{},{}}}", usage, more, choices),
        fmt::format("{{{},{},{}}}", more, choices, usage)}) {
    for (const size_t size :
         {size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}, text.size()}) {
      const UsageScan scan = InPieces(text, size);
      ASSERT_TRUE(scan.usage()) << size;
      EXPECT_EQ(*scan.usage(), (Usage{.input = 7, .cached_input = 2, .output = 3}));
      EXPECT_EQ(scan.finish(), Finish::kDone);
      EXPECT_TRUE(scan.whole());
    }
  }
}

TEST(UsageScan, BelievesOnlyTheDocumentItself) {
  for (const std::string text :
       {R"({"content":[{"input":{"usage":{"input_tokens":999}}}]})",
        R"({"metadata":{"usage":{"input_tokens":9}}})", R"({"a":"\"usage\":{\"prompt_tokens\":5}"})",
        R"({"usage":null})", R"({"usage":[1]})", R"({"usage":"much"})", R"({"usage":{}})",
        R"({"x":["usage",{"prompt_tokens":1}]})", R"([{"usage":{"prompt_tokens":1}}])",
        R"({"choices":[{"message":{"usage":{"prompt_tokens":1}}}]})"}) {
    EXPECT_FALSE(InPieces(text, 5).usage()) << text;
  }
}

TEST(UsageScan, ReadsWhatAnEventWraps) {
  const std::string text =
      "data: " +
      std::string(
          R"({"type":"response.completed","response":{"id":"r","output":[{"content":[{"text":"x"}]}],)") +
      R"("usage":{"input_tokens":1,"output_tokens":2}},"sequence_number":9})";
  EXPECT_EQ(InPieces(text, 9).usage(), (Usage{.input = 1, .output = 2}));
}

TEST(UsageScan, FindsItInAChoiceAndBesideThem) {
  const std::string counts =
      R"("usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}})";
  for (const std::string& text :
       {R"({"choices":[{"delta":{"content":"x"}},{"finish_reason":"stop",)" + counts + "}]}",
        R"({"choices":[{"finish_reason":"stop"}],"x_groq":{"id":"r",)" + counts + "}}"}) {
    for (size_t size = 1; size < text.size(); ++size) {
      UsageScan scan(true);
      std::string passed = text;
      for (size_t at = 0; at < passed.size(); at += size)
        scan.Pass(passed.data() + at, std::min(size, passed.size() - at));
      EXPECT_EQ(scan.usage(), (Usage{.input = 5, .cached_input = 4, .output = 7})) << text;
      EXPECT_EQ(passed.find(R"("cached_tokens":4)"), std::string::npos) << passed;
    }
  }
  EXPECT_EQ(InPieces(R"({"usage":{"completion_tokens":14},"choices":[{"usage":{"completion_tokens":7}}]})", 9)
                .usage(),
            (Usage{.output = 14}));
  EXPECT_FALSE(InPieces(R"({"choices":[{"message":{"input":{"usage":{"prompt_tokens":9}}}}]})", 7).usage());
}

TEST(UsageScan, OneChoiceThatWasCutOutweighsTheOthers) {
  const auto finish = [](std::string_view text) { return InPieces(text, 11).finish(); };
  EXPECT_EQ(finish(R"({"choices":[{"finish_reason":"length"},{"finish_reason":"stop"}]})"), Finish::kLength);
  EXPECT_EQ(finish(R"({"choices":[{"finish_reason":null},{"finish_reason":"stop"}]})"), Finish::kDone);
  EXPECT_EQ(finish(R"({"choices":[{"finish_reason":null}]})"), Finish::kNone);
  EXPECT_EQ(finish(R"({"type":"message","stop_reason":"max_tokens"})"), Finish::kLength);
  EXPECT_EQ(finish(R"({"type":"message","stop_reason":"end_turn"})"), Finish::kDone);
}

TEST(UsageScan, HidesWhatACacheHeldInPiecesOfAnySize) {
  const std::string text =
      R"({"usage":{"prompt_tokens":700,"prompt_tokens_details":{"cached_tokens":512,"audio_tokens":0},)"
      R"("prompt_cache_hit_tokens": 512,"total_tokens":701},"cached_tokens":4})";
  const std::string hidden =
      R"({"usage":{"prompt_tokens":700,"prompt_tokens_details":{"cached_tokens":0  ,"audio_tokens":0},)"
      R"("prompt_cache_hit_tokens": 0  ,"total_tokens":701},"cached_tokens":4})";
  for (const size_t size : {size_t{1}, size_t{10}, size_t{64}, text.size()}) {
    std::string passed = text;
    UsageScan scan(true);
    for (size_t at = 0; at < passed.size(); at += size)
      scan.Pass(passed.data() + at, std::min(size, passed.size() - at));
    EXPECT_EQ(passed, hidden);
    EXPECT_EQ(scan.usage()->cached_input, 512u) << "the gateway knows it";
  }
}

std::string Hidden(std::string text, size_t size) {
  UsageScan scan(true);
  for (size_t at = 0; at < text.size(); at += size)
    scan.Pass(text.data() + at, std::min(size, text.size() - at));
  return text;
}

TEST(UsageScan, TellsThePromptAsOneWhereTheCachedTokensAreCountedBesideIt) {
  const std::string text =
      R"({"usage":{"cache_read_input_tokens":512,"input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":40},)"
      R"("cache_creation_input_tokens":40,"output_tokens":7}})";
  const std::string whole = Hidden(text, text.size());
  EXPECT_EQ(whole.size(), text.size());
  EXPECT_TRUE(whole.starts_with(R"({"usage":{"input_tokens":557,"output_tokens":7  )")) << whole;
  EXPECT_TRUE(whole.ends_with(" }}")) << whole;
  for (size_t size = 1; size < text.size(); ++size) {
    const std::string pieces = Hidden(text, size);
    const auto usage = UsageFromJson(pieces);
    ASSERT_TRUE(usage) << pieces;
    EXPECT_EQ(usage->cached_input, 0u) << pieces;
    EXPECT_EQ(usage->cache_written, 0u) << pieces;
    EXPECT_TRUE(usage->input == 557 || usage->input == 0) << pieces;
    EXPECT_EQ(usage->output, 7u) << pieces;
  }
  const std::string responses =
      R"({"usage":{"input_tokens":700,"input_tokens_details":{"cached_tokens":512},"output_tokens":7}})";
  EXPECT_EQ(
      Hidden(responses, responses.size()),
      R"({"usage":{"input_tokens":700,"input_tokens_details":{"cached_tokens":0  },"output_tokens":7}})");
}

TEST(UsageScan, HidesWhatTimesTellOfTheCache) {
  const std::string text =
      R"({"choices":[],"timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.958,"prompt_per_second":-3.2e+10,)"
      R"("predicted_n":35,"predicted_ms":661.064}})";
  EXPECT_EQ(
      Hidden(text, text.size()),
      R"({"choices":[],"timings":{"cache_n":0  ,"prompt_n":0,"prompt_ms":0     ,"prompt_per_second":0       ,)"
      R"("predicted_n":35,"predicted_ms":661.064}})");
}

TEST(UsageScan, HidesANumberInAnyFormAndNothingElse) {
  const std::string text =
      R"({"usage":{"cached_tokens":-1.25e+3,"a":1,"prompt_cache_hit_tokens":true,"prompt_cache_miss_tokens":"7e1"}})";
  const std::string hidden =
      R"({"usage":{"cached_tokens":0       ,"a":1,"prompt_cache_hit_tokens":true,"prompt_cache_miss_tokens":"7e1"}})";
  std::string passed = text;
  UsageScan(true).Pass(passed.data(), passed.size());
  EXPECT_EQ(passed, hidden);
}

TEST(UsageScan, TakesHostileDocumentsInOnePass) {
  std::string open = "{";
  for (int i = 0; i < 50'000; ++i) open += R"("usage":{)";
  EXPECT_FALSE(InPieces(open, 4096).usage());
  EXPECT_FALSE(InPieces(std::string(1 << 20, '['), 4096).usage());
  EXPECT_FALSE(InPieces(std::string(1 << 20, '}'), 4096).usage());
  EXPECT_FALSE(InPieces("{\"" + std::string(1 << 20, 'k') + "\":1,\"usage\":", 4096).usage());
  const std::string large = R"({"usage":{"prompt_tokens":1,"x":")" + std::string(5000, 'x') + R"("}})";
  EXPECT_FALSE(InPieces(large, 100).usage()) << "no engine's is so large";
}

TEST(UsageFromJson, TokensThatSpellTheKeyDoNotHideIt) {
  const std::string body =
      R"({"usage":{"prompt_tokens":5,"completion_tokens":6},"prompt_logprobs":)" + Logprobs(40'000) + "}";
  EXPECT_EQ(UsageFromJson(body), (Usage{.input = 5, .output = 6}));
}

TEST(UsageFromJson, ReadsDeepSeeksAndAnthropicsCaches) {
  const auto deepseek = UsageFromJson(
      R"({"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}})");
  EXPECT_EQ(deepseek, (Usage{.input = 100, .cached_input = 64, .output = 1}));
  const auto anthropic = UsageFromJson(
      R"({"usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":50,"output_tokens":1}})");
  EXPECT_EQ(anthropic, (Usage{.input = 260, .cached_input = 200, .output = 1, .cache_written = 50}));
  const auto sound = UsageFromJson(R"({"text":"hi","usage":{"type":"duration","seconds":12.5}})");
  EXPECT_EQ(sound, (Usage{.audio_ms = 12'500}));
}

}  // namespace
}  // namespace gateway::api
