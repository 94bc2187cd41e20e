#include "gateway/config/never_fits.h"

#include <gtest/gtest.h>

namespace gateway::config {
namespace {

using scheduler::DeviceAsk;
using scheduler::Queue;

scheduler::Cluster TwoNodes() {
  scheduler::Cluster cluster;
  cluster.kinds = {{.name = "h100"}, {.name = "a100"}};
  cluster.types = {{.name = "new", .kind = 0, .devices = 8}, {.name = "old", .kind = 1, .devices = 8}};
  cluster.nodes = {{.name = "n1", .type = 0}, {.name = "n2", .type = 1}};
  scheduler::GroupIntoLeaves(cluster, 2);
  return cluster;
}

scheduler::Job Of(std::string queue, uint32_t members, std::vector<DeviceAsk> devices) {
  scheduler::Job job;
  job.id = "job";
  job.queue = std::move(queue);
  job.roles = {
      {.name = "member", .ask = {.devices = std::move(devices)}, .count = members, .min_count = members}};
  return job;
}

std::string WhyNever(const std::vector<Queue>& queues, const scheduler::Job& job) {
  const std::optional<NeverFits> never = FindNeverFits(TwoNodes(), queues, job);
  if (!never) return {};
  EXPECT_EQ(never->pointer, "/queue");
  EXPECT_EQ(never->value, job.queue);
  return never->message;
}

TEST(NeverFits, AJobAboveTheLimitOfItsQueueOrOfOneAboveNeverStarts) {
  const std::vector<Queue> queues = {{.name = "all", .parent = "", .limit = {{"*", 12'000}}},
                                     {.name = "team", .parent = "all", .limit = {{"h100", 4000}}},
                                     {.name = "other", .parent = "all"}};
  EXPECT_EQ(WhyNever(queues, Of("team", 2, {{.kinds = {"h100"}, .count = 2}})), "") << "exactly its limit";
  EXPECT_EQ(
      WhyNever(queues, Of("team", 5, {{.kinds = {"h100"}, .count = 1}})),
      "the queue team may have at most 4 h100, and this job takes 5; ask for less, or choose another queue");
  EXPECT_EQ(
      WhyNever(queues, Of("other", 2, {{.count = 7}})),
      "the queue all may have at most 12 devices, and this job takes 14; ask for less, or choose another "
      "queue");
}

TEST(NeverFits, AJobThatMayTakeAnotherKindIsNotHeldToTheLimitOfOne) {
  const std::vector<Queue> queues = {{.name = "team", .parent = "", .limit = {{"h100", 1000}}}};
  EXPECT_EQ(WhyNever(queues, Of("team", 2, {{.kinds = {"h100", "a100"}, .count = 1}})), "");
  EXPECT_EQ(WhyNever(queues, Of("team", 2, {{.count = 1}})), "");
}

TEST(NeverFits, AJobAboveWhatEachUserMayHaveNeverStarts) {
  const std::vector<Queue> queues = {{.name = "team", .parent = "", .user_limit = {{"*", 1500}}}};
  EXPECT_EQ(WhyNever(queues, Of("team", 3, {{.milli = 500}})), "");
  EXPECT_EQ(
      WhyNever(queues, Of("team", 4, {{.milli = 500}})),
      "the queue team gives each user at most 1.5 devices, and this job takes 2; ask for less, or choose "
      "another queue");
}

TEST(NeverFits, AJobAboveWhatAQueueThatDoesNotBorrowDeservesNeverStarts) {
  const std::vector<Queue> queues = {
      {.name = "team", .parent = "", .deserved = {{"*", 2000}}, .borrows = false},
      {.name = "other", .parent = "", .deserved = {{"*", 2000}}}};
  EXPECT_EQ(WhyNever(queues, Of("team", 2, {{.count = 1}})), "");
  EXPECT_EQ(WhyNever(queues, Of("other", 3, {{.count = 1}})), "") << "it borrows";
  EXPECT_EQ(
      WhyNever(queues, Of("team", 3, {{.count = 1}})),
      "the queue team does not borrow and deserves 2 devices, and this job takes 3; ask for less, or choose "
      "another queue");
}

TEST(NeverFits, AJobThatNeedsWhatOtherQueuesDoNotLendNeverStarts) {
  const std::vector<Queue> queues = {
      {.name = "kept", .parent = "", .deserved = {{"*", 12'000}}, .lends = scheduler::DeviceQuota{{"*", 0}}},
      {.name = "team", .parent = ""}};
  EXPECT_EQ(WhyNever(queues, Of("team", 4, {{.count = 1}})), "");
  EXPECT_EQ(
      WhyNever(queues, Of("team", 5, {{.count = 1}})),
      "the cluster keeps 12 of 16 devices for queues that do not lend them, and this job takes 5; ask for "
      "less, or choose another queue");
}

}  // namespace
}  // namespace gateway::config
