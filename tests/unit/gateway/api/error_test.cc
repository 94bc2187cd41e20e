#include "gateway/api/error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "conf/json_text.h"

namespace gateway::api {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

TEST(ErrorCodes, AreUniqueAndRetryOnlyWhatTheSdksWouldRetry) {
  std::set<std::string_view> names;
  for (const CodeInfo& info : AllCodes()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_GE(info.status, 400);
    EXPECT_LE(info.status, 599);
    EXPECT_EQ(&Info(info.code), &info);
    const bool retried = info.status == 408 || info.status == 409 || info.status == 429 || info.status >= 500;
    EXPECT_TRUE(retried || !info.retry_helps) << info.name;
  }
}

TEST(ErrorCodes, SayTheSameStatusAsTheContract) {
  const std::vector<std::pair<Code, int>> expected = {
      {Code::kInvalidJson, 400},          {Code::kInvalidApiKey, 401},     {Code::kPermissionDenied, 403},
      {Code::kModelNotFound, 404},        {Code::kMethodNotAllowed, 405},  {Code::kRequestTooLarge, 413},
      {Code::kHeaderTooLarge, 431},       {Code::kRateLimitExceeded, 429}, {Code::kInsufficientQuota, 429},
      {Code::kLedgerUnavailable, 503},    {Code::kStoreUnavailable, 503},  {Code::kUpstreamTimeout, 504},
      {Code::kUnsupportedMediaType, 415}, {Code::kUnsupportedCoding, 501}, {Code::kUnsupportedVersion, 505},
      {Code::kIssuerUnavailable, 503},
  };
  for (const auto& [code, status] : expected) EXPECT_EQ(Info(code).status, status) << Info(code).name;
  EXPECT_FALSE(Info(Code::kInsufficientQuota).retry_helps);
  EXPECT_TRUE(Info(Code::kRateLimitExceeded).retry_helps);
}

TEST(ModelNotFound, ShowsTheBeginningOfALongName) {
  const std::string name = std::string(255, 'x') + "é" + std::string(100'000, 'x');
  const std::string message = ModelNotFound(name, {}).message;
  EXPECT_TRUE(message.starts_with("The model \"" + std::string(255, 'x') + "…\" does not exist")) << message;
  EXPECT_LT(message.size(), 400u);
}

TEST(RenderError, GivesOpenAiItsFourMembers) {
  const ApiError error = Make(Code::kInvalidType, "Invalid type for 'model'.", "model");
  EXPECT_EQ(json::parse(RenderError(Protocol::kOpenAi, error, "req_1")),
            json::parse(R"({"error":{"message":"Invalid type for 'model'.","type":"invalid_request_error",
                            "param":"model","code":"invalid_type","request_id":"req_1"}})"));
  const json plain = json::parse(RenderError(Protocol::kOpenAi, Make(Code::kOverloaded, "busy"), ""));
  EXPECT_TRUE(plain["error"]["param"].is_null());
  EXPECT_FALSE(plain["error"].contains("request_id"));
}

TEST(RenderError, GivesAnthropicItsOwnTypes) {
  const std::vector<std::pair<Code, std::string>> expected = {
      {Code::kInvalidApiKey, "authentication_error"},
      {Code::kPermissionDenied, "permission_error"},
      {Code::kModelNotFound, "not_found_error"},
      {Code::kRequestTooLarge, "request_too_large"},
      {Code::kRateLimitExceeded, "rate_limit_error"},
      {Code::kOverloaded, "overloaded_error"},
      {Code::kInternalError, "api_error"},
      {Code::kInvalidJson, "invalid_request_error"},
  };
  for (const auto& [code, type] : expected) {
    const json body = json::parse(RenderError(Protocol::kAnthropic, Make(code, "m"), "req_2"));
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], type);
    EXPECT_EQ(body["error"]["code"], Info(code).name);
    EXPECT_EQ(body["request_id"], "req_2");
  }
}

TEST(RenderError, MapsForeignCodesByStatusForAnthropic) {
  for (const auto& [status, type] : std::vector<std::pair<int, std::string>>{{400, "invalid_request_error"},
                                                                             {401, "authentication_error"},
                                                                             {429, "rate_limit_error"},
                                                                             {503, "overloaded_error"},
                                                                             {500, "api_error"},
                                                                             {504, "timeout_error"}}) {
    ApiError error;
    error.status = status;
    error.code = "engine_said_so";
    EXPECT_EQ(json::parse(RenderError(Protocol::kAnthropic, error, ""))["error"]["type"], type);
  }
}

