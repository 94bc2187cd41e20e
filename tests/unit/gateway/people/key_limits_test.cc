#include "gateway/people/key_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway {
namespace {

TEST(KeyLimits, ABudgetIsAtLeastAMillionthOfADollar) {
  EXPECT_EQ(ParseKeyLimits(R"({"budget":{"usd":0.000001}})")->front().capacity, 1);
  EXPECT_EQ(ParseKeyLimits(R"({"budget":{"usd":5}})")->front().capacity, 5'000'000);
  for (const char* usd : {"0.0000001", "0", "-1", "\"5\"", "null"}) {
    const auto limits = ParseKeyLimits(R"({"budget":{"usd":)" + std::string(usd) + "}}");
    ASSERT_FALSE(limits.ok()) << usd;
    EXPECT_NE(limits.status().message().find("at least 0.000001"), std::string::npos) << limits.status();
  }
}

}  // namespace
}  // namespace gateway
