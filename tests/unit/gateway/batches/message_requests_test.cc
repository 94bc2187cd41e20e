#include "gateway/batches/message_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace gateway::batches {
namespace {

constexpr std::string_view kTwo = R"( {"requests" : [
  {"custom_id": "a\"1", "params": {"model": "m", "text": "]}\",\u00e9{",
    "deep": [[{}], "\\"]}},
  {"params": {}, "other": [1, {"params": 2}], "custom_id": "b"} ] } )";

// The lines of what was fed in pieces of that size; nothing: it was refused.
std::optional<std::vector<nlohmann::json>> Read(MessageRequests& requests, std::string_view body,
                                                size_t piece = 7) {
  std::string text;
  for (size_t at = 0; at < body.size(); at += piece) {
    if (!requests.Feed(body.substr(at, piece), text)) return std::nullopt;
  }
  if (!requests.Finish()) return std::nullopt;
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(MessageRequests, EachRequestBecomesALineHoweverTheBodyIsSplit) {
  for (size_t piece = 1; piece <= kTwo.size(); ++piece) {
    MessageRequests requests;
    const auto lines = Read(requests, kTwo, piece);
    ASSERT_TRUE(lines) << requests.error();
    ASSERT_EQ(lines->size(), 2u);
    EXPECT_EQ(requests.count(), 2u);
    EXPECT_EQ((*lines)[0]["custom_id"], "a\"1");
    EXPECT_EQ((*lines)[0]["method"], "POST");
    EXPECT_EQ((*lines)[0]["url"], "/v1/messages");
    EXPECT_EQ((*lines)[0]["body"]["text"], "]}\",\u00e9{");
    EXPECT_EQ((*lines)[0]["body"]["deep"].size(), 2u);
    EXPECT_EQ((*lines)[1]["custom_id"], "b");
    EXPECT_EQ((*lines)[1]["body"], nlohmann::json::object());
  }
}

TEST(MessageRequests, WhatIsWrongIsNamed) {
  struct Case {
    std::string_view body;
    std::string_view param;
  };
  const Case cases[] = {
      {"", ""},
      {"[]", ""},
      {"{}", "requests"},
      {"{\"requests\":[]}", "requests"},
      {"{\"requests\":{}}", "requests"},
      {"{\"more\":1,\"requests\":[]}", "more"},
      {R"({"requests":[{"custom_id":"a","params":{}}],"requests":[]})", ""},
      {R"({"requests":[{"custom_id":"a","params":{}},]})", "requests[1]"},
      {R"({"requests":[{"custom_id":"a","params":{}} {}]})", ""},
      {R"({"requests":[{"custom_id":"a","params":{}}]} x)", ""},
      {R"({"requests":[{"custom_id":"a","params":{}})", ""},
      {R"({"requests":[7]})", "requests[0]"},
      {R"({"requests":[{"params":{}}]})", "requests[0].custom_id"},
      {R"({"requests":[{"custom_id":1,"params":{}}]})", "requests[0].custom_id"},
      {R"({"requests":[{"custom_id":"a","params":{}},{"custom_id":"b"}]})", "requests[1].params"},
      {R"({"requests":[{"custom_id":"a","params":[]}]})", "requests[0].params"},
      {R"({"requests":[{"custom_id" "a","params":{}}]})", "requests[0]"},
      {"{\"requests\":[{\"custom_id\":\"\xff\",\"params\":{}}]}", "requests[0]"},
  };
  for (const Case& one : cases) {
    MessageRequests requests;
    EXPECT_FALSE(Read(requests, one.body)) << one.body;
    EXPECT_EQ(requests.param(), one.param) << one.body;
    EXPECT_NE(requests.error(), "") << one.body;
  }
}

}  // namespace
}  // namespace gateway::batches
