#include "gateway/feedback/feedback_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gateway::feedback {
namespace {

using ::testing::HasSubstr;

TEST(FeedbackRequest, ValuesAreBooleansNumbersOrCategories) {
  const auto value_of = [](std::string_view value) {
    const auto read = ReadFeedback(fmt::format(R"({{"request_id":"r","name":"helpful","value":{}}})", value));
    EXPECT_TRUE(std::holds_alternative<GivenFeedback>(read)) << value;
    return std::holds_alternative<GivenFeedback>(read) ? std::get<GivenFeedback>(read).value
                                                       : ledger::FeedbackValue();
  };
  EXPECT_EQ(value_of("true"), ledger::FeedbackValue(true));
  EXPECT_EQ(value_of("-3"), ledger::FeedbackValue(-3.0));
  EXPECT_EQ(value_of("0.25"), ledger::FeedbackValue(0.25));
  EXPECT_EQ(value_of("\"rude\""), ledger::FeedbackValue(std::string("rude")));
}

TEST(FeedbackRequest, WhatIsWrongIsNamedWithItsMemberAndCode) {
  struct Case {
    std::string body, code, param, message;
  };
  const std::string good = R"("request_id":"r","name":"n","value":true)";
  for (const Case& c : {
           Case{"", "invalid_json", "", "one JSON object"},
           Case{"[]", "invalid_json", "", "one JSON object"},
           Case{"{" + good + R"(,"name":"m"})", "invalid_json", "", "repeated"},
           Case{R"({"name":"n","value":true})", "missing_required_parameter", "request_id", "x-request-id"},
           Case{R"({"request_id":1,"name":"n","value":true})", "invalid_type", "request_id", "a string"},
           Case{R"({"request_id":"r","value":true})", "missing_required_parameter", "name", "helpful"},
           Case{R"({"request_id":"r","name":"a b","value":true})", "invalid_value", "name", "letters"},
           Case{fmt::format(R"({{"request_id":"r","name":"{}","value":true}})", std::string(65, 'a')),
                "invalid_value", "name", "1 to 64"},
           Case{R"({"request_id":"r","name":"n"})", "missing_required_parameter", "value", "boolean"},
           Case{R"({"request_id":"r","name":"n","value":null})", "invalid_type", "value", "boolean"},
           Case{R"({"request_id":"r","name":"n","value":{}})", "invalid_type", "value", "boolean"},
           Case{R"({"request_id":"r","name":"n","value":""})", "invalid_value", "value", "1 to 256"},
           Case{R"({"request_id":"r","name":"n","value":"a\nb"})", "invalid_value", "value", "comment"},
           Case{"{" + good + R"(,"comment":1})", "invalid_type", "comment", "a string"},
           Case{"{" + good + fmt::format(R"(,"comment":"{}"}})", std::string(4097, 'a')), "invalid_value",
                "comment", "at most 4096 bytes"},
           Case{"{" + good + fmt::format(R"(,"correction":"{}"}})", std::string(65537, 'a')), "invalid_value",
                "correction", "at most 65536 bytes"},
           Case{R"({"run_id":"r","key":"n","score":1})", "unsupported_parameter", "key", "called name here"},
           Case{R"({"trace_id":"r"})", "unsupported_parameter", "trace_id", "called request_id here"},
           Case{"{" + good + R"(,"weight":1})", "unsupported_parameter", "weight",
                "not a member of feedback"},
       }) {
    const auto read = ReadFeedback(c.body);
    const auto* const error = std::get_if<api::ApiError>(&read);
    ASSERT_NE(error, nullptr) << c.body.substr(0, 80);
    EXPECT_EQ(error->code, c.code) << c.body.substr(0, 80);
    EXPECT_EQ(error->param, c.param) << c.body.substr(0, 80);
    EXPECT_THAT(error->message, HasSubstr(c.message));
    EXPECT_EQ(error->status, 400);
  }
}

TEST(FeedbackRequest, TheQueryNamesOneRequest) {
  EXPECT_EQ(std::get<std::string>(ReadFeedbackQuery("request_id=req_1%32")), "req_12");
  for (const char* wrong :
       {"", "request_id", "id=r", "request_id=a&request_id=b", "request_id=a&x=1", "request_id=%zz"}) {
    const auto read = ReadFeedbackQuery(wrong);
    EXPECT_EQ(std::holds_alternative<std::string>(read), std::string_view(wrong) == "request_id") << wrong;
  }
}

}  // namespace
}  // namespace gateway::feedback
