// Usage of several gateways: what each tells through the store, and what any of them answers.
#include "gateway/audit/usage_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/audit/all_usage.h"
#include "gateway/audit/statement.h"
#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace {

namespace ledger = gateway::ledger;
namespace net = gateway::net;
using gateway::AllUsage;
using gateway::QueryAllUsage;
using gateway::UsageMark;
using gateway::UsageSharing;
using ledger::UsageBy;
using ledger::UsageCell;
using ledger::UsageQuery;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::Eventually;
using tests::MemoryStore;
using tests::TestLoop;

constexpr int64_t kHourUs = 3'600'000'000;
constexpr int64_t kNoonUs = 490'000 * kHourUs;

// A gateway: its ledger, and its part in the sharing.
class Gateway {
 public:
  explicit Gateway(std::string name) : name_(std::move(name)) { Open(); }

  void Open() { ledger_ = ledger::MustOpen(ledger::SmallOptions(dir())); }
  void Call(const std::string& tenant, int64_t time_us) {
    const std::string id = "req_" + std::to_string(++calls_);
    ledger::OpenRecord open = ledger::SomeOpen(id);
    open.tenant = tenant;
    open.time_us = time_us;
    ledger::CloseRecord close = ledger::SomeClose();
    close.time_us = time_us;
    ledger_->Shard(0).Open(open)->Close(close);
    ASSERT_TRUE(ledger_->Flush().ok());
  }
  std::unique_ptr<UsageSharing> Share(net::Loop& loop, gateway::store::Store& store) {
    auto sharing = std::make_unique<UsageSharing>(
        loop, store,
        UsageSharing::Options{.source = name_ + ".k",
                              .gateway = name_,
                              .ledger_dir = dir(),
                              .copy_path = tmp_.Sub("copy.db"),
                              .interval = std::chrono::milliseconds(10),
                              .follow_interval = std::chrono::milliseconds(10)},
        [this] { return ledger_->Flush(); });
    sharing->Start();
    return sharing;
  }
  std::optional<gateway::UsageOfOthers> others() const {
    return gateway::UsageOfOthers{.copy_path = tmp_.Sub("copy.db"), .source = name_ + ".k", .gateway = name_};
  }
  int64_t Requests(const UsageQuery& query = {}) const {
    const absl::StatusOr<AllUsage> usage = QueryAllUsage(dir(), query, others());
    return usage.ok() && usage->rows.size() == 1 ? usage->rows[0].requests : -1;
  }
  std::string dir() const { return tmp_.Sub("ledger"); }

 private:
  const std::string name_;
  ledger::TempDir tmp_;
  std::unique_ptr<ledger::Ledger> ledger_;
  int calls_ = 0;
};

TEST(UsageSharing, EachGatewayAnswersForAllAndCountsNothingTwice) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    a.Call("acme", kNoonUs);
    a.Call("acme", kNoonUs + kHourUs);
    b.Call("acme/search", kNoonUs);
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Requests() == 3 && b.Requests() == 3; }));
    b.Call("acme", kNoonUs);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Requests() == 4; }));
    EXPECT_EQ(b.Requests(), 4);

    const UsageQuery by_tenant{.by = {UsageBy::kTenant}};
    const auto usage = QueryAllUsage(a.dir(), by_tenant, a.others());
    EXPECT_TRUE(usage.ok());
    std::vector<std::pair<std::string, int64_t>> rows;
    for (const ledger::UsageRow& row : usage->rows) rows.emplace_back(row.group[0], row.requests);
    EXPECT_THAT(rows, ElementsAre(std::pair("acme", 3), std::pair("acme/search", 1)));
    EXPECT_EQ(usage->others.size(), 1u);
    EXPECT_EQ(usage->others.at(0).gateway, "b");
    co_await of_a->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, AProcessAfterAKillGoesOnWhereTheStoreHasIt) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    auto of_b = b.Share(loop, store);
    a.Call("acme", kNoonUs);
    auto first = a.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 1; }));
    first->Abandon();
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(100));
    a.Call("acme", kNoonUs);
    a.Call("acme", kNoonUs + kHourUs);
    auto second = a.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 3; }));
    EXPECT_EQ(a.Requests(), 3) << "its own ledger, and not what it told of it";
    co_await second->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, AWriteWhoseAnswerWasLostCountsOnce) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    auto of_b = b.Share(loop, store);
    store.loses_answer = true;
    a.Call("acme", kNoonUs);
    auto of_a = a.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 1; }));
    a.Call("acme", kNoonUs);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 2; }));
    store.loses_answer = false;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return of_a->trouble().empty(); }));
    EXPECT_EQ(b.Requests(), 2);
    co_await of_a->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, MoreHoursThanOneTransactionTakesAreAllTold) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    constexpr int kHours = 150;
    for (int hour = 0; hour < kHours; ++hour) a.Call("acme", kNoonUs + hour * kHourUs);
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == kHours; }));
    EXPECT_EQ(store.Count(gateway::store::kUsage), kHours + 2u) << "an object an hour, and two marks";
    EXPECT_EQ(b.Requests({.since_us = kNoonUs + kHourUs + 1, .until_us = kNoonUs + 3 * kHourUs}), 2)
        << "each hour that the window touches counts whole";
    co_await of_a->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, AGatewayThatStopsTellsTheRestAndThatItHasStopped) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return of_a->told_at().has_value(); }));
    a.Call("acme", kNoonUs);
    co_await of_a->Stop();
    absl::StatusOr<AllUsage> usage;
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      usage = QueryAllUsage(b.dir(), {}, b.others());
      return usage.ok() && usage->others.size() == 1 && usage->others[0].closed;
    }));
    EXPECT_EQ(b.Requests(), 1);
    const conf::TimePoint later = net::Now() + std::chrono::hours(1);
    EXPECT_EQ(gateway::AsOf(usage->others, later), later) << "its figures are whole";
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, WhileTheStoreDoesNotAnswerTheCopyStays) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    a.Call("acme", kNoonUs);
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 1; }));
    store.refuses = absl::UnavailableError("it is away");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return !of_a->trouble().empty(); }));
    a.Call("acme", kNoonUs);
    EXPECT_EQ(a.Requests(), 2);
    EXPECT_EQ(b.Requests(), 1);
    store.refuses = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.Requests() == 2; }));
    co_await of_a->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, AnAnswerBeforeTheCopyWasReadIsRefusedAndNotTooSmall) {
  Gateway a("a");
  a.Call("acme", kNoonUs);
  EXPECT_TRUE(absl::IsUnavailable(QueryAllUsage(a.dir(), {}, a.others()).status()));
  const auto alone = QueryAllUsage(a.dir(), {}, std::nullopt);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->rows.at(0).requests, 1);
}

