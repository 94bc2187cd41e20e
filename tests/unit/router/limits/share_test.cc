#include "router/limits/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/limits/reservation.h"
#include "router/limits/tree.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

Claim ClaimOf(std::string gateway, uint64_t seq, int64_t held, int64_t want, bool first = false) {
  return {.gateway = std::move(gateway),
          .seq = seq,
          .first = first,
          .capacity = 100,
          .held = held,
          .want = want,
          .ttl = 5s,
          .linger = 61s,
          .recovery = 5s};
}

// A store that has been open for long.
StoreState Open() {
  StoreState state;
  state.opened = kNow - 1h;
  state.last = kNow;
  return state;
}

TEST(ShareGrant, GrantsFreeCapacityAndAsksHoldersForTheRest) {
  StoreState store = Open();
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 1, 0, 100), kNow).share, 100);
  const ShareGrant b = GrantShare(store, ClaimOf("b", 1, 0, 100), kNow);
  EXPECT_EQ(b.share, 0);
  EXPECT_EQ(b.target, 50);
  EXPECT_EQ(b.held, 100);
  EXPECT_EQ(b.gateways, 2);
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 2, 100, 100), kNow).target, 50);
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 3, 70, 100), kNow).share, 70) << "30 it could give up";
  EXPECT_EQ(GrantShare(store, ClaimOf("b", 2, 0, 100), kNow).share, 30);
}

TEST(ShareGrant, SharesAreMaxMinFairAndIdleGatewaysKeepALittle) {
  struct Case {
    std::vector<int64_t> wants;
    std::vector<int64_t> targets;
  };
  const Case cases[] = {
      {{100}, {100}},
      {{0}, {100}},
      {{0, 0, 0}, {34, 33, 33}},
      {{100, 0}, {88, 12}},
      {{10, 100, 100}, {10, 45, 45}},
      {{20, 30, 100}, {20, 30, 50}},
      {{10, 20, 30}, {24, 33, 43}},
      {{100, 100, 100}, {33, 33, 34}},
  };
  for (const Case& c : cases) {
    StoreState store = Open();
    for (size_t round = 0; round < 2; ++round) {
      int64_t sum = 0;
      for (size_t i = 0; i < c.wants.size(); ++i) {
        const ShareGrant grant = GrantShare(
            store, ClaimOf(std::string(1, static_cast<char>('a' + i)), round + 1, 0, c.wants[i]), kNow);
        if (round == 1) EXPECT_EQ(grant.target, c.targets[i]) << "gateway " << i << " of " << c.wants.size();
        sum += grant.target;
      }
      if (round == 1) EXPECT_EQ(sum, 100);
    }
  }
}

TEST(ShareGrant, ALateClaimChangesNothing) {
  StoreState store = Open();
  GrantShare(store, ClaimOf("a", 5, 10, 10), kNow);
  EXPECT_FALSE(GrantShare(store, ClaimOf("a", 5, 0, 100), kNow).accepted);
  EXPECT_FALSE(GrantShare(store, ClaimOf("a", 4, 0, 100), kNow).accepted);
  EXPECT_EQ(store.leases["a"].seq, 5u);
  EXPECT_TRUE(GrantShare(store, ClaimOf("a", 6, 0, 100), kNow).accepted);
}

TEST(ShareGrant, ADeadGatewaysShareIsFreedAfterTtlAndWindow) {
  StoreState store = Open();
  GrantShare(store, ClaimOf("dead", 1, 0, 100), kNow);
  for (uint64_t s = 1; s < 66; ++s) {
    ASSERT_EQ(GrantShare(store, ClaimOf("b", s, 0, 100), kNow + std::chrono::seconds(s)).share, 0) << s;
  }
  EXPECT_EQ(GrantShare(store, ClaimOf("b", 66, 0, 100), kNow + 66s - 1ms).share, 0);
  EXPECT_EQ(GrantShare(store, ClaimOf("b", 67, 0, 100), kNow + 66s).share, 100);
}

TEST(ShareGrant, AStoreUnreachableForLongGrantsNothingBeforeAllGatewaysAreBack) {
  StoreState store = Open();
  GrantShare(store, ClaimOf("a", 1, 0, 100), kNow);
  GrantShare(store, ClaimOf("b", 1, 0, 100), kNow);
  const ShareGrant b = GrantShare(store, ClaimOf("b", 2, 0, 100), kNow + 5min);
  EXPECT_TRUE(b.recovering);
  EXPECT_EQ(b.share, 0);
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 2, 100, 100), kNow + 5min + 1s).share, 100);
}

