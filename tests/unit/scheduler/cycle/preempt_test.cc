#include "scheduler/cycle/preempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "scheduler/placement/gang.h"
#include "scheduler/queues/order.h"
#include "tests/support/sanitized.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

conf::TimePoint At(int64_t seconds) {
  return conf::TimePoint(std::chrono::seconds(seconds));
}

// Jobs that start at once where there is room, and preempt where there is not; who is stopped waits again.
class World {
 public:
  World(Cluster cluster, std::vector<Queue> queues, PreemptionPolicy policy = {}, uint64_t seed = 1)
      : cluster_(std::move(cluster)),
        queues_(std::move(queues)),
        policy_(policy),
        state_(cluster_),
        shapes_(cluster_),
        jobs_(shapes_),
        tree_(cluster_, queues_, std::chrono::hours(1)),
        placer_(state_, shapes_, *FindPlacementPolicy("binpack")),
        gangs_(state_, shapes_),
        rng_(seed) {
    EXPECT_EQ(FirstDefect(queues_, cluster_), "");
  }

  static Job Asks(const std::string& queue, uint32_t members, uint16_t devices, int32_t priority = 0) {
    Job job{.id = "", .queue = queue, .user = "u"};
    job.priority = priority;
    job.roles = {{.name = "w", .ask = testing::Devices(devices), .count = members, .min_count = members}};
    return job;
  }

  JobIndex Submit(Job job) {
    job.id = fmt::format("job-{}", submitted_++);
    job.submitted = now_;
    const QueueIndex queue = tree_.Find(job.queue);
    const JobIndex index = jobs_.Add(std::move(job), queue);
    tree_.Request(AccountOf(index), DemandOf(jobs_[index], shapes_, Extent::kWanted));
    return index;
  }

