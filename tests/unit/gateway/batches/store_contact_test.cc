#include "gateway/batches/store_contact.h"

#include <gtest/gtest.h>

namespace gateway::batches {
namespace {

constexpr conf::TimePoint At(int seconds) {
  return conf::TimePoint() + std::chrono::hours(1) + std::chrono::seconds(seconds);
}

TEST(StoreContact, WithoutTheStoreNoLineIsSentAndNothingIsTakenOver) {
  StoreContact contact(std::chrono::seconds(12));
  EXPECT_FALSE(contact.MaySend(At(0)));
  for (int i = 0; i < 20; ++i) contact.Heard(At(i));
  EXPECT_TRUE(contact.MaySend(At(20)));
  EXPECT_TRUE(contact.MayTakeOver(At(20)));
  EXPECT_FALSE(contact.MaySend(At(24))) << "another gateway may run the batch from now on";
  EXPECT_FALSE(contact.MayTakeOver(At(24)));
}

TEST(StoreContact, AfterAGapItWaitsUntilOthersCanBeHeardAgain) {
  StoreContact contact(std::chrono::seconds(12));
  for (int i = 0; i < 20; ++i) contact.Heard(At(i));
  contact.Heard(At(60));
  EXPECT_TRUE(contact.MaySend(At(60)));
  for (int i = 61; i < 72; ++i) {
    EXPECT_FALSE(contact.MayTakeOver(At(i))) << i;
    contact.Heard(At(i));
  }
  EXPECT_TRUE(contact.MayTakeOver(At(72)));
}

}  // namespace
}  // namespace gateway::batches