TEST(ShareGrant, AnEmptyStoreRegistersHeldSharesBeforeItGrantsMore) {
  StoreState store;
  ShareGrant a = GrantShare(store, ClaimOf("a", 9, 60, 100), kNow);
  EXPECT_TRUE(a.recovering);
  EXPECT_EQ(a.share, 60);
  EXPECT_EQ(a.target, 60) << "and asks nobody to shrink by half of the picture";
  EXPECT_EQ(GrantShare(store, ClaimOf("b", 9, 30, 100), kNow + 4s).share, 30);
  EXPECT_EQ(GrantShare(store, ClaimOf("c", 1, 0, 100), kNow + 4999ms).share, 0);
  const ShareGrant c = GrantShare(store, ClaimOf("c", 2, 0, 100), kNow + 5s);
  EXPECT_FALSE(c.recovering);
  EXPECT_EQ(c.share, 10);
}

TEST(ShareGrant, AGatewayThatReturnsAfterItsShareWasGivenAwayShrinks) {
  StoreState store = Open();
  GrantShare(store, ClaimOf("a", 1, 0, 100), kNow);
  for (uint64_t s = 1; s <= 70; ++s) {
    const int64_t held = store.leases["b"].held;
    GrantShare(store, ClaimOf("b", s, held, 70), kNow + std::chrono::seconds(s));
  }
  ASSERT_EQ(store.leases["b"].held, 100);
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 2, 100, 100), kNow + 71s).share, 0);
  EXPECT_EQ(GrantShare(store, ClaimOf("b", 99, 100, 100), kNow + 71s).share, 0)
      << "nothing to give until one is down";
  EXPECT_EQ(GrantShare(store, ClaimOf("a", 3, 0, 100), kNow + 72s).held, 100);
}

TEST(ShareGrant, TheFirstClaimOfARestartedProcessTakesItsLeaseUpAgain) {
  StoreState store = Open();
  GrantShare(store, ClaimOf("a", 1, 0, 100), kNow);
  const ShareGrant again = GrantShare(store, ClaimOf("a", 1000, 40, 100, /*first=*/true), kNow + 1s);
  EXPECT_EQ(again.share, 100);
}

TEST(ShareGrant, SurvivesOddClaims) {
  StoreState store = Open();
  Claim odd = ClaimOf("a", 1, 0, -5);
  odd.ttl = 0s;
  odd.capacity = 0;
  EXPECT_EQ(GrantShare(store, odd, kNow).share, 0);
  odd.seq = 2;
  odd.want = Limit::kUnshared;
  odd.capacity = 7;
  EXPECT_EQ(GrantShare(store, odd, kNow).share, 7);
}

// One gateway: its tree with one shared limit, what it admitted, and claims under way.
struct Gateway {
  Gateway(std::string gateway_name, const LimitSpec& spec, const SharePolicy& policy, uint64_t seq,
          conf::TimePoint now)
      : name(std::move(gateway_name)) {
    EXPECT_TRUE(tree.Update(std::vector<NodeSpec>{{"acme", {spec}}}).ok());
    node = tree.Resolve("acme");
    holder = std::make_unique<ShareHolder>(name, tree.Limits().front(), policy, seq, now);
  }

  std::string name;
  LimitTree tree;
  NodeRef node;
  std::unique_ptr<ShareHolder> holder;
  std::vector<Reservation> open;
  std::optional<conf::TimePoint> cut_off_until;  // from the store
  int64_t appetite = 1;
};

// Several gateways, a store, and all that can go wrong between them. Time is one for all.
class Cluster {
 public:
  struct Faults {
    bool lone_cut_offs = false;  // one gateway without the store while the others have it
    bool crashes = false;
    bool late_messages = false;
    bool store_outages = false;
    bool store_wipes = false;
  };

  Cluster(uint64_t seed, LimitSpec spec, SharePolicy policy, Faults faults)
      : random_(seed), spec_(std::move(spec)), policy_(policy), faults_(faults) {
    for (int i = 0; i < 4; ++i) gateways_.push_back(NewGateway());
  }

  void Run(int seconds) {
    for (int i = 0; i < seconds * 4 && !testing::Test::HasFailure(); ++i) {
      now_ += 250ms;
      Trouble();
      for (auto& gateway : gateways_) {
        Traffic(*gateway);
        if (i % 4 == 0) Heartbeat(*gateway);
        gateway->holder->Tick(now_);
      }
      Deliver();
      CheckShares();
    }
  }

