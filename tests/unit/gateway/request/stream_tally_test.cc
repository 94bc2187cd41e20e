#include "gateway/request/stream_tally.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

constexpr const char* kBegin = R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},)";

std::string Event(const std::string& rest) {
  return kBegin + rest + "\n\n";
}

// The part of `events` that a client gets if it did not ask for usage.
std::string Passed(StreamTally& tally, std::string events) {
  events.resize(tally.Pass(events.data(), events.size()));
  return events;
}

TEST(StreamTally, RemovesUsageAnywhereAndKeepsTheRest) {
  const std::string hidden = Event(R"("finish_reason":null}]})");
  for (const char* rest :
       {R"("finish_reason":null}],"usage":null})", R"("finish_reason":null}], "usage": null})",
        R"("finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1}})"}) {
    StreamTally tally(router::Api::kChatCompletions, true);
    std::string passed = Passed(tally, Event(rest));
    EXPECT_EQ(passed, hidden) << rest;
    EXPECT_EQ(tally.events(), 1u);
    StreamTally open(router::Api::kChatCompletions, false);
    EXPECT_EQ(Passed(open, Event(rest)), Event(rest));
  }
}

TEST(StreamTally, UsageInsideATextIsText) {
  for (const char* rest : {R"("text":"\"usage\":null}"}]})", R"("text":",\"usage\":null}"}]})"}) {
    StreamTally tally(router::Api::kChatCompletions, true);
    EXPECT_EQ(Passed(tally, Event(rest)), Event(rest));
  }
}

TEST(StreamTally, AnEventOfSeveralLinesIsChangedAsOne) {
  StreamTally tally(router::Api::kChatCompletions, true);
  const std::string events = "data: {\"choices\":[1]\ndata: ,\"usage\":null}\n\n";
  const std::string passed = Passed(tally, events);
  EXPECT_EQ(passed.find("usage"), std::string::npos) << passed;
  EXPECT_TRUE(passed.ends_with("}\n\n")) << passed;
}

TEST(StreamTally, AnEventWithOnlyUsageIsRemovedAndCounted) {
  StreamTally tally(router::Api::kChatCompletions, true);
  const std::string text = Event(R"("finish_reason":null}],"usage":null})");
  const std::string last = Event(R"("finish_reason":"length"}],"usage":null})");
  const std::string passed =
      Passed(tally, text + last +
                        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n" +
                        "data: [DONE]\n\n");
  EXPECT_EQ(passed, Event(R"("finish_reason":null}]})") + Event(R"("finish_reason":"length"}]})") +
                        "data: [DONE]\n\n");
  ASSERT_TRUE(tally.usage());
  EXPECT_EQ(tally.usage()->input, 4u);
  EXPECT_EQ(tally.usage()->output, 2u);
  EXPECT_EQ(tally.finish(), api::Finish::kLength);
  EXPECT_TRUE(tally.finished());
  EXPECT_EQ(tally.events(), 3u);
}

TEST(StreamTally, KeepsTheInputThatMessagesReportsAtTheStart) {
  for (const char* last : {R"("output_tokens":7)", R"("input_tokens":3,"output_tokens":7)"}) {
    StreamTally tally(router::Api::kMessages, false);
    Passed(tally,
           std::string("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{"
                       "\"input_tokens\":3,\"cache_creation_input_tokens\":400,"
                       "\"cache_read_input_tokens\":50,\"output_tokens\":1}}}\n\n"
                       "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"
                       "\"stop_reason\":\"end_turn\"},\"usage\":{") +
               last + "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    ASSERT_TRUE(tally.output_reported());
    EXPECT_EQ(tally.usage()->input, 453u);
    EXPECT_EQ(tally.usage()->cached_input, 50u);
    EXPECT_EQ(tally.usage()->cache_written, 400u);
    EXPECT_EQ(tally.usage()->output, 7u);
  }
}

// The start tells one token of output, whatever follows.
TEST(StreamTally, OutputThatMessagesReportsOnlyAtTheStartIsNoReport) {
  StreamTally tally(router::Api::kMessages, false);
  Passed(tally,
         "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{"
         "\"input_tokens\":3,\"output_tokens\":1}}}\n\n"
         "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"
         "\"stop_reason\":\"end_turn\"},\"usage\":{}}\n\n"
         "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
  EXPECT_TRUE(tally.finished());
  EXPECT_EQ(tally.usage()->input, 3u);
  EXPECT_FALSE(tally.output_reported());
}

// Clients of Responses read the type of an event from its data.
TEST(StreamTally, KnowsAnEventWithoutANameByItsType) {
  StreamTally responses(router::Api::kResponses, false);
  Passed(responses,
         "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\n"
         "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{"
         "\"input_tokens\":3,\"output_tokens\":2}}}\n\n");
  EXPECT_TRUE(responses.finished());
  EXPECT_TRUE(responses.output_reported());
  StreamTally failed(router::Api::kResponses, false);
  Passed(failed, "data: {\"type\":\"error\",\"message\":\"gone\"}\n\n");
  EXPECT_TRUE(failed.failed());
  StreamTally messages(router::Api::kMessages, false);
  Passed(messages, "data: {\"type\":\"message_stop\"}\n\n");
  EXPECT_TRUE(messages.finished());
}

TEST(StreamTally, AReportOfNothingTakesNoReportBack) {
  StreamTally tally(router::Api::kChatCompletions, true);
  Passed(tally,
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7}}\n\n"
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n");
  EXPECT_EQ(tally.usage()->input, 3u);
  EXPECT_EQ(tally.usage()->output, 7u);
}

TEST(StreamTally, SeesTheFinishOfOneChoiceOfSeveral) {
  StreamTally tally(router::Api::kChatCompletions, true);
  Passed(tally, Event(R"("finish_reason":"stop"},{"finish_reason":null}],"usage":null})"));
  EXPECT_EQ(tally.finish(), api::Finish::kDone);
}

}  // namespace
}  // namespace gateway
