#include "gateway/limits/limits_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "router/limits/reservation.h"
#include "router/limits/share_script.h"
#include "tests/support/fake_redis.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using net::Now;
using net::RedisClient;
using net::RedisCommand;
using net::Task;
using router::limits::Claim;
using router::limits::Dimension;
using router::limits::Grant;
using router::limits::LimitSpec;
using router::limits::LimitTree;
using router::limits::ModelRef;
using router::limits::NodeSpec;
using router::limits::OnLoss;
using router::limits::ReserveRequest;
using router::limits::ShareGrant;
using ::testing::HasSubstr;
using tests::Eventually;
using tests::FakeRedis;
using tests::RunOnLoop;
using tests::TestLoop;

// Answers claims as the script would.
class Store {
 public:
  std::optional<std::string> operator()(const RedisCommand& command) {
    if (command[0] == "SCRIPT") {
      loaded = true;
      EXPECT_EQ(command[2], router::limits::kGrantScript);
      return "+sha\r\n";
    }
    if (!loaded) return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    ++claims;
    Claim claim;
    const auto number = [&](size_t i) { return std::stoll(command[i]); };
    claim.gateway = command[4];
    claim.seq = static_cast<uint64_t>(number(5));
    claim.first = number(6) != 0;
    claim.capacity = number(7);
    claim.held = number(8);
    claim.want = number(9);
    claim.ttl = std::chrono::milliseconds(number(10));
    claim.linger = std::chrono::milliseconds(number(11));
    claim.recovery = std::chrono::milliseconds(number(12));
    gateways[command[3]] = claim.gateway;
    const ShareGrant g = GrantShare(keys[command[3]], claim, Now());
    return fmt::format("*6\r\n:{}\r\n:{}\r\n:{}\r\n:{}\r\n:{}\r\n:{}\r\n", g.accepted ? 1 : 0, g.share,
                       g.target, g.held, g.gateways, g.recovering ? 1 : 0);
  }

  bool loaded = false;
  size_t claims = 0;
  std::map<std::string, router::limits::StoreState> keys;
  std::map<std::string, std::string> gateways;  // who claimed last, by key
};

void Fill(LimitTree& tree, std::vector<LimitSpec> limits) {
  const std::array<NodeSpec, 1> nodes{NodeSpec{"acme", std::move(limits)}};
  ASSERT_TRUE(tree.Update(nodes).ok());
}

int64_t ShareOf(const LimitTree& tree, size_t i = 0) {
  return tree.Snapshot(Now())[i].effective;
}

bool Admits(const LimitTree& tree) {
  ReserveRequest ask;
  auto outcome = Reserve(tree.Resolve("acme"), ModelRef::kUnnamed, ask, Now());
  if (Grant* grant = std::get_if<Grant>(&outcome)) {
    grant->reservation.MarkForwarded();
    return true;
  }
  return false;
}

RedisClient::Options Fast(const FakeRedis& server) {
  RedisClient::Options options;
  options.remote = server.remote();
  options.timeout = 1s;
  options.min_backoff = 20ms;
  options.max_backoff = 50ms;
  return options;
}

LimitsSync::Options Named(std::string instance) {
  LimitsSync::Options options;
  options.instance = std::move(instance);
  options.lease = 200ms;
  options.interval = 50ms;
  options.early_interval = 10ms;
  return options;
}

FakeRedis& Listening(TestLoop& loop, Store& store) {
  FakeRedis& server = loop.Make<FakeRedis>(std::ref(store));
  server.Listen();
  return server;
}

// Limits that are shared through the server until it is closed.
struct Gateway {
  Gateway(TestLoop& loop, const FakeRedis& server, const std::vector<LimitSpec>& specs,
          LimitsSync::Options options = Named("one"))
      : redis(loop, Fast(server)) {
    Fill(limits, specs);
    sync.emplace(loop, redis, limits, std::move(options));
  }
  Task<void> Close() {
    co_await sync->Stop();
    co_await redis.Stop();
  }
  SharingStatus status() const { return sync->status(); }

