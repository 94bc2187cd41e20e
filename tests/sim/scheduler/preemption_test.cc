// What preemption costs in a simulated cluster: the order in which victims are chosen must pay.
#include "bench/scheduling/preemption.h"

#include <gtest/gtest.h>

namespace bench::scheduling {
namespace {

using scheduler::VictimOrder;

struct Costs {
  double wasted_h = 0;
  double training_h = 0;
  uint32_t preemptions = 0;
};

Costs SumOver(VictimOrder victims) {
  Costs sum;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const PreemptionCost cost =
        MeasurePreemption({.victims = victims, .seed = seed, .nodes = 16, .length = std::chrono::hours(48)});
    EXPECT_EQ(cost.unfinished, 0u);
    sum.wasted_h += cost.wasted_h();
    sum.training_h += cost.training_h;
    sum.preemptions += cost.preemptions;
  }
  return sum;
}

TEST(Preemption, LeastCostLosesAQuarterLessThanRandom) {
  const Costs least = SumOver(VictimOrder::kLeastCost);
  const Costs random = SumOver(VictimOrder::kRandom);
  EXPECT_GT(least.preemptions, 30u);
  EXPECT_GT(least.wasted_h, 0);
  EXPECT_LE(least.wasted_h, 0.76 * random.wasted_h);
  RecordProperty("wasted_part_of_random", std::to_string(least.wasted_h / random.wasted_h));
  RecordProperty("completion_part_of_random", std::to_string(least.training_h / random.training_h));
}

}  // namespace
}  // namespace bench::scheduling
