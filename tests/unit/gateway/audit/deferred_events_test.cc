#include "gateway/audit/deferred_events.h"

#include <gtest/gtest.h>

#include "tests/support/loop_test.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace {

using namespace std::chrono_literals;
using gateway::DeferredEvents;
using gateway::ledger::Kind;
using gateway::net::Task;
using tests::Eventually;
using tests::RunOnLoop;
using tests::TestLoop;

std::vector<std::string> Actions(const std::string& dir) {
  std::vector<std::string> actions;
  for (const auto& record : gateway::ledger::OfKind(dir, Kind::kConfig)) actions.push_back(record.action);
  return actions;
}

struct Deferred : testing::Test {
  gateway::ledger::TempDir tmp;
  const std::string dir = tmp.Sub("ledger");
  gateway::ledger::FailingDisk disk;
  conf::Duration append_timeout = 3s;
  std::unique_ptr<gateway::ledger::Ledger> ledger;

  void Open() {
    gateway::ledger::Options options = gateway::ledger::SmallOptions(dir);
    options.files = &disk;
    options.append_timeout = append_timeout;
    ledger = gateway::ledger::MustOpen(options);
  }
};

TEST_F(Deferred, EventsAreRecordedInOrder) {
  Open();
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto& events = loop.Make<DeferredEvents>(*ledger);
    for (const char* action : {"one", "two", "three"}) events.Add({.kind = Kind::kConfig, .action = action});
    co_return;
  });
  EXPECT_EQ(Actions(dir), (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(Deferred, TheLoopContinuesWhileTheDiskHangsAndTheEventIsRecordedLater) {
  append_timeout = 1h;  // the disk takes the event only because the loop goes on meanwhile
  Open();
  disk.full = true;
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto& events = loop.Make<DeferredEvents>(*ledger);
    events.Add({.kind = Kind::kConfig, .action = "refused"});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !ledger->Healthy(); }));
    disk.full = false;
  });
  EXPECT_EQ(Actions(dir), std::vector<std::string>{"refused"});
}

TEST_F(Deferred, NoMoreWaitThanTheBoundAndClosingWaitsForNone) {
  Open();
  ASSERT_TRUE(ledger->Stop().ok());  // nothing is taken any more
  RunOnLoop([&](TestLoop& loop) -> Task<void> {
    auto& events = loop.Make<DeferredEvents>(*ledger);
    for (size_t i = 0; i < DeferredEvents::kMaxWaiting + 5; ++i) {
      events.Add({.kind = Kind::kConfig, .action = "refused"});
    }
    events.Close();
    co_return;
  });
  EXPECT_TRUE(Actions(dir).empty());
}

}  // namespace
