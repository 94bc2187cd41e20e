// Usage of several gateways: what each tells through the store, and what any of them answers.
#include "gateway/audit/usage_sharing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conf/text.h"
#include "gateway/audit/all_usage.h"
#include "gateway/audit/feedback_usage.h"
#include "gateway/audit/statement.h"
#include "gateway/control/models/ratings.h"
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
  // What a key says of a request; an answer of that replica has served it.
  void Say(ledger::FeedbackValue value, const std::string& request = "req_1",
           const std::string& tenant = "acme", const std::string& replica = "r1",
           const std::string& name = "helpful") {
    ledger::Feedback feedback;
    feedback.name = name;
    feedback.value = std::move(value);
    feedback.request = request;
    feedback.tenant = tenant;
    feedback.key = "k1";
    feedback.model = "chat";
    feedback.version = "org/chat";
    feedback.replica = replica;
    feedback.settled = true;
    ASSERT_TRUE(ledger_->Append(ledger::EventOf(feedback)).ok());
  }
  // Name, type and text; how often; true ones, or the mean.
  std::vector<std::string> Rates(const ledger::FeedbackQuery& query = {}) const {
    const absl::StatusOr<gateway::AllFeedback> all = gateway::QueryFeedback(dir(), query, others());
    std::vector<std::string> rates;
    if (!all.ok()) return {std::string(conf::Std(all.status().message()))};
    for (const ledger::FeedbackSum& sum : all->sums) {
      rates.push_back(fmt::format(
          "{}{}{} {} {}", fmt::join(sum.group, "/"), sum.group.empty() ? "" : " ", sum.name, sum.count,
          sum.type == ledger::FeedbackType::kBoolean  ? fmt::format("{}", sum.positive)
          : sum.type == ledger::FeedbackType::kNumber ? fmt::format("{} {} {}", sum.sum, sum.min, sum.max)
                                                      : sum.text));
    }
    return rates;
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

TEST(UsageSharing, TheFeedbackOfAllGatewaysIsOneSum) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    a.Say(true);
    a.Say(0.5, "req_1", "acme", "r1", "score");
    b.Say(false, "req_2", "acme/search", "r2");
    b.Say(2.5, "req_2", "acme/search", "r2", "score");
    b.Say(std::string("rude"), "req_2", "acme/search", "r2", "tone");
    auto of_a = a.Share(loop, store);
    auto of_b = b.Share(loop, store);
    const std::vector<std::string> all = {"helpful 2 1", "score 2 3 0.5 2.5", "tone 1 rude"};
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Rates() == all && b.Rates() == all; }));
    EXPECT_THAT(a.Rates({.by = {ledger::FeedbackBy::kTenant}}),
                ElementsAre("acme helpful 1 1", "acme score 1 0.5 0.5 0.5", "acme/search helpful 1 0",
                            "acme/search score 1 2.5 2.5 2.5", "acme/search tone 1 rude"));
    EXPECT_THAT(a.Rates({.by = {ledger::FeedbackBy::kReplica}, .tenant = "acme/search"}),
                ElementsAre("r2 helpful 1 0", "r2 score 1 2.5 2.5 2.5", "r2 tone 1 rude"));
    EXPECT_THAT(a.Rates({.model = "other"}), IsEmpty());
    // The latest counts, and a repetition counts nothing twice.
    b.Say(true, "req_2", "acme/search", "r2");
    b.Say(true, "req_2", "acme/search", "r2");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Rates().at(0) == "helpful 2 2"; }));
    EXPECT_EQ(b.Rates().at(0), "helpful 2 2");
    // So the judgement of a rollout counts the answers of all gateways.
    for (const Gateway* gateway : {&a, &b}) {
      const auto ratings = gateway::control::RatingsOf(gateway->dir(), gateway->others(), "chat", "helpful",
                                                       conf::FromUnixMicros(0));
      EXPECT_EQ(ratings.size(), 2u);
      EXPECT_EQ(ratings.at("r1").count, 1u);
      EXPECT_EQ(ratings.at("r2").count, 1u);
      EXPECT_EQ(ratings.at("r2").positive, 1u);
    }
    // Usage counts as before.
    b.Call("acme", kNoonUs);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.Requests() == 1; }));
    const auto freshness = gateway::QueryFeedback(a.dir(), {}, a.others());
    EXPECT_TRUE(freshness.ok());
    EXPECT_EQ(freshness->others.size(), 1u);
    EXPECT_EQ(freshness->others.at(0).gateway, "b");
    co_await of_a->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageSharing, FeedbackFromBeforeGatewaysSharedItIsToldOnce) {
  Gateway a("a");
  Gateway b("b");
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    a.Say(true);
    auto first = a.Share(loop, store);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return first->told_at().has_value(); }));
    co_await first->Stop();
    // As a gateway of the version before has left it: a mark that covers the records, and no feedback.
    std::vector<gateway::store::Write> writes;
    for (const auto& [key, object] : store.objects) {
      if (object.id == "a.k") {
        absl::StatusOr<UsageMark> mark = gateway::ReadUsageMark("a.k", object.body);
        EXPECT_TRUE(mark.ok());
        mark->feedback = false;
        writes.push_back(gateway::store::Write::Replace(object, gateway::BodyOf(*mark)));
      } else {
        writes.push_back(gateway::store::Write::Remove(object));
      }
    }
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    auto of_b = b.Share(loop, store);
    auto second = a.Share(loop, store);
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return b.Rates() == std::vector<std::string>{"helpful 1 1"}; }));
    co_await second->Stop();
    co_await of_b->Stop();
  });
}

