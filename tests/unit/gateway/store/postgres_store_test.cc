// What PostgreSQL alone can do to a store: refuse, stop, end in the middle, come back as an older copy.
#include "gateway/store/postgres_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>

#include "gateway/store/follower.h"
#include "tests/support/loop_test.h"
#include "tests/support/postgres_server.h"
#include "tests/support/tls_files.h"

namespace {

namespace store = gateway::store;
namespace net = gateway::net;
using store::PostgresStore;
using store::PostgresStoreOptions;
using store::Write;
using testing::HasSubstr;
using testing::Not;
using tests::Eventually;
using tests::PostgresServer;
using tests::TestLoop;

class PostgresStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = PostgresServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
  }
  static PostgresStoreOptions Options(const PostgresServer& server, const std::string& database) {
    PostgresStoreOptions options;
    options.server.url = server.Url(database);
    options.server.password = PostgresServer::kPassword;
    options.patience = std::chrono::seconds(2);
    options.connect_patience = std::chrono::seconds(2);
    return options;
  }
  static net::Task<absl::Status> CheckOnce(TestLoop& loop, PostgresStoreOptions options) {
    PostgresStore store(loop, std::move(options));
    co_return (co_await store.Check()).status();
  }
};

net::Task<absl::Status> PutOne(store::Store& store, std::string id) {
  std::vector<Write> writes = {Write::Create("key", std::move(id), "x")};
  co_return (co_await store.Commit(std::move(writes), 0)).status();
}

TEST_F(PostgresStoreTest, AWrongPasswordIsToldWithoutAnyPassword) {
  PostgresServer& server = PostgresServer::Shared();
  PostgresStoreOptions options = Options(server, "postgres");
  options.server.password = "not-the-right-one";
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const absl::Status refused = co_await CheckOnce(loop, options);
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("authentication failed"));
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("not-the-right-one")));
  });
}

TEST_F(PostgresStoreTest, AMissingDatabaseOrServerIsReported) {
  PostgresServer& server = PostgresServer::Shared();
  const tests::FreePort nobody;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const absl::Status missing = co_await CheckOnce(loop, Options(server, "no_such_database"));
    EXPECT_TRUE(absl::IsUnavailable(missing)) << missing;
    EXPECT_THAT(std::string(missing.message()), HasSubstr("no_such_database"));
    PostgresStoreOptions options = Options(server, "postgres");
    options.server.url = "postgres://x@127.0.0.1:" + std::to_string(nobody.number()) + "/x?sslmode=disable";
    const absl::Status refused = co_await CheckOnce(loop, options);
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("refused"));
  });
}

TEST_F(PostgresStoreTest, AServerThatIsSilentDoesNotHideTheNext) {
  PostgresServer& server = PostgresServer::Shared();
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(silent, reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&at), &size), 0);
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStoreOptions options = Options(server, "postgres");
    const size_t host = options.server.url.find('@') + 1;
    options.server.url.insert(host, fmt::format("127.0.0.1:{},", ntohs(at.sin_port)));
    const absl::Status reached = co_await CheckOnce(loop, options);
    EXPECT_TRUE(reached.ok()) << reached;
  });
  close(silent);
}

TEST_F(PostgresStoreTest, ANewerSchemaIsRefused) {
  PostgresServer& server = PostgresServer::Shared();
  ASSERT_TRUE(server.MakeDatabase("newer"));
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    EXPECT_TRUE((co_await CheckOnce(loop, Options(server, "newer"))).ok());
  });
  ASSERT_TRUE(server.Sql("newer", "UPDATE tidegate.meta SET schema = 99"));
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    const absl::Status refused = co_await CheckOnce(loop, Options(server, "newer"));
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("schema 99"));
  });
}

TEST_F(PostgresStoreTest, ACheckMakesNoTables) {
  PostgresServer& server = PostgresServer::Shared();
  ASSERT_TRUE(server.MakeDatabase("bare"));
  PostgresStoreOptions options = Options(server, "bare");
  options.makes_schema = false;
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    EXPECT_TRUE(absl::IsNotFound(co_await CheckOnce(loop, options)));
  });
}

TEST_F(PostgresStoreTest, SeveralGatewaysThatStartAtOnceMakeTheTablesOnce) {
  PostgresServer& server = PostgresServer::Shared();
  ASSERT_TRUE(server.MakeDatabase("at_once"));
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    int ended = 0;
    const auto start = [&]() -> net::Task<void> {
      const absl::Status started = co_await CheckOnce(loop, Options(server, "at_once"));
      EXPECT_TRUE(started.ok()) << started;
      ++ended;
    };
    for (int i = 0; i < 5; ++i) loop.tasks.Spawn(start());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 5; }));
  });
}

