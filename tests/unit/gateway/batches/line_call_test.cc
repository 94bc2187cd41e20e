#include "gateway/batches/line_call.h"

#include <gtest/gtest.h>

#include "gateway/api/error.h"

namespace gateway::batches {
namespace {

LineAnswer Refusal(api::Code code) {
  const api::ApiError error = api::Make(code, "no");
  return {.status = error.status,
          .body = api::RenderError(api::Protocol::kOpenAi, error, "req_1"),
          .should_retry = error.should_retry};
}

TEST(LineCall, ALineWithoutRoomWaitsAsLongAsNecessary) {
  for (const api::Code code :
       {api::Code::kRateLimitExceeded, api::Code::kConcurrencyLimit, api::Code::kQueueFull,
        api::Code::kOverloaded, api::Code::kUpstreamUnavailable, api::Code::kLedgerUnavailable,
        api::Code::kDraining, api::Code::kInsufficientQuota, api::Code::kModelPaused}) {
    EXPECT_EQ(Judge(Refusal(code)), LineVerdict::kWait) << api::Info(code).name;
  }
  EXPECT_EQ(Judge({.status = 429, .body = "an engine's"}), LineVerdict::kWait);
  EXPECT_EQ(Judge({.status = 529, .body = "a provider's"}), LineVerdict::kWait);
  EXPECT_EQ(Judge({.status = 0}), LineVerdict::kWait);
}

TEST(LineCall, ARefusalThatStaysIsTheResult) {
  LineAnswer larger_than_the_limit = Refusal(api::Code::kRateLimitExceeded);
  larger_than_the_limit.should_retry = false;
  EXPECT_EQ(Judge(larger_than_the_limit), LineVerdict::kEnded);
  EXPECT_EQ(Judge(Refusal(api::Code::kModelNotFound)), LineVerdict::kEnded);
  EXPECT_EQ(Judge({.status = 200}), LineVerdict::kEnded);
  EXPECT_EQ(Judge({.status = 0, .too_large = true}), LineVerdict::kEnded);
}

TEST(LineCall, FailuresAreTriedAgainAndALostKeyStopsTheBatch) {
  EXPECT_EQ(Judge(Refusal(api::Code::kUpstreamError)), LineVerdict::kRetry);
  EXPECT_EQ(Judge(Refusal(api::Code::kUpstreamTimeout)), LineVerdict::kRetry);
  EXPECT_EQ(Judge(Refusal(api::Code::kKeyRevoked)), LineVerdict::kStop);
  EXPECT_EQ(ErrorCodeOf(Refusal(api::Code::kKeyRevoked).body), "key_revoked");
  EXPECT_EQ(ErrorCodeOf("<html>"), "");
}

}  // namespace
}  // namespace gateway::batches
