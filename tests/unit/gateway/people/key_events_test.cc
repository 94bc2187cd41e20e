#include "gateway/people/key_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/ledger/segment.h"
#include "gateway/store/kinds.h"
#include "tests/unit/gateway/admin/world.h"

namespace {

namespace store = gateway::store;
using gateway::KeyEvents;
using gateway::ledger::Kind;
using tests::World;

// As a new process finds it: what was pending and what the ledger has stay, what was in memory is gone.
void Restart(World& world) {
  world.key_events->Stop();
  world.loop.Drain();
  world.key_events =
      std::make_unique<KeyEvents>(world.loop, *world.store, *world.shared.ledger, world.ledger_dir());
  ASSERT_TRUE(world.Await(world.key_events->Start()).ok());
}

// The events in the store, which are those that the ledger does not have.
std::vector<store::Object> Pending(World& world) {
  return world.Await(world.store->List(store::kKeyEvent))->objects;
}

store::Object Position(World& world) {
  const auto found = world.Await(world.store->Get(store::kPosition, "key_events"));
  EXPECT_TRUE(found.ok() && *found);
  return found.ok() && *found ? **found : store::Object{};
}

void PutBack(World& world, const std::vector<store::Object>& events) {
  std::vector<store::Write> writes;
  for (const store::Object& event : events)
    writes.push_back(store::Write::Create(event.kind, event.id, event.body));
  ASSERT_TRUE(world.Await(world.store->Commit(writes)).ok());
}

TEST(KeyEvents, EachIsRecordedOnceWithoutItsSecret) {
  World world;
  const std::string secret = world.AppKey();
  const std::string id = secret.substr(3, 10);
  ASSERT_TRUE(world.Await(world.shared.keys->Revoke(id, {"cli:me"}, "leaked", gateway::net::Now())).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world.Await(world.key_events->CarryOver()).ok());
  const auto records = world.Records(Kind::kKey);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0]["action"], "created");
  EXPECT_EQ(records[0]["tenant"], "demo/search");
  EXPECT_EQ(records[1]["action"], "revoked");
  EXPECT_EQ(records[1]["subject"], id);
  EXPECT_EQ(records[1]["actor"], "cli:me");
  for (const auto& record : records) {
    EXPECT_EQ(record.dump().find(secret), std::string::npos);
    EXPECT_EQ(record.dump().find("hash"), std::string::npos);
  }
  EXPECT_EQ(Pending(world).size(), 0u);
}

TEST(KeyEvents, AreRecordedWithoutBeingAskedFor) {
  World world;
  world.AppKey();
  world.Await([&]() -> gateway::net::Task<bool> {
    co_return co_await tests::Eventually(world.loop, [&] { return world.Records(Kind::kKey).size() == 1; });
  }());
  EXPECT_EQ(world.Records(Kind::kKey).size(), 1u);
}

// A crash between the ledger and the store leaves events in both.
TEST(KeyEvents, AnEventThatACrashLeftInTheStoreIsNotRecordedAgain) {
  World world;
  world.AppKey();
  ASSERT_TRUE(world.Await(world.key_events->CarryOver()).ok());
  world.key_events->Stop();
  world.loop.Drain();
  world.AppKey();
  world.AppKey();
  const std::vector<store::Object> events = Pending(world);
  ASSERT_EQ(events.size(), 2u);
  const store::Object before = Position(world);
  Restart(world);
  ASSERT_EQ(world.Records(Kind::kKey).size(), 3u);
  world.key_events->Stop();
  world.loop.Drain();
  PutBack(world, events);
  std::vector<store::Write> position = {store::Write::Replace(Position(world), before.body)};
  ASSERT_TRUE(world.Await(world.store->Commit(position)).ok());
  world.AppKey();
  Restart(world);
  EXPECT_EQ(world.Records(Kind::kKey).size(), 4u);
  EXPECT_EQ(Pending(world).size(), 0u);
}

TEST(KeyEvents, WithoutAReadablePositionTheWholeLedgerIsLookedThrough) {
  for (const char* body : {"", "not ours", "{\"ledger_seq\":-1}", "{\"ledger_seq\":1000000}"}) {
    World world;
    world.key_events->Stop();
    world.loop.Drain();
    world.AppKey();
    const std::vector<store::Object> events = Pending(world);
    Restart(world);
    world.key_events->Stop();
    world.loop.Drain();
    const store::Object position = Position(world);
    std::vector<store::Write> writes = {*body == 0 ? store::Write::Remove(position)
                                                   : store::Write::Replace(position, body)};
    ASSERT_TRUE(world.Await(world.store->Commit(writes)).ok());
    PutBack(world, events);
    Restart(world);
    EXPECT_EQ(world.Records(Kind::kKey).size(), 1u) << body;
  }
}

TEST(KeyEvents, ADamagedRecordDoesNotStopThoseThatFollow) {
  World world;
  world.AppKey();
  world.AppKey();
  ASSERT_TRUE(world.Await(world.key_events->CarryOver()).ok());
  world.key_events->Stop();
  world.loop.Drain();
  const std::string segment = gateway::ledger::ListSegments(world.ledger_dir())->at(0).path;
  std::string text = tests::ReadFile(segment);
  const size_t first = text.find("\"action\":\"created\"");
  ASSERT_NE(first, std::string::npos);
  text[first + 12] = '"';
  std::ofstream(segment) << text;
  std::vector<store::Write> writes = {store::Write::Remove(Position(world))};
  ASSERT_TRUE(world.Await(world.store->Commit(writes)).ok());
  world.AppKey();
  Restart(world);
  EXPECT_EQ(Pending(world).size(), 0u);
}

TEST(KeyEvents, AStoppedLedgerIsAnErrorAndLosesNothing) {
  World world;
  ASSERT_TRUE(world.shared.ledger->Stop().ok());
  world.AppKey();
  EXPECT_FALSE(world.Await(world.key_events->CarryOver()).ok());
  EXPECT_EQ(world.key_events->unrecorded(), 1u);
  EXPECT_EQ(Pending(world).size(), 1u);
}

}  // namespace
