#include "router/admission/service_pace.h"

#include <gtest/gtest.h>

namespace router {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kNow{1h};

TEST(ServicePace, IsTheMinimumOfRecentAnswers) {
  ServicePace pace;
  for (int i = 0; i < 10; ++i) pace.ObserveFirstByte(300ms + i * 10ms, kNow);
  EXPECT_EQ(pace.LeastToFirstByte(kNow), 300ms);
  EXPECT_EQ(pace.LeastWhole(0, kNow), 0s) << "none came whole";
}

TEST(ServicePace, FewAnswersSayNothing) {
  ServicePace pace;
  for (int i = 0; i < 7; ++i) pace.ObserveWhole(10s, 100, kNow);
  EXPECT_EQ(pace.LeastWhole(0, kNow), 0s);
  pace.ObserveWhole(10s, 100, kNow);
  EXPECT_EQ(pace.LeastWhole(0, kNow), 10s);
}

TEST(ServicePace, AShortAnswerTakesLessThanALongOne) {
  ServicePace pace;
  for (int i = 0; i < 8; ++i) pace.ObserveWhole(10s, 100, kNow);
  EXPECT_EQ(pace.LeastWhole(5, kNow), 500ms) << "it may have five tokens at most";
  EXPECT_EQ(pace.LeastWhole(1'000, kNow), 10s);
  pace.ObserveWhole(1s, 5, kNow);
  EXPECT_EQ(pace.LeastWhole(1'000, kNow), 500ms) << "some answers are that short";
}

TEST(ServicePace, OldSamplesAreForgotten) {
  ServicePace pace;
  for (int i = 0; i < 8; ++i) pace.ObserveFirstByte(100ms, kNow);
  for (int i = 0; i < 8; ++i) pace.ObserveFirstByte(900ms, kNow + 31s);
  EXPECT_EQ(pace.LeastToFirstByte(kNow + 32s), 100ms);
  for (int i = 0; i < 8; ++i) pace.ObserveFirstByte(900ms, kNow + 62s);
  EXPECT_EQ(pace.LeastToFirstByte(kNow + 63s), 900ms);
  EXPECT_EQ(pace.LeastToFirstByte(kNow + 200s), 0s);
}

}  // namespace
}  // namespace router
