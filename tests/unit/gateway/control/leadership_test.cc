#include "gateway/control/lead/leadership.h"

#include <gtest/gtest.h>

#include <vector>

#include "gateway/control/gateways/followed_replicas.h"
#include "gateway/control/gateways/gateways.h"
#include "gateway/control/metering/metered_marks.h"
#include "gateway/store/kinds.h"
#include "tests/support/loop_test.h"
#include "tests/support/memory_store.h"

namespace gateway::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::Eventually;
using tests::MemoryStore;
using tests::RunOnLoop;
using tests::TestLoop;

Leadership::Options Named(std::string name, bool alone = false) {
  return {.holder = name + "#1",
          .about = name,
          .alone = alone,
          .times = {.ttl = seconds(2), .ask = milliseconds(20), .patience = milliseconds(500)}};
}

TEST(Leadership, OneOfTwoLeadsAndTheOtherKnowsWhich) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    Leadership& b = loop.Keep(std::make_unique<Leadership>(loop, store, Named("b")));
    co_await a.Start();
    co_await b.Start();
    EXPECT_TRUE(a.leads());
    EXPECT_EQ(a.epoch(), 1u);
    EXPECT_FALSE(b.leads());
    EXPECT_EQ(b.epoch(), 0u);
    EXPECT_EQ(b.leader(), "a");
    EXPECT_TRUE((co_await a.Confirm()).ok());
    EXPECT_FALSE((co_await b.Confirm()).ok());
    a.Stop();
    b.Stop();
  });
}

TEST(Leadership, AnotherLeadsSoonAfterOneHasResigned) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    Leadership& b = loop.Keep(std::make_unique<Leadership>(loop, store, Named("b")));
    uint64_t begun = 0;
    b.on_begin = [&](uint64_t epoch) { begun = epoch; };
    co_await a.Start();
    co_await b.Start();
    co_await a.Resign();
    EXPECT_FALSE(a.leads());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return begun == 2; }));
    EXPECT_TRUE(b.leads());
    b.Stop();
  });
}

TEST(Leadership, EndsBeforeItsLeadWhileTheStoreDoesNotAnswer) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    std::vector<uint64_t> begun;
    int ended = 0;
    a.on_begin = [&](uint64_t epoch) { begun.push_back(epoch); };
    a.on_end = [&] { ++ended; };
    co_await a.Start();
    store.campaigns = absl::UnavailableError("gone");
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 1; }));
    EXPECT_FALSE(a.leads());
    store.campaigns = absl::OkStatus();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return begun.size() == 2; }));
    EXPECT_EQ(begun, (std::vector<uint64_t>{1, 1}));  // the store had given it to nobody else
    a.Stop();
  });
}

TEST(Leadership, OneThatIsDeposedEndsItsTermAtOnce) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    int ended = 0;
    a.on_end = [&] { ++ended; };
    co_await a.Start();
    a.Deposed(1);
    EXPECT_EQ(ended, 1);
    EXPECT_FALSE(a.leads());
    a.Stop();
  });
}

TEST(Leadership, LeadsAgainInALaterEpochAfterItWasDeposed) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    co_await a.Start();
    // The store still says that it leads in the epoch that was refused.
    a.Deposed(1);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.epoch() == 2; }));
    a.Stop();
  });
}

net::Task<void> ConfirmOnce(Leadership& leadership, int& ok, int& ended) {
  if ((co_await leadership.Confirm()).ok()) ++ok;
  ++ended;
}

TEST(Leadership, ManyThatConfirmAtOnceShareOneAsk) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership::Options options = Named("a");
    options.times.ttl = seconds(60);
    options.times.patience = seconds(20);
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, std::move(options)));
    co_await a.Start();
    net::Sleep pause(loop.watchdog);
    co_await pause.For(milliseconds(1'200));  // until the first answer is too old
    store.before_campaign = [&]() -> net::Task<void> {
      net::Sleep answers(loop.watchdog);
      co_await answers.For(milliseconds(100));
    };
    int ok = 0;
    int ended = 0;
    for (int i = 0; i < 20; ++i) loop.tasks.Spawn(ConfirmOnce(a, ok, ended));
    EXPECT_EQ(store.asks, 2);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 20; }));
    EXPECT_EQ(ok, 20);
    EXPECT_EQ(store.asks, 2);
    a.Stop();
  });
}

TEST(Leadership, AConfirmationThatIsNotAnsweredEndsWithTheLead) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a")));
    co_await a.Start();
    store.campaigns = absl::UnavailableError("gone");
    int ok = 0;
    int ended = 0;
    net::Sleep pause(loop.watchdog);
    co_await pause.For(milliseconds(1'200));
    store.before_campaign = [&]() -> net::Task<void> {
      net::Sleep answers(loop.watchdog);
      co_await answers.For(milliseconds(1'000));  // each is given up before
    };
    loop.tasks.Spawn(ConfirmOnce(a, ok, ended));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ended == 1; }));
    EXPECT_EQ(ok, 0);
    a.Stop();
    co_await pause.For(milliseconds(1'200));  // its asks end before the test does
  });
}

