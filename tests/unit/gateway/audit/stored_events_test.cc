#include "gateway/audit/stored_events.h"

#include <gtest/gtest.h>

#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace {

using gateway::StoredEvent;
using gateway::StoredEvents;
using gateway::ledger::Kind;
using gateway::net::Task;
using tests::Eventually;
using tests::RunOnLoop;
using tests::TestLoop;

gateway::store::Write Export(const char* actor) {
  return StoredEvent(
      {.kind = Kind::kAdmin, .action = "audit.export", .actor = actor, .detail = "{\"out\":\"x\"}"});
}

TEST(StoredEvents, WhatACommandDidReachesTheLedgerOnceAGatewayRunsAndLeavesTheStore) {
  gateway::ledger::TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  const auto ledger = gateway::ledger::MustOpen(gateway::ledger::SmallOptions(dir));
  tests::MemoryStore store;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    std::vector<gateway::store::Write> before;
    before.push_back(Export("cli:ada"));
    EXPECT_TRUE((co_await store.Commit(std::move(before))).ok());
    auto& events = loop.Make<StoredEvents>(store, *ledger);
    EXPECT_TRUE((co_await events.Start()).ok());
    std::vector<gateway::store::Write> meanwhile;
    meanwhile.push_back(Export("cli:bob"));
    meanwhile.push_back(gateway::store::Write::Create(gateway::store::kLedgerEvent, "broken", "{}"));
    EXPECT_TRUE((co_await store.Commit(std::move(meanwhile))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.objects.empty(); }));
    events.Stop();
  });
  ASSERT_TRUE(ledger->Stop().ok());
  const auto records = gateway::ledger::OfKind(dir, Kind::kAdmin);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].actor, "cli:ada");
  EXPECT_EQ(records[0].action, "audit.export");
  EXPECT_EQ(records[1].actor, "cli:bob");
}

TEST(StoredEvents, AnActionStaysOneAndIsToldOnceItIsInTheLedger) {
  gateway::ledger::TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  const auto ledger = gateway::ledger::MustOpen(gateway::ledger::SmallOptions(dir));
  tests::MemoryStore store;
  std::vector<std::string> told;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto& events = loop.Make<StoredEvents>(
        store, *ledger, [&](const gateway::ledger::Event& event) { told.push_back(event.action); });
    EXPECT_TRUE((co_await events.Start()).ok());
    std::vector<gateway::store::Write> writes;
    writes.push_back(StoredEvent({.kind = Kind::kAction, .action = "job.submit", .actor = "ada"}));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.objects.empty(); }));
    events.Stop();
  });
  ASSERT_TRUE(ledger->Stop().ok());
  EXPECT_EQ(told, std::vector<std::string>{"job.submit"});
  const auto records = gateway::ledger::OfKind(dir, Kind::kAction);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].action, "job.submit");
}

TEST(StoredEvents, AnEventWaitsForTheDisk) {
  gateway::ledger::TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  gateway::ledger::FailingDisk disk;
  gateway::ledger::Options options = gateway::ledger::SmallOptions(dir);
  options.files = &disk;
  const auto ledger = gateway::ledger::MustOpen(options);
  tests::MemoryStore store;
  disk.full = true;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto& events = loop.Make<StoredEvents>(store, *ledger);
    EXPECT_TRUE((co_await events.Start()).ok());
    std::vector<gateway::store::Write> writes;
    writes.push_back(Export("cli:ada"));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !ledger->Healthy(); }));
    EXPECT_FALSE(store.objects.empty());
    disk.full = false;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.objects.empty(); }));
    events.Stop();
  });
  ASSERT_TRUE(ledger->Stop().ok());
  EXPECT_FALSE(gateway::ledger::OfKind(dir, Kind::kAdmin).empty());
}

}  // namespace
