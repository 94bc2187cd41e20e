#include "gateway/store/gateway_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/unit/gateway/store/backends.h"

namespace {

namespace store = gateway::store;
namespace net = gateway::net;
using store::Write;
using tests::TestLoop;

struct TwoViews {
  explicit TwoViews(TestLoop& loop)
      : bare(*backend.Open(loop, {})),
        a(*backend.Open(loop, {}), "aa11"),
        b(*backend.Open(loop, {}), "bb22") {}
  tests::MemoryBackend backend;
  std::unique_ptr<store::Store> bare;
  store::GatewayView a;
  store::GatewayView b;
};

TEST(GatewayView, APositionIsOneGatewaysAndAKeyIsEveryonesInOneTransaction) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    TwoViews views(loop);
    std::vector<Write> both = {Write::Create(store::kPosition, "sink:x", "7"),
                               Write::Create(store::kKey, "k", "body")};
    EXPECT_TRUE((co_await views.a.Commit(std::move(both), 0)).ok());

    const auto mine = co_await views.a.Get(store::kPosition, "sink:x");
    EXPECT_TRUE(mine.ok() && *mine);
    if (mine.ok() && *mine) {
      EXPECT_EQ((*mine)->id, "sink:x");
      EXPECT_EQ((*mine)->body, "7");
    }
    EXPECT_FALSE(*co_await views.b.Get(store::kPosition, "sink:x"));
    EXPECT_TRUE(*co_await views.b.Get(store::kKey, "k"));
    EXPECT_TRUE(*co_await views.bare->Get(store::kPosition, "sink:x@aa11"));

    std::vector<Write> own = {Write::Create(store::kPosition, "sink:x", "9")};
    EXPECT_TRUE((co_await views.b.Commit(std::move(own), 0)).ok()) << "each has a position of its own";
  });
}

TEST(GatewayView, ListsAndChangesShowOwnEventsOnly) {
  tests::RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    TwoViews views(loop);
    std::vector<Write> of_a = {Write::Create(store::kLedgerEvent, "1", "x")};
    EXPECT_TRUE((co_await views.a.Commit(std::move(of_a), 0)).ok());
    std::vector<Write> of_b = {Write::Create(store::kLedgerEvent, "1", "y")};
    EXPECT_TRUE((co_await views.b.Commit(std::move(of_b), 0)).ok());

    const auto list = co_await views.b.List(store::kLedgerEvent);
    EXPECT_EQ(list->objects.size(), 1u);
    EXPECT_EQ(list->objects.at(0).id, "1");
    EXPECT_EQ(list->objects.at(0).body, "y");
    const auto changes = co_await views.a.Changes(store::kLedgerEvent, 0);
    EXPECT_EQ(changes->changes.size(), 1u);
    EXPECT_EQ(changes->changes.at(0).body, "x");
    EXPECT_EQ(changes->number, 2u) << "what is hidden counts as told";

    std::vector<Write> gone = {Write::Remove(list->objects.at(0))};
    EXPECT_TRUE((co_await views.b.Commit(std::move(gone), 0)).ok()) << "as it was listed, so it is removed";
  });
}

TEST(GatewayView, AnIdOfAnotherGatewayIsNotTakenForOnesOwn) {
  EXPECT_EQ(store::WithoutGateway("a@b@aa11", "aa11"), "a@b");
  EXPECT_EQ(store::WithoutGateway("a@xaa11", "aa11"), std::nullopt);
  EXPECT_EQ(store::WithoutGateway("@aa11", "aa11"), std::nullopt);
  EXPECT_EQ(store::WithoutGateway("a", "aa11"), std::nullopt);
}

}  // namespace
