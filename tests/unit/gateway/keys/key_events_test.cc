#include "gateway/keys/key_events.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/ledger/segment.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

using gateway::KeyEvents;
using gateway::ledger::Kind;
using tests::World;

KeyEvents Anew(World& world) {
  return {*world.shared.ledger, world.ledger_dir(), *world.shared.keys, world.events_file};
}

TEST(KeyEvents, EachIsRecordedOnceWithoutItsSecret) {
  World world;
  const std::string secret = world.AppKey();
  const std::string id = secret.substr(3, 10);
  ASSERT_TRUE(world.shared.keys->Revoke(id, {"cli:me"}, "leaked", gateway::net::Now()).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world.key_events->CarryOver().ok());
  const auto records = world.Records(Kind::kKey);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["action"], "created");
  EXPECT_EQ(records[0]["tenant"], "demo/search");
  EXPECT_EQ(records[1]["subject"], id);
  EXPECT_EQ(records[1]["actor"], "cli:me");
  for (const auto& record : records) {
    EXPECT_EQ(record.dump().find(secret), std::string::npos);
    EXPECT_EQ(record.dump().find("hash"), std::string::npos);
  }
}

TEST(KeyEvents, ADamagedRecordDoesNotStopThoseThatFollow) {
  World world;
  world.AppKey();
  world.AppKey();
  ASSERT_TRUE(world.key_events->CarryOver().ok());
  const std::string segment = gateway::ledger::ListSegments(world.ledger_dir())->at(0).path;
  std::string text = tests::ReadFile(segment);
  const size_t first = text.find("\"action\":\"created\"");
  ASSERT_NE(first, std::string::npos);
  text[first + 12] = '"';
  std::ofstream(segment) << text;
  std::filesystem::remove(world.events_file);
  world.AppKey();
  KeyEvents events = Anew(world);
  ASSERT_TRUE(events.CarryOver().ok());
  EXPECT_EQ(events.last(), 3u);
}

// As after a restart: with the file, without it, and with one that a crash left behind the ledger.
TEST(KeyEvents, ANewProcessGoesOnWhereTheLastOneStopped) {
  for (const char* what : {"file kept", "file lost", "file old", "file broken"}) {
    World world;
    world.AppKey();
    ASSERT_TRUE(world.key_events->CarryOver().ok());
    const std::string old = tests::ReadFile(world.events_file);
    world.AppKey();
    ASSERT_TRUE(world.key_events->CarryOver().ok());
    const std::string now = tests::ReadFile(world.events_file);
    ASSERT_NE(old, now);
    const std::string found = std::string_view(what) == "file old"      ? old
                              : std::string_view(what) == "file broken" ? "not ours"
                                                                        : now;
    std::ofstream(world.events_file) << found;
    if (std::string_view(what) == "file lost") std::filesystem::remove(world.events_file);
    world.AppKey();
    KeyEvents events = Anew(world);
    ASSERT_TRUE(events.CarryOver().ok());
    EXPECT_EQ(events.last(), 3u) << what;
    EXPECT_EQ(world.Records(Kind::kKey).size(), 3u) << what;
  }
}

TEST(KeyEvents, TheEventsOfAnotherStoreBeginAnew) {
  World world;
  world.AppKey();
  world.AppKey();
  ASSERT_TRUE(world.key_events->CarryOver().ok());
  world.OpenKeys(world.dir / "other.jsonl");
  world.AppKey();
  KeyEvents events = Anew(world);
  ASSERT_TRUE(events.CarryOver().ok());
  EXPECT_EQ(events.last(), 1u);
  EXPECT_EQ(world.Records(Kind::kKey).size(), 3u);
}

TEST(KeyEvents, AStoppedLedgerIsAnErrorAndLosesNothing) {
  World world;
  world.AppKey();
  ASSERT_TRUE(world.shared.ledger->Stop().ok());
  EXPECT_FALSE(world.key_events->CarryOver().ok());
  EXPECT_EQ(world.key_events->last(), 0u);
}

}  // namespace
