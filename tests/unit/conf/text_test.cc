#include "conf/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace conf {
namespace {

constexpr std::string_view kWords[] = {"list", "retries", "chat-small", "chat-large", "llamacpp"};

TEST(DidYouMean, NamesALikelySlip) {
  EXPECT_EQ(Nearest("lsit", kWords), "list");
  EXPECT_EQ(Nearest("chat-smal", kWords), "chat-small");
  EXPECT_EQ(Nearest("retry", kWords), "retries");
  EXPECT_EQ(Nearest("llama", kWords), "llamacpp");
  EXPECT_EQ(Nearest("nothing-like-it", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
}

// A caller chooses the word, so it may be as long as a body. Compared letter by letter, this would take an hour.
TEST(DidYouMean, AVeryLongWordCostsNothing) {
  const std::string word(32u << 20, 'c');
  const std::string name(128, 'c');
  EXPECT_EQ(Nearest(word, std::vector<std::string_view>(2000, name)), "");
}

}  // namespace
}  // namespace conf
