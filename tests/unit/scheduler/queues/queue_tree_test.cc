#include "scheduler/queues/queue_tree.h"
#include "scheduler/queues/queue_defects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/rng.h"
#include "tests/unit/scheduler/clusters.h"

namespace scheduler {
namespace {

using ::testing::HasSubstr;

constexpr conf::Duration kHalfLife = std::chrono::seconds(3200);  // 32 steps of 100 s

conf::TimePoint At(int64_t seconds) {
  return conf::TimePoint(std::chrono::seconds(1'000'000 + seconds));
}

Cluster TwoKinds() {
  Cluster cluster = testing::EightWay(4);
  cluster.kinds.push_back({.name = "a100", .memory_mib = 40960});
  cluster.types.push_back(
      {.name = "old", .cpu_milli = 64'000, .memory_mib = 1 << 20, .kind = 1, .devices = 4});
  cluster.nodes.push_back({.name = "old-1", .type = 1});
  return cluster;
}

void Ask(QueueTree& tree, const char* queue, int64_t milli, KindId kind = 0, const char* user = "u") {
  const Amount amount{kind, milli};
  tree.Request(tree.Account(tree.Find(queue), user), std::span(&amount, 1));
}

QuotaVerdict Admit(const QueueTree& tree, AccountId account, int64_t milli, KindId kind = 0) {
  const Amount amount{kind, milli};
  return tree.Admit(account, std::span(&amount, 1));
}

TEST(QueueTree, WithoutQueuesOneHasEverything) {
  const Cluster cluster = testing::EightWay(2);
  QueueTree tree(cluster, {}, kHalfLife);
  const QueueIndex queue = tree.Find("whatever");
  EXPECT_EQ(tree.name(queue), "default");
  EXPECT_TRUE(tree.is_leaf(queue));
  const AccountId account = tree.Account(queue, "u");
  EXPECT_TRUE(Admit(tree, account, 16'000).admitted());
  Ask(tree, "", 99'000);
  tree.ComputeShares();
  EXPECT_EQ(tree.share(queue, 0), 16'000);
}

TEST(QueueTree, APartitionCountsByItsPartOfADevice) {
  Cluster cluster = TwoKinds();
  ShapeTable shapes(cluster);
  JobEntry entry;
  entry.job.roles.push_back({.ask = testing::Partition("2g.20gb"), .count = 3, .min_count = 1});
  entry.shapes.push_back(shapes.Resolve(entry.job.roles[0].ask, ""));
  const std::vector<Amount> wanted = DemandOf(entry, shapes, Extent::kWanted);
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0].kind, 0) << "the other kind cannot be cut";
  EXPECT_EQ(wanted[0].milli, 3 * (2 * 1000 / 7));
  EXPECT_EQ(DemandOf(entry, shapes, Extent::kMinimum).at(0).milli, 2 * 1000 / 7);
  EXPECT_EQ(DeviceMilli(entry.job, cluster), 3 * (2 * 1000 / 7));

  // Where two kinds can be cut so, the smaller one counts.
  PartitionLayout half = testing::Mig80();
  half.profiles[1].compute = 3;
  cluster.layouts.push_back(half);
  cluster.kinds[1].layout = 1;
  EXPECT_EQ(DeviceMilli(entry.job.roles[0].ask.devices[0], cluster), 2 * 1000 / 7);
  EXPECT_EQ(DeviceMilli(testing::Partition("9g").devices[0], cluster), 0);
}

TEST(QueueTree, RefusesByTheBoundThatIsMetAndSaysWhich) {
  const Cluster cluster = testing::EightWay(4);  // 32 devices
  const std::vector<Queue> queues = {
      {.name = "org", .parent = "", .deserved = {{"*", 16'000}}, .limit = {{"*", 20'000}}},
      {.name = "a", .parent = "org", .deserved = {{"h100", 8'000}}, .borrows = false},
      {.name = "b", .parent = "org", .limit = {{"h100", 18'000}}, .user_limit = {{"*", 10'000}}},
      {.name = "keeper", .parent = "", .deserved = {{"*", 10'000}}, .lends = DeviceQuota{{"*", 2'000}}},
      {.name = "free", .parent = ""}};
  ASSERT_EQ(FirstDefect(queues, cluster), "");
  QueueTree tree(cluster, queues, kHalfLife);
  const AccountId a = tree.Account(tree.Find("a"), "ann");
  const AccountId b = tree.Account(tree.Find("b"), "bob");
  const AccountId b2 = tree.Account(tree.Find("b"), "eve");
  const AccountId keeper = tree.Account(tree.Find("keeper"), "kim");
  const AccountId open = tree.Account(tree.Find("free"), "fay");
  using Bound = QuotaVerdict::Bound;

  EXPECT_TRUE(Admit(tree, a, 8'000).admitted());
  const QuotaVerdict over = Admit(tree, a, 8'001);
  EXPECT_EQ(over.bound, Bound::kDeserved);
  EXPECT_THAT(tree.Explain(over), HasSubstr("queue \"a\" does not borrow and has 0 of the 8 devices"));

  EXPECT_TRUE(Admit(tree, b, 10'000).admitted());
  const QuotaVerdict user = Admit(tree, b, 10'500);
  EXPECT_EQ(user.bound, Bound::kUserLimit);
  EXPECT_THAT(tree.Explain(user), HasSubstr("user \"bob\" has 0 of the 10 devices"));

  tree.Charge(b, {0, 10'000});
  EXPECT_EQ(Admit(tree, b2, 8'001).bound, Bound::kLimit);
  EXPECT_EQ(tree.name(Admit(tree, b2, 8'001).queue), "b");
  tree.Charge(b2, {0, 8'000});
  const QuotaVerdict org = Admit(tree, a, 2'001);
  EXPECT_EQ(org.bound, Bound::kLimit);
  EXPECT_THAT(tree.Explain(org), HasSubstr("queue \"org\" has 18 of its limit of 20 devices; 2.001 more"));
  EXPECT_TRUE(Admit(tree, a, 2'000).admitted());

  // 32 less 18 in use less 8 that the keeper does not lend.
  EXPECT_TRUE(Admit(tree, open, 6'000).admitted());
  const QuotaVerdict lent = Admit(tree, open, 6'001);
  EXPECT_EQ(lent.bound, Bound::kLent);
  EXPECT_THAT(tree.Explain(lent), HasSubstr("kept by queues that do not lend them"));
  tree.Charge(open, {0, 6'000});
  EXPECT_TRUE(Admit(tree, keeper, 8'000).admitted());
  EXPECT_FALSE(Admit(tree, keeper, 8'001).admitted());
  EXPECT_EQ(tree.Check(), "");
}

TEST(QueueTree, ALimitByKindLeavesOtherKindsAlone) {
  const Cluster cluster = TwoKinds();
  QueueTree tree(cluster, {{.name = "q", .parent = "", .limit = {{"a100", 1'000}}}}, kHalfLife);
  const AccountId account = tree.Account(tree.Find("q"), "u");
  EXPECT_TRUE(Admit(tree, account, 9'000, 0).admitted());
  EXPECT_EQ(Admit(tree, account, 1'001, 1).bound, QuotaVerdict::Bound::kLimit);
  EXPECT_TRUE(Admit(tree, account, 9'000, kAnyKind).admitted());
}

TEST(QueueTree, ARefundUndoesACharge) {
  const Cluster cluster = TwoKinds();
  const std::vector<Queue> queues = {
      {.name = "org", .parent = ""},
      {.name = "a", .parent = "org", .deserved = {{"h100", 4'000}}, .lends = DeviceQuota{{"h100", 1'000}}},
      {.name = "b", .parent = "org"}};
  QueueTree tree(cluster, queues, kHalfLife);
  const AccountId a = tree.Account(tree.Find("a"), "u");
  const AccountId b = tree.Account(tree.Find("b"), "u");
  Rng rng(5);
  std::vector<std::pair<AccountId, Amount>> charged;
  for (int i = 0; i < 2000; ++i) {
    if (charged.empty() || rng.Uniform(2) == 0) {
      charged.emplace_back(rng.Uniform(2) == 0 ? a : b, Amount{static_cast<KindId>(rng.Uniform(2)),
                                                               static_cast<int64_t>(rng.Uniform(5000))});
      tree.Charge(charged.back().first, charged.back().second);
    } else {
      tree.Refund(charged.back().first, charged.back().second);
      charged.pop_back();
    }
    ASSERT_EQ(tree.Check(), "");
  }
  while (!charged.empty()) {
    tree.Refund(charged.back().first, charged.back().second);
    charged.pop_back();
  }
  EXPECT_EQ(tree.allocated(tree.root(), kAnyKind), 0);
  EXPECT_EQ(tree.allocated(tree.Find("org"), 0), 0);
  EXPECT_EQ(tree.Check(), "");
}

struct ShareCase {
  const char* what;
  std::vector<Queue> queues;
  std::vector<std::pair<const char*, int64_t>> asks;
  std::vector<std::pair<const char*, int64_t>> shares;
};

TEST(FairShares, FollowDeservedThenWeightLevelByLevel) {
  const Cluster cluster = testing::EightWay(4);  // 32'000
  const std::vector<ShareCase> cases = {
      {"deserved first, what is left by weight",
       {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}, .over_quota_weight = 3},
        {.name = "b", .parent = "", .deserved = {{"*", 8'000}}, .over_quota_weight = 1}},
       {{"a", 99'000}, {"b", 99'000}},
       {{"a", 20'000}, {"b", 12'000}}},
      {"who asks less leaves the rest to others",
       {{.name = "a", .parent = "", .deserved = {{"*", 16'000}}},
        {.name = "b", .parent = "", .deserved = {{"*", 8'000}}},
        {.name = "c", .parent = ""}},
       {{"a", 4'000}, {"b", 9'000}, {"c", 99'000}},
       {{"a", 4'000}, {"b", 9'000}, {"c", 19'000}}},
      {"a queue that does not borrow stays at deserved",
       {{.name = "a", .parent = "", .deserved = {{"*", 8'000}}, .borrows = false},
        {.name = "b", .parent = ""}},
       {{"a", 99'000}, {"b", 99'000}},
       {{"a", 8'000}, {"b", 24'000}}},
      {"a limit binds below what would be fair",
       {{.name = "a", .parent = "", .limit = {{"*", 5'000}}}, {.name = "b", .parent = ""}},
       {{"a", 99'000}, {"b", 99'000}},
       {{"a", 5'000}, {"b", 27'000}}},
      {"what is kept back is no one's",
       {{.name = "a", .parent = "", .deserved = {{"*", 16'000}}, .lends = DeviceQuota{{"*", 4'000}}},
        {.name = "b", .parent = ""}},
       {{"a", 2'000}, {"b", 99'000}},
       {{"a", 2'000}, {"b", 20'000}}},
      {"more promised than there is",
       {{.name = "a", .parent = "", .deserved = {{"*", 48'000}}},
        {.name = "b", .parent = "", .deserved = {{"*", 16'000}}}},
       {{"a", 99'000}, {"b", 99'000}},
       {{"a", 24'000}, {"b", 8'000}}},
      {"children divide what their parent gets",
       {{.name = "org", .parent = "", .deserved = {{"*", 12'000}}, .over_quota_weight = 1},
        {.name = "a", .parent = "org", .deserved = {{"*", 10'000}}, .over_quota_weight = 1},
        {.name = "b", .parent = "org", .over_quota_weight = 1},
        {.name = "other", .parent = "", .deserved = {{"*", 12'000}}, .over_quota_weight = 3}},
       {{"a", 99'000}, {"b", 99'000}, {"other", 99'000}},
       {{"org", 14'000}, {"a", 12'000}, {"b", 2'000}, {"other", 18'000}}},
      {"thirds lose nothing to rounding",
       {{.name = "a", .parent = ""}, {.name = "b", .parent = ""}, {.name = "c", .parent = ""}},
       {{"a", 99'000}, {"b", 99'000}, {"c", 99'000}},
       {{"a", 10'667}, {"b", 10'667}, {"c", 10'666}}},
  };
  for (const ShareCase& c : cases) {
    ASSERT_EQ(FirstDefect(c.queues, cluster), "") << c.what;
    QueueTree tree(cluster, c.queues, kHalfLife);
    for (const auto& [queue, milli] : c.asks) Ask(tree, queue, milli);
    tree.ComputeShares();
    for (const auto& [queue, share] : c.shares) {
      EXPECT_EQ(tree.share(tree.Find(queue), 0), share) << c.what << ": " << queue;
    }
  }
}

TEST(FairShares, PastUsageAboveTheWeightLowersTheShare) {
  const Cluster cluster = testing::EightWay(4);
  QueueTree tree(cluster, {{.name = "a", .parent = ""}, {.name = "b", .parent = ""}}, kHalfLife);
  tree.RestoreUsage({{{"a", "u"}, 3e6}, {{"b", "u"}, 1e6}}, At(0));
  Ask(tree, "a", 99'000);
  Ask(tree, "b", 99'000);
  tree.ComputeShares();
  EXPECT_EQ(tree.share(tree.Find("a"), 0), 8'000);  // 0.5 + (0.5 - 0.75)
  EXPECT_EQ(tree.share(tree.Find("b"), 0), 24'000);
}

TEST(FairShares, NeverExceedTheTotalOrTheDemand) {
  const Cluster cluster = testing::EightWay(4);
  Rng rng(11);
  const auto some = [&](uint64_t below) { return static_cast<int64_t>(rng.Uniform(below)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Queue> queues;
    for (int q = 0; q < 6; ++q) {
      Queue queue{.name = fmt::format("q{}", q), .parent = q >= 3 ? fmt::format("q{}", some(2)) : ""};
      if (some(3) > 0) queue.deserved["*"] = some(20'000);
      if (some(3) == 0) queue.limit["*"] = some(40'000);
      if (some(4) == 0) queue.lends = DeviceQuota{{"*", some(5'000)}};
      queue.borrows = some(4) > 0;
      queue.over_quota_weight = static_cast<double>(some(4));
      queues.push_back(queue);
    }
    QueueTree tree(cluster, queues, kHalfLife);
    for (int q = 0; q < 6; ++q) {
      if (!tree.is_leaf(static_cast<QueueIndex>(q))) continue;
      Ask(tree, queues[static_cast<size_t>(q)].name.c_str(), some(60'000));
    }
    tree.ComputeShares();
    int64_t top = 0;
    for (QueueIndex q = 0; q < 6; ++q) {
      const int64_t share = tree.share(q, 0);
      ASSERT_GE(share, 0);
      ASSERT_LE(share, tree.requested(q, kAnyKind));
      if (queues[q].limit.contains("*")) {
        ASSERT_LE(share, queues[q].limit["*"]);
      }
      if (queues[q].parent.empty()) top += share;
      int64_t below = 0;
      for (QueueIndex c = 0; c < 6; ++c) below += tree.parent(c) == q ? tree.share(c, 0) : 0;
      ASSERT_LE(below, share);
    }
    ASSERT_LE(top, 32'000);
  }
}

TEST(Usage, HalvesEveryHalfLifeAndAccruesHeldDevices) {
  const Cluster cluster = testing::EightWay(4);
  QueueTree tree(cluster, {}, kHalfLife);
  tree.AdvanceTo(At(0));
  const AccountId account = tree.Account(0, "u");
  tree.Charge(account, {0, 8'000});
  tree.AdvanceTo(At(600));
  EXPECT_NEAR(static_cast<double>(tree.Usage(account)), 4.8e6 * (1 - 600 * std::log(2) / 6400), 0.03 * 4.8e6);
  tree.Refund(account, {0, 8'000});
  const auto before = static_cast<double>(tree.Usage(account));
  tree.AdvanceTo(At(600 + 3200));
  EXPECT_NEAR(static_cast<double>(tree.Usage(account)), before / 2, before * 1e-4);
  tree.AdvanceTo(At(600 + 4 * 3200));
  EXPECT_NEAR(static_cast<double>(tree.Usage(account)), before / 16, before * 1e-4);
  tree.AdvanceTo(At(10'000'000));
  EXPECT_EQ(tree.Usage(account), 0);
}

TEST(Usage, ARestoredTreeContinuesExactlyHoweverOftenItWasRead) {
  const Cluster cluster = testing::EightWay(4);
  const std::vector<Queue> queues = {{.name = "a", .parent = ""}, {.name = "b", .parent = ""}};
  Rng rng(3);
  QueueTree seldom(cluster, queues, kHalfLife);
  QueueTree often(cluster, queues, kHalfLife);
  int64_t now = 0;
  int64_t held = 0;
  for (int step = 0; step < 500; ++step) {
    now += static_cast<int64_t>(rng.Uniform(900));
    for (QueueTree* tree : {&seldom, &often}) {
      tree->AdvanceTo(At(now));
      const AccountId account = tree->Account(0, "u");
      if (held > 0) tree->Refund(account, {0, held});
    }
    held = static_cast<int64_t>(rng.Uniform(4)) * 7'001;
    for (QueueTree* tree : {&seldom, &often}) tree->Charge(tree->Account(0, "u"), {0, held});
    for (int look = 0; look < 3; ++look) {
      now += static_cast<int64_t>(rng.Uniform(200));
      often.AdvanceTo(At(now));
      often.Request(often.Account(0, "u"), {});
      often.ComputeShares();
    }
    seldom.AdvanceTo(At(now));
    ASSERT_EQ(seldom.ExportUsage(), often.ExportUsage());
    if (step % 50 == 0) {
      QueueTree restored(cluster, queues, kHalfLife);
      restored.RestoreUsage(seldom.ExportUsage(), At(now));
      restored.Charge(restored.Account(0, "u"), {0, held});
      restored.AdvanceTo(At(now + 100'000));
      QueueTree::UsageTable expected;
      {
        QueueTree same(cluster, queues, kHalfLife);
        same.RestoreUsage(often.ExportUsage(), At(now));
        same.Charge(same.Account(0, "u"), {0, held});
        for (int64_t t = 0; t <= 100'000; t += 317)
          same.AdvanceTo(At(now + t)), same.Usage(same.Account(0, "u"));
        same.AdvanceTo(At(now + 100'000));
        expected = same.ExportUsage();
      }
      ASSERT_EQ(restored.ExportUsage(), expected);
    }
  }
}

TEST(Usage, EmptyAccountsAreForgotten) {
  const Cluster cluster = testing::EightWay(4);
  QueueTree tree(cluster, {{.name = "org", .parent = ""}, {.name = "a", .parent = "org"}}, kHalfLife);
  AccountId highest = 0;
  for (int i = 0; i < 1000; ++i) {
    tree.AdvanceTo(At(i * 1'000'000));
    const AccountId account = tree.Account(tree.Find("a"), fmt::format("user-{}", i));
    highest = std::max(highest, account);
    const Amount amount{0, 1'000};
    tree.Request(account, std::span(&amount, 1));
    tree.Charge(account, amount);
    tree.AdvanceTo(At(i * 1'000'000 + 100));
    tree.Refund(account, amount);
    tree.Withdraw(account, std::span(&amount, 1));
    tree.ComputeShares();
  }
  EXPECT_LE(highest, 4u);
  EXPECT_EQ(tree.Check(), "");
}

TEST(QueueTree, ApartGivesTheChildrenOfTheLowestCommonAncestor) {
  const Cluster cluster = testing::EightWay(1);
  const QueueTree tree(cluster,
                       {{.name = "x", .parent = ""},
                        {.name = "x1", .parent = "x"},
                        {.name = "x2", .parent = "x"},
                        {.name = "y", .parent = ""},
                        {.name = "x2a", .parent = "x2"}},
                       kHalfLife);
  using Pair = std::pair<QueueIndex, QueueIndex>;
  EXPECT_EQ(tree.Apart(4, 1), Pair(2, 1));
  EXPECT_EQ(tree.Apart(4, 3), Pair(0, 3));
  EXPECT_EQ(tree.Apart(3, 1), Pair(3, 0));
  EXPECT_EQ(tree.Apart(4, 4), Pair(4, 4));
}

TEST(QueueDefects, AreNamed) {
  const Cluster cluster = testing::EightWay(1);
  const std::vector<std::pair<std::vector<Queue>, const char*>> cases = {
      {{{.name = "", .parent = ""}}, "a queue has no name"},
      {{{.name = "a", .parent = ""}, {.name = "a", .parent = ""}}, "queue \"a\" is defined twice"},
      {{{.name = "a", .parent = "b"}}, "its parent \"b\" does not exist"},
      {{{.name = "a", .parent = "b"}, {.name = "b", .parent = "a"}}, "queue \"a\" is above itself"},
      {{{.name = "a", .parent = "", .deserved = {{"h100", -1}}}}, "deserved of h100 is -1, below 0"},
      {{{.name = "a", .parent = "", .limit = {{"h200", 1}}}}, "limit names \"h200\""},
      {{{.name = "a", .parent = "", .over_quota_weight = -1}}, "over_quota_weight is -1"},
      {{{.name = "a", .parent = "", .over_quota_weight = std::nan("")}}, "over_quota_weight is nan"},
      {{{.name = "a", .parent = "", .deserved = {{"*", 2}}, .limit = {{"*", 1}}}}, "above its limit of 1"},
      {{{.name = "a", .parent = "", .deserved = {{"*", 2}}, .lends = DeviceQuota{{"*", 3}}}},
       "lends 3 of *, more than the 2"},
      {{{.name = "a", .parent = "", .deserved = {{"*", 5}}},
        {.name = "b", .parent = "a", .deserved = {{"*", 3}}},
        {.name = "c", .parent = "a", .deserved = {{"*", 3}}}},
       "queue \"c\": with it, the queues of \"a\" deserve 6 of *, more than its 5"},
  };
  for (const auto& [queues, message] : cases) EXPECT_THAT(FirstDefect(queues, cluster), HasSubstr(message));
}

}  // namespace
}  // namespace scheduler
