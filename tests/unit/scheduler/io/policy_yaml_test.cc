#include "scheduler/io/policy_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/queues/queue_defects.h"
#include "tests/unit/scheduler/clusters.h"
#include "tests/unit/scheduler/io/problems.h"

namespace scheduler::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Problems(std::string_view text) {
  const Cluster cluster = scheduler::testing::EightWay(4, 2);
  const Loaded<PolicyFile> read = ReadPolicy(text, "p.yaml", &cluster);
  EXPECT_NE(read.value.has_value(), !read.problems.empty());
  return testing::Texts(read.problems);
}

TEST(PolicyYaml, EveryFieldIsRead) {
  const Loaded<PolicyFile> read = ReadPolicy(R"(
order: [{name: size, weight: 2.5}]
placement: binpack
inference_placement: random
inference_zone: [leaf-1]
backfill: {kind: conservative, depth: 3, unknown_estimate: 2h, evict_overrunning: true}
preemption: {by_priority: false, reclaim: false, victims: youngest, grace: 5s, max_victims: 7}
defragment: {enabled: true, every: 3m, partition_nodes: 100, max_moves: 4, depth: 1}
moves: {per_hour: 6, rest: 5m, least_left: 2m, least_gain: 1m}
faults: {suspect_after: 2, quarantine_after: 4, window: 1h, recover_after: 2h, hot_swap: false}
usage_half_life: 3d
queues:
  - name: a
    deserved: {h100: 64, "*": 1.5}
    limit: {h100: 80}
    over_quota_weight: 3
    borrows: false
    lends: {h100: 0.25}
    user_limit: {"*": 1}
  - {name: b, parent: a}
)",
                                             "p.yaml");
  ASSERT_THAT(testing::Texts(read.problems), ElementsAre());
  const Policy& p = read.value->policy;
  EXPECT_EQ(p.order[0].name, "size");
  EXPECT_EQ(p.order[0].weight, 2.5);
  EXPECT_EQ(p.placement, "binpack");
  EXPECT_EQ(p.inference_placement, "random");
  EXPECT_THAT(p.inference_zone, ElementsAre("leaf-1"));
  EXPECT_EQ(p.backfill.kind, Backfill::kConservative);
  EXPECT_EQ(p.backfill.depth, 3u);
  EXPECT_EQ(p.backfill.unknown_estimate, std::chrono::hours(2));
  EXPECT_TRUE(p.backfill.evict_overrunning);
  EXPECT_FALSE(p.preemption.by_priority || p.preemption.reclaim);
  EXPECT_EQ(p.preemption.victims, VictimOrder::kYoungest);
  EXPECT_EQ(p.preemption.grace, std::chrono::seconds(5));
  EXPECT_EQ(p.preemption.max_victims, 7u);
  EXPECT_TRUE(p.defragment.enabled);
  EXPECT_EQ(p.defragment.every, std::chrono::minutes(3));
  EXPECT_EQ(p.defragment.partition_nodes, 100u);
  EXPECT_EQ(p.defragment.max_moves, 4u);
  EXPECT_EQ(p.moves.per_hour, 6u);
  EXPECT_EQ(p.moves.rest, std::chrono::minutes(5));
  EXPECT_EQ(p.moves.least_left, std::chrono::minutes(2));
  EXPECT_EQ(p.moves.least_gain, std::chrono::minutes(1));
  EXPECT_EQ(p.defragment.depth, 1u);
  EXPECT_EQ(p.faults.suspect_after, 2u);
  EXPECT_EQ(p.faults.quarantine_after, 4u);
  EXPECT_EQ(p.faults.window, std::chrono::hours(1));
  EXPECT_EQ(p.faults.recover_after, std::chrono::hours(2));
  EXPECT_FALSE(p.faults.hot_swap);
  EXPECT_EQ(p.usage_half_life, std::chrono::hours(72));
  const Queue& q = read.value->queues[0];
  EXPECT_EQ(q.deserved, (DeviceQuota{{"h100", 64'000}, {"*", 1'500}}));
  EXPECT_EQ(q.limit, (DeviceQuota{{"h100", 80'000}}));
  EXPECT_EQ(q.over_quota_weight, 3);
  EXPECT_FALSE(q.borrows);
  EXPECT_EQ(q.lends, (DeviceQuota{{"h100", 250}}));
  EXPECT_EQ(q.user_limit, (DeviceQuota{{"*", 1'000}}));
  EXPECT_EQ(read.value->queues[1].parent, "a");
}

TEST(PolicyYaml, RoundTrips) {
  for (const auto& file : testing::Shipped("policies", ".yaml")) {
    Loaded<PolicyFile> read = ReadPolicy(testing::ReadShipped(file), file.filename());
    ASSERT_TRUE(read.value) << file;
    read.value->policy.placement = "e-binpack";
    const std::string json = WritePolicy(*read.value);
    const Loaded<PolicyFile> again = ReadPolicy(json, "json");
    ASSERT_THAT(testing::Texts(again.problems), ElementsAre()) << file;
    EXPECT_EQ(WritePolicy(*again.value), json);
  }
}

TEST(PolicyYaml, TheShippedPoliciesAreAccepted) {
  const auto files = testing::Shipped("policies", ".yaml");
  ASSERT_GE(files.size(), 6u);
  const Cluster cluster = scheduler::testing::EightWay(16);
  for (const auto& file : files) {
    const Loaded<PolicyFile> read = ReadPolicy(testing::ReadShipped(file), file.filename(), &cluster);
    EXPECT_THAT(testing::Texts(read.problems), ElementsAre());
    if (read.value) EXPECT_EQ(FirstDefect(read.value->queues, cluster), "") << file;
  }
}

TEST(PolicyYaml, TheDefaultFileSaysTheDefaults) {
  const auto file = testing::ConfDirectory() / "policies" / "default.yaml";
  const Loaded<PolicyFile> read = ReadPolicy(testing::ReadShipped(file), "default.yaml");
  ASSERT_TRUE(read.value);
  EXPECT_EQ(WritePolicy(*read.value), WritePolicy({}));
}

TEST(PolicyYaml, ReportsAllProblemsWithACorrection) {
  EXPECT_THAT(
      Problems(R"(order: [{name: prioriti}, {name: age}, {name: age}]
placement: binpak
inference_zone: [leaf-9]
backfil: {}
backfill: {kind: eazy, depth: 0}
preemption: {grace: 30}
faults: {suspect_after: 4, quarantine_after: 2}
usage_half_life: 0
)"),
      UnorderedElementsAre(
          "p.yaml:/order/0/name (line 1): unknown order term \"prioriti\", did you mean \"priority\"?",
          "p.yaml:/order/2/name (line 1): order term \"age\" is given twice, first at /order/1; add their "
          "weights",
          "p.yaml:/placement (line 2): unknown placement \"binpak\", did you mean \"binpack\"?",
          "p.yaml:/inference_zone/0 (line 3): unknown leaf group \"leaf-9\", did you mean \"leaf-0\"?",
          "p.yaml:/backfil (line 4): unknown key \"backfil\", did you mean \"backfill\"?",
          "p.yaml:/backfill/kind (line 5): unknown backfill \"eazy\", did you mean \"easy\"?",
          "p.yaml:/backfill/depth (line 5): must be at least 1",
          HasSubstr("p.yaml:/preemption/grace (line 6): expected a duration with a unit"),
          HasSubstr("p.yaml:/faults/quarantine_after (line 7): is 2, below suspect_after, 4"),
          "p.yaml:/usage_half_life (line 8): must be longer than 0"));
}

TEST(PolicyYaml, QueuesAreATreeWhoseQuotasCanBeKept) {
  EXPECT_THAT(
      Problems("queues: [{name: a}, {name: a}]"),
      ElementsAre(HasSubstr("/queues/1/name (line 1): queue \"a\" is given twice, first at /queues/0")));
  EXPECT_THAT(Problems("queues: [{name: research}, {name: b, parent: reserch}]"),
              ElementsAre(HasSubstr("unknown queue \"reserch\", did you mean \"research\"?")));
  EXPECT_THAT(Problems("queues: [{name: a, parent: b}, {name: b, parent: a}, {name: c, parent: b}]"),
              ElementsAre(HasSubstr("/queues/0/parent (line 1): is a cycle: a -> b -> a"),
                          HasSubstr("/queues/1/parent (line 1): is a cycle: b -> a -> b")));
  EXPECT_THAT(
      Problems("queues: [{name: a, deserved: {h100: 9}, limit: {h100: 8.5}}]"),
      ElementsAre(HasSubstr("/queues/0/deserved (line 1): 9 of h100 are deserved, above the limit of 8.5")));
  EXPECT_THAT(Problems("queues: [{name: a, deserved: {h100: 9}}, {name: b, parent: a, deserved: {h100: 5}}, "
                       "{name: c, parent: a, deserved: {h100: 5}}]"),
              ElementsAre(HasSubstr("its children deserve 10 of h100 together, above its own 9")));
  EXPECT_THAT(Problems("queues: [{name: a, deserved: {h100: 2}, lends: {h100: 3}}]"),
              ElementsAre(HasSubstr("/queues/0/lends/h100 (line 1): 3 of h100 are lent, above the 2")));
  EXPECT_THAT(Problems("queues: [{name: a, limit: {h10: 9}}]"),
              ElementsAre(HasSubstr(
                  "/queues/0/limit/h10 (line 1): unknown device kind \"h10\", did you mean \"h100\"?")));
  EXPECT_THAT(Problems("queues: [{name: a, limit: {h100: -1}}]"),
              ElementsAre(HasSubstr("expected a number of devices from 0 to 10^9")));
  EXPECT_THAT(Problems("queues: [{name: a, limit: {h100: 0.0005}}]"),
              ElementsAre(HasSubstr("expected a number of devices from 0 to 10^9")));
}

TEST(PolicyYaml, BoundsAmountsSoThatSumsCannotOverflow) {
  EXPECT_THAT(Problems("order: [{name: age, weight: 1e308}]"), ElementsAre(HasSubstr("must be between")));
  EXPECT_THAT(Problems("preemption: {grace: 3651d}"), ElementsAre(HasSubstr("must be at most 3650d")));
  EXPECT_THAT(Problems("usage_half_life: 100000d"), ElementsAre(HasSubstr("must be at most 3650d")));
  EXPECT_THAT(Problems("queues: [{name: a, limit: {h100: 1000000000}}]"),
              ElementsAre(HasSubstr("expected a number of devices from 0 to 10^9")));
}

TEST(PolicyYaml, ALongChainOfQueuesIsRefusedAtOnce) {
  std::string text = "queues:\n";
  for (int i = 0; i < 9'000; ++i)
    text += "  - {name: q" + std::to_string(i) + ", parent: q" + std::to_string((i + 1) % 9'000) + "}\n";
  EXPECT_FALSE(Problems(text).empty());
  for (int i = 0; i < 2'000; ++i) text += "  - {name: r" + std::to_string(i) + "}\n";
  EXPECT_THAT(Problems(text), ElementsAre("p.yaml:/queues (line 2): 11000 queues, at most 10000 fit"));
}

TEST(PolicyYaml, AQueueTreeHasABottom) {
  std::string text = "queues:\n  - {name: q0}\n";
  for (int i = 1; i <= 17; ++i)
    text += "  - {name: q" + std::to_string(i) + ", parent: q" + std::to_string(i - 1) + "}\n";
  EXPECT_THAT(Problems(text), ::testing::Contains(HasSubstr("is deeper than 16 queues")));
}

}  // namespace
}  // namespace scheduler::io