TEST(RenderStreamError, IsOneEventThatTheSdkThrowsOn) {
  const ApiError error = Make(Code::kStreamInterrupted, "line one\nline two");
  const std::string openai = RenderStreamError(Protocol::kOpenAi, error, "r");
  ASSERT_TRUE(openai.starts_with("data: {\"error\":{"));
  const std::string anthropic = RenderStreamError(Protocol::kAnthropic, error, "r");
  ASSERT_TRUE(anthropic.starts_with("event: error\ndata: {\"type\":\"error\""));
  for (const std::string& event : {openai, anthropic}) {
    EXPECT_TRUE(event.ends_with("}\n\n"));
    EXPECT_EQ(event.find("\n\n"), event.size() - 2);
    EXPECT_EQ(event.find("[DONE]"), std::string::npos);
  }
}

TEST(ErrorHeaders, RoundWaitsUpAndNameTheLimit) {
  ApiError error = Make(Code::kRateLimitExceeded, "slow down");
  error.retry_after = 1200ms + 1ns;
  error.limit = "tenant:search/tokens_per_minute\r\nx: y";
  std::map<std::string_view, std::string> headers;
  for (const ErrorHeader& header : ErrorHeaders(error)) headers[header.name] = header.value;
  EXPECT_EQ(headers["x-should-retry"], "true");
  EXPECT_EQ(headers["retry-after-ms"], "1201");
  EXPECT_EQ(headers["retry-after"], "2");
  EXPECT_EQ(headers["x-tidegate-limit"], "tenant:search/tokens_per_minute??x: y");
}

TEST(ErrorHeaders, AreAbsentWhereNothingIsKnown) {
  ApiError error;
  EXPECT_TRUE(ErrorHeaders(error).empty());
  error.should_retry = false;
  error.retry_after = -5s;
  const auto headers = ErrorHeaders(error);
  ASSERT_EQ(headers.size(), 3u);
  EXPECT_EQ(headers[0].value, "false");
  EXPECT_EQ(headers[1].value, "0");
}

TEST(ModelNotFound, ListsWhatTheKeyMayUseUpToABound) {
  const std::vector<std::string_view> few = {"chat-small", "chat-large"};
  const ApiError error = ModelNotFound("chat-smal", few);
  EXPECT_EQ(error.message,
            "The model \"chat-smal\" does not exist or this key may not use it, did you mean \"chat-small\"? "
            "This key may use: chat-small, chat-large.");
  EXPECT_EQ(error.param, "model");
  const std::vector<std::string_view> many(50, "m");
  EXPECT_TRUE(ModelNotFound("x", many).message.ends_with("m and 30 more."));
  EXPECT_TRUE(ModelNotFound("x", {}).message.ends_with("this key may use no model."));
}

struct QuoteCase {
  std::string_view name;
  std::string_view bytes;
  std::string_view quoted;
};

TEST(AppendQuoted, IsValidJsonForAnyBytes) {
  using namespace std::string_view_literals;
  const std::vector<QuoteCase> cases = {
      {"plain", "abc", R"("abc")"},
      {"escapes", "\"\\\n\r\t\x01\x1f", "\"\\\"\\\\\\n\\r\\t\\u0001\\u001f\""},
      {"nul", "a\0b"sv, "\"a\\u0000b\""},
      {"utf8", "é€😀", "\"é€😀\""},
      {"lone continuation", "a\x80z", "\"a\xEF\xBF\xBDz\""},
      {"overlong", "\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"surrogate", "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"above the last plane", "\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
      {"truncated", "ab\xF0\x9F\x98", "\"ab\xEF\xBF\xBD\""},
      {"truncated before text", "\xE2\x82z", "\"\xEF\xBF\xBDz\""},
  };
  for (const QuoteCase& c : cases) {
    std::string out;
    conf::AppendQuoted(out, c.bytes);
    EXPECT_EQ(out, c.quoted) << c.name;
    EXPECT_TRUE(json::accept(out)) << c.name;
  }
}

TEST(AppendQuoted, IsValidJsonForEveryPairOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      std::string out;
      conf::AppendQuoted(out, std::string{static_cast<char>(a), static_cast<char>(b)});
      ASSERT_TRUE(json::accept(out)) << a << ' ' << b;
    }
  }
}

}  // namespace
}  // namespace gateway::api