TEST(UsageSharing, AStatementIsFinalOnceEachGatewayHasToldAllOfTheMonth) {
  Gateway a("a");
  Gateway b("b");
  const auto month = *gateway::ParseMonth(conf::FormatTime(net::Now()).substr(0, 7));
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    a.Call("acme", conf::ToUnixMicros(net::Now()));
    b.Call("acme", conf::ToUnixMicros(net::Now()));
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Requests() == 2 && b.Requests() == 2; }));
    const conf::TimePoint after = month.end + std::chrono::hours(1);
    const auto early = gateway::MakeStatement(a.dir(), "acme", month, after, a.others());
    EXPECT_TRUE(early.ok()) << early.status();
    EXPECT_NE(early->state, "final") << "no gateway has told what it counts after now";
    EXPECT_THAT(early->behind, ElementsAre("a.k", "b.k"));
    co_await of_a->Stop();
    co_await of_b->Stop();
    auto again = a.Share(loop, store);  // reads that b has stopped
    const auto closed = [&] {
      const auto usage = QueryAllUsage(a.dir(), {}, a.others());
      return usage.ok() && usage->others.size() == 1 && usage->others[0].closed;
    };
    EXPECT_TRUE(co_await Eventually(loop, closed));
    co_await again->Stop();
    auto last = b.Share(loop, store);
    co_await Eventually(loop, [&] { return last->told_at().has_value(); });
    co_await last->Stop();
    const auto here = gateway::MakeStatement(b.dir(), "acme", month, after, b.others());
    EXPECT_TRUE(here.ok()) << here.status();
    EXPECT_EQ(here->total.requests, 2);
    EXPECT_THAT(*here->ledgers, ElementsAre("a.k", "b.k"));
  });
}

TEST(UsageRollup, PartsAreReadAsTheyWereWritten) {
  std::vector<UsageCell> cells;
  for (int i = 0; i < 1'000; ++i) {
    cells.push_back(
        {.of = {"acme", "key_" + std::to_string(i), "chat \"small\"", "http://r", "chat", "done", "", ""},
         .requests = i,
         .errors = 1,
         .input = 10,
         .cost_micro_usd = 7,
         .device_us = 3});
  }
  const std::vector<std::string> parts = gateway::UsageParts(cells);
  EXPECT_GT(parts.size(), 1u);
  std::vector<UsageCell> read;
  for (const std::string& part : parts) {
    EXPECT_LT(part.size(), 3 * gateway::kPartBytes);
    const auto of = gateway::ReadUsagePart(part);
    ASSERT_TRUE(of.ok()) << of.status();
    read.insert(read.end(), of->begin(), of->end());
  }
  EXPECT_EQ(read, cells);
  EXPECT_TRUE(absl::IsDataLoss(gateway::ReadUsagePart("{\"texts\":[],\"rows\":[[0]]}").status()));
}

TEST(UsageRollup, AnHourWithTooManyRowsLosesItsReplicasAndKeysButNoSum) {
  std::vector<UsageCell> cells;
  for (size_t i = 0; i <= gateway::kMostUsageCells; ++i) {
    const std::string number = std::to_string(i);
    cells.push_back({.of = {"acme", number, "m", "r" + number, "chat", "done", "", ""}, .requests = 1});
  }
  const std::vector<std::string> parts = gateway::UsageParts(cells);
  ASSERT_EQ(parts.size(), 1u);
  const auto read = gateway::ReadUsagePart(parts[0]);
  ASSERT_TRUE(read.ok() && read->size() == 1);
  EXPECT_EQ(read->at(0).of[1], gateway::kOtherUsage);
  EXPECT_EQ(read->at(0).requests, static_cast<int64_t>(cells.size()));
}

TEST(UsageRollup, MarksAndIdsAreReadAsTheyWereWritten) {
  const UsageMark mark{.source = "a.k",
                       .gateway = "host:9091",
                       .seq = 7,
                       .first_seq = 3,
                       .from_us = 5,
                       .as_of_us = 9,
                       .closed = true};
  const auto read = gateway::ReadUsageMark("a.k", gateway::BodyOf(mark));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, mark);
  EXPECT_TRUE(absl::IsDataLoss(gateway::ReadUsageMark("a.k", "{}").status()));
  const auto place = gateway::ParseUsageId(gateway::UsagePartId("a.k", 490'000, 2));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->source, "a.k");
  EXPECT_EQ(place->hour, 490'000);
  EXPECT_FALSE(gateway::ParseUsageId("a.k")->hour.has_value());
  for (const char* id : {"", "/1/2", "a/1", "a/x/2", "a/1/x"}) EXPECT_FALSE(gateway::ParseUsageId(id)) << id;
}

}  // namespace
