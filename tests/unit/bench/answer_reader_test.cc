#include "bench/client/answer_reader.h"

#include <gtest/gtest.h>

namespace bench {
namespace {

namespace http = gateway::net::http;

constexpr conf::TimePoint kSent{std::chrono::seconds(100)};

conf::TimePoint After(int ms) {
  return kSent + std::chrono::milliseconds(ms);
}

AnswerReader ReaderOf(const std::string& text, int ms) {
  http::Head head;
  size_t scanned = 0;
  EXPECT_EQ(http::ParseResponseHead(text, {}, scanned, head).state, http::HeadResult::State::kDone);
  AnswerReader reader(kSent);
  reader.OnHead(head, After(ms));
  return reader;
}

const std::string kStream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";
const std::string kChunk = "data: {\"choices\":[],\"usage\":null}\n\n";
const std::string kUsage =
    R"(data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}})"
    "\n\n";

TEST(AnswerReader, TimesTheEventsOfAStreamAndCountsItsUsage) {
  AnswerReader reader = ReaderOf(kStream, 5);
  EXPECT_EQ(reader.OnPayload(kChunk, After(10)), kChunk.size());
  EXPECT_EQ(reader.OnPayload(kChunk, After(20)), kChunk.size());
  reader.OnPayload(kUsage + "data: [DONE]\n\n", After(50));
  reader.OnEnd(After(60));
  const Answer& answer = reader.answer();
  EXPECT_EQ(answer.ending, Ending::kDone);
  EXPECT_EQ(answer.events, 3u);
  EXPECT_EQ(answer.to_first, std::chrono::milliseconds(10));
  EXPECT_EQ(answer.max_gap, std::chrono::milliseconds(30));
  EXPECT_EQ(answer.MeanGap(), std::chrono::milliseconds(20));
  EXPECT_EQ(answer.total, std::chrono::milliseconds(60));
  ASSERT_TRUE(answer.usage);
  EXPECT_EQ(answer.usage->input, 9u);
  EXPECT_EQ(answer.usage->cached, 4u);
  EXPECT_EQ(answer.usage->output, 3u);
}

TEST(AnswerReader, TakesOnlyWholeEvents) {
  AnswerReader reader = ReaderOf(kStream, 5);
  EXPECT_EQ(reader.OnPayload(kChunk.substr(0, 12), After(10)), 0u);
  EXPECT_EQ(reader.OnPayload(kChunk, After(20)), kChunk.size());
  EXPECT_EQ(reader.answer().to_first, std::chrono::milliseconds(20));
}

TEST(AnswerReader, AStreamWithoutItsMarkerIsUnclean) {
  AnswerReader reader = ReaderOf(kStream, 5);
  reader.OnPayload(kChunk, After(10));
  reader.OnEnd(After(11));
  EXPECT_EQ(reader.answer().ending, Ending::kUnclean);
}

TEST(AnswerReader, AnErrorInTheStreamIsAFailureWithItsCode) {
  AnswerReader reader = ReaderOf(kStream, 5);
  reader.OnPayload("data: {\"error\":{\"code\":\"stream_interrupted\"}}\n\n", After(10));
  reader.OnEnd(After(11));
  EXPECT_EQ(reader.answer().ending, Ending::kFailed);
  EXPECT_EQ(reader.answer().code, "stream_interrupted");
}

TEST(AnswerReader, ARefusalNamesItsCodeAndLimit) {
  const std::string body = R"({"error":{"code":"rate_limit_exceeded"}})";
  AnswerReader reader =
      ReaderOf("HTTP/1.1 429 Too Many Requests\r\nx-tidegate-limit: demo requests_per_minute\r\n\r\n", 5);
  reader.OnPayload(body, After(6));
  reader.OnEnd(After(6));
  EXPECT_EQ(reader.answer().ending, Ending::kRefused);
  EXPECT_EQ(reader.answer().status, 429);
  EXPECT_EQ(reader.answer().code, "rate_limit_exceeded");
  EXPECT_EQ(reader.answer().limit, "demo requests_per_minute");
}

}  // namespace
}  // namespace bench
