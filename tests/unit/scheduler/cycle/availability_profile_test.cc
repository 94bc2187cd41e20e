#include "scheduler/cycle/availability_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/placement/gang.h"
#include "scheduler/placement/policies.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using namespace testing;

conf::TimePoint At(uint64_t minute) {
  return conf::TimePoint(std::chrono::minutes(minute));
}

Job Gang(Ask ask, uint32_t count) {
  Job job;
  job.roles = {{.name = "worker", .ask = std::move(ask), .count = count, .min_count = count}};
  return job;
}

Job Within(std::string level, Job job) {
  job.topology = {.level = std::move(level), .required = true};
  return job;
}

// Sixteen nodes in leaves of four, two leaves a spine, nearly full of jobs that end one after the other; some
// nodes reserved for others for a while.
struct World {
  explicit World(uint64_t seed, bool shares = true)
      : cluster(EightWay(16, 4, 2)),
        rng(seed),
        state(cluster),
        shapes(cluster),
        jobs(shapes),
        placer(state, shapes, *FindPlacementPolicy("spread")),
        gangs(state, shapes),
        others(cluster.nodes.size()),
        zone(cluster.nodes.size()) {
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t lot = rng.Uniform(shares ? 5 : 4);
      const JobIndex job =
          Add(Gang(lot == 4 ? Share(500) : Devices(static_cast<uint16_t>(1 << lot)), 1 + lot % 2));
      Trial trial(state);
      const bool runs = !gangs.Place(trial, placer, job, jobs[job], nullptr, rng).placed.empty();
      trial.Commit();
      if (runs) releases.push_back({At(1 + rng.Uniform(20)), jobs[job].sequence, job});
    }
    SortReleases(releases);
    for (int i = 0; i < 3; ++i) {
      const conf::TimePoint start = At(rng.Uniform(20));
      const auto node = static_cast<NodeId>(rng.Uniform(cluster.nodes.size() - 2));
      others.Add(
          {.job = 0, .start = start, .end = start + std::chrono::minutes(5), .nodes = {node, node + 1}});
    }
    zone.Add(static_cast<NodeId>(rng.Uniform(cluster.nodes.size())));
  }

  JobIndex Add(Job job) {
    job.id = std::to_string(next_id++);
    return jobs.Add(std::move(job), 0);
  }

  // Moments at which more may be possible than before.
  std::set<conf::TimePoint> Moments(conf::TimePoint from) const {
    std::set<conf::TimePoint> moments = {from};
    for (const Release& release : releases) moments.insert(std::max(release.at, from));
    for (const Reservation& other : others.all()) moments.insert(std::max(other.end, from));
    return moments;
  }

  bool Fits(JobIndex job, conf::TimePoint at) {
    Trial trial(state);
    for (const Release& release : releases) {
      if (release.at <= at) trial.EvictJob(release.job);
    }
    NodeSet closed = zone;
    if (const NodeSet* const reserved = others.KeepOff(at, at + kRun)) closed.AddAll(*reserved);
    Rng draws = OwnRng(jobs[job].job);
    return !gangs.Place(trial, placer, job, jobs[job], &closed, draws).placed.empty();
  }

  std::set<conf::TimePoint> MaybeAt(JobIndex job, conf::TimePoint from) {
    AvailabilityProfile profile(state, shapes,
                                {.entry = jobs[job], .run = kRun, .from = from, .keep_off = &zone}, releases,
                                others.all());
    std::set<conf::TimePoint> moments;
    while (const std::optional<conf::TimePoint> at = profile.Next()) moments.insert(*at);
    return moments;
  }

  static constexpr conf::Duration kRun = std::chrono::minutes(3);

  Cluster cluster;
  Rng rng;
  ClusterState state;
  ShapeTable shapes;
  JobTable jobs;
  Placer placer;
  GangPlacer gangs;
  Reservations others;
  NodeSet zone;
  std::vector<Release> releases;
  int next_id = 0;
};

std::vector<Job> OneRoleOfWholeDevices() {
  Job apart = Gang(Devices(2), 5);
  apart.anti_affinity = true;
  return {Gang(Devices(1), 1),
          Gang(Devices(8), 1),
          Gang(Devices(8), 4),
          Gang(Devices(4), 9),
          Gang(Devices(8), 17),
          Within("node", Gang(Devices(2), 3)),
          Within("leaf", Gang(Devices(8), 3)),
          Within("leaf", Gang(Devices(8), 5)),
          Within("spine", Gang(Devices(8), 6)),
          apart};
}

std::vector<Job> OfAllSorts() {
  std::vector<Job> jobs = OneRoleOfWholeDevices();
  Job roles = Within("leaf", Gang(Devices(8), 2));
  roles.roles.push_back({.name = "helper", .ask = Devices(2), .count = 3, .min_count = 2});
  roles.roles.push_back({.name = "store", .ask = Share(300), .count = 1, .min_count = 1});
  jobs.push_back(roles);
  Ask hungry = Devices(1);
  hungry.cpu_milli = 100'000;
  jobs.push_back(Gang(hungry, 12));
  jobs.push_back(Gang(Share(250), 3));
  jobs.push_back(Gang(Partition("3g.40gb"), 2));
  return jobs;
}

TEST(AvailabilityProfile, NeverRulesOutAMomentAtWhichTheJobFits) {
  size_t ruled_out = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    const conf::TimePoint from = At(seed % 3);
    for (const Job& asked : OfAllSorts()) {
      const JobIndex job = world.Add(asked);
      const std::set<conf::TimePoint> maybe = world.MaybeAt(job, from);
      for (const conf::TimePoint at : world.Moments(from)) {
        ruled_out += maybe.contains(at) ? 0 : 1;
        ASSERT_TRUE(maybe.contains(at) || !world.Fits(job, at))
            << "seed " << seed << ", job " << world.jobs[job].job.id << " at " << conf::FormatTime(at);
      }
    }
  }
  EXPECT_GT(ruled_out, 1000u);
}

TEST(AvailabilityProfile, IsExactForOneRoleWhereAllHoldWholeDevices) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed, /*shares=*/false);
    for (const Job& asked : OneRoleOfWholeDevices()) {
      const JobIndex job = world.Add(asked);
      const std::set<conf::TimePoint> maybe = world.MaybeAt(job, At(0));
      for (const conf::TimePoint at : world.Moments(At(0))) {
        ASSERT_EQ(maybe.contains(at), world.Fits(job, at))
            << "seed " << seed << ", job " << world.jobs[job].job.id << " at " << conf::FormatTime(at);
      }
    }
  }
}

TEST(AvailabilityProfile, EndsBeforeTheMomentThatItIsGiven) {
  World world(1);
  const JobIndex job = world.Add(Gang(Devices(8), 15));
  const auto at = [&](conf::TimePoint before) {
    return AvailabilityProfile(world.state, world.shapes,
                               {.entry = world.jobs[job], .run = World::kRun, .from = At(0)}, world.releases,
                               world.others.all())
        .Next(before);
  };
  const std::optional<conf::TimePoint> first = at(conf::TimePoint::max());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(at(*first), std::nullopt);
  EXPECT_EQ(at(*first + conf::Duration(1)), first);
}

}  // namespace
}  // namespace scheduler