  // An elastic gang may get more than its minimum: then that is what its quota must allow.
  bool Fits(Trial& trial, JobIndex job) {
    Rng fixed(7);
    const Trial::Mark before = trial.mark();
    if (gangs_.Place(trial, placer_, job, jobs_[job], nullptr, fixed).placed.empty()) return false;
    Amount held{0, 0};
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      held.milli += AmountOf(h, state_.view_of(h.node)).milli;
    }
    if (tree_.Admit(AccountOf(job), std::span(&held, 1)).admitted()) return true;
    trial.Rollback(before);
    return false;
  }

  bool Start(JobIndex job) {
    if (!tree_.Admit(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kMinimum)).admitted())
      return false;
    Trial trial(state_);
    if (!Fits(trial, job)) return false;
    Started(trial, job);
    return true;
  }

  std::vector<Victim> Preempt(JobIndex job, PreemptMode mode) {
    Trial trial(state_);
    const auto fits = [&](Trial& t) { return Fits(t, job); };
    std::vector<Victim> victims =
        FindVictims({trial, jobs_, shapes_, tree_, policy_, now_}, job, mode, fits, rng_);
    if (victims.empty()) {
      EXPECT_EQ(trial.mark(), 0u);
      return {};
    }
    for (const Victim& victim : victims) {
      EXPECT_EQ(victim.whole, state_.of(victim.job).empty());
      if (victim.whole) jobs_[victim.job].phase = Phase::kPending;
      lost_ += victim.cost;
    }
    Started(trial, job);
    return victims;
  }

  // With the job and its victims as they were, whether it fits while `but` of the victims stay.
  bool FitsWithout(const std::vector<Victim>& victims, size_t but, JobIndex job, const Member* member) {
    Trial trial(state_);
    std::vector<std::pair<AccountId, Amount>> refunded;
    for (size_t v = 0; v < victims.size(); ++v) {
      if (v == but && victims[v].whole) continue;
      for (const MemberAt& m : victims[v].members) {
        if (v == but && member->role == m.role && member->rank == m.rank) continue;
        for (const MemberId id : state_.of(victims[v].job)) {
          if (state_.member(id).role != m.role || state_.member(id).rank != m.rank) continue;
          refunded.emplace_back(AccountOf(victims[v].job),
                                AmountOf(m.holding, state_.view_of(m.holding.node)));
          trial.Evict(id);
          break;
        }
      }
    }
    for (const auto& [account, amount] : refunded) tree_.Refund(account, amount);
    const bool fits =
        tree_.Admit(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kMinimum)).admitted() &&
        Fits(trial, job);
    for (const auto& [account, amount] : refunded) tree_.Charge(account, amount);
    return fits;
  }

  // Preempts, but first checks on a copy of the situation that every victim is needed.
  std::vector<Victim> PreemptWithCause(JobIndex job, PreemptMode mode) {
    std::vector<Victim> victims;
    Rng again = rng_;
    {
      Trial trial(state_);
      const auto fits = [&](Trial& t) { return Fits(t, job); };
      victims = FindVictims({trial, jobs_, shapes_, tree_, policy_, now_}, job, mode, fits, again);
      for (const Victim& victim : victims) Recharge(victim, 1);
    }
    for (size_t v = 0; v < victims.size(); ++v) {
      if (victims[v].whole) {
        EXPECT_FALSE(FitsWithout(victims, v, job, nullptr)) << "a victim was not needed";
        continue;
      }
      for (const MemberAt& m : victims[v].members) {
        const Member member{victims[v].job, m.role, m.rank, m.holding};
        EXPECT_FALSE(FitsWithout(victims, v, job, &member)) << "a member shrank without need";
      }
    }
    return Preempt(job, mode);
  }

  void End(JobIndex job) {
    Trial trial(state_);
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      tree_.Refund(AccountOf(job), AmountOf(h, state_.view_of(h.node)));
    }
    trial.EvictJob(job);
    trial.Commit();
    tree_.Withdraw(AccountOf(job), DemandOf(jobs_[job], shapes_, Extent::kWanted));
    jobs_.Erase(job);
  }

  void Advance(int64_t seconds) {
    now_ += std::chrono::seconds(seconds);
    tree_.AdvanceTo(now_);
  }

  std::vector<JobIndex> In(Phase phase) {
    std::vector<JobIndex> found;
    for (JobIndex j = 0; j < jobs_.bound(); ++j) {
      if (jobs_[j].alive && jobs_[j].phase == phase) found.push_back(j);
    }
    std::ranges::sort(found, {}, [&](JobIndex j) { return jobs_[j].sequence; });
    return found;
  }

  // Those that wait, as the default policy has it.
  std::vector<JobIndex> Line() {
    tree_.ComputeShares();
    const Order order(Policy().order);
    std::vector<std::pair<Rank, JobIndex>> line;
    for (const JobIndex j : In(Phase::kPending)) {
      line.emplace_back(order.RankOf(jobs_[j], tree_, AccountOf(j), RankedBy(jobs_[j], shapes_)), j);
    }
    std::ranges::sort(line, [](const auto& a, const auto& b) { return a.first.Before(b.first); });
    std::vector<JobIndex> jobs;
    for (const auto& [rank, job] : line) jobs.push_back(job);
    return jobs;
  }

  int64_t Held(const std::string& queue) const { return tree_.allocated(tree_.Find(queue), kAnyKind); }
  AccountId AccountOf(JobIndex job) { return tree_.Account(jobs_[job].queue, jobs_[job].job.user); }

  void Recharge(const Victim& victim, int sign) {
    for (const MemberAt& m : victim.members) {
      const Amount amount = AmountOf(m.holding, state_.view_of(m.holding.node));
      tree_.Charge(AccountOf(victim.job), {amount.kind, sign * amount.milli});
    }
  }

  Cluster cluster_;
  std::vector<Queue> queues_;
  PreemptionPolicy policy_;
  ClusterState state_;
  ShapeTable shapes_;
  JobTable jobs_;
  QueueTree tree_;
  Placer placer_;
  GangPlacer gangs_;
  Rng rng_;
  conf::TimePoint now_ = At(1'000'000);
  double lost_ = 0;

 private:
  void Started(Trial& trial, JobIndex job) {
    for (const MemberId id : state_.of(job)) {
      const Holding& h = state_.member(id).holding;
      tree_.Charge(AccountOf(job), AmountOf(h, state_.view_of(h.node)));
    }
    trial.Commit();
    jobs_[job].phase = Phase::kRunning;
    jobs_[job].started = jobs_[job].checkpointed = now_;
  }

  int submitted_ = 0;
};

std::vector<JobIndex> JobsOf(const std::vector<Victim>& victims) {
  std::vector<JobIndex> jobs;
  for (const Victim& victim : victims) jobs.push_back(victim.job);
  return jobs;
}