  int64_t admitted() const { return total_; }
  int64_t refused() const { return refused_; }

 private:
  struct Message {
    Claim claim;
    conf::TimePoint arrives;
  };

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

  std::unique_ptr<Gateway> NewGateway() {
    const uint64_t number = ++started_;
    auto gateway =
        std::make_unique<Gateway>("gw" + std::to_string(number), spec_, policy_, number * 1'000'000, now_);
    gateway->appetite = 1 + Below(30);
    return gateway;
  }

  void Trouble() {
    if (faults_.store_outages && now_ >= outage_until_ && OneIn(400)) {
      outage_until_ = now_ + std::chrono::seconds(Below(150));
      if (faults_.store_wipes && OneIn(2)) store_ = {};
    }
    for (auto& gateway : gateways_) {
      if (OneIn(120)) gateway->appetite = OneIn(3) ? 0 : 1 + Below(40);
      if (faults_.lone_cut_offs && OneIn(500))
        gateway->cut_off_until = now_ + std::chrono::seconds(Below(200));
      if (faults_.crashes && OneIn(900)) {
        for (Reservation& r : gateway->open) r.MarkForwarded();
        gateway = NewGateway();
      }
    }
  }

  void Traffic(Gateway& gateway) {
    for (int64_t i = Below(gateway.appetite + 1); i > 0; --i) {
      ReserveRequest ask;
      ask.output_tokens_bound = 1 + Below(9);
      ReserveResult outcome = Reserve(gateway.node, {}, ask, now_);
      if (Grant* grant = std::get_if<Grant>(&outcome)) {
        grant->reservation.Settle({.output = *ask.output_tokens_bound});
        admitted_.emplace_back(now_, *ask.output_tokens_bound);
        total_ += *ask.output_tokens_bound;
        CheckWindow();
      } else {
        ++refused_;
      }
    }
  }

  // What all gateways, dead ones included, admitted in the last 60 s or in this period.
  void CheckWindow() {
    const bool budget = ShapeOf(spec_.dimension) == Shape::kPeriod;
    const conf::TimePoint since = budget ? BoundsOf(spec_.period, now_).start : now_ - 60s;
    while (!admitted_.empty() && admitted_.front().first < since) {
      in_window_ -= admitted_.front().second;
      admitted_.erase(admitted_.begin());
    }
    in_window_ += admitted_.back().second;
    ASSERT_LE(in_window_, spec_.capacity);
  }

  void CheckShares() {
    int64_t shares = 0;
    for (const auto& gateway : gateways_) shares += gateway->holder->share();
    if (!faults_.crashes) ASSERT_LE(shares, spec_.capacity);
  }

  bool Reaches(const Gateway& gateway) const {
    return now_ >= outage_until_ && (!gateway.cut_off_until || now_ >= *gateway.cut_off_until);
  }

  void Heartbeat(Gateway& gateway) {
    const Claim claim = gateway.holder->Next(now_);
    if (!Reaches(gateway)) return;
    if (faults_.late_messages && OneIn(4)) {
      messages_.push_back({claim, now_ + std::chrono::milliseconds(Below(4000))});
      return;
    }
    const ShareGrant grant = Granted(claim);
    if (faults_.late_messages && OneIn(4)) return;  // the answer is lost
    gateway.holder->Apply(grant, claim.seq, now_);
  }

  void Deliver() {
    for (size_t i = 0; i < messages_.size();) {
      if (messages_[i].arrives > now_) {
        ++i;
        continue;
      }
      const Claim claim = std::move(messages_[i].claim);
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
      const ShareGrant grant = Granted(claim);
      for (auto& gateway : gateways_) {
        if (gateway->name == claim.gateway && Reaches(*gateway))
          gateway->holder->Apply(grant, claim.seq, now_);
      }
    }
  }

  ShareGrant Granted(const Claim& claim) {
    if (ShapeOf(spec_.dimension) != Shape::kPeriod) return GrantShare(store_, claim, now_);
    return GrantShare(periods_[BoundsOf(spec_.period, now_).start], claim, now_);
  }

  std::mt19937_64 random_;
  const LimitSpec spec_;
  const SharePolicy policy_;
  const Faults faults_;
  conf::TimePoint now_ = kNow;
  conf::TimePoint outage_until_ = kNow;
  StoreState store_;
  std::map<conf::TimePoint, StoreState> periods_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  std::vector<Message> messages_;
  std::vector<std::pair<conf::TimePoint, int64_t>> admitted_;
  int64_t in_window_ = 0;
  uint64_t started_ = 0;
  int64_t total_ = 0;
  int64_t refused_ = 0;
};

