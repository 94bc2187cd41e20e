// Who drives, as every backend of the store decides it (gateway/store/store.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/loop_test.h"
#include "tests/unit/gateway/store/backends.h"

namespace {

namespace store = gateway::store;
namespace net = gateway::net;
using store::Lead;
using store::Store;
using store::Write;
using tests::TestLoop;

constexpr conf::Duration kLong = std::chrono::seconds(60);
constexpr conf::Duration kShort = std::chrono::milliseconds(200);

struct LeadBackend {
  const char* name;
  std::unique_ptr<tests::StoreBackend> (*make)();
};

template <class Backend>
std::unique_ptr<tests::StoreBackend> MakeBackend() {
  return std::make_unique<Backend>();
}

class LeadTest : public testing::TestWithParam<LeadBackend> {
 protected:
  void SetUp() override {
    if (const std::string missing = backend_->missing(); !missing.empty()) GTEST_SKIP() << missing;
  }
  std::unique_ptr<Store> Open(net::Loop& loop) {
    auto opened = backend_->Open(loop, {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  // Asks until the lead is won.
  net::Task<Lead> Win(net::Loop& loop, Store& store, std::string holder) {
    net::Sleep pause(loop.watchdog);
    Lead lead;
    for (int i = 0; i < 100 && !lead.mine; ++i) {
      const absl::StatusOr<Lead> answer = co_await store.Campaign(holder, "", kLong);
      EXPECT_TRUE(answer.ok()) << answer.status();
      if (answer.ok()) lead = *answer;
      if (lead.mine) break;
      backend_->Pass(kShort / 4);
      co_await pause.For(kShort / 4);
    }
    co_return lead;
  }

  const std::unique_ptr<tests::StoreBackend> backend_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Backends, LeadTest,
                         testing::Values(LeadBackend{"Sqlite", MakeBackend<tests::SqliteBackend>},
                                         LeadBackend{"Postgres", MakeBackend<tests::PostgresBackend>},
                                         LeadBackend{"Memory", MakeBackend<tests::MemoryBackend>}),
                         [](const testing::TestParamInfo<LeadBackend>& backend) {
                           return backend.param.name;
                         });

net::Task<Lead> MustAsk(Store& store, std::string holder, conf::Duration ttl) {
  const absl::StatusOr<Lead> lead = co_await store.Campaign(holder, "at " + holder, ttl);
  EXPECT_TRUE(lead.ok()) << lead.status();
  co_return lead.value_or(Lead{});
}

net::Task<absl::Status> CommitIn(Store& store, std::string id, uint64_t epoch) {
  std::vector<Write> writes = {Write::Create("workload", std::move(id), "x")};
  co_return (co_await store.Commit(std::move(writes), epoch)).status();
}

TEST_P(LeadTest, TheFirstThatAsksLeadsAndKeepsItsEpochWhileItRenews) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const Lead won = co_await MustAsk(*store, "a", kLong);
    EXPECT_TRUE(won.mine);
    EXPECT_GT(won.epoch, 0u);
    EXPECT_EQ(won.holder, "a");
    EXPECT_EQ(won.about, "at a");
    EXPECT_GT(won.left, kLong / 2);
    EXPECT_LE(won.left, kLong);
    const Lead renewed = co_await MustAsk(*store, "a", 2 * kLong);
    EXPECT_TRUE(renewed.mine);
    EXPECT_EQ(renewed.epoch, won.epoch);
    EXPECT_GT(renewed.left, kLong);
  });
}

TEST_P(LeadTest, AnotherGatewayLearnsWhoLeads) {
  if (!backend_->is_shared()) GTEST_SKIP() << "the store has one gateway";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto one = Open(loop);
    const auto two = Open(loop);
    const Lead won = co_await MustAsk(*one, "a", kLong);
    const Lead told = co_await MustAsk(*two, "b", kLong);
    EXPECT_FALSE(told.mine);
    EXPECT_EQ(told.epoch, won.epoch);
    EXPECT_EQ(told.holder, "a");
    EXPECT_EQ(told.about, "at a");
    EXPECT_LE(told.left, kLong);
    EXPECT_TRUE((co_await CommitIn(*one, "w", won.epoch)).ok()) << "to ask takes nothing from the leader";
  });
}

