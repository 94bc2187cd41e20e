#include "gateway/control/lead/gateway_record.h"

#include <gtest/gtest.h>

#include "gateway/control/lead/demand_elsewhere.h"

namespace gateway::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const conf::TimePoint kNow = conf::FromUnixMicros(1'790'000'000'000'000);

GatewayRecord RecordOf(std::string start, DemandByModel demand) {
  return {.name = "b:9091", .start = std::move(start), .version = "0.2.0", .demand = std::move(demand)};
}

TEST(GatewayRecord, ReadsWhatItWrote) {
  const GatewayRecord record{
      .name = "a:9091",
      .id = "0123456789abcdef",
      .start = "1f",
      .version = "0.2.0",
      .address = "0.0.0.0:9091",
      .public_key = "a2V5",
      .since = kNow,
      .epoch = 7,
      .followed = 4711,
      .leaving = {{"r-chat-1", 3}},
      .demand = {{"chat",
                  {.work_ns = 1,
                   .came = 2,
                   .in_time = 3,
                   .late = 4,
                   .hopeless = 5,
                   .held_work_ns = 6,
                   .active = 7,
                   .waiting = 8,
                   .oldest = milliseconds(900),
                   .lines = 9,
                   .oldest_line = milliseconds(1100)}}},
      .tries = {{"chat",
                 {{"chat@r-chat-1",
                   {.tries = 10,
                    .failures = 11,
                    .first_token = {12, 13, uint64_t{1} << 60},
                    .token_time = {15, 16, 17}}}}},
                {"without-replicas", {}}},
      .adapters = {
          {"chat|sql", {.waits = true, .idle = milliseconds(1200), .in_flight = {{"chat@r-chat-1", 2}}}},
          {"chat|law", {.idle = milliseconds(0)}}}};
  const absl::StatusOr<GatewayRecord> read = ReadGateway("a:9091", BodyOf(record));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, record);
}

TEST(GatewayRecord, AnInvalidRecordIsDataLoss) {
  EXPECT_TRUE(absl::IsDataLoss(ReadGateway("a", "{}").status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadGateway("a", "no").status()));
}

TEST(GatewayRecord, TellsOfTheBusiestModelsWhereThereAreTooMany) {
  GatewayRecord record = RecordOf("1", {});
  for (size_t i = 0; i < kMostModelsInRecord + 10; ++i) record.demand[std::to_string(i)] = {.came = 1};
  record.demand["waits"] = {.waiting = 1};
  const absl::StatusOr<GatewayRecord> read = ReadGateway("b:9091", BodyOf(record));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->demand.size(), kMostModelsInRecord);
  EXPECT_TRUE(read->demand.contains("waits"));
}

TEST(GatewayRecord, TellsOfAdaptersThatRequestsWaitForWhereThereAreTooMany) {
  GatewayRecord record = RecordOf("1", {});
  for (size_t i = 0; i < kMostAdaptersInRecord + 10; ++i)
    record.adapters[std::to_string(i)] = {.idle = milliseconds(1)};
  record.adapters["waits"] = {.waits = true};
  TriesByReplica& replicas = record.tries["chat"];
  for (size_t i = 0; i < kMostTriesInRecord + 10; ++i) replicas[std::to_string(i)] = {.tries = 1};
  const absl::StatusOr<GatewayRecord> read = ReadGateway("b:9091", BodyOf(record));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->adapters.size(), kMostAdaptersInRecord);
  EXPECT_TRUE(read->adapters.contains("waits"));
  EXPECT_EQ(read->tries.at("chat").size(), kMostTriesInRecord);
}

TEST(DemandElsewhere, CountsIncreasesAlone) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 1000, .came = 10}}}), kNow);
  EXPECT_EQ(demand.Sum(kNow)["chat"].work_ns, 0u);  // counted before it was heard of
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 1500, .came = 12}}}), kNow);
  EXPECT_EQ(demand.Sum(kNow)["chat"].work_ns, 500u);
  EXPECT_EQ(demand.Sum(kNow)["chat"].came, 2u);
}

TEST(DemandElsewhere, AModelThatIsNewCountsFromItsFirstRequest) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {}), kNow);
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 1500, .came = 2}}}), kNow);
  EXPECT_EQ(demand.Sum(kNow)["chat"].work_ns, 1500u);
}

TEST(DemandElsewhere, AnotherStartCountsFromItsOwnBegin) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {}), kNow);
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 1500}}}), kNow);
  demand.Update(RecordOf("2", {{"chat", {.work_ns = 100}}}), kNow);
  demand.Update(RecordOf("2", {{"chat", {.work_ns = 300}}}), kNow);
  EXPECT_EQ(demand.Sum(kNow)["chat"].work_ns, 1700u);
}

TEST(DemandElsewhere, WhatWaitsGetsOlder) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {{"chat", {.active = 4, .waiting = 3, .oldest = milliseconds(200)}}}), kNow);
  const DemandByModel sum = demand.Sum(kNow + seconds(1));
  EXPECT_EQ(sum.at("chat").waiting, 3u);
  EXPECT_EQ(sum.at("chat").active, 4u);
  EXPECT_EQ(sum.at("chat").oldest, milliseconds(1200));
}

TEST(DemandElsewhere, LinesOfBatchesAreToldBesideTheDemand) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {{"chat", {.lines = 5, .oldest_line = seconds(3)}}, {"other", {.lines = 2}}}),
                kNow);
  const DemandByModel sum = demand.Sum(kNow + seconds(1));
  EXPECT_EQ(sum.at("chat").lines, 5u);
  EXPECT_EQ(sum.at("chat").active, 0u);
  EXPECT_EQ(sum.at("chat").oldest_line, seconds(4));
  EXPECT_EQ(sum.at("other").oldest_line, seconds(0)) << "none of them waits";
  demand.Gone("b:9091");
  EXPECT_EQ(demand.Sum(kNow).at("chat").lines, 0u);
  EXPECT_EQ(demand.Sum(kNow).at("chat").oldest_line, seconds(0));
}

TEST(DemandElsewhere, AGatewayThatIsGoneWaitsForNothing) {
  DemandElsewhere demand;
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 5, .active = 4, .waiting = 3}}}), kNow);
  demand.Gone("b:9091");
  EXPECT_EQ(demand.Sum(kNow)["chat"].waiting, 0u);
  EXPECT_EQ(demand.Sum(kNow)["chat"].active, 0u);
  // It was cut off, and comes back: it counts on.
  demand.Update(RecordOf("1", {{"chat", {.work_ns = 25, .active = 1}}}), kNow);
  EXPECT_EQ(demand.Sum(kNow)["chat"].work_ns, 20u);
  EXPECT_EQ(demand.Sum(kNow)["chat"].active, 1u);
}

}  // namespace
}  // namespace gateway::control
