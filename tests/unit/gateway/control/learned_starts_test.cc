#include "gateway/control/learned/learned_starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/control/weights/prefetches.h"

namespace gateway::control {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

conf::TimePoint StartAt(int s) {
  return conf::TimePoint(seconds(1'000'000 + s));
}

StartPhases Took(int fetched, int process, int loaded = 0, uint64_t transferred = 0) {
  StartPhases out;
  out[StartPhase::kFetched] = seconds(fetched);
  out[StartPhase::kProcess] = seconds(process);
  out[StartPhase::kLoaded] = seconds(loaded);
  out.transferred = transferred;
  return out;
}

TEST(StartPhases, FillTheTimeFromTheLaunchToTheFirstToken) {
  const StartPhases phases =
      PhasesOf(seconds(3), StartAt(0), StartAt(60), StartAt(100), seconds(10), seconds(20), seconds(2));
  EXPECT_EQ(phases[StartPhase::kPlaced], seconds(3));
  EXPECT_EQ(phases[StartPhase::kFetched], seconds(60));
  EXPECT_EQ(phases[StartPhase::kProcess], seconds(8));
  EXPECT_EQ(phases[StartPhase::kLoaded], seconds(10));
  EXPECT_EQ(phases[StartPhase::kCompiled], seconds(20));
  EXPECT_EQ(phases[StartPhase::kFirstToken], seconds(2));
  EXPECT_EQ(phases.start(), seconds(40));
}

TEST(StartPhases, AreNeverMoreThanThereWasTimeFor) {
  const StartPhases phases =
      PhasesOf(seconds(0), StartAt(0), StartAt(-5), StartAt(10), seconds(100), seconds(100), seconds(1));
  EXPECT_EQ(phases[StartPhase::kFetched], seconds(0));
  EXPECT_EQ(phases[StartPhase::kLoaded], seconds(9));
  EXPECT_EQ(phases[StartPhase::kCompiled], seconds(0));
  EXPECT_EQ(phases[StartPhase::kProcess], seconds(0));
}

TEST(LearnedStarts, ANodeCountsByItsOwnStartsOnceThereAreSome) {
  LearnedStarts starts;
  EXPECT_FALSE(starts.Knows("chat"));
  for (int i = 0; i < 3; ++i) starts.Add("chat", "slow", "h100", Took(0, 90));
  for (int i = 0; i < 3; ++i) starts.Add("chat", "fast", "h100", Took(0, 30));
  starts.Add("chat", "young", "h100", Took(0, 10));
  EXPECT_TRUE(starts.Knows("chat"));
  EXPECT_FALSE(starts.Knows("cha"));
  const auto lead = [&](const std::string& node) {
    const StartPlace place{.node = node, .kind = "h100", .free = true};
    return starts.Lead("chat", std::span(&place, 1), 0.9);
  };
  EXPECT_EQ(lead("slow"), seconds(90));
  EXPECT_EQ(lead("fast"), seconds(30));
  EXPECT_EQ(lead("young"), seconds(90));  // by its kind
  EXPECT_EQ(lead("unknown"), seconds(90));
}

TEST(LearnedStarts, AFetchCountsWhereNoFreeNodeHoldsTheWeights) {
  LearnedStarts starts;
  for (int i = 0; i < 3; ++i) starts.Add("chat", "a", "h100", Took(300, 40, 0, 1 << 30));
  const std::vector<StartPlace> both = {{.node = "a", .kind = "h100", .holds_weights = true, .free = true},
                                        {.node = "b", .kind = "h100", .holds_weights = false, .free = true}};
  EXPECT_EQ(starts.Lead("chat", both, 0.9), seconds(40));  // the planner prefers a
  std::vector<StartPlace> full = both;
  full[0].free = false;
  EXPECT_EQ(starts.Lead("chat", full, 0.9), seconds(340));
  EXPECT_EQ(starts.Lead("other", full, 0.9), seconds(0));
  EXPECT_EQ(starts.transferred(), uint64_t{3} << 30);
}

TEST(LearnedStarts, RowsAreByModelAndKind) {
  LearnedStarts starts;
  starts.Add("chat", "a", "h100", Took(0, 10, 5));
  starts.Add("chat", "b", "h100", Took(0, 20, 5));
  starts.Add("chat", "c", "a100", Took(0, 30, 5));
  const auto rows = starts.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].kind, "a100");
  EXPECT_EQ(rows[1].starts, 2U);
  EXPECT_EQ(rows[1].p90[static_cast<size_t>(StartPhase::kProcess)], seconds(20));
}

TEST(Prefetches, ChooseNodesWithFreeDevicesFirst) {
  const std::vector<StartPlace> places = {{.node = "full", .holds_weights = false, .free = false},
                                          {.node = "holds", .holds_weights = true, .free = true},
                                          {.node = "free", .holds_weights = false, .free = true}};
  EXPECT_THAT(ChoosePrefetchNodes(places, 2, 1), ElementsAre("free"));
  EXPECT_THAT(ChoosePrefetchNodes(places, 9, 1), ElementsAre("free", "full"));
  EXPECT_THAT(ChoosePrefetchNodes(places, 1, 1), ElementsAre());
}

TEST(Prefetches, RunsHaveNamesThatEveryLauncherTakes) {
  const std::string id = PrefetchRunId("Org/Model_Name that is longer than any name should be, by far", 255);
  EXPECT_TRUE(IsPrefetchRun(id));
  EXPECT_LE(id.size(), 63U);
  EXPECT_EQ(PrefetchRunId("chat.small", 255), "w-chat-small-ff");
  EXPECT_FALSE(IsPrefetchRun("r-chat-1"));
}

}  // namespace
}  // namespace gateway::control