const std::vector<Queue> kTwoHalves = {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}},
                                       {.name = "b", .parent = "", .deserved = {{"*", 8'000}}}};

TEST(Preempt, StopsTheLeastCostlyOfLowerPriority) {
  World world(testing::EightWay(2), {});
  const JobIndex old = world.Submit(World::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(old));
  world.Advance(1000);
  const JobIndex young = world.Submit(World::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(young));
  world.Advance(10);
  const JobIndex peer = world.Submit(World::Asks("", 1, 8, 0));
  EXPECT_TRUE(world.PreemptWithCause(peer, PreemptMode::kPriority).empty());
  const JobIndex urgent = world.Submit(World::Asks("", 1, 4, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(urgent, PreemptMode::kPriority);
  ASSERT_THAT(JobsOf(victims), ElementsAre(young));
  EXPECT_EQ(victims[0].cost, 80);
  EXPECT_EQ(victims[0].why.code, "preempted-for");
  EXPECT_THAT(victims[0].why.text,
              HasSubstr("\"job-3\" of priority 5 needs the room, this has 0; 80 GPU-seconds"));
}

TEST(Preempt, OneLargeVictimIsTakenWhereManySmallCostMore) {
  World world(testing::EightWay(1), {});
  const JobIndex large = world.Submit(World::Asks("", 1, 4));
  ASSERT_TRUE(world.Start(large));
  for (int i = 0; i < 4; ++i) {
    Job job = World::Asks("", 1, 1);
    job.checkpoint.restart = std::chrono::seconds(100);
    ASSERT_TRUE(world.Start(world.Submit(job)));
  }
  world.Advance(10);
  const JobIndex urgent = world.Submit(World::Asks("", 1, 4, 5));
  EXPECT_THAT(JobsOf(world.PreemptWithCause(urgent, PreemptMode::kPriority)), ElementsAre(large));
}

TEST(Preempt, AJobThatMayNotBeStoppedStays) {
  World world(testing::EightWay(1), {});
  Job job = World::Asks("", 1, 8);
  job.preemptible = false;
  ASSERT_TRUE(world.Start(world.Submit(job)));
  const JobIndex urgent = world.Submit(World::Asks("", 1, 4, 5));
  EXPECT_TRUE(world.PreemptWithCause(urgent, PreemptMode::kPriority).empty());
}

TEST(Preempt, NeverStopsWorkOfAKindThatItMustSpare) {
  World world(testing::EightWay(2), {});
  Job batch = World::Asks("", 1, 8);
  batch.work = WorkClass::kBatch;
  ASSERT_TRUE(world.Start(world.Submit(batch)));
  const JobIndex training = world.Submit(World::Asks("", 1, 8));
  ASSERT_TRUE(world.Start(training));
  world.Advance(1000);
  Job urgent = World::Asks("", 1, 8, 5);
  urgent.never_preempts = {WorkClass::kBatch, WorkClass::kTraining};
  for (const PreemptMode mode : {PreemptMode::kPriority, PreemptMode::kReclaim})
    EXPECT_TRUE(world.PreemptWithCause(world.Submit(urgent), mode).empty());
  urgent.never_preempts = {WorkClass::kBatch};
  EXPECT_THAT(JobsOf(world.PreemptWithCause(world.Submit(urgent), PreemptMode::kPriority)),
              ElementsAre(training));
}

TEST(Preempt, MakesRoomInItsQueuesLimit) {
  World world(testing::EightWay(4), {{.name = "q", .parent = "", .limit = {{"*", 8'000}}}});
  ASSERT_TRUE(world.Start(world.Submit(World::Asks("q", 1, 8))));
  const JobIndex urgent = world.Submit(World::Asks("q", 1, 4, 5));
  EXPECT_EQ(world.PreemptWithCause(urgent, PreemptMode::kPriority).size(), 1u);
  EXPECT_EQ(world.Held("q"), 4'000);
}

TEST(Preempt, AnElasticGangShrinksBeforeWholeJobsStop) {
  World world(testing::EightWay(2), {});
  Job elastic = World::Asks("", 4, 4);
  elastic.roles[0].min_count = 2;
  const JobIndex gang = world.Submit(elastic);
  ASSERT_TRUE(world.Start(gang));
  world.Advance(100);
  const JobIndex urgent = world.Submit(World::Asks("", 1, 4, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(urgent, PreemptMode::kPriority);
  ASSERT_THAT(JobsOf(victims), ElementsAre(gang));
  EXPECT_FALSE(victims[0].whole);
  EXPECT_EQ(victims[0].members.size(), 1u);
  EXPECT_EQ(world.state_.of(gang).size(), 3u);
  const JobIndex second = world.Submit(World::Asks("", 2, 4, 5));
  EXPECT_TRUE(world.PreemptWithCause(second, PreemptMode::kPriority)[0].whole)
      << "one may still leave, two are needed";
}

TEST(Preempt, AGangTakesWholeNodesWhoseVictimsCostLeast) {
  World world(testing::EightWay(4), {});
  std::vector<JobIndex> jobs;
  for (int i = 0; i < 32; ++i) {
    const JobIndex job = world.Submit(World::Asks("", 1, 1));
    ASSERT_TRUE(world.Start(job));
    jobs.push_back(job);
  }
  world.Advance(1000);
  const auto node_of = [&](JobIndex j) { return world.state_.member(world.state_.of(j)[0]).holding.node; };
  for (const JobIndex job : jobs) {  // on every node half cost much, but for nodes 1 and 2
    const bool cheap = node_of(job) == 1 || node_of(job) == 2;
    if (cheap || job % 2 == 0) world.jobs_[job].checkpointed = At(1'000'990);
  }
  const JobIndex gang = world.Submit(World::Asks("", 2, 8, 5));
  const std::vector<Victim> victims = world.PreemptWithCause(gang, PreemptMode::kPriority);
  EXPECT_EQ(victims.size(), 16u);
  for (const Victim& victim : victims) {
    EXPECT_THAT(victim.members[0].holding.node, ::testing::AnyOf(1u, 2u));
  }
}

TEST(Preempt, NeverStopsMoreJobsThanThePolicyAllows) {
  World world(testing::EightWay(1), {}, {.max_victims = 3});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(world.Start(world.Submit(World::Asks("", 1, 1))));
  EXPECT_TRUE(world.Preempt(world.Submit(World::Asks("", 1, 4, 5)), PreemptMode::kPriority).empty());
  EXPECT_EQ(world.Preempt(world.Submit(World::Asks("", 1, 3, 5)), PreemptMode::kPriority).size(), 3u);
}

TEST(Preempt, ARequiredDomainIsClearedInOnePlace) {
  World world(testing::EightWay(8, 2), {});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(world.Start(world.Submit(World::Asks("", 1, 8))));
  world.Advance(100);
  Job gang = World::Asks("", 2, 8, 5);
  gang.topology = {.level = "leaf", .required = true};
  const JobIndex job = world.Submit(gang);
  const std::vector<Victim> victims = world.Preempt(job, PreemptMode::kPriority);
  ASSERT_EQ(victims.size(), 2u);
  const auto leaf = [&](const Victim& v) { return world.cluster_.nodes[v.members[0].holding.node].domain; };
  EXPECT_EQ(leaf(victims[0]), leaf(victims[1]));
}

TEST(Reclaim, TakesWhatOthersRunOverTheirDeserved) {
  World world(testing::EightWay(2), kTwoHalves);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.Start(world.Submit(World::Asks("b", 1, 4))));
  const JobIndex job = world.Submit(World::Asks("a", 1, 8));
  const std::vector<Victim> victims = world.PreemptWithCause(job, PreemptMode::kReclaim);
  EXPECT_EQ(victims.size(), 2u);
  EXPECT_EQ(victims[0].why.code, "reclaimed");
  EXPECT_EQ(world.Held("a"), 8'000);
  EXPECT_EQ(world.Held("b"), 8'000);
  EXPECT_TRUE(world.PreemptWithCause(victims[0].job, PreemptMode::kReclaim).empty())
      << "b has what it deserves";
  EXPECT_TRUE(world.PreemptWithCause(world.Submit(World::Asks("a", 1, 1)), PreemptMode::kReclaim).empty())
      << "a would be over";
}

TEST(Reclaim, LeavesTheOtherNoWorseOff) {
  World world(testing::EightWay(2), kTwoHalves);
  ASSERT_TRUE(world.Start(world.Submit(World::Asks("b", 2, 8))));  // one gang of 16: all or nothing
  EXPECT_TRUE(world.Preempt(world.Submit(World::Asks("a", 1, 4)), PreemptMode::kReclaim).empty());
  for (const uint16_t devices : {uint16_t{4}, uint16_t{5}}) {  // one stopped leaves b five of its eight
    World w(testing::EightWay(2), kTwoHalves);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(w.Start(w.Submit(World::Asks("b", 1, 5))));
    EXPECT_EQ(w.Preempt(w.Submit(World::Asks("a", 1, devices)), PreemptMode::kReclaim).empty(), devices > 4);
  }
}

TEST(Preempt, HigherPriorityDoesNotTakeWhatAnotherQueueDeserves) {
  World world(testing::EightWay(2), kTwoHalves);
  ASSERT_TRUE(world.Start(world.Submit(World::Asks("a", 1, 8))));
  ASSERT_TRUE(world.Start(world.Submit(World::Asks("b", 1, 8))));
  EXPECT_TRUE(world.Preempt(world.Submit(World::Asks("a", 2, 8, 9)), PreemptMode::kPriority).empty());
  EXPECT_EQ(world.Preempt(world.Submit(World::Asks("a", 1, 8, 9)), PreemptMode::kPriority).size(), 1u);
}

TEST(StopCost, AddsWorkSinceTheCheckpointSaveRestartAndServiceRisk) {
  JobEntry entry;
  entry.checkpointed = At(100);
  entry.job.checkpoint = {
      .interval = {}, .save = std::chrono::seconds(5), .restart = std::chrono::seconds(20)};
  EXPECT_EQ(StopCost(entry, 4'000, 4'000, true, At(200)), 4 * 125);
  EXPECT_EQ(StopCost(entry, 2'000, 4'000, false, At(200)), 2 * 25);
  entry.job.work = WorkClass::kInference;
  EXPECT_EQ(StopCost(entry, 4'000, 4'000, true, At(200)), 4 * 725);
  EXPECT_EQ(StopCost(entry, 1'000, 4'000, false, At(200)), 1 * 175);
}

Job RandomJob(Rng& rng, const std::string& queue) {
  const auto members = static_cast<uint32_t>(1 + (rng.Uniform(4) == 0 ? rng.Uniform(4) : 0));
  const auto devices = static_cast<uint16_t>(1 << rng.Uniform(4));
  Job job = World::Asks(queue, members, devices, static_cast<int32_t>(rng.Uniform(3)));
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
  constexpr int kSteps = 260;
  int reclaims = 0;
  int preemptions = 0;
  for (int w = 0; w < kWorlds; ++w) {
    Rng rng(static_cast<uint64_t>(w) + 1);
    const int nodes = 1 + static_cast<int>(rng.Uniform(5));
    PreemptionPolicy policy;
    policy.victims = static_cast<VictimOrder>(rng.Uniform(3));
    World world(testing::EightWay(nodes, 2), RandomQueues(rng, nodes * 8'000), policy, rng.Next());
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
  EXPECT_GT(reclaims, kWorlds * 5 / 4);
  EXPECT_GT(preemptions, kWorlds * 5 / 4);
}

TEST(Reclaim, WhenAllAskEachQueueHasItsDeservedFromTheFirstCycleOn) {
  const std::vector<Queue> queues = {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}},
                                     {.name = "b", .parent = "", .deserved = {{"*", 16'000}}},
                                     {.name = "c", .parent = "", .deserved = {{"*", 24'000}}},
                                     {.name = "d", .parent = "", .deserved = {{"*", 16'000}}}};
  World world(testing::EightWay(8), queues);
  Rng rng(9);
  while (world.Start(world.Submit(World::Asks("a", 1, 1)))) {
  }
  const auto waits = [&](const std::string& queue) {
    return std::ranges::count(world.In(Phase::kPending), queue,
                              [&](JobIndex j) { return world.jobs_[j].job.queue; });
  };
  for (int minute = 0; minute < 120; ++minute) {
    for (const Queue& queue : queues) {
      while (waits(queue.name) < 30) {
        world.Submit(World::Asks(queue.name, 1, 1));
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
  World world(testing::EightWay(16),
              {{.name = "steady", .parent = "", .deserved = {{"*", 64'000}}},
               {.name = "bursts", .parent = "", .deserved = {{"*", 64'000}}}},
              {.victims = order}, 5);
  Rng rng(17);
  for (int minute = 0; minute < 600; ++minute) {
    while (world.In(Phase::kPending).size() < 4) {
      Job job = World::Asks("steady", 1, static_cast<uint16_t>(1 << rng.Uniform(4)));
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
      const JobIndex job = world.Submit(World::Asks("bursts", 1, static_cast<uint16_t>(1 << rng.Uniform(4))));
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
