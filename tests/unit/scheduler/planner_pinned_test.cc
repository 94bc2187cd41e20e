// Jobs that can start on their own devices alone: replicas that slept there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/io/explanation_text.h"
#include "scheduler/io/snapshot_json.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/planner_world.h"

namespace scheduler {
namespace {

using namespace testing;
using World = PlannerWorld;
using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// On devices of a node, given by their bits.
Job Pinned(World& w, const std::string& id, NodeId node, uint32_t devices) {
  Job job = w.Make(id, Devices(static_cast<uint16_t>(std::popcount(devices))));
  job.work = WorkClass::kInference;
  job.preemptible = false;
  const Ask& ask = job.roles.front().ask;
  job.pinned = {{.role = 0,
                 .rank = 0,
                 .holding = {.node = node,
                             .devices = devices,
                             .milli = kWholeDevice,
                             .cpu_milli = ask.cpu_milli,
                             .memory_mib = ask.memory_mib}}};
  return job;
}

uint32_t DevicesOf(const World& w, const std::string& id) {
  uint32_t devices = 0;
  for (const MemberId member : w.planner.state().of(w.Find(id)))
    devices |= w.planner.state().member(member).holding.devices;
  return devices;
}

TEST(PinnedJob, StartsOnItsOwnDevicesThoughOthersWouldFitBetter) {
  World w(EightWay(2));
  w.Submit(Pinned(w, "a", 1, 0b0110'0000));
  EXPECT_THAT(w.Run(), ElementsAre("start a"));
  EXPECT_THAT(w.NodesOf("a"), ElementsAre(1u));
  EXPECT_EQ(DevicesOf(w, "a"), 0b0110'0000u);
}

TEST(PinnedJob, WaitsForItsDevicesAndKeepsNobodyElseOff) {
  World w(EightWay(1));
  Job holder = w.Make("holder", Devices(4));
  holder.preemptible = false;
  w.Submit(holder);
  w.Run();
  const uint32_t held = DevicesOf(w, "holder");
  w.Submit(Pinned(w, "sleeper", 0, held));
  w.Submit(w.Make("other", Devices(4)));
  EXPECT_THAT(w.Run(), ElementsAre("start other")) << "no reservation is made for it";
  EXPECT_EQ(w.WhyWaits("sleeper"), "pinned");
  const Explanation why = w.planner.Explain(w.Find("sleeper"), w.now);
  EXPECT_EQ(why.cause, WaitCause::kPinned);
  EXPECT_THAT(io::InWords(why).front(),
              HasSubstr("waits for its own devices on node-0000: holder holds them"));
  w.planner.Ended(w.Find("holder"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start sleeper"));
  EXPECT_EQ(DevicesOf(w, "sleeper"), held);
}

TEST(PinnedJob, PreemptsWhatHoldsItsDevicesAndNothingElse) {
  World w(EightWay(1));
  for (const char* const id : {"a", "b", "c", "d"}) w.Submit(w.Make(id, Devices(2)));
  w.Run();
  Job sleeper = Pinned(w, "sleeper", 0, DevicesOf(w, "c"));
  sleeper.priority = 10;
  w.Submit(sleeper);
  EXPECT_THAT(w.Run(), ElementsAre("preempt c"));
  EXPECT_THAT(w.plan.actions[0].why.text, HasSubstr("makes room for sleeper"));
  w.Submit(w.Make("e", Devices(2)));
  EXPECT_THAT(w.Run(), IsEmpty()) << "the devices that come free are kept for it";
  w.planner.Stopped(w.Find("c"), w.now);
  EXPECT_THAT(w.Run(), ElementsAre("start sleeper"));
}

TEST(PinnedJob, DoesNotPreemptWhereOneOfTheHoldersMayNotBeStopped) {
  World w(EightWay(1));
  w.Submit(w.Make("a", Devices(4)));
  Job firm = w.Make("b", Devices(4));
  firm.preemptible = false;
  w.Submit(firm);
  w.Run();
  Job sleeper = Pinned(w, "sleeper", 0, 0xff);
  sleeper.priority = 10;
  w.Submit(sleeper);
  EXPECT_THAT(w.Run(), IsEmpty());
}

TEST(PinnedJob, WaitsWhileItsNodeOrADeviceTakesNoWork) {
  World w(EightWay(1));
  w.planner.DeviceFault(0, 3, w.now);
  w.Submit(Pinned(w, "sleeper", 0, 0b1000));
  EXPECT_THAT(w.Run(), IsEmpty());
  EXPECT_THAT(io::InWords(w.planner.Explain(w.Find("sleeper"), w.now)).front(),
              HasSubstr("the node takes no work now"));
}

TEST(PinnedJob, ASnapshotKeepsThePlacesAndReplaysTheDecision) {
  World w(EightWay(2));
  w.Submit(Pinned(w, "sleeper", 1, 0b11));
  const std::string text = io::WriteSnapshot(w.planner.TakeSnapshot(w.now));
  const auto read = io::ReadSnapshot(text, "s.json");
  ASSERT_TRUE(read.value) << read.problems.size();
  Rng rng{1};
  Plan plan = MakePlan(*read.value, {}, w.now, rng);
  w.Run();
  EXPECT_EQ(plan.actions, w.plan.actions);
  ASSERT_EQ(plan.actions.size(), 1u);
  EXPECT_EQ(plan.actions[0].members[0].holding.devices, 0b11u);
}

}  // namespace
}  // namespace scheduler
