#include "tools/engine/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tidegate_engine {
namespace {

using namespace std::string_literals;

std::vector<std::string> Tokens(std::string_view text) {
  std::vector<std::string> tokens;
  ForEachToken(text, [&](std::string_view token) { tokens.emplace_back(token); });
  return tokens;
}

TEST(Tokenizer, AWordOfFiveLettersWithItsSpaceIsOneToken) {
  EXPECT_EQ(Tokens("The quick brown harbour"),
            (std::vector<std::string>{"The", " quick", " brown", " harbo", "ur"}));
  EXPECT_EQ(Tokens("a\n\n  b"), (std::vector<std::string>{"a", "\n\n  b"}));
}

TEST(Tokenizer, NeverSplitsACharacter) {
  for (const std::string& token : Tokens("héllo wörld 你好吗 🙂🙂🙂")) {
    EXPECT_NE(static_cast<unsigned char>(token[0]) & 0xC0, 0x80) << token;
    EXPECT_LE(token.size(), kMaxTokenBytes);
  }
}

TEST(Tokenizer, IdsAreReversible) {
  for (const std::string& text : {"The quick brown fox"s, "tabs\tand\nlines\r\n"s, "你好 🙂 ß"s, "a\0b\0\0c"s,
                                  "\xff\xfe stray"s, ""s, std::string(1000, 'x')}) {
    std::string back;
    size_t count = 0;
    ForEachToken(text, [&](std::string_view token) {
      back += TokenText(TokenId(token));
      ++count;
    });
    EXPECT_EQ(back, text);
    EXPECT_EQ(CountTokens(text), count);
  }
}

TEST(Tokenizer, EnglishIsAboutFourCharactersAToken) {
  std::string text =
      "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in "
      "want of a "
      "wife. However little known the feelings or views of such a man may be on his first entering a "
      "neighbourhood.";
  double ratio = static_cast<double>(text.size()) / static_cast<double>(CountTokens(text));
  EXPECT_GT(ratio, 3.4);
  EXPECT_LT(ratio, 4.6);
}

TEST(Tokenizer, MarksHaveTextAndUnknownIdsHaveNone) {
  EXPECT_EQ(TokenText(static_cast<uint64_t>(Mark::kUser)), "<|user|>");
  EXPECT_EQ(TokenText(uint64_t{1} << 60), "");
}

}  // namespace
}  // namespace tidegate_engine
