#include "tools/engine/kv_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/engine/kv_publisher.h"

namespace tidegate_engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<uint64_t> kTokens = {1, 2, 3, 4, 5, 6, 7};

TEST(KvLog, TellsWhatStandsInStoredBlocks) {
  KvLog log(2);
  log.Begin(1, {10, 11, 12}, kTokens);
  log.changes() = {{10, true}, {11, true}};
  std::vector<KvEvent> events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].stored);
  EXPECT_FALSE(events[0].parent);
  EXPECT_THAT(events[0].hashes, ElementsAre(10, 11));
  EXPECT_THAT(events[0].tokens, ElementsAre(1, 2, 3, 4));
  log.changes() = {{12, true}};
  events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].parent, 11u);
  EXPECT_THAT(log.Take(), IsEmpty());
  EXPECT_EQ(log.batches(), 2u);
}

TEST(KvLog, KeepsTheOrderOfStoringAndEvicting) {
  KvLog log(2);
  log.Begin(1, {10, 11}, kTokens);
  log.Begin(2, {20}, kTokens);
  log.changes() = {{10, true}, {20, true}, {20, false}, {10, false}, {11, true}};
  const std::vector<KvEvent> events = log.Take();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0].hashes, ElementsAre(10));
  EXPECT_THAT(events[1].hashes, ElementsAre(20));
  EXPECT_THAT(events[2].hashes, ElementsAre(20, 10));
  EXPECT_FALSE(events[2].stored);
  EXPECT_THAT(events[3].hashes, ElementsAre(11));
}

TEST(KvLog, KnowsABlockAsLongAsAnybodyHasIt) {
  KvLog log(2);
  log.Begin(1, {10}, kTokens);
  log.changes() = {{10, true}};
  log.End(1);
  EXPECT_EQ(log.Take().size(), 1u);
  log.Begin(2, {10, 11}, kTokens);
  log.changes() = {{10, false}};
  EXPECT_EQ(log.Take().size(), 1u);
  log.changes() = {{10, true}, {11, true}};  // the sequence is still there
  const std::vector<KvEvent> events = log.Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0].tokens, ElementsAre(1, 2, 3, 4));
  log.End(2);
  log.End(2);
}

TEST(KvBatch, IsWhatVllmSends) {
  const std::vector<KvEvent> events = {
      {.stored = true, .hashes = {10, 11}, .parent = 9, .tokens = {1, 2, 3, 4}},
      {.stored = false, .hashes = {7}, .parent = {}, .tokens = {}}};
  EXPECT_EQ(nlohmann::json::from_msgpack(EncodeKvBatch(events, 1.5, false)), nlohmann::json::parse(R"([1.5, [
      ["BlockStored", [10, 11], 9, [1, 2, 3, 4], 2, null, "GPU"],
      ["BlockRemoved", [7], "GPU"]], 0])"));
  EXPECT_EQ(nlohmann::json::from_msgpack(EncodeKvBatch(events, 1.5, true)), nlohmann::json::parse(R"({
      "ts": 1.5, "data_parallel_rank": 0, "events": [
      {"type": "BlockStored", "block_hashes": [10, 11], "parent_block_hash": 9, "token_ids": [1, 2, 3, 4],
       "block_size": 2, "lora_id": null, "medium": "GPU"},
      {"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU"}]})"));
}

}  // namespace
}  // namespace tidegate_engine
