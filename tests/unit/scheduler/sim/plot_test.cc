#include "scheduler/sim/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace scheduler::sim {
namespace {

TEST(Plot, TicksAreRoundNumbersInTheAxis) {
  EXPECT_THAT(Ticks({.from = 0, .to = 100}, 5), testing::ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(Ticks({.from = 56, .to = 0}, 5), testing::ElementsAre(0, 20, 40));
  EXPECT_THAT(Ticks({.from = 0.01, .to = 10, .log = true}, 5),
              testing::ElementsAre(testing::DoubleEq(0.01), testing::DoubleEq(0.1), 1, 10));
}

TEST(Plot, NoTickIsMinusZero) {
  EXPECT_FALSE(std::signbit(Ticks({.from = 0, .to = 100}, 5).front()));
}

TEST(Plot, ThinsToMeansOfNeighbours) {
  const std::vector<std::pair<double, double>> points = {{0, 0}, {1, 2}, {2, 4}, {3, 6}, {4, 9}};
  EXPECT_EQ(Thin(points, 5), points);
  EXPECT_THAT(Thin(points, 3),
              testing::ElementsAre(std::pair(0.5, 1.0), std::pair(2.5, 5.0), std::pair(4.0, 9.0)));
}

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

TEST(Plot, AGapWithinARunDoesNotCountAndARunOfGapsIsOne) {
  const std::vector<std::pair<double, double>> points = {{0, 2}, {1, kGap}, {2, kGap}, {3, kGap}, {4, 9}};
  const auto thin = Thin(points, 3);
  ASSERT_EQ(thin.size(), 3u);
  EXPECT_EQ(thin[0], std::pair(0.0, 2.0));
  EXPECT_TRUE(std::isnan(thin[1].second));
  EXPECT_EQ(thin[2], std::pair(4.0, 9.0));
}

TEST(Plot, DrawsNothingAcrossAGap) {
  const Frame frame{.x = {.from = 0, .to = 4}, .y = {.from = 0, .to = 10}};
  const auto polylines = [&](std::vector<std::pair<double, double>> points) {
    const std::string svg = DrawLines(frame, {{.name = "a", .points = std::move(points)}});
    size_t count = 0;
    for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1))
      ++count;
    EXPECT_NE(svg.find("<g class=\"line c0\" data-name=\"a\">"), std::string::npos);
    return count;
  };
  EXPECT_EQ(polylines({{0, 1}, {1, 2}, {2, 3}}), 1u);
  EXPECT_EQ(polylines({{0, 1}, {1, kGap}, {2, kGap}, {3, 3}, {4, 3}}), 2u);  // the first part is a dot
  EXPECT_EQ(polylines({{0, kGap}}), 0u);
  EXPECT_EQ(polylines({}), 0u);
}

}  // namespace
}  // namespace scheduler::sim
