#include "gateway/people/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_store.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace gateway {
namespace {

namespace auth = plugins::auth;
using auth::Verdict;
using store::Object;
using store::Write;
using testing::HasSubstr;
using tests::Eventually;
using tests::TempDir;
using tests::TestLoop;

auth::KeySpec Search() {
  auth::KeySpec spec;
  spec.tenant = "acme/search";
  spec.created_by = "ops";
  return spec;
}

// A gateway or a command: a store of its own on a common file.
class Side {
 public:
  Side(TestLoop& loop, const std::string& path)
      : store(*store::OpenSqliteStore(loop,
                                      {.file = {.path = path}, .patience = std::chrono::milliseconds(500)})),
        keys(loop, *store) {}

  Verdict::Kind Try(const std::string& secret) const { return Check(*keys.Table(), secret, net::Now()).kind; }

  std::unique_ptr<store::Store> store;
  Keys keys;
};

net::Task<void> Start(Side& side) {
  const absl::Status started = co_await side.keys.Start();
  EXPECT_TRUE(started.ok()) << started;
}

TEST(Keys, AChangeIsInForceWhenItIsAnsweredAndAfterARestart) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  std::string kept, rotated, revoked;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(path);
    co_await Start(side);
    const auto a = co_await side.keys.Create(Search(), net::Now());
    kept = a->secret;
    EXPECT_EQ(side.Try(kept), Verdict::Kind::kOk);
    EXPECT_GE(side.keys.number(), a->number);
    const auto b = co_await side.keys.Create(Search(), net::Now());
    rotated = b->secret;
    const auto c = co_await side.keys.Rotate(b->record->id, {}, net::Now());
    revoked = c->secret;
    EXPECT_EQ(side.Try(rotated), Verdict::Kind::kReplaced);
    EXPECT_EQ(side.Try(revoked), Verdict::Kind::kOk);
    EXPECT_TRUE((co_await side.keys.Revoke(c->record->id, {"ops"}, "leaked", net::Now())).ok());
    EXPECT_EQ(side.Try(revoked), Verdict::Kind::kRevoked);
    side.keys.Stop();
  });
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(path);
    co_await Start(side);
    EXPECT_EQ(side.Try(kept), Verdict::Kind::kOk);
    EXPECT_EQ(side.Try(rotated), Verdict::Kind::kReplaced);
    EXPECT_EQ(side.Try(revoked), Verdict::Kind::kRevoked);
    side.keys.Stop();
  });
}

TEST(Keys, EachChangeLeavesItsEventForTheLedgerInTheSameTransaction) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(dir / "state.db");
    co_await Start(side);
    const auto a = co_await side.keys.Create(Search(), net::Now());
    const auto b = co_await side.keys.Rotate(a->record->id, {}, net::Now());
    EXPECT_TRUE((co_await side.keys.Revoke(b->record->id, {}, "", net::Now())).ok());
    const auto events = co_await side.store->List(store::kKeyEvent);
    std::vector<std::string> ids;
    for (const Object& event : events->objects) ids.push_back(event.id);
    EXPECT_THAT(ids, testing::UnorderedElementsAre(a->record->id + ".created", a->record->id + ".rotated",
                                                   b->record->id + ".revoked"));
    for (const Object& event : events->objects) {
      EXPECT_THAT(event.body, testing::Not(HasSubstr(a->secret.substr(14))));
      EXPECT_THAT(event.body, testing::Not(HasSubstr(b->secret.substr(14))));
    }
    side.keys.Stop();
  });
}

TEST(Keys, ATableFollowsWhatAnotherProcessChanges) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& gateway = loop.Make<Side>(dir / "state.db");
    Side& command = loop.Make<Side>(dir / "state.db");
    int tables = 0;
    co_await Start(gateway);
    co_await Start(command);
    gateway.keys.OnTable([&] { ++tables; });
    const auto table = gateway.keys.Table();
    const auto made = co_await command.keys.Create(Search(), net::Now());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.Try(made->secret) == Verdict::Kind::kOk; }));
    EXPECT_EQ(tables, 1);
    EXPECT_EQ(table->size(), 0u) << "a table in use does not change";
    EXPECT_TRUE((co_await gateway.keys.Revoke(made->record->id, {}, "", net::Now())).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(
        (co_await command.keys.Revoke(made->record->id, {}, "", net::Now())).status()))
        << "what another has done a moment ago counts";
    gateway.keys.Stop();
    command.keys.Stop();
  });
}

