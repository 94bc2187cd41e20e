// What must hold at every step of any history: random clusters, queues, jobs, faults and policies.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "scheduler/planner.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;
using std::chrono::minutes;
using std::chrono::seconds;

Policy RandomPolicy(Rng& rng) {
  Policy policy;
  const char* const placements[] = {"binpack", "e-binpack", "spread", "random", "default"};
  policy.placement = placements[rng.Uniform(5)];
  policy.inference_placement = placements[rng.Uniform(5)];
  policy.backfill.kind = static_cast<Backfill>(rng.Uniform(4));
  policy.backfill.depth = 4;
  policy.preemption.by_priority = rng.Uniform(2) == 0;
  policy.preemption.reclaim = rng.Uniform(2) == 0;
  policy.preemption.victims = static_cast<VictimOrder>(rng.Uniform(3));
  policy.preemption.grace = seconds(rng.Uniform(2) * 30);
  policy.faults.hot_swap = rng.Uniform(2) == 0;
  policy.backfill.evict_overrunning = rng.Uniform(2) == 0;
  if (rng.Uniform(2) == 0)
    policy.order = {{"priority", 1'000}, {"expected", 16}, {"overdue", 100}, {"age", 1}};
  policy.moves = {.per_hour = static_cast<uint32_t>(rng.Uniform(3) * 20),
                  .rest = minutes(rng.Uniform(20)),
                  .least_left = minutes(5),
                  .least_gain = minutes(rng.Uniform(10))};
  return policy;
}

std::vector<Queue> RandomQueues(Rng& rng) {
  if (rng.Uniform(3) == 0) return {};
  std::vector<Queue> queues = {{.name = "research", .parent = ""},
                               {.name = "vision", .parent = "research"},
                               {.name = "speech", .parent = "research"},
                               {.name = "production", .parent = ""}};
  queues[1].deserved = {{"*", 16'000}};
  queues[2].deserved = {{"*", 8'000}};
  queues[0].deserved = {{"*", 24'000}};
  queues[3].deserved = {{"*", 24'000}};
  if (rng.Uniform(2) == 0) queues[2].limit = {{"*", 24'000}};
  if (rng.Uniform(2) == 0) queues[1].borrows = false;
  return queues;
}

Job RandomJob(Rng& rng, int number, bool with_queues) {
  Job job;
  job.id = fmt::format("job-{}", number);
  const char* const leaves[] = {"vision", "speech", "production"};
  job.queue = with_queues ? leaves[rng.Uniform(3)] : "default";
  job.user = rng.Uniform(2) == 0 ? "ada" : "bob";
  job.tenant = rng.Uniform(2) == 0 ? "t1" : "t2";
  if (rng.Uniform(2) == 0) job.application = rng.Uniform(2) == 0 ? "train" : "evaluate";
  job.priority = static_cast<int32_t>(rng.Uniform(3));
  job.work = static_cast<WorkClass>(rng.Uniform(5));
  job.preemptible = rng.Uniform(4) != 0;
  Role role{.name = "worker", .ask = {}};
  switch (rng.Uniform(6)) {
    case 0:
      role.ask = Share(static_cast<uint16_t>(100 + 100 * rng.Uniform(8)));
      break;
    case 1:
      role.ask = Partition(rng.Uniform(2) == 0 ? "1g.10gb" : "3g.40gb");
      break;
    case 2:
      role.ask = Devices(8);
      role.count = static_cast<uint32_t>(1 + rng.Uniform(6));
      role.min_count = rng.Uniform(2) == 0 ? role.count : 1;
      break;
    default:
      role.ask = Devices(static_cast<uint16_t>(1 + rng.Uniform(8)));
  }
  if (role.min_count > role.count) role.min_count = role.count;
  if (role.count == 1) role.min_count = 1;
  if (rng.Uniform(10) == 0) role.ask.isolation = rng.Uniform(2) == 0 ? Isolation::kTenant : Isolation::kNode;
  job.roles = {role};
  if (rng.Uniform(4) == 0) {
    job.topology = {.level = "leaf", .required = rng.Uniform(2) == 0};
    if (!job.topology.required && rng.Uniform(2) == 0) job.topology.wait = minutes(rng.Uniform(90));
  }
  if (rng.Uniform(4) != 0) job.estimate = minutes(5 + rng.Uniform(200));
  if (rng.Uniform(3) == 0)
    job.checkpoint = {.interval = minutes(10), .save = seconds(20), .restart = seconds(60)};
  if (rng.Uniform(12) == 0) job.idle_timeout = minutes(30);
  if (rng.Uniform(4) == 0) job.resources.push_back({"licence", static_cast<uint32_t>(1 + rng.Uniform(4))});
  if (rng.Uniform(6) == 0) job.resources.push_back({"seat", static_cast<uint32_t>(1 + rng.Uniform(5))});
  if (rng.Uniform(4) == 0) {
    job.spread = true;
    const char* const over[] = {"", "node", "zone"};
    job.spread_over = over[rng.Uniform(3)];
  }
  return job;
}

Cluster RandomCluster(Rng& rng) {
  Cluster cluster = EightWay(static_cast<int>(4 + rng.Uniform(12)), 4);
  cluster.resources = {{"licence", 4}, {"seat", 6}};
  for (Node& node : cluster.nodes) {
    if (rng.Uniform(4) != 0) node.labels["zone"] = rng.Uniform(2) == 0 ? "a" : "b";
  }
  return cluster;
}

// A cluster, its planner, and a world that does what plans say and makes mistakes of its own.
struct History {
  explicit History(uint64_t seed)
      : rng(seed),
        cluster(RandomCluster(rng)),
        queues(RandomQueues(rng)),
        policy(RandomPolicy(rng)),
        planner(cluster, queues, policy) {}

  std::vector<JobIndex> InPhase(Phase phase) const {
    std::vector<std::pair<uint64_t, JobIndex>> found;
    const JobTable& jobs = planner.jobs();
    for (JobIndex job = 0; job < jobs.bound(); ++job) {
      if (jobs[job].alive && jobs[job].phase == phase) found.emplace_back(jobs[job].sequence, job);
    }
    std::ranges::sort(found);
    std::vector<JobIndex> indices;
    for (const auto& [sequence, job] : found) indices.push_back(job);
    return indices;
  }

  // A job is at its new places, is replaced by another there, or does not move after all.
  void EndMove(JobIndex job) {
    const JobEntry& entry = planner.jobs()[job];
    const bool whole = entry.job.resources.empty() && entry.leaving.size() == Members(entry.job) &&
                       planner.state().of(job).size() == 2 * entry.leaving.size();
    switch (whole ? rng.Uniform(3) : 0) {
      case 1: {
        Job next = entry.job;
        next.id = fmt::format("job-{}", submitted++);
        replaced.push_back(entry.job.id);
        planner.HandOver(job, std::move(next), now);
        break;
      }
      case 2:
        planner.Unmoved(job, now);
        break;
      default:
        planner.Moved(job, now);
    }
  }

  // By another class of the same work; one whose place another has taken over holds nothing.
  void Replace(JobIndex job) {
    const JobEntry& entry = planner.jobs()[job];
    if (!entry.leaving.empty() || std::ranges::find(replaced, entry.job.id) != replaced.end()) return;
    Job next = entry.job;
    next.priority = static_cast<int32_t>(rng.Uniform(3)) - 1;
    next.preemptible = rng.Uniform(2) == 0;
    planner.Replace(job, std::move(next), now);
  }

  void Happen() {
    now += seconds(1 + rng.Uniform(600));
    for (const std::string& id : std::exchange(replaced, {})) {
      if (const JobIndex job = planner.jobs().Find(id); job != kNone) planner.Withdraw(job, now);
    }
    for (const JobIndex job : InPhase(Phase::kStopping)) {
      if (planner.jobs()[job].stops_at <= now) planner.Stopped(job, now);
    }
    const std::vector<JobIndex> running = InPhase(Phase::kRunning);
    const auto any = [&](const std::vector<JobIndex>& jobs) { return jobs[rng.Uniform(jobs.size())]; };
    for (const JobIndex job : running) {
      if (!planner.jobs()[job].leaving.empty()) EndMove(job);
    }
    switch (rng.Uniform(13)) {
      case 12:
        if (!running.empty()) Replace(any(running));
        break;
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        planner.Submit(RandomJob(rng, submitted++, !queues.empty()), now);
        break;
      case 5:
      case 6:
      case 7:
        if (!running.empty()) planner.Ended(any(running), now);
        break;
      case 8:
        if (!running.empty()) planner.Checkpointed(any(running), now);
        break;
      case 9:
        if (!running.empty() && rng.Uniform(3) == 0) planner.Failed(any(running), now);
        break;
      case 10: {
        const auto node = static_cast<NodeId>(rng.Uniform(cluster.nodes.size()));
        switch (rng.Uniform(5)) {
          case 4: {
            const auto devices = static_cast<uint32_t>(rng.Uniform(256));
            planner.UpdateNode(node, planner.state().health(node), devices, {}, now);
            planner.UpdateEmptied(node, devices, now);
            break;
          }
          case 0:
            planner.NodeFault(node, now);
            break;
          case 1:
            planner.DeviceFault(node, static_cast<int>(rng.Uniform(8)), now);
            break;
          case 2:
            planner.SetHealth(node, Health::kDraining, now);
            break;
          default:
            planner.SetHealth(node, Health::kHealthy, now);
        }
        break;
      }
      default:
        if (const auto suspended = InPhase(Phase::kSuspended); !suspended.empty()) {
          planner.Used(any(suspended), now);
        } else if (!running.empty()) {
          planner.Idle(any(running), now);
        }
    }
  }

  Rng rng;
  Cluster cluster;
  std::vector<Queue> queues;
  Policy policy;
  Planner planner;
  conf::TimePoint now{std::chrono::hours(1)};
  int submitted = 0;
  std::vector<std::string> replaced;  // ids of jobs whose places others have taken over
};

void ExpectWholeGangs(const History& h) {
  for (const JobIndex job : h.InPhase(Phase::kRunning)) {
    const JobEntry& entry = h.planner.jobs()[job];
    if (std::ranges::find(h.replaced, entry.job.id) != h.replaced.end()) continue;
    const size_t members = h.planner.state().of(job).size() - entry.leaving.size();
    EXPECT_GE(members, MinMembers(entry.job)) << entry.job.id;
    EXPECT_LE(members, Members(entry.job)) << entry.job.id;
  }
  for (const Phase phase : {Phase::kPending, Phase::kSuspended}) {
    for (const JobIndex job : h.InPhase(phase)) EXPECT_TRUE(h.planner.state().of(job).empty());
  }
}

// A gang with a required leaf stands on one.
void ExpectRequiredTopology(const History& h) {
  for (const JobIndex job : h.InPhase(Phase::kRunning)) {
    const JobEntry& entry = h.planner.jobs()[job];
    if (!entry.job.topology.required || !entry.leaving.empty()) continue;
    std::vector<DomainId> leaves;
    for (const MemberId id : h.planner.state().of(job)) {
      leaves.push_back(h.cluster.nodes[h.planner.state().member(id).holding.node].domain);
    }
    EXPECT_TRUE(std::ranges::adjacent_find(leaves, std::ranges::not_equal_to{}) == leaves.end())
        << entry.job.id;
  }
}

void ExpectIsolation(const History& h) {
  const ClusterState& state = h.planner.state();
  for (NodeId n = 0; n < h.cluster.nodes.size(); ++n) {
    for (const MemberId a : state.on(n)) {
      for (const MemberId b : state.on(n)) {
        const Member& one = state.member(a);
        const Member& other = state.member(b);
        if (one.job == other.job) continue;
        EXPECT_NE(one.holding.isolation, Isolation::kNode);
        if (one.holding.isolation == Isolation::kTenant) EXPECT_EQ(one.holding.tenant, other.holding.tenant);
      }
    }
  }
}

// Just what running and stopping jobs ask for is held, and never more than there is.
void ExpectResources(const History& h) {
  for (const Resource& resource : h.cluster.resources) {
    uint32_t held = 0;
    for (const Phase phase : {Phase::kRunning, Phase::kStopping}) {
      for (const JobIndex job : h.InPhase(phase))
        held += AskedOf(h.planner.jobs()[job].job.resources, resource.name);
    }
    EXPECT_EQ(h.planner.resources().held(resource.name), held) << resource.name;
    EXPECT_LE(held, resource.count) << resource.name;
  }
}

void ExpectLimits(const History& h) {
  const QueueTree& queues = h.planner.queues();
  for (const Queue& queue : h.queues) {
    for (const auto& [kind, most] : queue.limit) {
      EXPECT_LE(queues.allocated(queues.Find(queue.name), kAnyKind), most) << queue.name;
    }
  }
  EXPECT_EQ(queues.Check(), "");
}

// No member starts and stops in one plan, and no job that begins in it stops, shrinks by what began, or moves.
void ExpectNoStartIsStopped(const Plan& plan) {
  for (const Action& start : plan.actions) {
    if (start.kind != ActionKind::kStart) continue;
    for (const Action& other : plan.actions) {
      if (other.job != start.job || other.kind == ActionKind::kStart) continue;
      if (other.kind == ActionKind::kMove) continue;  // of other members: it leaves a node that drains
      EXPECT_EQ(other.kind, ActionKind::kShrink) << start.job << ": " << other.why.text;
      for (const MemberAt& member : other.members) {
        EXPECT_TRUE(std::ranges::find(start.members, member) == start.members.end()) << start.job;
      }
    }
  }
  for (const auto& [job, why] : plan.waiting) {
    const bool starts = std::ranges::any_of(
        plan.actions, [&](const Action& a) { return a.kind == ActionKind::kStart && a.job == job; });
    if (why.code == "preempted" || why.code == "reclaimed") EXPECT_FALSE(starts) << job << ": " << why.text;
  }
}

// 10^5 steps in all; a sanitizer, twenty times slower, sees a tenth.
#if defined(__has_feature) && (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
constexpr uint64_t kHistories = 5;
#else
constexpr uint64_t kHistories = 50;
#endif
constexpr int kSteps = 2'000;

TEST(PlannerProperty, NothingIsOverAllocatedGangsAreWholeAndIsolationHolds) {
  for (uint64_t seed = 0; seed < kHistories; ++seed) {
    History h(seed);
    Rng rng(seed);
    size_t started = 0;
    for (int step = 0; step < kSteps; ++step) {
      h.Happen();
      const Plan plan = h.planner.Run(h.now, rng);
      started += static_cast<size_t>(std::ranges::count(plan.actions, ActionKind::kStart, &Action::kind));
      ExpectNoStartIsStopped(plan);
      if (step % 20 != 0) continue;
      ASSERT_EQ(h.planner.state().Check(), "") << "seed " << seed << " step " << step;
      ExpectWholeGangs(h);
      ExpectRequiredTopology(h);
      ExpectIsolation(h);
      ExpectResources(h);
      ExpectLimits(h);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
    EXPECT_GT(started, 50u) << "seed " << seed;
  }
}

// Much more waits than fits, the oldest goes first, and much of it may be stopped by others.
TEST(PlannerProperty, NoPlanStopsWhatItStarts) {
  size_t taken_back = 0;
  for (uint64_t seed = 0; seed < 2 * kHistories; ++seed) {
    Rng rng(seed);
    const Cluster cluster = RandomCluster(rng);
    const std::vector<Queue> queues = RandomQueues(rng);
    Policy policy = RandomPolicy(rng);
    policy.preemption.by_priority = policy.preemption.reclaim = true;
    if (seed % 2 == 0) policy.order = {{"age", 1}};
    Planner planner(cluster, queues, policy);
    conf::TimePoint now{std::chrono::hours(1'000)};
    int number = 0;
    for (int step = 0; step < 60; ++step) {
      now += seconds(1 + rng.Uniform(600));
      for (JobIndex job = 0; job < planner.jobs().bound(); ++job) {
        const JobEntry& entry = planner.jobs()[job];
        if (!entry.alive) continue;
        if (entry.phase == Phase::kStopping && entry.stops_at <= now) planner.Stopped(job, now);
        if (entry.alive && entry.phase == Phase::kRunning && rng.Uniform(4) == 0) planner.Ended(job, now);
      }
      for (uint64_t more = rng.Uniform(12); more > 0; --more) {
        Job job = RandomJob(rng, number++, !queues.empty());
        job.priority -= static_cast<int32_t>(rng.Uniform(3));
        job.submitted = now - minutes(rng.Uniform(600));
        planner.Submit(std::move(job), now);
      }
      if (rng.Uniform(6) == 0) planner.NodeFault(static_cast<NodeId>(rng.Uniform(cluster.nodes.size())), now);
      const size_t running = planner.jobs().size() - planner.pending();
      const Plan plan = planner.Run(now, rng);
      ExpectNoStartIsStopped(plan);
      taken_back += static_cast<size_t>(std::ranges::count_if(plan.waiting, [](const auto& of) {
        return of.second.code == "preempted" || of.second.code == "reclaimed";
      }));
      EXPECT_EQ(planner.state().Check(), "");
      EXPECT_EQ(planner.queues().Check(), "");
      // A plan that is due again at once has started a job more.
      if (const auto due = planner.NextDue(); due && *due <= now) {
        EXPECT_GT(planner.jobs().size() - planner.pending(), running);
      }
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
  }
  EXPECT_GT(taken_back, 100u);
}

// With exact estimates and one queue, whoever was promised a start has it by then.
TEST(PlannerProperty, NoReservationIsDelayedUnderExactEstimates) {
  for (uint64_t seed = 0; seed < kHistories; ++seed) {
    Rng rng(seed);
    const Cluster cluster = EightWay(static_cast<int>(4 + rng.Uniform(12)), 4);
    Policy policy;
    policy.placement = seed % 2 == 0 ? "e-binpack" : "spread";
    policy.backfill.kind = seed % 3 == 0 ? Backfill::kConservative : Backfill::kEasy;
    policy.backfill.depth = 4;
    policy.order = {{"age", 1}};
    Planner planner(cluster, {}, policy);
    std::map<std::string, conf::TimePoint> promised;
    std::multimap<conf::TimePoint, JobIndex> ends;
    conf::TimePoint now{std::chrono::hours(1)};
    conf::TimePoint arrival = now;
    size_t kept = 0;
    for (int number = 0; number < 400;) {
      now = ends.empty() ? arrival : std::min(arrival, ends.begin()->first);
      while (!ends.empty() && ends.begin()->first <= now) {
        planner.Ended(ends.begin()->second, now);
        ends.erase(ends.begin());
      }
      if (arrival <= now) {
        Job job;
        job.id = fmt::format("job-{}", number++);
        job.queue = "default";
        job.submitted = now;
        Role role{.name = "worker", .ask = Devices(static_cast<uint16_t>(1 + rng.Uniform(8)))};
        if (rng.Uniform(4) == 0) {
          role.ask = Devices(8);
          role.count = role.min_count = static_cast<uint32_t>(1 + rng.Uniform(cluster.nodes.size()));
        }
        job.roles = {role};
        job.estimate = minutes(1 + rng.Uniform(300));
        planner.Submit(job, now);
        arrival = now + seconds(rng.Uniform(1'200));
      }
      const Plan plan = planner.Run(now, rng);
      for (const Action& action : plan.actions) {
        ASSERT_EQ(action.kind, ActionKind::kStart);
        const JobIndex job = planner.jobs().Find(action.job);
        ends.emplace(now + *planner.jobs()[job].job.estimate, job);
        if (const auto promise = promised.find(action.job); promise != promised.end()) {
          ASSERT_LE(now, promise->second) << action.job << " seed " << seed;
          ++kept;
        }
      }
      for (const Reserved& reserved : plan.reserved) promised.try_emplace(reserved.job, reserved.start);
    }
    EXPECT_GT(kept, 10u) << "seed " << seed;
  }
}

std::string Text(const Plan& plan) {
  std::string text;
  for (const Action& action : plan.actions) {
    text += fmt::format("{} {} {} {} {}\n", Name(action.kind), action.job, action.grace.count(),
                        action.why.code, action.why.text);
    for (const MemberAt& m : action.members) {
      text += fmt::format("  {}/{} on {} {:x} {} {} {}\n", m.role, m.rank, m.holding.node, m.holding.devices,
                          m.holding.milli, m.holding.profile, m.holding.start);
    }
  }
  for (const Reserved& r : plan.reserved) {
    text +=
        fmt::format("{} from {} on {}\n", r.job, r.start.time_since_epoch().count(), fmt::join(r.nodes, " "));
  }
  for (const auto& [job, why] : plan.waiting)
    text += fmt::format("{} waits {} {}\n", job, why.code, why.text);
  return text;
}

// Invariant 10: the same snapshot, time and seed give the same plan, whatever history led to them.
TEST(PlannerProperty, DeterministicFromASnapshot) {
  for (uint64_t seed = 0; seed < kHistories; ++seed) {
    History h(seed + 1'000);
    for (int step = 0; step < 300; ++step) {
      h.Happen();
      const uint64_t draw = h.rng.Next();
      Rng one(draw);
      Rng other(draw);
      const Snapshot snapshot = h.planner.TakeSnapshot(h.now);
      const std::string replayed = Text(MakePlan(snapshot, h.policy, h.now, other));
      ASSERT_EQ(Text(h.planner.Run(h.now, one)), replayed) << "seed " << seed << " step " << step;
    }
  }
}

// A planner that is told how a node and its devices are equals one that is built from the resulting snapshot.
TEST(PlannerProperty, UpdatedNodeEqualsAPlannerBuiltFromTheSnapshot) {
  constexpr Health kHealths[] = {Health::kHealthy, Health::kHealthy,  Health::kHealthy,
                                 Health::kSuspect, Health::kDraining, Health::kQuarantined};
  for (uint64_t seed = 0; seed < kHistories; ++seed) {
    History h(seed + 2'000);
    size_t started = 0;
    for (int step = 0; step < 300; ++step) {
      h.Happen();
      const Snapshot before = h.planner.TakeSnapshot(h.now);
      Snapshot after = before;
      for (uint64_t updates = h.rng.Uniform(4); updates > 0; --updates) {
        const auto node = static_cast<NodeId>(h.rng.Uniform(h.cluster.nodes.size()));
        NodeHealth& health = after.health[node];
        health.health = kHealths[h.rng.Uniform(std::size(kHealths))];
        health.broken_devices = h.rng.Uniform(2) == 0 ? 0 : static_cast<uint32_t>(h.rng.Uniform(256));
        const NodeType& type = h.cluster.type_of(node);
        health.others =
            h.rng.Uniform(2) == 0
                ? HostAmounts()
                : HostAmounts{
                      static_cast<int64_t>(h.rng.Uniform(2 * static_cast<uint64_t>(type.cpu_milli) + 1)),
                      static_cast<int64_t>(h.rng.Uniform(static_cast<uint64_t>(type.memory_mib) + 1))};
        h.planner.UpdateNode(node, health.health, health.broken_devices, health.others, h.now);
        ASSERT_EQ(h.planner.TakeSnapshot(h.now).health[node].faults, before.health[node].faults);
      }
      ASSERT_EQ(h.planner.state().Check(), "") << "seed " << seed << " step " << step;
      const uint64_t draw = h.rng.Next();
      Rng one(draw);
      Rng other(draw);
      const std::string rebuilt = Text(MakePlan(after, h.policy, h.now, other));
      const Plan told = h.planner.Run(h.now, one);
      ASSERT_EQ(Text(told), rebuilt) << "seed " << seed << " step " << step;
      started += static_cast<size_t>(std::ranges::count(told.actions, ActionKind::kStart, &Action::kind));
    }
    EXPECT_GT(started, 10u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace scheduler
