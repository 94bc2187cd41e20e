#include "conf/shown.h"

#include <gtest/gtest.h>

namespace conf {
namespace {

using namespace std::chrono_literals;

TEST(Shown, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_EQ(Visible("plain, grün, 日本"), "plain, grün, 日本");
  EXPECT_EQ(Visible("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(Visible("\u009b31m"), "\\u009b31m") << "a control character of C1";
  EXPECT_EQ(Visible("a\u202eb\u2066c\u200fd\u061ce\ufefff\u2028g"),
            "a\\u202eb\\u2066c\\u200fd\\u061ce\\ufefff\\u2028g");
  EXPECT_EQ(Visible(Visible("\x1b")), "\\x1b");
  EXPECT_EQ(Visible("\xe2\x80"), "\xe2\x80") << "cut off";
}

TEST(Shown, OnlyPrintableCharactersOfAsciiStay) {
  EXPECT_EQ(OnlyPrintable("curl/8 (~x)"), "curl/8 (~x)");
  EXPECT_EQ(OnlyPrintable("a\x1b[31m\t\n\x7f b\x1f"), "a[31m b");
  EXPECT_EQ(OnlyPrintable("gr\xc3\xbcn\xff"), "grn");
  EXPECT_EQ(OnlyPrintable(std::string("a\0b", 3)), "ab");
}

TEST(Shown, DurationsArePrintedAsPeopleSayThem) {
  EXPECT_EQ(InWords(1'209'323'364ns), "1.21s");
  EXPECT_EQ(InWords(0s), "0s");
  EXPECT_EQ(InWords(15ns), "15ns");
  EXPECT_EQ(InWords(1'500us), "1.5ms");
  EXPECT_EQ(InWords(250ms), "250ms");
  EXPECT_EQ(InWords(1500ms), "1.5s");
  EXPECT_EQ(InWords(30s), "30s");
  EXPECT_EQ(InWords(60s), "1m");
  EXPECT_EQ(InWords(90s), "90s");
  EXPECT_EQ(InWords(200s), "3m20s");
  EXPECT_EQ(InWords(2h), "2h");
  EXPECT_EQ(InWords(24h), "1d");
  EXPECT_EQ(InWords(36h), "36h");
  EXPECT_EQ(InWords(14 * 24h), "14d");
  EXPECT_EQ(InWords(2h + 5min + 1s), "2h05m");
  EXPECT_EQ(InWords(-5s), "-5s");
  EXPECT_EQ(InWords(Duration::max()), "106751d23h");
  EXPECT_EQ(InWords(Duration::min()), "-106751d23h");
}

}  // namespace
}  // namespace conf