TEST(Keys, OfTwoThatRotateOneKeyAtOnceOneIsRefused) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& one = loop.Make<Side>(dir / "state.db");
    Side& two = loop.Make<Side>(dir / "state.db");
    co_await Start(one);
    co_await Start(two);
    for (int round = 0; round < 10; ++round) {
      const auto made = co_await one.keys.Create(Search(), net::Now());
      int ok = 0;
      int refused = 0;
      const auto rotate = [&](Side& side) -> net::Task<void> {
        const auto rotated = co_await side.keys.Rotate(made->record->id, {}, net::Now());
        ok += rotated.ok();
        refused += absl::IsFailedPrecondition(rotated.status());
      };
      loop.tasks.Spawn(rotate(one));
      loop.tasks.Spawn(rotate(two));
      EXPECT_TRUE(co_await Eventually(loop, [&] { return ok + refused == 2; }));
      EXPECT_EQ(ok, 1);
    }
    EXPECT_TRUE((co_await one.keys.Create(Search(), net::Now())).ok());
    EXPECT_EQ(one.keys.List().size(), 21u);
    one.keys.Stop();
    two.keys.Stop();
  });
}

TEST(Keys, AStoreThatIsLockedRefusesChangesAndKeepsTheTable) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(path);
    co_await Start(side);
    const auto made = co_await side.keys.Create(Search(), net::Now());
    {
      const auto other = *sqlite::Database::Open(path, sqlite::Database::Sync::kFull);
      EXPECT_TRUE(other->Execute("BEGIN IMMEDIATE").ok());
      const auto refused = co_await side.keys.Create(Search(), net::Now());
      EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
      EXPECT_EQ(side.Try(made->secret), Verdict::Kind::kOk);
      EXPECT_TRUE(other->Execute("ROLLBACK").ok());
    }
    EXPECT_TRUE((co_await side.keys.Create(Search(), net::Now())).ok());
    EXPECT_EQ(side.keys.List().size(), 2u);
    side.keys.Stop();
  });
}

// A newer version may have narrowed a key in a way that this one does not know.
TEST(Keys, AKeyThatCannotBeReadStopsTheStartAndStopsWorkingInARunningGateway) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(dir / "state.db");
    co_await Start(side);
    const auto made = co_await side.keys.Create(Search(), net::Now());
    const std::string id = made->record->id;
    const auto stored = co_await side.store->Get(store::kKey, id);
    std::string body = (*stored)->body;
    body.insert(body.size() - 1, R"(,"only_from":"10.0.0.0/8")");
    std::vector<Write> writes = {Write::Replace(**stored, body)};
    EXPECT_TRUE((co_await side.store->Commit(writes)).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return side.Try(made->secret) == Verdict::Kind::kUnknown; }));
    EXPECT_TRUE(absl::IsFailedPrecondition((co_await side.keys.Revoke(id, {}, "", net::Now())).status()));
    Side& fresh = loop.Make<Side>(dir / "state.db");
    const absl::Status started = co_await fresh.keys.Start();
    EXPECT_TRUE(absl::IsDataLoss(started)) << started;
    EXPECT_THAT(std::string(started.message()), testing::AllOf(HasSubstr(id), HasSubstr("newer")));
    side.keys.Stop();
    fresh.keys.Stop();
  });
}

TEST(Keys, AStoreThatIsGoneIsSaidOnceAndTheKnownKeysStay) {
  const TempDir dir;
  const std::string path = dir / "state.db";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    Side& side = loop.Make<Side>(path);
    co_await Start(side);
    const auto made = co_await side.keys.Create(Search(), net::Now());
    EXPECT_EQ(side.keys.trouble(), "");
    std::filesystem::rename(path, path + ".away");
    co_await Eventually(loop, [&] { return !side.keys.trouble().empty(); });
    EXPECT_THAT(side.keys.trouble(), testing::AllOf(HasSubstr("changes of keys cannot be read"),
                                                    HasSubstr(path), HasSubstr("was removed")));
    EXPECT_EQ(side.Try(made->secret), Verdict::Kind::kOk);
    std::filesystem::rename(path + ".away", path);
    co_await Eventually(loop, [&] { return side.keys.trouble().empty(); });
    side.keys.Stop();
  });
}

}  // namespace
}  // namespace gateway
