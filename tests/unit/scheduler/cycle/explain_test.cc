#include "scheduler/cycle/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scheduler/io/explanation_text.h"
#include "scheduler/placement/placer.h"
#include "scheduler/placement/policies.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Devices;
using testing::EightWay;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr conf::TimePoint kNow{std::chrono::hours(100)};

Job Gang(std::string id, uint32_t members, Ask ask) {
  Job job{.id = std::move(id)};
  job.roles = {{.ask = std::move(ask), .count = members, .min_count = members}};
  return job;
}

// A cluster on which jobs run where the test puts them.
class World {
 public:
  explicit World(Cluster cluster)
      : cluster_(std::move(cluster)), shapes_(cluster_), state_(cluster_), jobs_(shapes_) {}

  // Runs `count` whole devices from `first` on a node, until `left` from now.
  JobIndex Run(std::string id, NodeId node, int first, int count, conf::Duration left, uint32_t queue = 0) {
    Job job = Gang(std::move(id), 1, Devices(static_cast<uint16_t>(count)));
    job.estimate = left + std::chrono::hours(1);
    const JobIndex index = jobs_.Add(std::move(job), queue);
    jobs_[index].phase = Phase::kRunning;
    jobs_[index].started = kNow - std::chrono::hours(1);
    Trial trial(state_);
    trial.Assign({.job = index,
                  .holding = {.node = node,
                              .devices = ((uint32_t{1} << count) - 1) << first,
                              .milli = kWholeDevice,
                              .cpu_milli = 8'000 * count,
                              .memory_mib = 65'536 * count}});
    trial.Commit();
    return index;
  }

  void SayNothingOfItsEnd(JobIndex job) { jobs_[job].job.estimate.reset(); }

  JobIndex Wait(Job job) { return jobs_.Add(std::move(job), 0); }

  ExplainInput Of(JobIndex job) const {
    return {.state = state_,
            .shapes = shapes_,
            .jobs = jobs_,
            .job = job,
            .now = kNow,
            .unknown_estimate = std::chrono::hours(24)};
  }

  ClusterState& state() { return state_; }
  const JobTable& jobs() const { return jobs_; }

 private:
  Cluster cluster_;
  ShapeTable shapes_;
  ClusterState state_;
  JobTable jobs_;
};

TEST(Explain, CountsFreeSlotsAndTheObstacleOfEachNode) {
  World world(EightWay(6));
  world.Run("a", 0, 0, 4, std::chrono::hours(2));
  world.Run("b", 1, 0, 8, std::chrono::hours(3));
  world.state().SetHealth(2, Health::kDraining);
  const Explanation e = Explain(world.Of(world.Wait(Gang("big", 4, Devices(8)))));
  EXPECT_EQ(e.cause, WaitCause::kCapacity);
  ASSERT_EQ(e.roles.size(), 1u);
  EXPECT_EQ(e.roles[0].needed, 4u);
  EXPECT_EQ(e.roles[0].fit_now, 3u);
  EXPECT_EQ(e.roles[0].fit_empty, 6u);
  EXPECT_EQ(e.roles[0].nodes_with_room, 3u);
  ASSERT_EQ(e.roles[0].obstacles.size(), 2u);
  EXPECT_EQ(e.roles[0].obstacles[0].filter, "health");
  EXPECT_EQ(e.roles[0].obstacles[0].nodes, 1u);
  EXPECT_EQ(e.roles[0].obstacles[1].filter, "devices");
  EXPECT_EQ(e.roles[0].obstacles[1].nodes, 2u);
  EXPECT_EQ(e.kinds[0].free, 28u);
  EXPECT_EQ(e.kinds[0].total, 48u);
}

TEST(Explain, NamesTheEndsThatMakeRoomAndWhen) {
  World world(EightWay(2));
  world.Run("late", 0, 0, 4, std::chrono::hours(5));
  world.Run("early", 0, 4, 4, std::chrono::hours(2));
  world.Run("later", 1, 0, 8, std::chrono::hours(9));
  const Explanation e = Explain(world.Of(world.Wait(Gang("big", 1, Devices(8)))));
  ASSERT_TRUE(e.release);
  EXPECT_EQ(e.release->at, kNow + std::chrono::hours(5));
  EXPECT_EQ(e.release->count, 1u);  // early alone makes no room for a member of eight
  EXPECT_THAT(e.release->jobs, ElementsAre("late"));
}

// A replica runs until someone stops it: what is assumed of its end is not told as an expectation.
TEST(Explain, TellsNoTimeWhereTheEndThatMakesRoomIsUnknown) {
  World world(EightWay(1));
  const JobIndex replica = world.Run("replica", 0, 0, 8, std::chrono::hours(5));
  world.SayNothingOfItsEnd(replica);
  const JobIndex waits = world.Wait(Gang("next", 1, Devices(1)));
  const Explanation e = Explain(world.Of(waits));
  ASSERT_TRUE(e.release);
  EXPECT_THAT(e.release->jobs, ElementsAre("replica"));
  EXPECT_TRUE(e.release->end_unknown);
  EXPECT_FALSE(e.release->at);
  const std::vector<std::string> words = io::InWords(e);
  EXPECT_THAT(words, Contains("There will be room when job replica has ended; the time is not known."));
  EXPECT_EQ(nlohmann::json::parse(io::WriteExplanation(e))["release"]["end_unknown"], true);

  ExplainInput input = world.Of(waits);
  const std::vector<Reservation> own = {{.job = waits,
                                         .start = kNow + std::chrono::hours(23),
                                         .end = kNow + std::chrono::hours(24),
                                         .nodes = {0}}};
  input.reservations = own;
  EXPECT_THAT(io::InWords(Explain(input)),
              Contains("The first nodes that these jobs leave are reserved for it."));
}

TEST(Explain, NamesAJobThatNoNodeCanEverTake) {
  World world(EightWay(2));
  EXPECT_EQ(Explain(world.Of(world.Wait(Gang("a", 3, Devices(8))))).cause, WaitCause::kNeverFits);
  EXPECT_EQ(Explain(world.Of(world.Wait(Gang("b", 1, Devices(9))))).cause, WaitCause::kNeverFits);
  Ask other = Devices(1);
  other.devices[0].kinds = {"tpu"};
  const Explanation unknown = Explain(world.Of(world.Wait(Gang("c", 1, other))));
  EXPECT_EQ(unknown.cause, WaitCause::kNeverFits);
  EXPECT_THAT(io::InWords(unknown)[1], HasSubstr("1 tpu"));
  Ask labelled = Devices(1);
  labelled.require = {{"zone", {"b"}}};
  const Explanation labels = Explain(world.Of(world.Wait(Gang("d", 1, labelled))));
  EXPECT_EQ(labels.cause, WaitCause::kNeverFits);
  EXPECT_EQ(labels.roles[0].obstacles[0].filter, "labels");
  EXPECT_FALSE(labels.release);
}

TEST(Explain, DrainingNodesDoNotMakeAJobImpossible) {
  World world(EightWay(2));
  world.state().SetHealth(0, Health::kQuarantined);
  EXPECT_EQ(Explain(world.Of(world.Wait(Gang("a", 2, Devices(8))))).cause, WaitCause::kCapacity);
}

TEST(Explain, ARequiredLevelNamesTheDomainThatComesNearest) {
  World world(EightWay(4, 2));
  world.Run("x", 0, 0, 8, std::chrono::hours(3));
  world.Run("y", 3, 0, 1, std::chrono::hours(1));
  Job job = Gang("gang", 2, Devices(8));
  job.topology = {"leaf", true};
  const Explanation e = Explain(world.Of(world.Wait(job)));
  EXPECT_EQ(e.cause, WaitCause::kTopology);
  ASSERT_TRUE(e.domain);
  EXPECT_EQ(e.domain->domain, "leaf-0");
  EXPECT_EQ(e.domain->fit, 1u);
  EXPECT_EQ(e.domain->needed, 2u);
  ASSERT_TRUE(e.release);
  EXPECT_THAT(e.release->jobs, ElementsAre("y"));
  EXPECT_EQ(e.release->at, kNow + std::chrono::hours(1));

  job.id = "wide";
  job.roles[0].count = job.roles[0].min_count = 3;
  EXPECT_EQ(Explain(world.Of(world.Wait(job))).cause, WaitCause::kNeverFits);
  job.id = "nowhere";
  job.topology.level = "row";
  EXPECT_EQ(Explain(world.Of(world.Wait(job))).cause, WaitCause::kNeverFits);
}

TEST(Explain, MembersThatMustBeOnOneNodeAreCountedThere) {
  World world(EightWay(2));
  world.Run("x", 0, 0, 5, std::chrono::hours(1));
  world.Run("y", 1, 0, 5, std::chrono::hours(2));
  Job job = Gang("pair", 2, Devices(2));
  job.topology = {"node", true};
  const Explanation e = Explain(world.Of(world.Wait(job)));
  EXPECT_EQ(e.cause, WaitCause::kTopology);
  EXPECT_EQ(e.domain->fit, 1u);
  EXPECT_THAT(e.release->jobs, ElementsAre("x"));
}

TEST(Explain, MembersApartCountOncePerNode) {
  World world(EightWay(2));
  world.state().SetHealth(1, Health::kDraining);
  Job job = Gang("apart", 2, Devices(1));
  job.anti_affinity = true;
  const Explanation e = Explain(world.Of(world.Wait(job)));
  EXPECT_EQ(e.cause, WaitCause::kCapacity);
  EXPECT_EQ(e.roles[0].fit_now, 1u);
}

TEST(Explain, NodesKeptForOthersAreNamedWithTheirJob) {
  World world(EightWay(2));
  const JobIndex first = world.Wait(Gang("first", 2, Devices(8)));
  const JobIndex waits = world.Wait(Gang("waits", 1, Devices(8)));
  const std::vector<Reservation> reservations = {
      {.job = first, .start = kNow + std::chrono::minutes(90), .nodes = {0, 1}}};
  ExplainInput input = world.Of(waits);
  input.reservations = reservations;
  const Explanation e = Explain(input);
  EXPECT_EQ(e.cause, WaitCause::kReservation);
  EXPECT_EQ(e.roles[0].fit_unreserved, 0u);
  ASSERT_EQ(e.reservations.size(), 1u);
  EXPECT_EQ(e.reservations[0].job, "first");
  EXPECT_EQ(e.reservations[0].nodes, 2u);
  EXPECT_THAT(
      io::InWords(e),
      Contains(HasSubstr("2 nodes with room are reserved for job first, which starts in 1 h 30 min")));
  input.job = first;
  const Explanation own = Explain(input);
  EXPECT_EQ(own.cause, WaitCause::kNextCycle);
  EXPECT_EQ(own.reserved_start, kNow + std::chrono::minutes(90));
}

TEST(Explain, AQuotaNamesAmountsAndTheJobsThatFreeIt) {
  World world(EightWay(4));
  world.Run("theirs", 0, 0, 8, std::chrono::hours(1), 5);
  world.Run("soon", 1, 0, 2, std::chrono::hours(2), 1);
  world.Run("then", 2, 0, 8, std::chrono::hours(4), 2);
  ExplainInput input = world.Of(world.Wait(Gang("more", 1, Devices(8))));
  input.quotas = {{.queue = "nlp",
                   .bound = "limit",
                   .kind = "h100",
                   .has = 10'000,
                   .asked = 8'000,
                   .most = 12'000,
                   .counts = {1, 2}}};
  const Explanation e = Explain(input);
  EXPECT_EQ(e.cause, WaitCause::kQuota);
  ASSERT_EQ(e.quotas.size(), 1u);
  EXPECT_EQ(e.quotas[0].release.at, kNow + std::chrono::hours(4));
  EXPECT_THAT(e.quotas[0].release.jobs, ElementsAre("soon", "then"));
  EXPECT_THAT(io::InWords(e),
              Contains(AllOf(HasSubstr("Queue nlp has 10 h100 and the job asks for 8 more; the limit is 12"),
                             HasSubstr("when 2 jobs have ended (soon, then), expected in 4 h"))));
}

TEST(Explain, AQuotaVerdictBecomesARefusal) {
  const Cluster cluster = EightWay(4);
  const std::vector<Queue> queues = {{.name = "research", .parent = "", .limit = {{"*", 12'000}}},
                                     {.name = "nlp", .parent = "research"},
                                     {.name = "other", .parent = ""}};
  QueueTree tree(cluster, queues, std::chrono::hours(1));
  const AccountId account = tree.Account(tree.Find("nlp"), "ada");
  tree.Request(account, std::vector<Amount>{{0, 18'000}});
  tree.Charge(account, {0, 10'000});
  const QuotaVerdict verdict = tree.Admit(account, std::vector<Amount>{{0, 8'000}});
  ASSERT_FALSE(verdict.admitted());
  const QuotaRefusal refusal = RefusalBy(tree, verdict, cluster, "ada");
  EXPECT_EQ(refusal.queue, "research");
  EXPECT_EQ(refusal.bound, "limit");
  EXPECT_EQ(refusal.has, 10'000);
  EXPECT_EQ(refusal.asked, 8'000);
  EXPECT_EQ(refusal.most, 12'000);
  EXPECT_THAT(refusal.counts, ElementsAre(tree.Find("research"), tree.Find("nlp")));
  EXPECT_THAT(refusal.user, IsEmpty());
}

TEST(Explain, AllCausesAreListedTheStrongestFirst) {
  World world(EightWay(1));
  const JobIndex head = world.Wait(Gang("head", 1, Devices(8)));
  Job job = Gang("j", 1, Devices(1));
  job.not_before = kNow + std::chrono::hours(1);
  ExplainInput input = world.Of(world.Wait(job));
  input.unfinished = {"prepare"};
  input.line_stopped_by = head;
  const Explanation e = Explain(input);
  EXPECT_THAT(e.causes, ElementsAre(WaitCause::kDependency, WaitCause::kNotBefore, WaitCause::kLine));
  EXPECT_EQ(e.line_stopped_by, "head");
}

TEST(Explain, CoversJobsThatCanStartAndJobsThatDoNotWait) {
  World world(EightWay(1));
  EXPECT_EQ(Explain(world.Of(world.Wait(Gang("a", 1, Devices(1))))).cause, WaitCause::kNextCycle);
  const Explanation runs = Explain(world.Of(world.Run("b", 0, 0, 1, std::chrono::hours(1))));
  EXPECT_EQ(runs.cause, WaitCause::kNotPending);
  EXPECT_THAT(io::InWords(runs), ElementsAre("Job b does not wait: it is running."));
}

TEST(Explain, AnElasticJobNeedsOnlyItsMinimum) {
  World world(EightWay(1));
  Job job = Gang("e", 4, Devices(8));
  job.roles[0].min_count = 1;
  const Explanation e = Explain(world.Of(world.Wait(job)));
  EXPECT_EQ(e.cause, WaitCause::kNextCycle);
  EXPECT_THAT(io::InWords(e)[1], HasSubstr("It needs 1 member (up to 4) of 8 devices of any kind, 64 cores"));
}

TEST(Explain, EachAlternativeCounts) {
  Cluster cluster = EightWay(2);
  cluster.kinds.push_back({.name = "npu"});
  cluster.types.push_back(
      {.name = "atlas", .cpu_milli = 128'000, .memory_mib = 2 << 20, .kind = 1, .devices = 8});
  cluster.nodes[1].type = 1;
  World world(std::move(cluster));
  world.Run("x", 0, 0, 8, std::chrono::hours(1));
  Ask ask = Devices(8);
  ask.devices = {{.kinds = {"h100"}, .count = 8}, {.kinds = {"npu"}, .count = 8}};
  const Explanation e = Explain(world.Of(world.Wait(Gang("any", 1, ask))));
  EXPECT_EQ(e.cause, WaitCause::kNextCycle);
  EXPECT_EQ(e.roles[0].fit_now, 1u);
  EXPECT_EQ(e.roles[0].fit_empty, 2u);
}

TEST(Explain, ChecksThePowerOfEachNode) {
  Cluster cluster = EightWay(3);
  cluster.nodes[1].power_budget_watts = 600;  // eight idle devices of 70 W, and no more
  World world(std::move(cluster));
  const Explanation e = Explain(world.Of(world.Wait(Gang("p", 3, Devices(8)))));
  EXPECT_EQ(e.cause, WaitCause::kCapacity);
  EXPECT_EQ(e.roles[0].fit_now, 2u);
  EXPECT_EQ(e.roles[0].obstacles[0].filter, "power");
}

TEST(Explain, JsonHasStableKeys) {
  World world(EightWay(2));
  world.Run("x", 0, 0, 8, std::chrono::hours(1));
  const auto json =
      nlohmann::json::parse(io::WriteExplanation(Explain(world.Of(world.Wait(Gang("big", 2, Devices(8)))))));
  EXPECT_EQ(json["job"], "big");
  EXPECT_EQ(json["cause"], "capacity");
  EXPECT_EQ(json["roles"][0]["fit_now"], 1);
  EXPECT_EQ(json["roles"][0]["obstacles"][0]["filter"], "devices");
  EXPECT_EQ(json["release"]["jobs"][0], "x");
  EXPECT_EQ(json["release"]["at"], "1970-01-05T05:00:00Z");
}

// The certificate must not change what it explains, and must agree with the placer.
TEST(Explain, CountsEqualWhatThePlacerPlaces) {
  Rng rng(11);
  for (int round = 0; round < 50; ++round) {
    World world(EightWay(8, 4));
    for (NodeId node = 0; node < 8; ++node) {
      const auto count = static_cast<int>(rng.Uniform(9));
      if (count > 0) world.Run("r" + std::to_string(node), node, 0, count, std::chrono::hours(1 + node));
    }
    const auto devices = static_cast<uint16_t>(1 + rng.Uniform(8));
    const JobIndex job = world.Wait(Gang("j", 1, Devices(devices)));
    const Explanation e = Explain(world.Of(job));
    EXPECT_EQ(world.state().Check(), "");
    uint64_t placed = 0;
    ExplainInput input = world.Of(job);
    Placer placer(world.state(), input.shapes, *FindPlacementPolicy("binpack"));
    Trial trial(world.state());
    while (const auto holding = placer.Choose(world.jobs()[job].shapes[0], {}, rng)) {
      trial.Assign({.job = job, .holding = *holding});
      ++placed;
    }
    EXPECT_EQ(e.roles[0].fit_now, placed);
  }
}

}  // namespace
}  // namespace scheduler
