// LoRA adapters that operators have loaded at run time, as the store keeps them.
#include "gateway/control/models/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/api/coded_status.h"
#include "gateway/config/load.h"
#include "gateway/config/sources.h"
#include "gateway/shard/shared.h"
#include "gateway/store/kinds.h"
#include "gateway/store/sqlite_store.h"
#include "tests/support/loop_test.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

using gateway::Runtime;
using gateway::control::Adapter;
using gateway::control::Adapters;
using gateway::control::ReadAdapter;
using testing::ElementsAre;
using testing::HasSubstr;

const conf::TimePoint kWhen = conf::FromUnixMicros(1'700'000'000'000'000);

std::shared_ptr<const Runtime> RuntimeWithBase(gateway::Shared& shared) {
  gateway::LoadResult loaded = gateway::ParseConfig(
      "server: {listen: '127.0.0.1:0', state_dir: /unused}\n"
      "tenants: [{name: demo, models: ['*']}]\n"
      "models:\n"
      "  - {name: chat, adapters: {sources: [/adapters]}, endpoints: [{url: 'http://127.0.0.1:1', engine: "
      "vllm}]}\n"
      "  - {name: other, adapters: {sources: [/adapters]}, endpoints: [{url: 'http://127.0.0.1:1', engine: "
      "vllm}]}\n"
      "  - {name: plain, endpoints: [{url: 'http://127.0.0.1:1', engine: vllm}]}\n",
      "t.yaml", gateway::SystemSources());
  for (const conf::Problem& problem : loaded.problems) ADD_FAILURE() << ToString(problem);
  return *Runtime::Build(*std::move(loaded.config), shared.learned(), kWhen);
}

// One gateway's life over a store that outlives it.
struct AdaptersOfGateway {
  // `epoch`: of the term in which it leads a shared store; 0: it has the store to itself.
  AdaptersOfGateway(TestLoop& loop, const std::string& path, uint64_t epoch = 0)
      : store(*gateway::store::OpenSqliteStore(loop, {.file = {.path = path}})),
        runtime(RuntimeWithBase(shared)),
        adapters(loop, *store,
                 Adapters::Environment{
                     .record = [this](gateway::ledger::Event event) -> gateway::net::Task<absl::Status> {
                       if (record_result.ok())
                         records.push_back(event.action + " " + event.subject + " by " + event.actor);
                       co_return record_result;
                     },
                     .runtime = [this] { return runtime; },
                     .epoch = [epoch] { return epoch; },
                     .changed = [this] { ++changes; }}) {}
  ~AdaptersOfGateway() { adapters.Stop(); }

  gateway::Shared shared;
  std::unique_ptr<gateway::store::Store> store;
  std::shared_ptr<const Runtime> runtime;
  std::vector<std::string> records;
  absl::Status record_result;
  int changes = 0;
  Adapters adapters;
};

Adapter Sql(const std::string& source = "/adapters/sql") {
  return {.base = "chat", .name = "sql", .source = source, .by = "ada", .since = kWhen};
}

TEST(Adapters, OutliveTheGatewayUntilTheyAreUnloadedAndGone) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    {
      AdaptersOfGateway before(loop, dir / "state.db");
      EXPECT_TRUE((co_await before.adapters.Start()).ok());
      const absl::Status loaded = co_await before.adapters.Load(Sql());
      EXPECT_TRUE(loaded.ok()) << loaded;
    }
    AdaptersOfGateway after(loop, dir / "state.db");
    EXPECT_TRUE((co_await after.adapters.Start()).ok());
    const Adapter* const kept = after.adapters.Find("chat", "sql");
    EXPECT_NE(kept, nullptr);
    if (kept != nullptr) EXPECT_EQ(*kept, Sql());
    EXPECT_EQ(after.adapters.InForce().size(), 1u);
    const absl::Status unloaded = co_await after.adapters.Unload("chat", "sql", "bob");
    EXPECT_TRUE(unloaded.ok()) << unloaded;
    EXPECT_TRUE(after.adapters.InForce().empty()) << "its requests are refused at once";
    EXPECT_FALSE(after.adapters.empty()) << "engines have it still";
    EXPECT_FALSE((co_await after.adapters.Unload("chat", "sql", "bob")).ok());
    const absl::Status again = co_await after.adapters.Load(Sql());
    EXPECT_THAT(std::string(again.message()), HasSubstr("is being unloaded; try again"));
    EXPECT_TRUE((co_await after.adapters.Forget("chat", "sql", "adapter.gone", "no engine holds it")).ok());
    EXPECT_TRUE(after.adapters.empty());
    EXPECT_THAT(after.records, ElementsAre("adapter.unload sql by bob", "adapter.gone sql by bob"));
  });
}

