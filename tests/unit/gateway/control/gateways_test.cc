#include "gateway/control/gateways.h"

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
      writes.push_back(store::Write::Create(store::kGateway, name, BodyOf({.name = name, .start = "2"})));
      EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    }
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return gateways.OthersLive(net::Now()); }));
    EXPECT_LE(built, before + 1) << "but for the clock";
    gateways.Stop();
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
