#include "gateway/control/gateways/gateways.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/net/clock.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"

namespace gateway::control {
namespace {

using tests::MemoryStore;
using tests::TestLoop;

TEST(StoreStatus, IsAwayOnceItHasNotAnsweredForALease) {
  const conf::TimePoint now = net::Now();
  EXPECT_FALSE((StoreStatus{.answered = now - kGatewayLease}).away(now)) << "nothing has failed";
  EXPECT_FALSE((StoreStatus{.answered = now - kGatewayLease / 2, .why = "refused"}).away(now));
  EXPECT_TRUE((StoreStatus{.answered = now - kGatewayLease, .why = "refused"}).away(now));
}

TEST(Gateways, NewsOfOthersBuildNoRecordOfTheirOwn) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    int built = 0;
    Gateways gateways(loop, store, {.name = "a", .self = [&] {
                                      ++built;
                                      return GatewayRecord{.name = "a", .start = "1"};
                                    }});
    EXPECT_TRUE((co_await gateways.Start()).ok());
    const int before = built;
    for (int i = 0; i < 10; ++i) {
      std::vector<store::Write> writes;
      const std::string name = fmt::format("b{}", i);
      writes.push_back(
          store::Write::Create(store::kGateway, name, BodyOf(GatewayRecord{.name = name, .start = "2"})));
      EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    }
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return gateways.OthersLive(net::Now()); }));
    EXPECT_LE(built, before + 1) << "but for the clock";
    gateways.Stop();
  });
}

TEST(Gateways, AddUpHowOtherGatewaysUseAdapters) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways gateways(loop, store,
                      {.name = "a", .self = [] { return GatewayRecord{.name = "a", .start = "1"}; }});
    EXPECT_TRUE((co_await gateways.Start()).ok());
    using std::chrono::seconds;
    const std::vector<GatewayRecord> others = {
        {.name = "b",
         .start = "1",
         .adapters = {{"chat|sql", {.waits = true, .idle = seconds(9), .in_flight = {{"chat@one", 1}}}}}},
        {.name = "c",
         .start = "1",
         .adapters = {{"chat|sql", {.idle = seconds(4), .in_flight = {{"chat@one", 2}, {"chat@two", 3}}}}}}};
    for (const GatewayRecord& other : others) {
      std::vector<store::Write> writes;
      writes.push_back(store::Write::Create(store::kGateway, other.name, BodyOf(other)));
      EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    }
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return gateways.List(net::Now()).size() == 3; }));
    const conf::TimePoint later = net::Now() + seconds(2);
    const AdapterUses uses = gateways.Adapters(later);
    EXPECT_EQ(uses.size(), 1u);
    const AdapterUse& use = uses.at("chat|sql");
    EXPECT_TRUE(use.waits);
    EXPECT_GE(*use.idle, seconds(6)) << "the last use is older by now";
    EXPECT_LT(*use.idle, seconds(9));
    EXPECT_EQ(use.in_flight.at("chat@one"), 3u);
    EXPECT_EQ(use.in_flight.at("chat@two"), 3u);
    EXPECT_TRUE(gateways.Adapters(later + kGatewayLease).empty()) << "both are gone by then";
    gateways.Stop();
  });
}

Gateways::Environment NamedAWithId(std::string id) {
  return {.name = "a", .self = [id = std::move(id)] {
            return GatewayRecord{.name = "a", .id = id, .start = id, .address = "127.0.0.1:9091"};
          }};
}

TEST(Gateways, ANameThatAnotherLivingGatewayHasIsRefused) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways first(loop, store, NamedAWithId("one"));
    Gateways second(loop, store, NamedAWithId("two"));
    EXPECT_TRUE((co_await first.CheckName()).ok());
    EXPECT_TRUE((co_await first.Start()).ok());
    const absl::Status taken = co_await second.CheckName();
    EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
    EXPECT_NE(taken.message().find("one"), std::string::npos) << taken;
    EXPECT_NE(taken.message().find("two"), std::string::npos) << taken;
    first.Stop();
  });
}

TEST(Gateways, ANameOfAGatewayThatHasEndedIsTakenOverOnceItWasSilent) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways first(loop, store, NamedAWithId("one"));
    EXPECT_TRUE((co_await first.Start()).ok());
    first.Stop();  // as if it was killed
    Gateways::Environment env = NamedAWithId("two");
    env.name_lease = std::chrono::milliseconds(600);
    Gateways second(loop, store, std::move(env));
    const conf::TimePoint began = net::Now();
    EXPECT_TRUE((co_await second.CheckName()).ok());
    EXPECT_GE(net::Now() - began, std::chrono::milliseconds(600));
    Gateways again(loop, store, NamedAWithId("one"));
    const conf::TimePoint at = net::Now();
    EXPECT_TRUE((co_await again.CheckName()).ok());
    EXPECT_LT(net::Now() - at, kGatewayLease / 2) << "its own";
  });
}

TEST(Gateways, RowsOfGatewaysThatAreGoneAreRemovedWithoutALeader) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    std::vector<store::Write> writes;
    writes.push_back(
        store::Write::Create(store::kGateway, "b", BodyOf(GatewayRecord{.name = "b", .start = "2"})));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    Gateways gateways(loop, store, NamedAWithId("one"));
    EXPECT_TRUE((co_await gateways.Start()).ok());
    EXPECT_EQ(store.Count(store::kGateway), 2u);
    co_await gateways.RemoveGone(0, net::Now() + std::chrono::minutes(1));
    EXPECT_EQ(store.Count(store::kGateway), 2u);
    co_await gateways.RemoveGone(0, net::Now() + std::chrono::minutes(11));
    EXPECT_EQ(store.Count(store::kGateway), 1u);
    gateways.Stop();
  });
}

TEST(Gateways, OneThatLivesIsFoundByItsNews) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways gateways(loop, store, NamedAWithId("one"));
    EXPECT_TRUE((co_await gateways.Start()).ok());
    const absl::StatusOr<std::string> living = co_await LivingGateway(loop, store);
    EXPECT_TRUE(living.ok()) << living.status();
    EXPECT_EQ(*living, "a");
    gateways.Stop();  // as if it was killed
    const absl::StatusOr<std::string> none =
        co_await LivingGateway(loop, store, std::chrono::milliseconds(600));
    EXPECT_TRUE(none.ok()) << none.status();
    EXPECT_EQ(*none, "");
  });
}

TEST(Gateways, TellHowTheStoreAnswersTheirOwnRecord) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways::Environment env;
    env.name = "a";
    env.self = [] { return GatewayRecord{.name = "a", .start = "1", .version = "v", .address = "x"}; };
    Gateways gateways(loop, store, std::move(env));
    EXPECT_TRUE((co_await gateways.Start()).ok());
    EXPECT_EQ(gateways.store().why, "");
    const conf::TimePoint answered = gateways.store().answered;
    EXPECT_GT(answered, conf::TimePoint());

    store.refuses = absl::UnavailableError("it is away");
    gateways.TellSoon();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return gateways.store().why == "it is away"; }));
    EXPECT_EQ(gateways.store().answered, answered);
    EXPECT_TRUE(gateways.store().away(answered + kGatewayLease));

    store.refuses = absl::OkStatus();
    gateways.TellSoon();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return gateways.store().why.empty(); }));
    EXPECT_GT(gateways.store().answered, answered);
    gateways.Stop();
  });
}

}  // namespace
}  // namespace gateway::control