TEST_F(PostgresStoreTest, TheServersCertificateIsVerified) {
  tests::TlsFiles right;
  tests::TlsFiles other;
  PostgresServer files;
  PostgresServer server;
  server.Set("ssl=on");
  server.Set("ssl_cert_file=" + server.Own(right.certificate(), "server.crt"));
  server.Set("ssl_key_file=" + server.Own(right.key(), "server.key"));
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStoreOptions options = Options(server, "postgres");
    options.server.url = server.Url("postgres", "sslmode=verify-full");
    options.server.ca = right.certificate();
    const absl::Status verified = co_await CheckOnce(loop, options);
    EXPECT_TRUE(verified.ok()) << verified;
    options.server.ca = other.certificate();
    const absl::Status refused = co_await CheckOnce(loop, options);
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("certificate"));
  });
}

class Health final : public store::Store::Listener {
 public:
  void OnChange(uint64_t number) override { last = number; }
  void OnHealth(const absl::Status& status) override { states.push_back(status.ok()); }
  void OnRestored() override { ++restored; }
  uint64_t last = 0;
  std::vector<bool> states;
  int restored = 0;
};

TEST_F(PostgresStoreTest, AServerThatStopsIsReportedAndUsedAgainWhenItIsBack) {
  PostgresServer server;
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStore store(loop, Options(server, "postgres"));
    Health health;
    store.Add(health);
    EXPECT_TRUE((co_await PutOne(store, "a")).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return health.last == 1; }));
    server.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return health.states == std::vector{false}; }));
    const absl::Status refused = co_await PutOne(store, "b");
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_TRUE(server.Start());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return health.states == std::vector{false, true}; }));
    const absl::Status again = co_await PutOne(store, "b");
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_EQ(health.restored, 0);
    store.Remove(health);
  });
}

TEST_F(PostgresStoreTest, ACommitThatADeathOfTheServerInterruptsIsWholeOrAbsentAndSaysWhatIsKnown) {
  PostgresServer server({"fsync=on"});
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStore store(loop, Options(server, "postgres"));
    std::map<std::string, absl::StatusCode> told;
    bool ended = false;
    const auto write = [&]() -> net::Task<void> {
      for (int i = 0; i < 100'000; ++i) {
        const std::string id = std::to_string(i);
        std::vector<Write> both = {Write::Create("key", id, "x"), Write::Create("key_event", id, "x")};
        const absl::Status done = (co_await store.Commit(std::move(both), 0)).status();
        told[id] = done.code();
        if (!done.ok()) break;
      }
      ended = true;
    };
    loop.tasks.Spawn(write());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return told.size() > 20; }));
    server.Kill();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended; }));
    EXPECT_TRUE(server.Start());
    store::Listing keys;
    store::Listing events;
    for (int i = 0; i < 200; ++i) {
      const auto listed = co_await store.List("key");
      const auto others = co_await store.List("key_event");
      if (listed.ok() && others.ok()) {
        keys = *listed;
        events = *others;
        break;
      }
      net::Sleep pause(loop.watchdog);
      co_await pause.For(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(keys.objects.size(), events.objects.size());
    std::map<std::string, bool> there;
    for (const store::Object& key : keys.objects) there[key.id] = true;
    for (const auto& [id, code] : told) {
      if (code == absl::StatusCode::kOk) {
        EXPECT_TRUE(there.contains(id)) << id;
      } else if (code == absl::StatusCode::kUnavailable) {
        EXPECT_FALSE(there.contains(id)) << id;
      } else {
        EXPECT_EQ(code, absl::StatusCode::kUnknown);
      }
    }
  });
}

TEST_F(PostgresStoreTest, AGatewayThatHangsInATransactionDelaysOthersOnlyShortly) {
  PostgresServer server;
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStoreOptions options = Options(server, "postgres");
    options.patience = std::chrono::seconds(5);
    PostgresStore store(loop, options);
    EXPECT_TRUE((co_await PutOne(store, "a")).ok());
    net::PostgresConnection still(loop, options.server);
    EXPECT_TRUE((co_await still.Connect(options.patience)).ok());
    std::vector<net::PostgresStatement> hold;
    hold.push_back({"SET idle_in_transaction_session_timeout = '2s'"});
    hold.push_back({"BEGIN"});
    hold.push_back({"SELECT last FROM tidegate.sequence FOR UPDATE"});
    EXPECT_TRUE((co_await still.Run(std::move(hold), options.patience)).ok());
    const absl::Status done = co_await PutOne(store, "b");
    EXPECT_TRUE(done.ok()) << done;
  });
}

