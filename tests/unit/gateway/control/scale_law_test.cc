#include "gateway/control/scaling/scale_law.h"

#include <gtest/gtest.h>

namespace gateway::control {
namespace {

using std::chrono::minutes;

conf::TimePoint At(int minute) {
  return conf::TimePoint(minutes(1'000'000 + minute));
}

TEST(ScaleLaw, NothingIsWrittenBeforeTheNumberIsKnown) {
  ScaleLaw law(minutes(10));
  EXPECT_EQ(law.Next(3, At(0)), std::nullopt);
  EXPECT_FALSE(law.Update(1, At(0)));
  EXPECT_EQ(law.Next(3, At(0)), 3U);
  law.Wrote(3);
  EXPECT_EQ(law.Next(3, At(1)), std::nullopt);
}

TEST(ScaleLaw, TheNumberAtTheStartIsNobodysChange) {
  ScaleLaw law(minutes(10));
  EXPECT_FALSE(law.Update(5, At(0)));
  EXPECT_FALSE(law.foreign());
  EXPECT_EQ(law.Next(2, At(0)), 2U);
}

TEST(ScaleLaw, OurOwnChangeIsNotSomebodyElses) {
  ScaleLaw law(minutes(10));
  law.Update(1, At(0));
  law.Wrote(*law.Next(3, At(0)));
  EXPECT_FALSE(law.Update(3, At(1)));
}

TEST(ScaleLaw, SomebodyElsesChangeStaysUntilHoldHasPassed) {
  ScaleLaw law(minutes(10));
  law.Update(3, At(0));
  EXPECT_EQ(law.Next(3, At(0)), std::nullopt);
  EXPECT_TRUE(law.Update(6, At(1)));
  EXPECT_EQ(law.Next(3, At(2)), std::nullopt);
  EXPECT_FALSE(law.Update(6, At(3)));
  EXPECT_EQ(law.Next(3, At(10)), std::nullopt);
  EXPECT_EQ(law.Next(3, At(11)), 3U);
}

TEST(ScaleLaw, SomebodyElsesChangeEndsWhenOurWishChanges) {
  ScaleLaw law(minutes(10));
  law.Update(3, At(0));
  law.Next(3, At(0));
  law.Update(6, At(1));
  EXPECT_EQ(law.Next(4, At(2)), 4U);
}

TEST(ScaleLaw, SomebodyElsesChangeToOurWishNeedsNoWrite) {
  ScaleLaw law(minutes(10));
  law.Update(3, At(0));
  law.Next(3, At(0));
  EXPECT_TRUE(law.Update(6, At(1)));
  EXPECT_EQ(law.Next(6, At(2)), std::nullopt);
  EXPECT_FALSE(law.foreign());
}

}  // namespace
}  // namespace gateway::control