  LimitTree limits;
  RedisClient redis;
  std::optional<LimitsSync> sync;
};

TEST(LimitsSync, SharesEveryLimitAndMovesRoomToTheGatewayThatNeedsIt) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    const std::vector<LimitSpec> limits = {{Dimension::kRequests, 100}, {Dimension::kConcurrency, 8}};
    Gateway one(loop, server, limits);
    EXPECT_EQ(ShareOf(one.limits), 0);  // nothing before the first answer
    EXPECT_EQ(one.status().state, SharingState::kStarting);
    Gateway two(loop, server, limits, Named("two"));
    const auto both = [&] { return ShareOf(one.limits) > 0 && ShareOf(two.limits) > 0; };
    EXPECT_TRUE(co_await Eventually(loop, both));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return one.status().state == SharingState::kShared; }));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return one.status().gateways == 2; }));
    EXPECT_LE(ShareOf(one.limits) + ShareOf(two.limits), 100);
    EXPECT_EQ(one.status().limits, 2u);
    EXPECT_EQ(one.status().reason, "");

    int admitted = 0;
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      while (Admits(one.limits)) ++admitted;
      EXPECT_LE(ShareOf(one.limits) + ShareOf(two.limits), 100);
      return admitted > 70;
    }));
    EXPECT_GT(one.status().early_rounds, 0u);
    co_await one.Close();
    co_await two.Close();
    server.Stop();
  });
}

TEST(LimitsSync, ClaimsForAllLimitsInOneWrite) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    LimitTree tree;
    std::vector<LimitSpec> limits;
    for (int i = 0; i < 40; ++i) {
      limits.push_back(
          {Dimension::kRequests, 100, router::limits::Period::kDay, "model-" + std::to_string(i)});
    }
    Fill(tree, limits);
    RedisClient redis(loop, Fast(server));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return redis.state().connected; }));
    const size_t before = server.reads;
    LimitsSync sync(loop, redis, tree, Named("one"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return sync.status().claims == 40; }));
    EXPECT_EQ(server.reads, before + 1);
    EXPECT_GT(sync.status().round_trip, 0ns);
    // Idle limits claim only to keep their leases: 4 times per lease, however many rounds there are.
    const size_t claims = store.claims;
    const uint64_t rounds = sync.status().rounds;
    const conf::TimePoint start = Now();
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return Now() > start + 400ms && sync.status().rounds >= rounds + 3; }));
    const auto quarters_of_a_lease = static_cast<size_t>((Now() - start) / 50ms);
    EXPECT_LE(store.claims - claims, 40 * (1 + quarters_of_a_lease));
    EXPECT_EQ(sync.status().state, SharingState::kShared);
    co_await sync.Stop();
    co_await redis.Stop();
    server.Stop();
  });
}

TEST(LimitsSync, KeepsTheLeaseOfABudgetAcrossARestartButNotOfAWindow) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    LimitTree tree;
    Fill(tree, {{Dimension::kRequests, 100}, {Dimension::kBudget, 1000, router::limits::Period::kMonth}});
    RedisClient redis(loop, Fast(server));
    std::map<std::string, std::string> names;
    for (int run = 0; run < 2; ++run) {
      store.gateways.clear();
      LimitsSync sync(loop, redis, tree, Named("gw-1"));
      EXPECT_TRUE(co_await Eventually(loop, [&] { return store.gateways.size() == 2; }));
      for (const auto& [key, gateway] : store.gateways) {
        EXPECT_TRUE(key.starts_with("tidegate:limit:acme|")) << key;
        const bool budget = key.find("budget") != std::string::npos;
        EXPECT_EQ(gateway == "gw-1", budget) << key;
        EXPECT_TRUE(gateway.starts_with("gw-1"));
        if (!budget) EXPECT_NE(names[key], gateway);
        names[key] = gateway;
      }
      co_await sync.Stop();
    }
    co_await redis.Stop();
    server.Stop();
  });
}