const LimitSpec kTokensPerMinute{Dimension::kTokens, 1000};

void RunClusters(const LimitSpec& spec, const SharePolicy& policy, const Cluster::Faults& faults,
                 int64_t least) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(seed, spec, policy, faults);
    cluster.Run(1200);
    if (testing::Test::HasFailure()) return;
    EXPECT_GT(cluster.admitted(), least) << "exact by refusing everything is not the point";
    EXPECT_GT(cluster.refused(), 0);
  }
}

TEST(SharedLimits, UseMostOfTheCapacityWithoutFailures) {
  RunClusters(kTokensPerMinute, {}, {}, 15'000);  // 20,000 tokens in 20 minutes at most
}

TEST(SharedLimits, KeepingSharesIsExactThroughOutagesAndLossesOfTheStore) {
  RunClusters(kTokensPerMinute, {}, {.store_outages = true, .store_wipes = true}, 10'000);
}

TEST(SharedLimits, KeepingSharesIsExactWhenGatewaysDieAndClaimsAreLate) {
  RunClusters(kTokensPerMinute, {}, {.crashes = true, .late_messages = true}, 8'000);
}

TEST(SharedLimits, FailingClosedIsExactWhateverHappens) {
  const SharePolicy policy{.ttl = 5s, .recovery = 66s, .on_loss = OnLoss::kFailClosed};
  RunClusters(kTokensPerMinute, policy,
              {.lone_cut_offs = true,
               .crashes = true,
               .late_messages = true,
               .store_outages = true,
               .store_wipes = true},
              1'000);
}

TEST(SharedLimits, ABudgetIsExactAcrossDeathsAndItsNextPeriod) {
  const LimitSpec budget{Dimension::kTokenBudget, 20'000, Period::kDay};
  RunClusters(budget, {}, {.crashes = true, .late_messages = true}, 1'000);
}

TEST(ShareHolder, FailsClosedOnlyIfConfiguredAndReportsThatItIsStale) {
  for (const OnLoss on_loss : {OnLoss::kKeepShare, OnLoss::kFailClosed}) {
    SharePolicy policy;
    policy.on_loss = on_loss;
    StoreState store = Open();
    Gateway gateway("a", kTokensPerMinute, policy, 1, kNow);
    const Claim claim = gateway.holder->Next(kNow);
    EXPECT_TRUE(gateway.holder->Apply(GrantShare(store, claim, kNow), claim.seq, kNow));
    gateway.holder->Tick(kNow + 4999ms);
    EXPECT_FALSE(gateway.holder->Stale(kNow + 4999ms));
    EXPECT_EQ(gateway.holder->share(), 1000);
    gateway.holder->Tick(kNow + 5s);
    EXPECT_TRUE(gateway.holder->Stale(kNow + 5s));
    EXPECT_EQ(gateway.holder->share(), on_loss == OnLoss::kKeepShare ? 1000 : 0);
    const bool admits = std::holds_alternative<Grant>(
        Reserve(gateway.node, {}, ReserveRequest{.output_tokens_bound = 1}, kNow + 5s));
    EXPECT_EQ(admits, on_loss == OnLoss::kKeepShare);
  }
}

// Three gateways; one dies, and comes back as another process, again and again.
TEST(ShareHolder, AProcessThatComesBackFindsRoomAndTakesNoneFromTheOthers) {
  SharePolicy policy;
  policy.initial_share = 333;
  StoreState store = Open();
  const auto claim = [&](Gateway& gateway, conf::TimePoint now) {
    const Claim made = gateway.holder->Next(now);
    EXPECT_TRUE(gateway.holder->Apply(GrantShare(store, made, now), made.seq, now));
  };
  std::vector<std::unique_ptr<Gateway>> gateways;
  uint64_t seq = 1;
  conf::TimePoint now = kNow;
  for (const char* const name : {"a", "b", "c"})
    gateways.push_back(std::make_unique<Gateway>(name, kTokensPerMinute, policy, seq += 1000, now));
  for (int round = 0; round < 40; ++round, now += 250ms) {
    for (const auto& gateway : gateways) claim(*gateway, now);
  }
  policy.asks_first = true;
  for (int death = 0; death < 12; ++death) {
    const size_t dead = static_cast<size_t>(death) % gateways.size();
    for (int round = 0; round < 40; ++round, now += 250ms) {
      for (size_t i = 0; i < gateways.size(); ++i) {
        if (i == dead) continue;
        claim(*gateways[i], now);
        EXPECT_GT(gateways[i]->holder->share(), 10) << "after death " << death;
      }
    }
    gateways[dead] =
        std::make_unique<Gateway>("p" + std::to_string(death), kTokensPerMinute, policy, seq += 1000, now);
    EXPECT_EQ(gateways[dead]->holder->share(), 0) << "before it has asked";
    claim(*gateways[dead], now);
    EXPECT_GT(gateways[dead]->holder->share(), 10) << "at once, after death " << death;
    now += 50ms;
    for (const auto& gateway : gateways) {
      claim(*gateway, now);
      EXPECT_GT(gateway->holder->share(), 10) << "after death " << death;
    }
  }
}

TEST(ShareHolder, AProcessWithoutAnAnswerUsesItsInitialShare) {
  for (const OnLoss on_loss : {OnLoss::kKeepShare, OnLoss::kFailClosed}) {
    SharePolicy policy;
    policy.on_loss = on_loss;
    policy.initial_share = 333;
    policy.asks_first = true;
    Gateway gateway("a", kTokensPerMinute, policy, 1, kNow);
    EXPECT_EQ(gateway.holder->share(), 0);
    EXPECT_EQ(gateway.holder->Next(kNow).held, 0);
    gateway.holder->OnNoAnswer(kNow + 200ms);
    EXPECT_EQ(gateway.holder->share(), 333);
    gateway.holder->Tick(kNow + 6s);
    gateway.holder->OnNoAnswer(kNow + 6s);
    EXPECT_EQ(gateway.holder->share(), on_loss == OnLoss::kKeepShare ? 333 : 0);
    EXPECT_EQ(gateway.holder->Next(kNow + 7s).held, gateway.holder->share()) << "which the store is told";
  }
}

TEST(ShareHolder, AProcessBringsItsInitialShareIntoAnEmptyStore) {
  SharePolicy policy;
  policy.initial_share = 333;
  policy.asks_first = true;
  StoreState store;
  Gateway gateway("a", kTokensPerMinute, policy, 1, kNow);
  for (const auto at : {kNow, kNow + 250ms}) {
    const Claim claim = gateway.holder->Next(at);
    EXPECT_TRUE(gateway.holder->Apply(GrantShare(store, claim, at), claim.seq, at));
    EXPECT_EQ(gateway.holder->share(), 333);
  }
}

TEST(ShareHolder, IgnoresAnswersToOldClaimsAndExpiredOnes) {
  StoreState store = Open();
  Gateway gateway("a", kTokensPerMinute, {}, 1, kNow);
  const Claim old = gateway.holder->Next(kNow);
  const ShareGrant late = GrantShare(store, old, kNow);
  const Claim claim = gateway.holder->Next(kNow + 1s);
  EXPECT_FALSE(gateway.holder->Apply(late, old.seq, kNow + 1s));
  EXPECT_EQ(gateway.holder->share(), 0);
  EXPECT_FALSE(gateway.holder->Apply(GrantShare(store, claim, kNow + 1s), claim.seq, kNow + 6s));
  const Claim next = gateway.holder->Next(kNow + 7s);
  EXPECT_TRUE(gateway.holder->Apply(GrantShare(store, next, kNow + 7s), next.seq, kNow + 7s));
  EXPECT_EQ(gateway.holder->share(), 1000);
}

TEST(ShareHolder, ARestartedGatewayTakesItsBudgetUpWhereItsLedgerLeftIt) {
  const LimitSpec budget{Dimension::kTokenBudget, 1000, Period::kDay};
  const conf::TimePoint today = *conf::ParseTime("2026-11-20");
  StoreState store = Open();
  Gateway before("a", budget, {}, 1, kNow);
  const Claim first = before.holder->Next(kNow);
  before.holder->Apply(GrantShare(store, first, kNow), first.seq, kNow);
  ASSERT_EQ(before.holder->share(), 1000);

  Gateway after("a", budget, {}, 1'000'000, kNow + 10min);
  ASSERT_TRUE(after.tree.Limits().front().Restore(today, 400, 0, kNow + 10min));
  const Claim again = after.holder->Next(kNow + 10min);
  EXPECT_TRUE(again.first);
  EXPECT_EQ(again.held, 400);
  after.holder->Apply(GrantShare(store, again, kNow + 10min), again.seq, kNow + 10min);
  ReserveRequest ask;
  ask.output_tokens_bound = 601;
  EXPECT_TRUE(std::holds_alternative<Refusal>(Reserve(after.node, {}, ask, kNow + 10min)));
  ask.output_tokens_bound = 600;
  EXPECT_TRUE(std::holds_alternative<Grant>(Reserve(after.node, {}, ask, kNow + 10min)));
}

// One after the other or side by side: what counts for concurrency is how many are there at once.
TEST(ShareHolder, ClaimsConcurrencyByItsPeakNotByTheNumberOfRequests) {
  const LimitSpec concurrency{Dimension::kConcurrency, 100};
  Gateway gateway("a", concurrency, {}, 1, kNow);
  StoreState store = Open();
  const auto exchange = [&] {
    const Claim claim = gateway.holder->Next(kNow);
    EXPECT_TRUE(gateway.holder->Apply(GrantShare(store, claim, kNow), claim.seq, kNow));
    return claim.want;
  };
  const auto begin = [&] {
    return std::get<Grant>(Reserve(gateway.node, {}, ReserveRequest{}, kNow)).reservation;
  };
  exchange();
  ASSERT_EQ(gateway.holder->share(), 100);

  for (int i = 0; i < 10'000; ++i) begin().Settle({});
  EXPECT_EQ(exchange(), 1);
  std::vector<Reservation> running;
  for (int i = 0; i < 30; ++i) running.push_back(begin());
  for (int i = 0; i < 25; ++i) {
    running.back().Settle({});
    running.pop_back();
  }
  EXPECT_EQ(exchange(), 30) << "though most are gone again";
  EXPECT_EQ(exchange(), 5) << "which still run";
  running.clear();
  EXPECT_EQ(exchange(), 5) << "which ran until a moment ago";
  EXPECT_EQ(exchange(), 0);
  for (int i = 0; i < 100; ++i) running.push_back(begin());
  for (int i = 0; i < 7; ++i)
    EXPECT_TRUE(std::holds_alternative<Refusal>(Reserve(gateway.node, {}, ReserveRequest{}, kNow)));
  EXPECT_EQ(exchange(), 100) << "never more than there is";
}

// Two gateways share the places of one limit: `a` serves one short request after the other, thousands of
// them, and `b` as many at once as it may. The places follow to where they are in use.
TEST(SharedLimits, ConcurrencyFollowsUseNotTheNumberOfRequests) {
  constexpr int64_t kPlaces = 100;
  const LimitSpec concurrency{Dimension::kConcurrency, kPlaces};
  Gateway a("a", concurrency, {}, 1, kNow);
  Gateway b("b", concurrency, {}, 1, kNow);
  StoreState store = Open();
  conf::TimePoint now = kNow;
  std::vector<Reservation> running;  // at b
  for (int round = 0; round < 20; ++round) {
    now += 100ms;
    for (int i = 0; i < 500; ++i) {
      ReserveResult one = Reserve(a.node, {}, ReserveRequest{}, now);
      if (Grant* grant = std::get_if<Grant>(&one)) {
        ASSERT_LT(static_cast<int64_t>(running.size()), kPlaces) << "more at once than the limit";
        grant->reservation.Settle({});
      }
    }
    while (running.size() < 90) {
      ReserveResult one = Reserve(b.node, {}, ReserveRequest{}, now);
      Grant* grant = std::get_if<Grant>(&one);
      if (grant == nullptr) break;
      running.push_back(std::move(grant->reservation));
    }
    for (Gateway* gateway : {&a, &b}) {
      const Claim claim = gateway->holder->Next(now);
      gateway->holder->Apply(GrantShare(store, claim, now), claim.seq, now);
      ASSERT_LE(a.holder->share() + b.holder->share(), kPlaces);
    }
  }
  EXPECT_GT(running.size(), 80u);
  EXPECT_GE(a.holder->share(), 1) << "and whoever needs one keeps one";
}

TEST(ShareHolder, NamesItsKeyInTheStoreByLimitAndPeriod) {
  Gateway minute("a", kTokensPerMinute, {}, 1, kNow);
  EXPECT_EQ(minute.holder->StoreKey(kNow), "acme|tokens_per_minute|");
  Gateway day("a", {Dimension::kBudget, 5, Period::kDay}, {}, 1, kNow);
  EXPECT_EQ(day.holder->StoreKey(kNow),
            "acme|budget_per_day||" +
                std::to_string(conf::ToUnixMicros(*conf::ParseTime("2026-11-20")) / 1'000'000));
}

}  // namespace
}  // namespace router::limits