TEST(Adapters, WhatIsWrongIsSaidWithWhatWouldBeRight) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    AdaptersOfGateway one(loop, dir / "state.db");
    EXPECT_TRUE((co_await one.adapters.Start()).ok());
    EXPECT_TRUE((co_await one.adapters.Load(Sql())).ok());
    struct Case {
      Adapter adapter;
      gateway::api::Code code;
      const char* says;
    };
    const auto with = [](auto change) {
      Adapter adapter = Sql();
      adapter.name = "new";
      change(adapter);
      return adapter;
    };
    const std::vector<Case> cases = {
        {with([](Adapter& a) { a.base = "chta"; }), gateway::api::Code::kNotFound, "no model has the name"},
        {with([](Adapter& a) { a.base = "plain"; }), gateway::api::Code::kConflict,
         "its configuration has no section adapters; give it \"adapters: {sources:"},
        {with([](Adapter& a) { a.source = "/etc/x"; }), gateway::api::Code::kInvalidValue,
         "source: \"/etc/x\" is in none of the model's adapters.sources; give a path in /adapters"},
        {with([](Adapter& a) { a.name = "a b"; }), gateway::api::Code::kInvalidValue,
         "name: \"a b\" must be"},
        {with([](Adapter& a) { a.name = "a|b"; }), gateway::api::Code::kInvalidValue, "must not have a |"},
        {with([](Adapter& a) { a.name = "other"; }), gateway::api::Code::kConflict,
         "a configured model has the name or alias \"other\""},
        {with([](Adapter& a) { a.name = "sql"; }), gateway::api::Code::kConflict,
         "is loaded from /adapters/sql already; unload it first"},
        {with([](Adapter& a) { a.name = "sql", a.base = "other"; }), gateway::api::Code::kConflict,
         "sql is an adapter of chat already"}};
    for (const Case& wrong : cases) {
      const absl::Status status = co_await one.adapters.Load(wrong.adapter);
      EXPECT_EQ(gateway::api::CodeOf(status), wrong.code) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.says));
    }
    EXPECT_EQ(one.records.size(), 1u) << "a refused one leaves no record";
  });
}

TEST(Adapters, WhatTheLedgerDoesNotHaveIsNotDone) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    AdaptersOfGateway one(loop, dir / "state.db");
    EXPECT_TRUE((co_await one.adapters.Start()).ok());
    one.record_result = absl::UnavailableError("the disk is full");
    EXPECT_FALSE((co_await one.adapters.Load(Sql())).ok());
    EXPECT_TRUE(one.adapters.empty());
  });
}

TEST(Adapters, ALeaderRecordsThemInTheSharedStoreAndADeposedLeaderNone) {
  const TempDir dir;
  tests::RunOnLoop([&](TestLoop& loop) -> gateway::net::Task<void> {
    AdaptersOfGateway leader(loop, dir / "state.db", 1);
    EXPECT_TRUE((co_await leader.adapters.Start()).ok());
    EXPECT_TRUE((co_await leader.store->Campaign("a", "a", std::chrono::seconds(10))).ok());
    EXPECT_TRUE((co_await leader.adapters.Load(Sql())).ok());
    const auto events = co_await leader.store->List(gateway::store::kLedgerEvent);
    EXPECT_TRUE(events.ok() && events->objects.size() == 1);
    EXPECT_TRUE((co_await leader.store->Resign("a", 1)).ok());
    EXPECT_TRUE(absl::IsUnavailable(co_await leader.adapters.Unload("chat", "sql", "bob")));
    const auto after = co_await leader.store->List(gateway::store::kLedgerEvent);
    EXPECT_TRUE(after.ok() && after->objects.size() == 1) << "what was not done is in no ledger";
    EXPECT_TRUE(leader.records.empty());
    EXPECT_EQ(leader.adapters.InForce().size(), 1u);
  });
}

TEST(Adapters, AreNotReadFromADamagedObject) {
  const std::string id = gateway::control::IdOf("chat", "sql");
  EXPECT_EQ(*ReadAdapter(id, gateway::control::BodyOf(Sql())), Sql());
  for (const char* const body : {"", "{}", "[]", R"({"base":"chat"})"})
    EXPECT_TRUE(absl::IsDataLoss(ReadAdapter(id, body).status())) << body;
  EXPECT_TRUE(absl::IsDataLoss(ReadAdapter("chat|other", gateway::control::BodyOf(Sql())).status()));
}

}  // namespace
}  // namespace tests
