#include "tools/engine/handover.h"

#include <gtest/gtest.h>

#include "scheduler/engine/model.h"

namespace tidegate_engine {
namespace {

using namespace std::chrono_literals;

constexpr conf::TimePoint kNow{1000s};

TEST(Held, APromptIsTakenOnce) {
  Held held;
  const uint64_t first = held.Hold(100, 7, kNow + 10s);
  const uint64_t second = held.Hold(200, 13, kNow + 10s);
  EXPECT_EQ(second, first + 7) << "blocks are not given twice";
  EXPECT_EQ(held.Take(second, kNow), 200u);
  EXPECT_EQ(held.Take(second, kNow), std::nullopt);
  EXPECT_EQ(held.Take(first + 1, kNow), std::nullopt);
  EXPECT_EQ(held.Take(first, kNow), 100u);
  EXPECT_EQ(held.size(), 0u);
}

TEST(Held, APromptIsLetGoInTime) {
  Held held;
  const uint64_t first = held.Hold(100, 7, kNow + 10s);
  EXPECT_EQ(held.Take(first, kNow + 10s), std::nullopt);
  EXPECT_EQ(held.size(), 0u);
  EXPECT_EQ(held.expired(), 1u);
}

TEST(Held, IsBounded) {
  Held held;
  const uint64_t oldest = held.Hold(1, 1, kNow + 10s);
  for (size_t i = 0; i < Held::kMaxHeld; ++i) held.Hold(1, 1, kNow + 10s);
  EXPECT_EQ(held.size(), Held::kMaxHeld);
  EXPECT_EQ(held.Take(oldest, kNow), std::nullopt);
}

HandoverRequest Read(const std::string& body) {
  simdjson::dom::parser parser;
  std::optional<ApiError> error;
  const simdjson::dom::element document = parser.parse(body);
  const Fields fields(document.get_object().value(), error);
  return ReadHandover(fields);
}

TEST(HandoverRequest, IsReadAsVllmAndSglangSayIt) {
  const HandoverRequest first = Read(
      R"({"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,
          "remote_block_ids":null,"remote_host":null,"remote_port":null}})");
  EXPECT_TRUE(first.for_other);
  EXPECT_FALSE(first.from_other || first.blocks || first.room);
  const HandoverRequest second = Read(
      R"({"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":"e",
          "remote_block_ids":[7,8],"remote_host":"h","remote_port":5600}})");
  EXPECT_TRUE(second.from_other && second.blocks);
  EXPECT_EQ(second.engine, "e");
  EXPECT_EQ(second.host, "h");
  EXPECT_EQ(second.port, 5600u);
  EXPECT_EQ(second.first_block, 7u);
  const HandoverRequest room =
      Read(R"({"bootstrap_host":"h","bootstrap_port":8998,"bootstrap_room":9223372036854775807})");
  EXPECT_EQ(room.room, uint64_t{INT64_MAX});
  EXPECT_EQ(room.port, 8998u);
  EXPECT_FALSE(Read("{}").room);
}

// Steps that take a second a prompt token.
TEST(EngineModel, APromptThatWasGivenIsNotComputed) {
  scheduler::engine::Profile profile;
  profile.per_prefill_token = scheduler::engine::Nanos(1e9);
  scheduler::engine::Model model(profile, kNow);
  ASSERT_EQ(model.Submit(
                {.id = 1, .prompt_tokens = 100, .output_tokens = 1, .given_tokens = 100, .blocks = {}}, kNow),
            scheduler::engine::Admission::kAccepted);
  std::vector<scheduler::engine::Event> events;
  model.Step(kNow, events);
  const conf::TimePoint end = model.NextStep();
  EXPECT_EQ(end, kNow + 1s) << "only its last token is";
  model.Step(end, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].finished);
  EXPECT_EQ(events[0].cached_tokens, 99u);
}

}  // namespace
}  // namespace tidegate_engine
