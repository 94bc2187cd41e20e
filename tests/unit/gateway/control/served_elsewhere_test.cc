// Device time is shared by what all gateways serve, which each tells the leader.
#include "gateway/control/gateways/served_elsewhere.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <utility>
#include <vector>

#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"

namespace gateway::control {
namespace {

using testing::IsEmpty;
using tests::Eventually;
using tests::MemoryStore;
using tests::TestLoop;

// The ledger is asked beside the loop.
class ServedTokens {
 public:
  void Set(std::vector<ledger::Served> served) {
    const std::lock_guard lock(mutex_);
    served_ = std::move(served);
  }
  std::vector<ledger::Served> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(served_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<ledger::Served> served_;
};

// Of which only the served tokens are asked.
class ServedLedger final : public MeterLedger {
 public:
  explicit ServedLedger(ServedTokens& served) : served_(served) {}
  absl::StatusOr<std::vector<ledger::LastHeld>> Last() override { return std::vector<ledger::LastHeld>(); }
  absl::StatusOr<std::vector<ledger::Served>> TakeServed() override { return served_.Take(); }
  absl::StatusOr<std::vector<ledger::Served>> ServedBefore(conf::TimePoint) override {
    return std::vector<ledger::Served>();
  }
  absl::Status Append(std::vector<ledger::DeviceRecord>) override { return absl::OkStatus(); }

 private:
  ServedTokens& served_;
};

uint64_t SumOf(const std::vector<ledger::Served>& served, const std::string& tenant) {
  uint64_t sum = 0;
  for (const ledger::Served& one : served) sum += one.tenant == tenant ? one.weight : 0;
  return sum;
}

TEST(ServedElsewhere, TheLeaderTakesWhatOthersServeOnceAndFromItsTermOn) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    ServedTokens of_leader;
    ServedTokens of_follower;
    of_follower.Set({{"acme", "r-1", 7}});
    const auto make = [&](const std::string& name, ServedTokens& served, bool leads) {
      return std::make_unique<ServedElsewhere>(
          loop, store,
          ServedElsewhere::Options{.name = name, .start = name, .interval = std::chrono::milliseconds(10)},
          std::make_unique<ServedLedger>(served), [leads] { return leads; });
    };
    auto leader = make("a", of_leader, true);
    auto follower = make("b", of_follower, false);
    EXPECT_TRUE((co_await leader->Start()).ok());
    EXPECT_TRUE((co_await follower->Start()).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.Count(store::kServed) == 1; }));
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(100));
    leader->BeginTerm();
    EXPECT_THAT(leader->TakeNew(), IsEmpty()) << "that was its predecessor's";

    of_follower.Set({{"acme", "r-1", 5}, {"beta", "r-1", 3}});
    uint64_t acme = 0;
    uint64_t beta = 0;
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      const std::vector<ledger::Served> news = leader->TakeNew();
      acme += SumOf(news, "acme");
      beta += SumOf(news, "beta");
      return beta > 0;
    }));
    EXPECT_EQ(acme, 5u);
    EXPECT_EQ(beta, 3u);
    EXPECT_THAT(leader->TakeNew(), IsEmpty());

    follower->Stop();
    co_await leader->RemoveGone(0, {"a"});
    EXPECT_EQ(store.Count(store::kServed), 0u);
    leader->Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return leader->idle() && follower->idle(); }));
  });
}

TEST(ServedElsewhere, AWriteWhoseAnswerWasLostCountsOnce) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    ServedTokens none;
    ServedTokens served;
    served.Set({{"acme", "r-1", 7}});
    store.loses_answer = true;
    ServedElsewhere leader(loop, store, {.name = "a", .start = "a"}, std::make_unique<ServedLedger>(none),
                           [] { return true; });
    ServedElsewhere follower(loop, store,
                             {.name = "b", .start = "b", .interval = std::chrono::milliseconds(10)},
                             std::make_unique<ServedLedger>(served), [] { return false; });
    EXPECT_TRUE((co_await leader.Start()).ok());
    EXPECT_TRUE((co_await follower.Start()).ok());
    uint64_t acme = 0;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return (acme += SumOf(leader.TakeNew(), "acme")) > 0; }));
    store.loses_answer = false;
    const uint64_t commits = store.commits;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.commits > commits; }));
    EXPECT_EQ(acme + SumOf(leader.TakeNew(), "acme"), 7u);
    follower.Stop();
    leader.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return leader.idle() && follower.idle(); }));
  });
}

TEST(ServedElsewhere, SumsOfReplicasThatAreGoneAreDropped) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    ServedTokens served;
    served.Set({{"acme", "r-1", 7}, {"acme", "r-2", 1}});
    std::set<std::string> there = {"r-1", "r-2"};
    ServedElsewhere follower(loop, store,
                             {.name = "b",
                              .start = "b",
                              .interval = std::chrono::milliseconds(10),
                              .knows = [&](const std::string& replica) { return there.contains(replica); },
                              .prune = std::chrono::milliseconds(20)},
                             std::make_unique<ServedLedger>(served), [] { return false; });
    EXPECT_TRUE((co_await follower.Start()).ok());
    const auto told = [&]() -> ServedSums {
      const auto at = store.objects.find({store::kServed, "b"});
      return at == store.objects.end() ? ServedSums() : ReadServed("b", at->second.body)->sums;
    };
    EXPECT_TRUE(co_await Eventually(loop, [&] { return told().size() == 2; }));
    there = {"r-2"};
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(300));
    served.Set({{"acme", "r-2", 1}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return told() == ServedSums{{{"acme", "r-2"}, 2}}; }));
    follower.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return follower.idle(); }));
  });
}

TEST(ServedElsewhere, UnreportedTokensAreReportedBeforeTheSumsRestartAndFitTheStore) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    ServedTokens none;
    std::vector<ledger::Served> tokens;
    const std::string tenant(200, 't');
    for (size_t i = 0; i < 2 * ServedElsewhere::kMostSums; ++i)
      tokens.push_back({tenant, fmt::format("{:0>120}", i), 1});
    tokens.push_back({"acme", "r-1", 7});
    ServedTokens served;
    served.Set(std::move(tokens));
    ServedElsewhere leader(loop, store, {.name = "a", .start = "a"}, std::make_unique<ServedLedger>(none),
                           [] { return true; });
    ServedElsewhere follower(loop, store,
                             {.name = "b", .start = "b", .interval = std::chrono::milliseconds(10)},
                             std::make_unique<ServedLedger>(served), [] { return false; });
    EXPECT_TRUE((co_await leader.Start()).ok());
    store.refuses = absl::UnavailableError("it is away");
    EXPECT_TRUE((co_await follower.Start()).ok());
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(200));
    store.refuses = absl::OkStatus();
    uint64_t all = 0;
    uint64_t acme = 0;
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      const std::vector<ledger::Served> news = leader.TakeNew();
      all += SumOf(news, tenant);
      acme += SumOf(news, "acme");
      return all == 2 * ServedElsewhere::kMostSums;
    }));
    EXPECT_EQ(acme, 7u);
    follower.Stop();
    leader.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return leader.idle() && follower.idle(); }));
  });
}

TEST(ServedElsewhere, ARecordIsReadAsItWasWritten) {
  const ServedRecord record{.start = "s", .sums = {{{"acme/search", "r-1"}, 7}, {{"acme", "r \"2\""}, 1}}};
  const absl::StatusOr<ServedRecord> read = ReadServed("b", BodyOf(record));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, record);
  EXPECT_TRUE(absl::IsDataLoss(ReadServed("b", "[]").status()));
}

}  // namespace
}  // namespace gateway::control
