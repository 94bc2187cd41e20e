#include "gateway/control/gateways.h"

#include <gtest/gtest.h>

#include "gateway/net/clock.h"
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

TEST(Gateways, TellHowTheStoreAnswersTheirOwnRecord) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore store;
    Gateways::Environment env;
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