TEST(Leadership, ALateAnswerToAnAskThatWasGivenUpGivesNothingBack) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    Leadership::Options options = Named("a");
    options.times.patience = milliseconds(200);
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, std::move(options)));
    std::vector<uint64_t> begun;
    a.on_begin = [&](uint64_t epoch) { begun.push_back(epoch); };
    // The first answer comes while the second one is awaited.
    store.before_campaign = [&]() -> net::Task<void> {
      net::Sleep pause(loop.watchdog);
      co_await pause.For(store.asks == 1 ? milliseconds(300) : milliseconds(150));
    };
    co_await a.Start();
    EXPECT_FALSE(a.leads());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.leads(); }));
    EXPECT_EQ(begun, std::vector<uint64_t>{1});
    const absl::StatusOr<store::Lead> stored = co_await store.Leader();
    EXPECT_TRUE(stored.ok());
    EXPECT_EQ(stored->epoch, 1u) << "the lead was given back";
    a.Stop();
  });
}

TEST(Leadership, OneThatIsAloneLeadsWhateverTheStoreSays) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    store.campaigns = absl::ResourceExhaustedError("the disk is full");
    Leadership& a = loop.Keep(std::make_unique<Leadership>(loop, store, Named("a", true)));
    co_await a.Start();
    EXPECT_TRUE(a.leads());
    EXPECT_EQ(a.epoch(), 0u);
    EXPECT_TRUE((co_await a.Confirm()).ok());
    a.Stop();
  });
}

Gateways::Environment Telling(GatewayRecord& self) {
  return {.name = self.name, .self = [&self] { return self; }};
}

TEST(Gateways, HearOfEachOther) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    GatewayRecord one{.name = "a", .id = "0a", .start = "1", .version = "0.2.0", .epoch = 3};
    GatewayRecord two{.name = "b", .id = "0b", .start = "2", .version = "0.2.1"};
    Gateways& a = loop.Keep(std::make_unique<Gateways>(loop, store, Telling(one)));
    Gateways& b = loop.Keep(std::make_unique<Gateways>(loop, store, Telling(two)));
    EXPECT_TRUE((co_await a.Start()).ok());
    EXPECT_TRUE((co_await b.Start()).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.List(net::Now()).size() == 2; }));
    const std::vector<GatewayStatus> list = b.List(net::Now());
    EXPECT_EQ(list.size(), 2u);
    EXPECT_TRUE(list[0].self);
    EXPECT_EQ(list[0].record.name, "b");
    EXPECT_EQ(list[1].record.epoch, 3u);
    EXPECT_TRUE(list[1].live);
    EXPECT_TRUE(b.OthersLive(net::Now()));
    EXPECT_FALSE(b.OthersLive(net::Now() + kGatewayLease));
    EXPECT_TRUE(b.Lives("0a", net::Now()));
    EXPECT_FALSE(b.Lives("0a", net::Now() + kGatewayLease));
    EXPECT_FALSE(b.Lives("0c", net::Now()));
    co_await a.Leave();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return b.List(net::Now()).size() == 1; }));
    EXPECT_FALSE(b.Lives("0a", net::Now()));
    b.Stop();
  });
}

TEST(Gateways, AReplicaIsLeftOnceEveryOneHasAppliedTheChange) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    GatewayRecord one{.name = "a", .start = "1"};
    GatewayRecord two{.name = "b", .start = "2", .followed = 7};
    Gateways& a = loop.Keep(std::make_unique<Gateways>(loop, store, Telling(one)));
    Gateways& b = loop.Keep(std::make_unique<Gateways>(loop, store, Telling(two)));
    EXPECT_TRUE((co_await b.Start()).ok());
    EXPECT_TRUE((co_await a.Start()).ok());
    EXPECT_EQ(a.LeftAt("r-1", 7, net::Now()), 0u);
    EXPECT_EQ(a.LeftAt("r-1", 8, net::Now()), std::nullopt);
    // One that is gone is not waited for.
    EXPECT_EQ(a.LeftAt("r-1", 8, net::Now() + kGatewayLease), 0u);
    two.followed = 8;
    two.leaving["r-1"] = 2;
    b.TellSoon();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return a.LeftAt("r-1", 8, net::Now()) == 2u; }));
    a.Stop();
    b.Stop();
  });
}

TEST(Gateways, ARequestThatWaitsIsToldAtOnce) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    GatewayRecord one{.name = "a", .start = "1"};
    GatewayRecord two{.name = "b", .start = "2"};
    int waits = 0;
    Gateways::Environment env = Telling(one);
    env.on_waiting = [&] { ++waits; };
    Gateways& a = loop.Keep(std::make_unique<Gateways>(loop, store, std::move(env)));
    Gateways& b = loop.Keep(std::make_unique<Gateways>(loop, store, Telling(two)));
    EXPECT_TRUE((co_await a.Start()).ok());
    EXPECT_TRUE((co_await b.Start()).ok());
    two.demand["chat"] = {.came = 1, .active = 1, .waiting = 1};
    const conf::TimePoint began = net::Now();
    b.TellSoon();
    EXPECT_TRUE(co_await Eventually(loop, [&] { return waits > 0; }));
    EXPECT_LT(net::Now() - began, milliseconds(900));  // sooner than by the clock
    EXPECT_EQ(a.Demand(net::Now()).at("chat").waiting, 1u);
    a.Stop();
    b.Stop();
  });
}