TEST(UsageRollup, AnHourOfFeedbackIsReadAsItWasWritten) {
  const ledger::FeedbackCell number{.of = {"acme", "k1", "chat", "org/chat", "r1", "score", ""},
                                    .type = ledger::FeedbackType::kNumber,
                                    .count = 3,
                                    .sum = 1.25,
                                    .min = -0.5,
                                    .max = 1};
  const ledger::FeedbackCell text{.of = {"acme", "k1", "chat", "org/chat", "r1", "tone", "rude"},
                                  .type = ledger::FeedbackType::kText,
                                  .count = 1};
  const std::vector<std::string> parts = gateway::FeedbackParts({number, text});
  ASSERT_EQ(parts.size(), 1u);
  const absl::StatusOr<std::vector<ledger::FeedbackCell>> read = gateway::ReadFeedbackPart(parts[0]);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre(number, text));
  EXPECT_TRUE(absl::IsDataLoss(gateway::ReadFeedbackPart("{}").status()));
  const auto place = gateway::ParseUsageId(gateway::FeedbackPartId("a.k", 7, 3));
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->feedback);
  EXPECT_EQ(place->hour, 7);
  EXPECT_EQ(place->source, "a.k");
  EXPECT_FALSE(gateway::ParseUsageId(gateway::UsagePartId("a.k", 7, 3))->feedback);
  EXPECT_THAT(gateway::FeedbackParts({}), IsEmpty());
}

TEST(UsageRollup, MoreFeedbackThanAnHourHoldsIsFoldedAndNothingIsLost) {
  std::vector<ledger::FeedbackCell> cells;
  for (size_t i = 0; i < gateway::kMostUsageCells + 500; ++i) {
    cells.push_back(
        {.of = {"acme", fmt::format("k{}", i), "chat", "v", "r1", "helpful", ""}, .count = 1, .positive = 1});
  }
  int64_t count = 0;
  size_t rows = 0;
  for (const std::string& part : gateway::FeedbackParts(cells)) {
    const auto read = gateway::ReadFeedbackPart(part);
    ASSERT_TRUE(read.ok()) << read.status();
    rows += read->size();
    for (const ledger::FeedbackCell& cell : *read) {
      count += cell.count;
      EXPECT_EQ(cell.of[1], gateway::kOtherUsage);
    }
  }
  EXPECT_EQ(rows, 1u);
  EXPECT_EQ(count, static_cast<int64_t>(cells.size()));
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