TEST(LimitsSync, ReturnsUnusedRoomWhenItStopsAndClaimsItAgainLater) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    const std::vector<LimitSpec> limits = {{Dimension::kConcurrency, 8},
                                           {Dimension::kRequests, 100, router::limits::Period::kMonth}};
    Gateway one(loop, server, limits);
    Gateway two(loop, server, limits, Named("two"));
    EXPECT_TRUE(
        co_await Eventually(loop, [&] { return one.status().gateways == 2 && two.status().gateways == 2; }));
    EXPECT_TRUE(co_await Eventually(
        loop, [&] { return ShareOf(one.limits, 1) > 30 && ShareOf(two.limits, 1) > 30; }));
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(Admits(one.limits));
    co_await one.sync->Stop();
    EXPECT_FALSE(Admits(one.limits));
    int64_t kept = 0;
    for (const auto& [key, state] : store.keys) {
      for (const auto& [gateway, lease] : state.leases) {
        if (gateway.starts_with("one")) kept += lease.held;
      }
    }
    EXPECT_EQ(kept, 10) << "only what was admitted still counts";

    int admitted = 0;
    EXPECT_TRUE(co_await Eventually(loop, [&] {
      while (Admits(two.limits)) ++admitted;
      return admitted == 90;
    })) << admitted;
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ShareOf(two.limits, 0) == 8; }));

    // The next process with that name has none of it.
    one.sync.emplace(loop, one.redis, one.limits, Named("one"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return one.status().gateways == 2; }));
    EXPECT_FALSE(Admits(one.limits));
    co_await one.Close();
    co_await two.Close();
    server.Stop();
  });
}

TEST(LimitsSync, ADeadRedisDoesNotDelayTheStop) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    std::vector<LimitSpec> limits;
    for (int i = 0; i < 2000; ++i) {
      limits.push_back({Dimension::kRequests, 100, router::limits::Period::kDay, fmt::format("model-{}", i)});
    }
    Gateway gateway(loop, server, limits);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.status().claims >= 2000; }));
    server.silent = true;
    const uint64_t failures = gateway.redis.state().failures;
    co_await gateway.sync->Stop();
    EXPECT_LE(gateway.redis.state().failures, failures + 2)
        << "a running claim and one return time out, whatever the number of limits";
    co_await gateway.redis.Stop();
    server.Stop();
  });
}

TEST(LimitsSync, ReportsItsStateWithoutRedisAndRecovers) {
  for (const OnLoss on_loss : {OnLoss::kKeepShare, OnLoss::kFailClosed}) {
    RunOnLoop([on_loss](TestLoop& loop) -> Task<void> {
      Store store;
      FakeRedis& server = Listening(loop, store);
      std::vector<SharingState> states;
      LimitsSync::Options options = Named("one");
      options.on_loss = on_loss;
      options.on_change = [&](const SharingStatus& status) { states.push_back(status.state); };
      Gateway gateway(loop, server, {{Dimension::kConcurrency, 8}}, options);
      const auto shared = [&] { return gateway.status().state == SharingState::kShared; };
      EXPECT_TRUE(co_await Eventually(loop, [&] { return shared() && ShareOf(gateway.limits) == 8; }));

      server.Stop();
      const SharingState lost =
          on_loss == OnLoss::kKeepShare ? SharingState::kKeepingShares : SharingState::kFailedClosed;
      EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.status().state == lost; }));
      EXPECT_TRUE(gateway.status().degraded());
      EXPECT_THAT(gateway.status().reason, HasSubstr("refused"));
      EXPECT_GT(gateway.status().failed_rounds, 0u);
      EXPECT_EQ(ShareOf(gateway.limits), on_loss == OnLoss::kKeepShare ? 8 : 0);

      store.loaded = false;  // a restarted server has lost the script
      server.Listen();
      EXPECT_TRUE(co_await Eventually(loop, [&] { return shared() && ShareOf(gateway.limits) == 8; }));
      EXPECT_EQ(gateway.status().reason, "");
      EXPECT_THAT(states, ::testing::Contains(lost));
      EXPECT_EQ(states.back(), SharingState::kShared);
      co_await gateway.Close();
      server.Stop();
    });
  }
}

