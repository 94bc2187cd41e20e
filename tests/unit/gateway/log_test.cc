#include "gateway/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gateway {
namespace {

TEST(Log, AValueCannotBeginALineOfItsOwnOrCommandATerminal) {
  testing::internal::CaptureStderr();
  log::Warn("request refused",
            {{"model", "a\n2026-01-01T00:00:00.000Z error forged\r\x1b[2J\u202E"}, {"n", 1}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, testing::HasSubstr(
                        "model=a\\x0a2026-01-01T00:00:00.000Z error forged\\x0d\\x1b[2J\\u202e n=1\n"));
}

}  // namespace
}  // namespace gateway