TEST_F(PostgresStoreTest, ACommitThatIsGivenUpIsNotCommittedWithTheNext) {
  PostgresServer server;
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStoreOptions options = Options(server, "postgres");
    options.patience = std::chrono::seconds(4);
    PostgresStore store(loop, options);
    EXPECT_TRUE((co_await PutOne(store, "first")).ok());
    net::PostgresConnection other(loop, options.server);
    EXPECT_TRUE((co_await other.Connect(std::chrono::seconds(5))).ok());
    std::vector<net::PostgresStatement> hold;
    hold.push_back({"BEGIN"});
    hold.push_back({"SELECT last FROM tidegate.sequence FOR UPDATE"});
    EXPECT_TRUE((co_await other.Run(std::move(hold), std::chrono::seconds(5))).ok());
    std::map<std::string, absl::Status> ended;
    const auto put = [&](std::string id) -> net::Task<void> { ended[id] = co_await PutOne(store, id); };
    loop.tasks.Spawn(put("waits for the row"));
    loop.tasks.Spawn(put("comes too late"));
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::seconds(3));
    loop.tasks.Spawn(put("is in time"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended.size() >= 2; }));
    std::vector<net::PostgresStatement> release;
    release.push_back({"ROLLBACK"});
    EXPECT_TRUE((co_await other.Run(std::move(release), std::chrono::seconds(5))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended.size() == 3; }));
    for (const auto& [id, status] : ended) {
      const auto found = co_await store.Get("key", id);
      EXPECT_TRUE(found.ok() && found->has_value() == status.ok()) << id << ": " << status;
    }
    EXPECT_TRUE(absl::IsUnavailable(ended["comes too late"])) << ended["comes too late"];
  });
}

TEST_F(PostgresStoreTest, AValueThatTheDatabaseRefusesIsRefusedAlone) {
  PostgresServer server;
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStore store(loop, Options(server, "postgres"));
    std::map<std::string, absl::Status> ended;
    const auto put = [&](std::string id) -> net::Task<void> { ended[id] = co_await PutOne(store, id); };
    const std::string wrong = "no UTF-8: \xff";
    for (const std::string& id : {std::string("a"), std::string("b"), wrong, std::string("c")})
      loop.tasks.Spawn(put(id));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended.size() == 4; }, std::chrono::seconds(30)));
    EXPECT_TRUE(absl::IsInvalidArgument(ended[wrong])) << ended[wrong];
    for (const char* const id : {"a", "b", "c"}) EXPECT_TRUE(ended[id].ok()) << ended[id];
  });
}

TEST_F(PostgresStoreTest, ACopyThatLacksTheLastChangesIsNoticedAndNoNumberIsUsedTwice) {
  PostgresServer server;
  ASSERT_TRUE(server.Start());
  tests::RunOnLoop([&](TestLoop& loop) -> net::Task<void> {
    PostgresStoreOptions options = Options(server, "postgres");
    std::string said;
    options.on_restored = [&said](const std::string& what) { said = what; };
    PostgresStore store(loop, options);
    std::map<std::string, std::string> copy;
    store::Follower::Copy updates;
    updates.replace = [&copy](const std::vector<store::Object>& all) {
      copy.clear();
      for (const store::Object& object : all) copy[object.id] = object.body;
    };
    updates.apply = [&copy](const std::vector<store::Change>& changes) {
      for (const store::Change& change : changes) copy[change.id] = change.body.value_or("-");
    };
    store::Follower follower(loop, store, "key", updates);
    EXPECT_TRUE((co_await PutOne(store, "kept")).ok());
    EXPECT_TRUE((co_await follower.Start()).ok());
    const auto first = co_await store.Campaign("a", "", std::chrono::seconds(60));
    EXPECT_TRUE(server.MakeCopy());
    EXPECT_TRUE((co_await store.Resign("a", first.value_or(store::Lead()).epoch)).ok());
    const auto second = co_await store.Campaign("b", "", std::chrono::seconds(60));
    EXPECT_TRUE((co_await PutOne(store, "lost")).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return copy.contains("lost"); }));
    EXPECT_TRUE(server.PromoteCopy());
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return copy.size() == 1 && copy.contains("kept"); }, std::chrono::seconds(20)));
    EXPECT_THAT(said, HasSubstr("went back from change 2 to change 1"));
    std::vector<Write> writes = {Write::Create("key", "next", "x")};
    const auto next = co_await store.Commit(std::move(writes), 0);
    EXPECT_TRUE(next.ok()) << next.status();
    if (next.ok()) EXPECT_GT(next->first, 2u);
    const auto third = co_await store.Campaign("c", "", std::chrono::seconds(60));
    EXPECT_TRUE(third.ok() && second.ok() && third->epoch > second->epoch);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return copy.contains("next"); }));
    follower.Stop();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return loop.tasks.running() == 1; }));
  });
}

}  // namespace
