#include "plugins/kv_events/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace plugins::kv_events {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

std::string Pack(const json& value) {
  std::string bytes;
  json::to_msgpack(value, bytes);
  return bytes;
}

std::string Packed(std::string_view text) {
  return Pack(json::parse(text));
}

Batch Good(std::string_view bytes) {
  std::variant<Batch, std::string> decoded = Decode(bytes);
  if (const std::string* why = std::get_if<std::string>(&decoded)) ADD_FAILURE() << *why;
  return decoded.index() == 0 ? std::get<Batch>(std::move(decoded)) : Batch();
}

std::string Wrong(std::string_view bytes) {
  const std::variant<Batch, std::string> decoded = Decode(bytes);
  return decoded.index() == 1 ? std::get<std::string>(decoded) : "";
}

// Written by hand after msgpack's specification: [1.5, [["BlockStored", [1, 2^63], nil, [7, 8, 9, 300], 2,
// nil, "GPU"], ["BlockRemoved", [-5], "GPU"], ["AllBlocksCleared"]], 0].
constexpr std::string_view kArrays =
    "93cb3ff8000000000000"  // ts
    "93"                    // events
    "97ab426c6f636b53746f7265649201cf8000000000000000c094070809cd012c02c0a3475055"
    "93ac426c6f636b52656d6f76656491fba3475055"
    "91b0416c6c426c6f636b73436c6561726564"
    "00";

TEST(KvEventBatch, IsReadFromArrays) {
  const Batch batch = Good(Hex(kArrays));
  EXPECT_EQ(batch.at, 1.5);
  ASSERT_EQ(batch.events.size(), 3u);
  const Event& stored = batch.events[0];
  EXPECT_EQ(stored.kind, Event::Kind::kStored);
  EXPECT_THAT(stored.hashes, ElementsAre(1, uint64_t{1} << 63));
  EXPECT_FALSE(stored.parent);
  EXPECT_THAT(stored.tokens, ElementsAre(7, 8, 9, 300));
  EXPECT_EQ(stored.block_size, 2u);
  EXPECT_TRUE(stored.plain);
  EXPECT_EQ(batch.events[1].kind, Event::Kind::kRemoved);
  EXPECT_THAT(batch.events[1].hashes, ElementsAre(static_cast<uint64_t>(-5)));
  EXPECT_EQ(batch.events[2].kind, Event::Kind::kCleared);
}

// {"ts": 1.5, "events": [{"type": "BlockStored", "block_hashes": [bin 4 "\x01\x02\x03\x04"],
// "parent_block_hash": bin 2 "ab", "token_ids": [1, 2], "block_size": 2, "lora_id": nil, "medium": "GPU",
// "lora_name": nil}], "data_parallel_rank": 3}.
constexpr std::string_view kMaps =
    "83a27473cb3ff8000000000000a66576656e747391"
    "88a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c40401020304"
    "b1706172656e745f626c6f636b5f68617368c4026162a9746f6b656e5f696473920102aa626c6f636b5f73697a6502"
    "a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0"
    "b2646174615f706172616c6c656c5f72616e6b03";

TEST(KvEventBatch, IsReadFromMapsWithHashesOfBytes) {
  const Batch batch = Good(Hex(kMaps));
  EXPECT_EQ(batch.at, 1.5);
  EXPECT_EQ(batch.rank, 3);
  ASSERT_EQ(batch.events.size(), 1u);
  EXPECT_THAT(batch.events[0].hashes, ElementsAre(XXH3_64bits("\x01\x02\x03\x04", 4)));
  EXPECT_EQ(batch.events[0].parent, XXH3_64bits("ab", 2));
  EXPECT_THAT(batch.events[0].tokens, ElementsAre(1, 2));
  EXPECT_TRUE(batch.events[0].plain);
}

json Stored() {
  return {"BlockStored", {1}, nullptr, {1, 2}, 2, nullptr, "GPU"};
}

TEST(KvEventBatch, TheFormsMayBeMixedAndGrow) {
  json map = {{"type", "BlockStored"},
              {"block_hashes", {9}},
              {"token_ids", {4}},
              {"block_size", 1},
              {"some_new_field", {{"deep", {1, {2}}}}}};
  const Batch batch = Good(Pack({2, {map, Stored(), {"BlockMoved", {1}, "CPU"}}, 0, "new", {{"x", 1}}}));
  ASSERT_EQ(batch.events.size(), 2u);
  EXPECT_THAT(batch.events[0].hashes, ElementsAre(9));
  EXPECT_EQ(batch.unknown, 1u);
  EXPECT_TRUE(Good(Pack({{"ts", 1}, {"events", {Stored()}}})).events.at(0).plain);
}

