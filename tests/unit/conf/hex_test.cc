#include "conf/hex.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace conf {
namespace {

TEST(Hex, WritesLowerCaseAndReadsItBack) {
  const std::array<uint8_t, 4> bytes = {0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(Hex(bytes), "000fa0ff");
  std::array<uint8_t, 4> read{};
  EXPECT_TRUE(ParseHex("000fa0ff", read));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(Hex({}), "");
  std::array<char, 8> text{};
  WriteHex(bytes, text.data());
  EXPECT_EQ(std::string_view(text.data(), text.size()), "000fa0ff");
}

TEST(Hex, WritesAndReadsEveryLength) {
  for (size_t size = 0; size < 70; ++size) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11 * size);
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    EXPECT_EQ(Hex(bytes), text);
    std::vector<uint8_t> read(size);
    EXPECT_TRUE(ParseHex(text, read));
    EXPECT_EQ(read, bytes);
    for (size_t i = 0; i < text.size(); ++i) {
      for (const char other : {'/', ':', '`', 'g', 'A', 'F', ' ', '\0', '\x80', '\xff'}) {
        std::string wrong = text;
        wrong[i] = other;
        EXPECT_FALSE(ParseHex(wrong, read)) << wrong;
      }
    }
  }
}

TEST(Hex, RefusesEveryOtherText) {
  std::array<uint8_t, 2> read{};
  for (const char* text : {"", "00", "000", "00000", "00FF", "0x00", "00g0", "00 0", "-100"})
    EXPECT_FALSE(ParseHex(text, read)) << text;
}

TEST(Hex, ReadsADigitOfEitherCase) {
  for (const auto& [digit, value] : {std::pair('0', 0), {'9', 9}, {'a', 10}, {'f', 15}, {'A', 10}, {'F', 15}})
    EXPECT_EQ(HexDigit(digit), value) << digit;
  for (const char other : {'/', ':', '@', 'G', '`', 'g', ' ', '\0', '\xff'}) EXPECT_EQ(HexDigit(other), -1);
}

}  // namespace
}  // namespace conf
