// Preemption over many random worlds: what must hold whatever is asked, and what it costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "scheduler/cycle/victim_search.h"
#include "tests/support/sanitized.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/cycle/preempt_world.h"

namespace scheduler {
namespace {

using testing::PreemptWorld;

Job RandomJob(Rng& rng, const std::string& queue) {
  const auto members = static_cast<uint32_t>(1 + (rng.Uniform(4) == 0 ? rng.Uniform(4) : 0));
  const auto devices = static_cast<uint16_t>(1 << rng.Uniform(4));
  Job job = PreemptWorld::Asks(queue, members, devices, static_cast<int32_t>(rng.Uniform(3)));
  if (rng.Uniform(4) == 0)
    job.roles[0].ask = testing::Share(static_cast<uint16_t>(100 + 100 * rng.Uniform(9)));
  if (rng.Uniform(3) == 0) job.roles[0].min_count = 1;
  job.user = rng.Uniform(2) == 0 ? "ann" : "bob";
  job.preemptible = rng.Uniform(8) != 0;
  job.work = rng.Uniform(5) == 0 ? WorkClass::kInference : WorkClass::kTraining;
  job.checkpoint.restart = std::chrono::seconds(rng.Uniform(300));
  return job;
}

std::vector<Queue> RandomQueues(Rng& rng, int64_t capacity) {
  std::vector<Queue> queues;
  const auto some = [&](int64_t below) {
    return static_cast<int64_t>(rng.Uniform(static_cast<uint64_t>(below / 1000 + 1))) * 1000;
  };
  for (const char* name : {"x", "y"}) {
    Queue& queue = queues.emplace_back(Queue{.name = name, .parent = ""});
    queue.deserved["*"] = some(capacity / 2);
    if (rng.Uniform(3) == 0) queue.limit["*"] = queue.deserved["*"] + some(capacity);
  }
  for (const char* name : {"x1", "x2", "y1"}) {
    Queue& queue = queues.emplace_back(Queue{.name = name, .parent = std::string(1, name[0])});
    queue.deserved["*"] = some(queues[name[0] == 'x' ? 0 : 1].deserved["*"] / 2);
    if (rng.Uniform(4) == 0) queue.limit["*"] = queue.deserved["*"] + some(capacity / 2);
    if (rng.Uniform(4) == 0) queue.user_limit["*"] = 1000 + some(capacity / 2);
    if (rng.Uniform(4) == 0) queue.lends = DeviceQuota{{"*", some(queue.deserved["*"])}};
    queue.borrows = rng.Uniform(5) != 0;
  }
  return queues;
}

// Each world freezes now and then: without arrivals and ends, preemption must come to rest.
TEST(Preempt, OverRandomWorldsLimitsHoldNothingIsStoppedWithoutCauseAndReclaimComesToRest) {
  constexpr int kWorlds = tests::kSanitized ? 100 : 400;
  constexpr int kOften = tests::kSanitized ? 75 : 500;
  constexpr int kSteps = 260;
  int reclaims = 0;
  int preemptions = 0;
  for (int w = 0; w < kWorlds; ++w) {
    Rng rng(static_cast<uint64_t>(w) + 1);
    const int nodes = 1 + static_cast<int>(rng.Uniform(5));
    PreemptionPolicy policy;
    policy.victims = static_cast<VictimOrder>(rng.Uniform(3));
    PreemptWorld world(testing::EightWay(nodes, 2), RandomQueues(rng, nodes * 8'000), policy, rng.Next());
    const auto check = [&] {
      ASSERT_EQ(world.tree_.Check(), "");
      for (QueueIndex q = 0; q < world.tree_.size(); ++q) {
        const Queue& queue = world.queues_[q];
        const int64_t held = world.tree_.allocated(q, kAnyKind);
        if (queue.limit.contains("*")) {
          ASSERT_LE(held, queue.limit.at("*"));
        }
        if (!queue.borrows) {
          ASSERT_LE(held, queue.deserved.at("*"));
        }
      }
    };
    const auto cycle = [&](std::set<std::pair<uint32_t, uint32_t>>& took) {
      int stopped = 0;
      for (const JobIndex job : world.Line()) {
        if (world.jobs_[job].phase != Phase::kPending || world.Start(job)) continue;
        for (const PreemptMode mode : {PreemptMode::kReclaim, PreemptMode::kPriority}) {
          std::vector<int64_t> before;
          for (QueueIndex q = 0; q < world.tree_.size(); ++q)
            before.push_back(world.tree_.allocated(q, kAnyKind));
          const std::vector<Victim> victims = world.PreemptWithCause(job, mode);
          stopped += static_cast<int>(victims.size());
          for (const Victim& victim : victims) {
            const auto [ours, theirs] =
                world.tree_.Apart(world.jobs_[job].queue, world.jobs_[victim.job].queue);
            if (ours == theirs) {
              EXPECT_GT(world.jobs_[job].job.priority, world.jobs_[victim.job].job.priority);
              continue;
            }
            const Standing a = world.tree_.standing(ours, kAnyKind);
            const Standing b = world.tree_.standing(theirs, kAnyKind);
            EXPECT_GT(before[theirs], b.deserved);
            if (mode == PreemptMode::kPriority) {
              EXPECT_GE(b.allocated, b.deserved);
              EXPECT_GT(world.jobs_[job].job.priority, world.jobs_[victim.job].job.priority);
            } else {
              EXPECT_LE(a.allocated, a.deserved);
              EXPECT_GE(b.allocated * a.deserved, a.allocated * b.deserved);
              took.emplace(ours, theirs);
              EXPECT_FALSE(took.contains({theirs, ours})) << "two queues take from each other in turns";
            }
          }
          (mode == PreemptMode::kReclaim ? reclaims : preemptions) += static_cast<int>(!victims.empty());
          if (!victims.empty()) break;
        }
      }
      return stopped;
    };
    for (int step = 0; step < kSteps; ++step) {
      world.Advance(static_cast<int64_t>(rng.Uniform(200)));
      const uint64_t what = rng.Uniform(10);
      if (what < 6 && world.jobs_.size() < 24) {
        static const char* const kLeaves[] = {"x1", "x2", "y1"};
        world.Submit(RandomJob(rng, kLeaves[rng.Uniform(3)]));
      } else if (const std::vector<JobIndex> running = world.In(Phase::kRunning); !running.empty()) {
        world.End(running[rng.Uniform(running.size())]);
      }
      std::set<std::pair<uint32_t, uint32_t>> took;
      if (step % 20 != 19) {
        cycle(took);
      } else {
        int rounds = 0;
        while (cycle(took) > 0) ASSERT_LT(++rounds, 60) << "preemption does not come to rest";
      }
      check();
      if (::testing::Test::HasFailure()) FAIL() << "world " << w << ", step " << step;
    }
    ASSERT_EQ(world.state_.Check(), "");
  }
  EXPECT_GT(reclaims, kOften);
  EXPECT_GT(preemptions, kOften);
}

TEST(Reclaim, WhenAllAskEachQueueHasItsDeservedFromTheFirstCycleOn) {
  const std::vector<Queue> queues = {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}},
                                     {.name = "b", .parent = "", .deserved = {{"*", 16'000}}},
                                     {.name = "c", .parent = "", .deserved = {{"*", 24'000}}},
                                     {.name = "d", .parent = "", .deserved = {{"*", 16'000}}}};
  PreemptWorld world(testing::EightWay(8), queues);
  Rng rng(9);
  while (world.Start(world.Submit(PreemptWorld::Asks("a", 1, 1)))) {
  }
  const auto waits = [&](const std::string& queue) {
    return std::ranges::count(world.In(Phase::kPending), queue,
                              [&](JobIndex j) { return world.jobs_[j].job.queue; });
  };
  for (int minute = 0; minute < 120; ++minute) {
    for (const Queue& queue : queues) {
      while (waits(queue.name) < 30) {
        world.Submit(PreemptWorld::Asks(queue.name, 1, 1));
      }
    }
    for (const JobIndex job : world.Line()) {
      if (world.jobs_[job].phase == Phase::kPending && !world.Start(job))
        world.Preempt(job, PreemptMode::kReclaim);
    }
    for (const Queue& queue : queues) {
      EXPECT_EQ(world.Held(queue.name), queue.deserved.at("*")) << queue.name << ", minute " << minute;
    }
    for (const JobIndex job : world.In(Phase::kRunning)) {
      if (rng.Uniform(20) == 0) world.End(job);
    }
    world.Advance(60);
  }
}

double LostWith(VictimOrder order) {
  PreemptWorld world(testing::EightWay(16),
                     {{.name = "steady", .parent = "", .deserved = {{"*", 64'000}}},
                      {.name = "bursts", .parent = "", .deserved = {{"*", 64'000}}}},
                     {.victims = order}, 5);
  Rng rng(17);
  for (int minute = 0; minute < 600; ++minute) {
    while (world.In(Phase::kPending).size() < 4) {
      Job job = PreemptWorld::Asks("steady", 1, static_cast<uint16_t>(1 << rng.Uniform(4)));
      job.checkpoint = {.interval = std::chrono::minutes(10 + rng.Uniform(110)),
                        .save = {},
                        .restart = std::chrono::seconds(30 + rng.Uniform(270))};
      world.Submit(job);
    }
    for (const JobIndex job : world.Line()) world.Start(job);
    for (const JobIndex job : world.In(Phase::kRunning)) {
      JobEntry& entry = world.jobs_[job];
      if (world.now_ - entry.checkpointed >= entry.job.checkpoint.interval) entry.checkpointed = world.now_;
      if (rng.Uniform(entry.job.queue == "bursts" ? 10 : 240) == 0) world.End(job);
    }
    if (minute % 5 == 0) {
      const JobIndex job =
          world.Submit(PreemptWorld::Asks("bursts", 1, static_cast<uint16_t>(1 << rng.Uniform(4))));
      if (!world.Start(job) && world.Preempt(job, PreemptMode::kReclaim).empty()) world.End(job);
    }
    world.Advance(60);
  }
  return world.lost_;
}

TEST(Preempt, LeastCostVictimsLoseAtLeastAQuarterLessThanRandomOnes) {
  const double least = LostWith(VictimOrder::kLeastCost);
  const double random = LostWith(VictimOrder::kRandom);
  RecordProperty("least_gpu_hours", static_cast<int>(least / 3600));
  RecordProperty("random_gpu_hours", static_cast<int>(random / 3600));
  EXPECT_GT(least, 0);
  EXPECT_LT(least, 0.76 * random);
}

}  // namespace
}  // namespace scheduler
