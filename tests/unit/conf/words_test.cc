#include "conf/words.h"

#include <gtest/gtest.h>

namespace conf {
namespace {

enum class Level { kInfo, kWarn, kError };

constexpr Word<Level> kLevels[] = {{"info", Level::kInfo}, {"warn", Level::kWarn}, {"warning", Level::kWarn}};

TEST(Words, GiveAValueItsFirstWordAndReadEveryWord) {
  EXPECT_EQ(WordOf(kLevels, Level::kInfo), "info");
  EXPECT_EQ(WordOf(kLevels, Level::kWarn), "warn");
  EXPECT_EQ(ValueOf(kLevels, "warn"), Level::kWarn);
  EXPECT_EQ(ValueOf(kLevels, "warning"), Level::kWarn);
}

TEST(Words, KnowNothingElse) {
  EXPECT_EQ(WordOf(kLevels, Level::kError), "");
  EXPECT_EQ(ValueOf(kLevels, "error"), std::nullopt);
  EXPECT_EQ(ValueOf(kLevels, "Info"), std::nullopt);
  EXPECT_EQ(ValueOf(kLevels, ""), std::nullopt);
}

}  // namespace
}  // namespace conf
