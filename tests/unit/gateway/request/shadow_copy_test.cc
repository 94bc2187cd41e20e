#include "gateway/request/shadow_copy.h"

#include <gtest/gtest.h>

namespace gateway::routing {
namespace {

TEST(KeptAnswer, KeepsPiecesUpToItsBound) {
  KeptAnswer kept;
  kept.Add("abc", 5);
  kept.Add("de", 5);
  EXPECT_TRUE(kept.whole);
  EXPECT_EQ(kept.text, "abcde");
}

TEST(KeptAnswer, AnAnswerBeyondTheBoundIsNotWholeAndKeepsItsBeginning) {
  KeptAnswer kept;
  kept.Add("abc", 5);
  kept.Add("def", 5);
  kept.Add("g", 5);
  EXPECT_FALSE(kept.whole);
  EXPECT_EQ(kept.text, "abc") << "a later piece must not close a gap";
}

}  // namespace
}  // namespace gateway::routing
