// Power budgets by what is measured: planner, learned watts, a rack over time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "scheduler/io/explanation_text.h"
#include "scheduler/learned_power.h"
#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using World = PlannerWorld;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DomainId RootOf(const Cluster& cluster) {
  for (DomainId d = 0; d < cluster.fabric.domains.size(); ++d) {
    if (cluster.fabric.domains[d].parent == kNone) return d;
  }
  return kNone;
}

// Devices that draw 70 W idle and 700 W busy.
Cluster Budgeted(int nodes, double watts) {
  Cluster cluster = EightWay(nodes);
  cluster.fabric.domains[RootOf(cluster)].power_budget_watts = watts;
  return cluster;
}

TEST(PlannerPower, StartsWhatFitsByTheMeasuredDraw) {
  World w(Budgeted(1, 3000));
  w.Submit(w.Make("a", Devices(2)));
  w.Submit(w.Make("b", Devices(2)));
  EXPECT_THAT(w.Run(), ElementsAre("start a")) << "8 idle devices and 4 busy ones would draw 3080 W";
  const std::vector<std::string> why = io::InWords(w.planner.Explain(w.Find("b"), w.now));
  EXPECT_THAT(why, ::testing::Contains(HasSubstr("power")));
  w.planner.UpdateDrawn(0, 1750);
  EXPECT_THAT(w.Run(), IsEmpty()) << "1750 W and 1260 W more";
  w.planner.UpdateDrawn(0, 1700);
  EXPECT_THAT(w.Run(), ElementsAre("start b"));
  EXPECT_EQ(w.planner.state().Check(), "");
  EXPECT_DOUBLE_EQ(w.planner.state().power_headroom(0), 3000 - 1700 - 1260);
}

TEST(PlannerPower, DevicesThatDrawMoreThanDeclaredLeaveLess) {
  World w(Budgeted(1, 3000));
  w.planner.UpdateDrawn(0, 1800);
  w.Submit(w.Make("a", Devices(2)));
  EXPECT_THAT(w.Run(), IsEmpty());
  w.planner.UpdateDrawn(0, 560);
  EXPECT_THAT(w.Run(), ElementsAre("start a"));
}

TEST(PlannerPower, ASnapshotHasWhatWasMeasuredAndLearned) {
  World w(Budgeted(2, 9000));
  w.Submit(w.Make("a", Devices(4)));
  w.Run();
  w.planner.UpdateDrawn(0, 2500);
  w.planner.UpdateKindWatts(0, {80, 650});
  w.Submit(w.Make("b", Devices(8)));
  const Snapshot snapshot = w.planner.TakeSnapshot(w.now);
  const Planner copy(snapshot, {});
  for (NodeId node = 0; node < 2; ++node)
    EXPECT_DOUBLE_EQ(copy.state().power_headroom(node), w.planner.state().power_headroom(node));
  EXPECT_EQ(copy.state().kind_watts(0), (KindWatts{80, 650}));
  Rng one(7);
  Rng other(7);
  const Plan expected = MakePlan(snapshot, {}, w.now, one);
  const Plan plan = w.planner.Run(w.now, other);
  ASSERT_EQ(plan.actions.size(), expected.actions.size());
}

TEST(PlannerPower, OfDevicesThatSuitAsWellThoseThatDrawLessAreTaken) {
  Cluster cluster = EightWay(2);
  cluster.kinds.push_back(cluster.kinds[0]);
  cluster.kinds[1].name = "h100-pcie";
  cluster.kinds[1].busy_watts = 350;
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].name = "pcie";
  cluster.types[1].kind = 1;
  for (const TypeId thrifty : {TypeId{0}, TypeId{1}}) {
    cluster.nodes[0].type = thrifty;
    cluster.nodes[1].type = static_cast<TypeId>(1 - thrifty);
    World w(cluster);
    w.Submit(w.Make("a", Devices(8)));
    w.Run();
    EXPECT_THAT(w.NodesOf("a"), ElementsAre(thrifty == 1 ? 0 : 1));
  }
}

