#include "scheduler/sim/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace scheduler::sim