TEST(KvEventBatch, BlocksThatMoreThanTokensTellApartAreNotPlain) {
  const auto with = [](std::initializer_list<std::pair<size_t, json>> changes) {
    json event = Stored();
    event.insert(event.end(), {nullptr, nullptr, nullptr});  // lora_name, extra_keys, group_idx
    for (const auto& [place, value] : changes) event[place] = value;
    return Good(Pack({1, {event}})).events.at(0).plain;
  };
  EXPECT_TRUE(with({}));
  EXPECT_FALSE(with({{5, 7}}));
  EXPECT_FALSE(with({{6, "CPU"}}));
  EXPECT_FALSE(with({{7, "adapter"}}));
  EXPECT_TRUE(with({{8, {nullptr}}}));
  EXPECT_FALSE(with({{8, {{"image"}}}}));
  EXPECT_TRUE(with({{9, 0}}));
  EXPECT_FALSE(with({{9, 1}}));
}

TEST(KvEventBatch, SaysWhatIsWrong) {
  const struct {
    std::string bytes;
    const char* why;
  } cases[] = {
      {"", "not msgpack"},
      {Hex("93cb3ff8"), "not whole"},
      {Hex(kArrays) + "x", "not msgpack"},
      {Packed("7"), "is not a batch"},
      {Packed(R"(["x", []])"), "no time"},
      {Packed("[1, 2]"), "no list of events"},
      {Packed(R"([1, {"a": 1}, 0])"), "map for its events"},
      {Packed("[1, [1]]"), "neither a list nor a map"},
      {Packed("[1, [[]]]"), "without a type"},
      {Packed("[1, [[5]]]"), "without a type"},
      {Packed(R"([1, [["BlockStored", 5]]])"), "no list of hashes"},
      {Packed(R"([1, [["BlockStored", [1.5]]]])"), "neither a number nor bytes"},
      {Packed(R"([1, [["BlockStored", [1], 1.5]]])"), "parent"},
      {Packed(R"([1, [["BlockStored", [1], null, [-1], 1]]])"), "token that is not a number"},
      {Packed(R"([1, [["BlockStored", [1], null, [1], 0]]])"), "block size"},
      {Packed(R"([1, [["BlockStored", [1], null, [1], 70000]]])"), "block size"},
      {Packed(R"([1, [["BlockStored", [1], null, [1, 2, 3], 2]]])"), "do not fill"},
      {Packed(R"([1, [["BlockStored", [1], null, [1]]]])"), "do not fill"},
      {Packed(R"([1, [["BlockRemoved", [[1]]]]])"), "list within a list"},
  };
  for (const auto& [bytes, why] : cases) EXPECT_THAT(Wrong(bytes), HasSubstr(why));
}

TEST(KvEventBatch, NestingAndClaimedLengthsCostNothing) {
  EXPECT_THAT(Wrong(std::string(1 << 20, '\x91')), HasSubstr("deep"));
  EXPECT_NE(Wrong(Hex("ddffffffff")), "");
  EXPECT_NE(Wrong(Hex("9301dd7fffffff")), "");
  EXPECT_NE(Wrong(Hex("9301c6ffffffff00")), "");
}

TEST(KvEventBatch, AnyBytesAreDecodedOrRefused) {
  std::mt19937_64 random(1);
  for (const std::string& seed : {Hex(kArrays), Hex(kMaps)}) {
    for (int i = 0; i < 20'000; ++i) {
      std::string bytes = seed;
      for (uint64_t n = random() % 3 + 1; n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      bytes.resize(bytes.size() - random() % 3);
      const std::variant<Batch, std::string> decoded = Decode(bytes);
      if (const Batch* batch = std::get_if<Batch>(&decoded)) {
        for (const Event& event : batch->events) {
          if (event.kind == Event::Kind::kStored) {
            EXPECT_EQ(event.tokens.size(), event.hashes.size() * event.block_size);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plugins::kv_events
