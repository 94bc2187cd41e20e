#include "gateway/net/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gateway::net {
namespace {

// Feeds `bytes` in pieces and collects what was released as whole.
std::vector<std::string> Events(std::string_view bytes, size_t step) {
  std::vector<std::string> events;
  SseFramer framer;
  std::string held;
  for (size_t at = 0; at < bytes.size(); at += step) {
    held += bytes.substr(at, step);
    const size_t whole = framer.Whole(held);
    std::string_view released = std::string_view(held).substr(0, whole);
    while (!released.empty()) events.emplace_back(NextSseEvent(released).raw);
    held.erase(0, whole);
    framer.Taken(whole);
  }
  return events;
}

TEST(SseFramer, ReleasesCompleteEventsWhateverTheSplit) {
  const std::string bytes = "data: {\"a\":1}\n\n: beat\n\nevent: x\ndata: y\n\ndata: [DONE]\n\n";
  const std::vector<std::string> expected{"data: {\"a\":1}\n\n", ": beat\n\n", "event: x\ndata: y\n\n",
                                          "data: [DONE]\n\n"};
  for (size_t step = 1; step <= bytes.size(); ++step) EXPECT_EQ(Events(bytes, step), expected) << step;
}

TEST(SseFramer, KnowsCrLf) {
  const std::string bytes = "data: a\r\n\r\ndata: b\r\n\r\n";
  for (size_t step : {2ul, 3ul, 4ul, 100ul}) {
    std::string joined;
    for (const std::string& e : Events(bytes, step)) joined += e;
    EXPECT_EQ(joined, bytes) << step;
  }
  EXPECT_EQ(Events(bytes, 100).size(), 2u);
}

TEST(SseFramer, FindsTheEndsOfLinesOfAnyLength) {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    for (const size_t length :
         std::initializer_list<size_t>{1, 500, 504, 505, 506, 507, 511, 512, 513, 1018, 1019, 5000}) {
      const std::string event = "data: " + std::string(length, 'x') + end + end;
      EXPECT_EQ(Events(event + event, 700), (std::vector<std::string>{event, event})) << length;
      std::string_view bytes = event;
      EXPECT_EQ(NextSseEvent(bytes).data.size(), length);
    }
  }
}

// Without an LF in sight, a search for one from each line on would take minutes, on the thread of all requests.
TEST(SseFramer, ReadsAnEventOfAMillionLinesInOnePass) {
  std::string event;
  while (event.size() < 8u << 20) event += "data: x\r";
  event += "\r";
  SseFramer framer;
  EXPECT_EQ(framer.Whole(event), event.size());
  std::string_view bytes = event;
  EXPECT_TRUE(NextSseEvent(bytes).multi_line);
  EXPECT_TRUE(bytes.empty());
}

TEST(SseFramer, HoldsBackIncompleteEvents) {
  SseFramer framer;
  EXPECT_EQ(framer.Whole("data: a\n"), 0u);
  EXPECT_EQ(framer.Whole("data: a\n\ndata: b"), 9u);
}

SseEvent Parse(std::string_view bytes) {
  return NextSseEvent(bytes);
}

TEST(SseEvent, GivesNameAndData) {
  const SseEvent event = Parse("event: message_start\ndata: {\"x\":1}\n\n");
  EXPECT_EQ(event.name, "message_start");
  EXPECT_EQ(event.data, "{\"x\":1}");
  EXPECT_FALSE(event.multi_line);
  EXPECT_FALSE(Parse(": comment\n\n").has_data);
  EXPECT_TRUE(Parse("data:a\r\ndata:b\r\n\r\n").multi_line);
  EXPECT_EQ(Parse("data:").data, "");
  EXPECT_EQ(Parse("data: a\n\ndata: b\n\n").raw, "data: a\n\n");
}

TEST(SseEvent, DataOfSeveralLinesIsJoined) {
  const auto whole = [](std::string_view bytes) {
    std::string joined;
    return std::string(WholeData(Parse(bytes), joined));
  };
  EXPECT_EQ(whole("data: a\n\n"), "a");
  EXPECT_EQ(whole("data: {\"x\":\nevent: e\ndata:1}\n: note\ndata: \n\n"), "{\"x\":\n1}\n");
  EXPECT_EQ(whole("data: a\r\ndata: b\r\n\r\n"), "a\nb");
  EXPECT_EQ(whole("data:\rdata\rdata: b\r\r"), "\nb") << "a field without a colon is another one";
  EXPECT_EQ(whole("id: 1\n\n"), "");
}

}  // namespace
}  // namespace gateway::net