TEST_P(LeadTest, ALeadThatEndsGoesToTheNextInTheNextEpochAndTheFormerLeaderIsFenced) {
  if (!backend_->is_shared()) GTEST_SKIP() << "the store has one gateway";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto one = Open(loop);
    const auto two = Open(loop);
    const Lead old = co_await MustAsk(*one, "a", kShort);
    EXPECT_TRUE(old.mine);
    const Lead now = co_await Win(loop, *two, "b");
    EXPECT_TRUE(now.mine);
    EXPECT_EQ(now.epoch, old.epoch + 1);

    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*one, "w", old.epoch)));
    EXPECT_TRUE((co_await CommitIn(*two, "w", now.epoch)).ok()) << "nothing of the refused one was written";
    EXPECT_TRUE((co_await CommitIn(*one, "free", 0)).ok()) << "an epoch is asked of those that name one";

    const Lead back = co_await MustAsk(*one, "a", kLong);
    EXPECT_FALSE(back.mine) << "one that comes back takes nothing";
    EXPECT_EQ(back.holder, "b");
    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*one, "v", old.epoch)));
  });
}

TEST_P(LeadTest, ALeadThatEndedIsWonAgainInAnotherEpoch) {
  if (!backend_->is_shared()) GTEST_SKIP() << "the store has one gateway";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const Lead first = co_await MustAsk(*store, "a", kShort);
    net::Sleep pause(loop.watchdog);
    backend_->Pass(2 * kShort);
    co_await pause.For(2 * kShort);
    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*store, "w", first.epoch)))
        << "nobody leads, so no epoch does";
    const Lead second = co_await MustAsk(*store, "a", kLong);
    EXPECT_TRUE(second.mine);
    EXPECT_EQ(second.epoch, first.epoch + 1);
    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*store, "w", first.epoch)));
    EXPECT_TRUE((co_await CommitIn(*store, "w", second.epoch)).ok());
  });
}

TEST_P(LeadTest, ALeadThatIsGivenBackIsFreeAtOnce) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const Lead first = co_await MustAsk(*store, "a", kLong);
    EXPECT_TRUE((co_await store->Resign("b", first.epoch)).ok());
    EXPECT_TRUE((co_await store->Resign("a", first.epoch + 1)).ok());
    EXPECT_TRUE((co_await CommitIn(*store, "w", first.epoch)).ok()) << "others cannot give it back";

    EXPECT_TRUE((co_await store->Resign("a", first.epoch)).ok());
    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*store, "v", first.epoch)));
    const Lead second = co_await MustAsk(*store, "b", kLong);
    EXPECT_TRUE(second.mine);
    EXPECT_EQ(second.epoch, first.epoch + 1);
  });
}

TEST_P(LeadTest, ANewHolderOfAStoreOfOneGatewayLeadsAtOnce) {
  if (backend_->is_shared()) GTEST_SKIP() << "the store has several gateways";
  uint64_t epoch = 0;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    epoch = (co_await MustAsk(*store, "first start", kLong)).epoch;
  });
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    const Lead lead = co_await MustAsk(*store, "second start", kLong);
    EXPECT_TRUE(lead.mine);
    EXPECT_EQ(lead.epoch, epoch + 1) << "the epoch is durable";
    EXPECT_TRUE(absl::IsPermissionDenied(co_await CommitIn(*store, "w", epoch)));
    EXPECT_TRUE((co_await CommitIn(*store, "w", lead.epoch)).ok());
  });
}

TEST_P(LeadTest, RefusesHoldersThatMakeNoSense) {
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const auto store = Open(loop);
    for (const auto& [holder, about] : {std::pair<std::string, std::string>{"", ""},
                                        {std::string(store::kMaxNameBytes + 1, 'x'), ""},
                                        {"a", std::string(store::kMaxAboutBytes + 1, 'x')}}) {
      const auto lead = co_await store->Campaign(holder, about, kLong);
      EXPECT_TRUE(absl::IsInvalidArgument(lead.status())) << lead.status();
    }
  });
}

}  // namespace
