#include "conf/find.h"

#include <gtest/gtest.h>

#include <string>

namespace conf {
namespace {

TEST(Find, FindsTheFirstOccurrenceAtEveryPlaceAndLength) {
  for (const std::string needle : {"\"usage\"", "ab", "x", "\"finish_reason\":", "aaaa"}) {
    for (size_t size = 0; size < 110; ++size) {
      EXPECT_EQ(Find(std::string(size, 'z'), needle), std::string::npos);
      for (size_t at = 0; at + needle.size() <= size; ++at) {
        std::string text(size, 'z');
        text.replace(at, needle.size(), needle);
        EXPECT_EQ(Find(text, needle), at) << text;
        if (at + 2 * needle.size() <= size) text.replace(size - needle.size(), needle.size(), needle);
        EXPECT_EQ(Find(text, needle), text.find(needle)) << text;
      }
    }
  }
}

TEST(Find, IsNotMisledByLikeness) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "\"usag_\" \"usages\" usage";
  EXPECT_EQ(Find(text, "\"usage\""), std::string::npos);
  EXPECT_EQ(Find(text + "\"usage\"", "\"usage\""), text.size());
  EXPECT_EQ(Find("", "a"), std::string::npos);
}

}  // namespace
}  // namespace conf
