#include "scheduler/io/snapshot_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/rng.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/io/problems.h"

namespace scheduler::io {
namespace {

using ::scheduler::testing::EightWay;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

conf::TimePoint RandomTime(Rng& rng) {
  return conf::TimePoint(conf::Duration(static_cast<int64_t>(rng.Uniform(4'000'000'000'000'000'000))));
}
conf::Duration RandomDuration(Rng& rng) {
  return std::chrono::seconds(1) + conf::Duration(static_cast<int64_t>(rng.Uniform(300'000'000'000'000'000)));
}
std::string RandomName(Rng& rng) {
  static constexpr std::string_view kPieces[] = {"a", "\"", "\\", "\xc3\xa9", "\n", "-", "job", "7"};
  std::string name;
  for (uint64_t i = 0; i <= rng.Uniform(6); ++i) name += kPieces[rng.Uniform(8)];
  return name;
}

// A job that runs alone on a node, so that any holding is legal.
JobState RandomJob(NodeId node, Rng& rng) {
  JobState state;
  Job& job = state.job;
  job.id = std::to_string(node) + "/" + RandomName(rng);
  job.queue = "b";
  job.user = RandomName(rng);
  job.work = static_cast<WorkClass>(rng.Uniform(5));
  job.priority = static_cast<int32_t>(rng.Uniform(1000)) - 500;
  job.submitted = RandomTime(rng);
  if (rng.Uniform(2) == 0) job.estimate = RandomDuration(rng);
  if (rng.Uniform(2) == 0) job.not_before = RandomTime(rng);
  job.checkpoint.interval = RandomDuration(rng);
  job.preemptible = rng.Uniform(2) == 0;
  const auto count = static_cast<uint32_t>(1 + rng.Uniform(8));
  job.roles = {{.name = RandomName(rng), .count = count, .min_count = 1}};
  job.roles[0].ask.devices = {{.count = 1}, {.milli = static_cast<uint16_t>(rng.Uniform(1000))}};
  if (rng.Uniform(2) == 0) return state;
  state.phase = static_cast<Phase>(1 + rng.Uniform(2));
  state.started = RandomTime(rng);
  state.checkpointed = RandomTime(rng);
  state.after_stop = static_cast<AfterStop>(rng.Uniform(3));
  if (rng.Uniform(3) == 0) state.idle_since = RandomTime(rng);
  state.lost_members = rng.Uniform(2) == 0;
  state.backfilled = rng.Uniform(2) == 0;
  state.done = RandomDuration(rng);
  state.restarts = static_cast<uint32_t>(rng.Uniform(9));
  for (uint32_t d = 0; d < count; ++d) {
    MemberAt member{.rank = d,
                    .holding = {.node = node,
                                .devices = uint32_t{1} << d,
                                .milli = static_cast<uint16_t>(1 + rng.Uniform(1000)),
                                .cpu_milli = static_cast<int64_t>(rng.Uniform(1000)),
                                .device_mib = static_cast<int32_t>(rng.Uniform(1000))}};
    if (rng.Uniform(4) == 0) {
      member.holding.milli = 0;
      member.holding.profile = 1;
      member.holding.start = static_cast<uint8_t>(rng.Uniform(7));
    }
    (rng.Uniform(5) == 0 ? state.leaving : state.members).push_back(member);
  }
  return state;
}

Snapshot RandomSnapshot(uint64_t seed, int nodes) {
  Rng rng(seed);
  Snapshot s;
  s.version = rng.Next();
  s.as_of = RandomTime(rng);
  s.cluster = EightWay(nodes, 4, 2);
  for (Node& node : s.cluster.nodes) {
    if (rng.Uniform(3) == 0) node.labels = {{"zone", RandomName(rng)}, {RandomName(rng), ""}};
    node.health = static_cast<Health>(rng.Uniform(4));
    node.power_budget_watts = rng.Double() * 1e4;
  }
  s.cluster.types[0].numa = {0, 0, 0, 0, 1, 1, 1, 1};
  s.cluster.kinds[0].idle_watts = 0.1 + rng.Double();
  if (rng.Uniform(2) == 0) {
    s.health.resize(s.cluster.nodes.size());
    s.health[0] = {Health::kSuspect, 5, 4, {2500, 1024}, -70'500, {RandomTime(rng), RandomTime(rng)}};
  }
  s.queues = {{.name = "a", .parent = "", .deserved = {{"*", 64000}}, .over_quota_weight = rng.Double()},
              {.name = "b", .parent = "a", .borrows = false, .lends = DeviceQuota{}}};
  for (NodeId n = 0; n < s.cluster.nodes.size(); ++n) s.jobs.push_back(RandomJob(n, rng));
  for (int i = 0; i < 5; ++i) s.usage[{RandomName(rng), RandomName(rng)}] = rng.Double() * 1e15;
  s.tenants = {"acme", RandomName(rng)};
  s.reserved = {{.job = s.jobs[0].job.id,
                 .start = conf::TimePoint(std::chrono::seconds(rng.Uniform(1'000))),
                 .end = conf::TimePoint(std::chrono::seconds(2'000)),
                 .nodes = {0},
                 .members = s.jobs[0].members}};
  s.failed = {RandomName(rng)};
  s.defragmented = RandomTime(rng);
  s.moves = {RandomTime(rng)};
  s.jobs[0].moved = RandomTime(rng);
  return s;
}

TEST(SnapshotJson, RandomSnapshotsRoundTripToTheByte) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = WriteSnapshot(RandomSnapshot(seed, 12));
    const Loaded<Snapshot> read = ReadSnapshot(text, "s.json");
    ASSERT_THAT(testing::Texts(read.problems), ElementsAre()) << "seed " << seed;
    ASSERT_EQ(WriteSnapshot(*read.value), text) << "seed " << seed;
  }
}

TEST(SnapshotJson, RoundTrips) {
  const Snapshot s = RandomSnapshot(7, 12);
  const Loaded<Snapshot> read = ReadSnapshot(WriteSnapshot(s), "s.json");
  ASSERT_TRUE(read.value);
  const Snapshot& r = *read.value;
  EXPECT_EQ(r.version, s.version);
  EXPECT_EQ(r.as_of, s.as_of);
  EXPECT_EQ(r.usage, s.usage);
  EXPECT_EQ(r.queues[1].lends, DeviceQuota{});
  EXPECT_FALSE(r.queues[0].lends);
  for (size_t n = 0; n < s.cluster.nodes.size(); ++n) {
    EXPECT_EQ(r.cluster.nodes[n].labels, s.cluster.nodes[n].labels);
    EXPECT_EQ(r.cluster.nodes[n].health, s.cluster.nodes[n].health);
    EXPECT_EQ(r.cluster.nodes[n].power_budget_watts, s.cluster.nodes[n].power_budget_watts);
    EXPECT_EQ(r.cluster.nodes[n].domain, s.cluster.nodes[n].domain);
  }
  for (size_t j = 0; j < s.jobs.size(); ++j) {
    EXPECT_EQ(r.jobs[j].members, s.jobs[j].members);
    EXPECT_EQ(r.jobs[j].leaving, s.jobs[j].leaving);
    EXPECT_EQ(r.jobs[j].done, s.jobs[j].done);
    EXPECT_EQ(r.jobs[j].job.estimate, s.jobs[j].job.estimate);
  }
}

TEST(SnapshotJson, EachNodeAndJobHasItsLine) {
  const std::string text = WriteSnapshot(RandomSnapshot(3, 12));
  EXPECT_GT(std::ranges::count(text, '\n'), 24);
}

TEST(SnapshotJson, AnotherFormatOrVersionIsRefused) {
  const auto problems = [](std::string_view text) {
    return testing::Texts(ReadSnapshot(text, "s.json").problems);
  };
  EXPECT_THAT(problems("{}"), ElementsAre(HasSubstr("s.json: is not a snapshot")));
  EXPECT_THAT(problems("[]"), ElementsAre(HasSubstr("is not a snapshot")));
  EXPECT_THAT(problems(""), ElementsAre(HasSubstr("is not JSON")));
  EXPECT_THAT(problems(R"({"format":"tidegate-snapshot","format_version":2})"),
              ElementsAre(HasSubstr("has format_version 2, this build reads 1")));
}

// One change of a legal snapshot that makes it impossible, and what is said of it.
struct Break {
  const char* message;
  void (*how)(Snapshot&);
};

class BrokenSnapshot : public ::testing::TestWithParam<Break> {};

TEST_P(BrokenSnapshot, IsRefusedByName) {
  Snapshot s;
  s.cluster = EightWay(2);
  s.jobs.resize(2);
  for (size_t j = 0; j < 2; ++j) {
    s.jobs[j].job.id = j == 0 ? "a" : "b";
    s.jobs[j].job.roles = {{.ask = scheduler::testing::Devices(1)}};
    s.jobs[j].phase = Phase::kRunning;
    s.jobs[j].members = {
        {.holding = {.node = 0, .devices = uint32_t{1} << j, .milli = 1000, .cpu_milli = 100}}};
  }
  ASSERT_TRUE(ReadSnapshot(WriteSnapshot(s), "s").value);
  GetParam().how(s);
  EXPECT_THAT(testing::Texts(ReadSnapshot(WriteSnapshot(s), "s").problems),
              ElementsAre(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    SnapshotJson, BrokenSnapshot,
    ::testing::Values(
        Break{"job \"a\" is given twice", [](Snapshot& s) { s.jobs[1].job.id = "a"; }},
        Break{"job \"b\": member 0 of role 0: device 0 of node node-0000: it is held twice",
              [](Snapshot& s) { s.jobs[1].members[0].holding.devices = 1; }},
        Break{"node 9 does not exist", [](Snapshot& s) { s.jobs[0].members[0].holding.node = 9; }},
        Break{"devices 0x100 of node node-0000, which has 8",
              [](Snapshot& s) { s.jobs[0].members[0].holding.devices = 256; }},
        Break{"more CPU or memory of node node-0000 is held",
              [](Snapshot& s) { s.jobs[0].members[0].holding.cpu_milli = 1'000'000; }},
        Break{"its memory is held twice",
              [](Snapshot& s) { s.jobs[0].members[0].holding.device_mib = 90'000; }},
        Break{"a partition cannot start there",
              [](Snapshot& s) {
                s.jobs[0].members[0].holding.profile = 2;
                s.jobs[0].members[0].holding.start = 1;
              }},
        Break{"partition profile 9 does not exist",
              [](Snapshot& s) { s.jobs[0].members[0].holding.profile = 9; }},
        Break{"tenant 1 does not exist", [](Snapshot& s) { s.jobs[0].members[0].holding.tenant = 1; }},
        Break{"member 4 of role 0 does not exist", [](Snapshot& s) { s.jobs[0].members[0].rank = 4; }},
        Break{"is pending, but has members", [](Snapshot& s) { s.jobs[0].phase = Phase::kPending; }},
        Break{"reserved for job \"c\": does not exist", [](Snapshot& s) { s.reserved = {{.job = "c"}}; }},
        Break{"reserved for job \"a\": node 2 does not exist",
              [](Snapshot& s) { s.reserved = {{.job = "a", .nodes = {2}}}; }},
        Break{"reserved for job \"a\": member 0 of role 7 does not exist",
              [](Snapshot& s) { s.reserved = {{.job = "a", .members = {{.role = 7, .holding = {}}}}}; }},
        Break{"health of 1 nodes, the cluster has 2", [](Snapshot& s) { s.health.resize(1); }},
        Break{"its type does not exist", [](Snapshot& s) { s.cluster.nodes[0].type = 5; }},
        Break{"node \"node-0000\" is given twice",
              [](Snapshot& s) { s.cluster.nodes[1].name = "node-0000"; }},
        Break{"has no nodes", [](Snapshot& s) { s.cluster.nodes.clear(); }},
        Break{"cpu_milli 9223372036854775807 is not 0 to 1000000000000",
              [](Snapshot& s) { s.cluster.types[0].cpu_milli = INT64_MAX; }},
        Break{"1e+308 watts", [](Snapshot& s) { s.cluster.kinds[0].busy_watts = 1e308; }},
        Break{"3 fabric domains have no parent, exactly one is the root",
              [](Snapshot& s) {
                s.cluster.fabric.levels = {"cluster"};
                s.cluster.fabric.domains.push_back({.name = "other"});
                for (Domain& domain : s.cluster.fabric.domains) domain = {.name = domain.name};
              }},
        Break{"belong together", [](Snapshot& s) { s.jobs[0].members[0].holding.milli = 0; }},
        Break{"more than one device is held in part",
              [](Snapshot& s) {
                s.jobs[0].members[0].holding.milli = 500;
                s.jobs[0].members[0].holding.devices = 5;
              }},
        Break{"there is no leaf queue \"\"", [](Snapshot& s) { s.queues = {{.name = "q", .parent = ""}}; }},
        Break{"queue \"a\" is deeper than 16 queues",
              [](Snapshot& s) { s.queues = {{.name = "a", .parent = "b"}, {.name = "b", .parent = "a"}}; }},
        Break{"broken devices 0x100, it has 8",
              [](Snapshot& s) {
                s.health.resize(2);
                s.health[1].broken_devices = 256;
              }},
        Break{"reserved for job \"a\": start 2262-",
              [](Snapshot& s) { s.reserved = {{.job = "a", .start = conf::TimePoint::max()}}; }},
        Break{"demand: next 5 is not above observed 9",
              [](Snapshot& s) {
                s.demand.observed = 9;
                s.demand.next = 5;
              }},
        Break{"demand: a shape: kinds 0x4 of 1",
              [](Snapshot& s) {
                s.demand.seen.emplace_back().count = 1;
                s.demand.seen[0].shape.kinds = 4;
              }},
        Break{"usage of queue \"q\": -1", [](Snapshot& s) { s.usage[{"q", ""}] = -1; }},
        Break{"as_of 2262-", [](Snapshot& s) { s.as_of = conf::TimePoint::max(); }},
        Break{"started 1969-",
              [](Snapshot& s) { s.jobs[0].started = conf::TimePoint(std::chrono::hours(-1)); }},
        Break{"limit 3650d01h is not between 0s and 3650d",
              [](Snapshot& s) { s.jobs[0].job.limit = std::chrono::hours(87'601); }},
        Break{"1000001 members, at most 1000000 fit",
              [](Snapshot& s) { s.jobs[0].job.roles[0].count = 1'000'001; }}));

TEST(SnapshotJson, TenThousandNodesAreRead) {
  const std::string text = WriteSnapshot(RandomSnapshot(5, 10'000));
  const Loaded<Snapshot> read = ReadSnapshot(text, "s.json");
  ASSERT_THAT(testing::Texts(read.problems), ElementsAre());
  EXPECT_EQ(read.value->cluster.nodes.size(), 10'000u);
}

}  // namespace
}  // namespace scheduler::io