TEST(FollowedReplicas, ReadWhereAReadyReplicaListens) {
  const std::optional<ServedReplica> replica = ReadServedReplica(
      "r-chat-1",
      R"({"model":"chat","keyed":true,"serves":true,"members":[{"host":"node-1","port":21000},{"run":"x"}]})");
  ASSERT_TRUE(replica.has_value());
  EXPECT_EQ(replica->model, "chat");
  EXPECT_EQ(replica->address,
            (ReplicaAddress{.replica = "r-chat-1", .host = "node-1", .port = 21'000, .keyed = true}));
  EXPECT_TRUE(replica->serves);
}

TEST(FollowedReplicas, PassOverJobsAndReplicasWithoutAnAddress) {
  EXPECT_FALSE(ReadServedReplica("j-1", R"({"of":"train-1","members":[{"host":"n","port":1}]})").has_value());
  EXPECT_FALSE(ReadServedReplica("r-1", R"({"model":"chat","members":[{"run":"x"}]})").has_value());
  EXPECT_FALSE(ReadServedReplica("r-1", "no").has_value());
}

TEST(FollowedReplicas, APolicyWithScaleHasNoReplicasOfTheLeader) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    config::ModelPolicy policy;
    policy.scaling.model = "chat";
    policy.scale.emplace();
    const std::vector<config::ModelPolicy> policies = {policy};
    router::ReplicaStates replicas;
    FollowedReplicas followed(loop, store,
                              {.policy = [&](const std::string&) { return &policies.front(); },
                               .changed = [] {},
                               .load = [&](const std::string& identity) { return replicas.Get(identity); }});
    EXPECT_TRUE((co_await followed.Start()).ok());
    std::vector<store::Write> writes;
    writes.push_back(
        store::Write::Create(store::kWorkload, "r-chat-1",
                             R"({"model":"chat","serves":true,"members":[{"host":"node-1","port":21000}]})"));
    EXPECT_TRUE((co_await store.Commit(std::move(writes))).ok());
    EXPECT_TRUE(co_await Eventually(loop, [&] { return followed.Serves("r-chat-1"); }));
    EXPECT_TRUE(followed.Serving().empty());
    ScalingHintsByModel hints;
    followed.EstimateCapacities(policies, hints, net::Now());
    followed.Stop();
  });
}

ledger::DeviceRecord Recorded(std::string model, int64_t until_us) {
  ledger::DeviceRecord record;
  record.model = std::move(model);
  record.device = "h100";
  record.until_us = until_us;
  return record;
}

TEST(MeteredMarks, TellTheNextLeaderUntilWhenTimeIsRecorded) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    const absl::StatusOr<store::Lead> lead = co_await store.Campaign("a", "", seconds(10));
    EXPECT_TRUE(lead.ok());
    MeteredMarks marks(store, lead->epoch, [] {});
    EXPECT_TRUE((co_await marks.Load()).ok());
    const std::vector<ledger::DeviceRecord> records = {Recorded("chat", 100), Recorded("chat", 200),
                                                       Recorded("code", 150)};
    EXPECT_TRUE((co_await marks.Announce(records)).ok());

    MeteredMarks next(store, lead->epoch, [] {});
    const absl::StatusOr<std::vector<ledger::LastHeld>> last = co_await next.Load();
    EXPECT_TRUE(last.ok());
    EXPECT_EQ(last->size(), 2u);
    EXPECT_EQ((*last)[0].model, "chat");
    EXPECT_EQ((*last)[0].until_us, 200);
    const std::vector<HeldDevices> held = {{.model = "code", .kind = "h100"}};
    EXPECT_TRUE((co_await next.KeepOnly(held)).ok());
    EXPECT_EQ(store.Count(store::kMetered), 1u);
  });
}

TEST(MeteredMarks, ALeaderThatWasDeposedAnnouncesNothing) {
  RunOnLoop([](TestLoop& loop) -> net::Task<void> {
    MemoryStore& store = loop.Keep(std::make_unique<MemoryStore>());
    EXPECT_TRUE((co_await store.Campaign("a", "", seconds(10))).ok());
    bool deposed = false;
    MeteredMarks marks(store, 1, [&] { deposed = true; });
    store.now += seconds(11);
    EXPECT_TRUE((co_await store.Campaign("b", "", seconds(10))).ok());
    const std::vector<ledger::DeviceRecord> records = {Recorded("chat", 100)};
    EXPECT_TRUE(absl::IsPermissionDenied(co_await marks.Announce(records)));
    EXPECT_TRUE(deposed);
    EXPECT_EQ(store.Count(store::kMetered), 0u);
  });
}

}  // namespace
}  // namespace gateway::control