TEST(LimitsSync, WithoutRedisItBeginsAtOnceWithItsInitialShare) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    server.Stop();
    LimitsSync::Options options = Named("one");
    options.gateways = 4;
    Gateway gateway(loop, server, {{Dimension::kConcurrency, 8}}, options);
    EXPECT_FALSE(co_await gateway.sync->AwaitShares());
    EXPECT_EQ(ShareOf(gateway.limits), 2);
    co_await gateway.Close();
  });
}

TEST(LimitsSync, AStartWaitsUntilIdleGatewaysHaveGivenUpShares) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    LimitsSync::Options options = Named("one");
    options.lease = 6s;  // an idle gateway claims every 1.5 s
    Gateway idle(loop, server, {{Dimension::kConcurrency, 8}}, options);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ShareOf(idle.limits) == 8; }));
    options.instance = "two";
    Gateway starts(loop, server, {{Dimension::kConcurrency, 8}}, options);
    EXPECT_TRUE(co_await starts.sync->AwaitShares());
    EXPECT_GT(ShareOf(starts.limits), 0) << "it would refuse requests, though none is in flight";
    co_await starts.Close();
    co_await idle.Close();
    server.Stop();
  });
}

TEST(LimitsSync, LoadsTheScriptAgainWhenTheServerHasForgottenIt) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    Gateway gateway(loop, server, {{Dimension::kConcurrency, 8}});
    EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.status().claims > 0; }));
    store.loaded = false;  // SCRIPT FLUSH
    EXPECT_TRUE(co_await Eventually(loop, [&] { return store.loaded; }));
    EXPECT_GT(gateway.status().failed_rounds, 0u);
    EXPECT_EQ(gateway.redis.state().connects, 1u);
    co_await gateway.Close();
    server.Stop();
  });
}

TEST(LimitsSync, FollowsAReloadAndBeginsWithItsPartOfEachLimit) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    Store store;
    FakeRedis& server = Listening(loop, store);
    LimitsSync::Options options = Named("one");
    options.gateways = 4;
    Gateway gateway(loop, server, {{Dimension::kConcurrency, 8}}, options);
    EXPECT_EQ(ShareOf(gateway.limits), 0) << "it asks Redis first";
    EXPECT_TRUE(co_await gateway.sync->AwaitShares());
    EXPECT_GE(ShareOf(gateway.limits), 2);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ShareOf(gateway.limits) == 8; }));
    Fill(gateway.limits, {{Dimension::kConcurrency, 8}, {Dimension::kRequests, 400}});
    gateway.sync->Refresh();
    EXPECT_EQ(ShareOf(gateway.limits, 0), 8);
    EXPECT_EQ(ShareOf(gateway.limits, 1), 100);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return ShareOf(gateway.limits, 1) == 400; }));
    Fill(gateway.limits, {{Dimension::kRequests, 400}});
    gateway.sync->Refresh();
    EXPECT_EQ(gateway.status().limits, 1u);
    co_await gateway.Close();
    server.Stop();
  });
}

TEST(LimitsSync, ReportsAnUnusableAnswerOfTheStore) {
  for (const auto& [answer, reason] : std::map<std::string, std::string>{
           {"*1\r\n:1\r\n", "not six integers"},
           {"*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n$1\r\n1\r\n", "not six integers"},
           {"-OOM command not allowed\r\n", "was refused: OOM"}}) {
    RunOnLoop([&](TestLoop& loop) -> Task<void> {
      FakeRedis& server = loop.Make<FakeRedis>([&](const RedisCommand&) { return answer; });
      server.Listen();
      Gateway gateway(loop, server, {{Dimension::kConcurrency, 8}});
      EXPECT_TRUE(co_await Eventually(loop, [&] { return gateway.status().failed_rounds > 2; }));
      EXPECT_THAT(gateway.status().reason, HasSubstr(reason));
      EXPECT_EQ(ShareOf(gateway.limits), 0);
      co_await gateway.Close();
      server.Stop();
    });
  }
}

}  // namespace
}  // namespace gateway