TEST(LearnedPower, TakesTheLimitUntilHeldDevicesHaveBeenReadForLongEnough) {
  LearnedPower learned;
  const DeviceKind undeclared{.name = "h100"};
  EXPECT_FALSE(learned.Of(0, undeclared));
  learned.Add(0, false, 70, 700, 5);
  EXPECT_EQ(learned.Of(0, undeclared), (KindWatts{70, 700}));
  for (int i = 0; i < 1000; ++i) learned.Add(0, true, i % 100 == 0 ? 690 : 300 + i % 100, 700, 5);
  const KindWatts watts = learned.Of(0, undeclared).value();
  EXPECT_DOUBLE_EQ(watts.idle, 70);
  EXPECT_DOUBLE_EQ(watts.busy, 400) << "the 95th percentile, in steps of 10 W";
  EXPECT_EQ(learned.Of(0, {.name = "h100", .idle_watts = 60, .busy_watts = 650}), (KindWatts{60, 650}))
      << "declared";
}

TEST(LearnedPower, TakesTheLimitWhereEveryHolderHasJustStarted) {
  LearnedPower learned;
  const DeviceKind undeclared{.name = "h100"};
  learned.Add(0, true, 0, std::nullopt, 0);
  EXPECT_FALSE(learned.Of(0, undeclared)) << "nothing is known";
  learned.Add(0, true, 0, 700, 0);
  EXPECT_EQ(learned.Of(0, undeclared), (KindWatts{0, 700}));
}

// A rack of 32 devices, jobs that come and go, each with a draw of its own below what is declared: what is drawn stays
// below the budget, and more devices work than with declared watts alone.
struct RackRun {
  double most_watts = 0;
  double busy_device_hours = 0;
};
RackRun RunRack(bool measured, uint64_t seed) {
  constexpr double kBudget = 12'000;
  constexpr int kStep = 10;  // seconds
  Cluster cluster = Budgeted(4, kBudget);
  World w(cluster);
  Rng draws(seed);
  struct Runs {
    double watts = 0;  // of each device
    conf::TimePoint since{};
    conf::TimePoint until{};
  };
  std::map<std::string, Runs> running;
  RackRun out;
  int submitted = 0;
  for (int second = 0; second < 6 * 3600; second += kStep) {
    w.now += std::chrono::seconds(kStep);
    std::vector<std::string> ended;
    for (const auto& [id, runs] : running) {
      if (runs.until <= w.now) ended.push_back(id);
    }
    for (const std::string& id : ended) {
      w.planner.Ended(w.Find(id), w.now);
      running.erase(id);
    }
    if (w.planner.pending() < 4) w.Submit(w.Make("job-" + std::to_string(submitted++), Devices(2)));
    // A device takes a minute to draw what it will, and counts as declared until then.
    std::vector<double> drawn(4, 8 * 70.0);
    std::vector<double> counted(4, 8 * 70.0);
    for (const auto& [id, runs] : running) {
      const bool settled = w.now - runs.since >= std::chrono::minutes(1);
      const NodeId node = w.NodesOf(id).front();
      drawn[node] += 2 * ((settled ? runs.watts : 70) - 70);
      counted[node] += 2 * ((settled ? runs.watts : 700) - 70);
      out.busy_device_hours += 2.0 * kStep / 3600;
    }
    double all = 0;
    for (NodeId node = 0; node < 4; ++node) {
      all += drawn[node];
      if (measured) w.planner.UpdateDrawn(node, counted[node]);
    }
    out.most_watts = std::max(out.most_watts, all);
    w.Run();
    for (const Action& action : w.plan.actions) {
      if (action.kind != ActionKind::kStart) continue;
      running[action.job] = {.watts = 350 + draws.Double() * 150,
                             .since = w.now,
                             .until = w.now + std::chrono::minutes(10 + draws.Uniform(50))};
    }
  }
  EXPECT_LE(out.most_watts, kBudget);
  EXPECT_EQ(w.planner.state().Check(), "");
  return out;
}

TEST(PlannerPower, ARackStaysBelowItsBudgetAndWorksMoreByTheMeasuredDraw) {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    const RackRun declared = RunRack(false, seed);
    const RackRun measured = RunRack(true, seed);
    RecordProperty("declared_device_hours", std::to_string(declared.busy_device_hours));
    RecordProperty("measured_device_hours", std::to_string(measured.busy_device_hours));
    RecordProperty("most_watts", std::to_string(measured.most_watts));
    EXPECT_GT(measured.busy_device_hours, 1.2 * declared.busy_device_hours);
  }
}

}  // namespace
}  // namespace scheduler
