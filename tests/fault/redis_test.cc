// Three gateways in one process share limits through a real Redis, under load from threads, while it is
// stopped, slowed and restarted: together they never admit more than the limit, and they find each other
// again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "gateway/limits/limits_sync.h"
#include "gateway/net/clock.h"
#include "router/limits/reservation.h"
#include "tests/support/child_process.h"
#include "tests/support/redis_server.h"

namespace gateway {
namespace {

using namespace std::chrono_literals;
using net::Now;
using net::RedisClient;
using net::Task;
using router::limits::Dimension;
using router::limits::Grant;
using router::limits::LimitTree;
using router::limits::ModelRef;
using router::limits::NodeSpec;
using router::limits::OnLoss;
using router::limits::Reservation;
using router::limits::ReserveRequest;
using tests::RedisServer;

constexpr int64_t kConcurrency = 60;
constexpr int64_t kRequests = 3000;  // a minute, longer than any of these tests takes
constexpr size_t kGateways = 3;
constexpr conf::Duration kStreamTime = 100ms;

// What was admitted by all gateways together.
struct Tally {
  std::atomic<int64_t> running = 0;
  std::atomic<int64_t> most_running = 0;
  std::atomic<int64_t> counted = 0;  // requests per minute

  void Began() {
    const int64_t now = ++running;
    int64_t most = most_running;
    while (now > most && !most_running.compare_exchange_weak(most, now)) {
    }
  }
};

// One gateway: a tree, a loop with its Redis client and its sync, and a thread of clients that it serves.
class Gateway {
 public:
  Gateway(size_t number, uint16_t port, OnLoss on_loss, Tally& tally, bool shares = true)
      : tally_(tally), loop_([](std::exception_ptr) { ADD_FAILURE() << "a task threw"; }) {
    const std::array<NodeSpec, 2> nodes{NodeSpec{"busy", {{Dimension::kConcurrency, kConcurrency}}},
                                        NodeSpec{"counted", {{Dimension::kRequests, kRequests}}}};
    EXPECT_TRUE(tree_.Update(nodes).ok());
    RedisClient::Options redis;
    redis.remote = {"127.0.0.1", std::to_string(port), nullptr, {}};
    redis.seed = number;
    redis.max_backoff = 300ms;
    redis_ = std::make_unique<RedisClient>(loop_, redis);
    LimitsSync::Options options;
    options.instance = "gateway-" + std::to_string(number);
    options.lease = 1s;
    options.interval = 100ms;
    options.early_interval = 20ms;
    options.on_loss = on_loss;
    options.seed = number;
    if (shares) sync_ = std::make_unique<LimitsSync>(loop_, *redis_, tree_, options);
    thread_ = std::jthread([this] { loop_.Run(); });
    clients_ = std::jthread([this](std::stop_token stop) { Serve(stop); });
  }
  ~Gateway() {
    clients_.request_stop();
    clients_.join();
    loop_.Post([this] {
      if (sync_) sync_->Close();
      redis_->Close();
      loop_.Stop();
    });
    thread_.join();
  }

  // How many requests it tries to keep running.
  std::atomic<size_t> eager = kConcurrency;
  std::atomic<size_t> streams = 0;  // that run now
  SharingStatus status() const { return sync_->status(); }

 private:
  struct Stream {
    conf::TimePoint began;
    Reservation reservation;
  };

  void Serve(std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any next;  // round of traffic
    const auto busy = tree_.Resolve("busy");
    const auto counted = tree_.Resolve("counted");
    std::deque<Stream> running;
    while (!stop.stop_requested()) {
      while (!running.empty() && Now() > running.front().began + kStreamTime) End(running);
      while (running.size() < eager) {
        auto outcome = Reserve(busy, ModelRef::kUnnamed, ReserveRequest{}, Now());
        Grant* grant = std::get_if<Grant>(&outcome);
        if (!grant) break;
        tally_.Began();
        running.push_back({Now(), std::move(grant->reservation)});
      }
      streams = running.size();
      auto outcome = Reserve(counted, ModelRef::kUnnamed, ReserveRequest{}, Now());
      if (Grant* grant = std::get_if<Grant>(&outcome)) {
        ++tally_.counted;
        grant->reservation.MarkForwarded();
        grant->reservation.Settle({});
      }
      std::unique_lock lock(mutex);
      next.wait_for(lock, stop, 500us, [] { return false; });
    }
    while (!running.empty()) End(running);
  }
  void End(std::deque<Stream>& running) {
    --tally_.running;
    running.front().reservation.Settle({});
    running.pop_front();
  }

  Tally& tally_;
  LimitTree tree_;
  net::Loop loop_;
  std::unique_ptr<RedisClient> redis_;
  std::unique_ptr<LimitsSync> sync_;
  std::jthread thread_;
  std::jthread clients_;
};

class SharedLimits : public ::testing::TestWithParam<OnLoss> {
 protected:
  void SetUp() override {
    if (!RedisServer::Installed()) GTEST_SKIP() << "no redis-server";
    server_ = std::make_unique<RedisServer>();
    ASSERT_TRUE(server_->Start());
    for (size_t i = 0; i < kGateways; ++i) {
      gateways_.push_back(std::make_unique<Gateway>(i, server_->port(), GetParam(), tally_));
    }
  }
  void TearDown() override {
    gateways_.clear();
    if (!server_) return;
    EXPECT_LE(tally_.most_running, kConcurrency);
    EXPECT_LE(tally_.counted, kRequests);
    EXPECT_EQ(tally_.running, 0);
  }

  template <class Condition>
  static bool Eventually(Condition condition) {
    return tests::Within(15s, condition);
  }
  bool AllAre(SharingState state) const {
    return std::all_of(gateways_.begin(), gateways_.end(),
                       [&](const auto& gateway) { return gateway->status().state == state; });
  }
  bool AllSeeEachOther() const {
    return AllAre(SharingState::kShared) &&
           std::all_of(gateways_.begin(), gateways_.end(),
                       [](const auto& gateway) { return gateway->status().gateways == kGateways; });
  }
  uint64_t Sum(uint64_t SharingStatus::* count) const {
    uint64_t sum = 0;
    for (const auto& gateway : gateways_) sum += gateway->status().*count;
    return sum;
  }
  // Nearly all of the limit is in use, whoever uses it: what one gives up another gets.
  bool Busy() {
    return Eventually([&] { return tally_.running >= kConcurrency * 9 / 10; });
  }
  SharingState Lost() const {
    return GetParam() == OnLoss::kKeepShare ? SharingState::kKeepingShares : SharingState::kFailedClosed;
  }
  // What a gateway admits without Redis, and whether that is what it declares.
  void ExpectDeclaredBehaviour() {
    EXPECT_TRUE(Eventually([&] { return AllAre(Lost()); }));
    for (const auto& gateway : gateways_) {
      EXPECT_TRUE(gateway->status().degraded());
      EXPECT_NE(gateway->status().reason, "");
    }
    if (GetParam() == OnLoss::kKeepShare) {
      EXPECT_TRUE(Busy());
    } else {
      EXPECT_TRUE(Eventually([&] { return tally_.running == 0; }));
    }
  }

  Tally tally_;
  std::unique_ptr<RedisServer> server_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
};

TEST_P(SharedLimits, AreExactWhileRedisIsStoppedSlowedAndRestarted) {
  EXPECT_TRUE(Eventually([&] { return AllSeeEachOther(); }));
  EXPECT_TRUE(Busy());

  server_->Signal(SIGSTOP);
  ExpectDeclaredBehaviour();
  server_->Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return AllSeeEachOther(); })) << "after it was stopped";
  EXPECT_TRUE(Busy());

  // So slow that some claims come late: it goes on once a round is on its way, or once one has failed.
  for (int i = 0; i < 20; ++i) {
    const auto before = Sum(i % 3 == 0 ? &SharingStatus::failed_rounds : &SharingStatus::rounds);
    const uint64_t answered = Sum(&SharingStatus::claims);
    server_->Signal(SIGSTOP);
    EXPECT_TRUE(Eventually(
        [&] { return Sum(i % 3 == 0 ? &SharingStatus::failed_rounds : &SharingStatus::rounds) > before; }));
    server_->Signal(SIGCONT);
    EXPECT_TRUE(Eventually([&] { return Sum(&SharingStatus::claims) > answered; }));
  }
  EXPECT_TRUE(Eventually([&] { return AllSeeEachOther(); })) << "after it was slow";
  EXPECT_TRUE(Busy());

  // It comes back empty: nobody gets more until all have said what they hold.
  server_->Kill();
  ExpectDeclaredBehaviour();
  ASSERT_TRUE(server_->Start());
  EXPECT_TRUE(Eventually([&] { return AllSeeEachOther(); })) << "after it was restarted";
  EXPECT_TRUE(Busy());
  EXPECT_TRUE(Eventually([&] { return tally_.counted >= kRequests * 9 / 10; })) << tally_.counted;
}

TEST_P(SharedLimits, FollowTheLoadWhereverItGoes) {
  EXPECT_TRUE(Eventually([&] { return AllSeeEachOther(); }));
  for (size_t busiest = 0; busiest < kGateways; ++busiest) {
    for (size_t i = 0; i < kGateways; ++i) gateways_[i]->eager = i == busiest ? 1000 : 1;
    // Far more than a third, which a fixed split would give it.
    EXPECT_TRUE(Eventually([&] { return gateways_[busiest]->streams >= kConcurrency * 3 / 4; })) << busiest;
  }
}

// One that has a budget's share and does nothing: what it sends is what its sync sends.
class Member {
 public:
  Member(std::string name, uint16_t port, int64_t budget)
      : loop_([](std::exception_ptr) { ADD_FAILURE() << "a task threw"; }) {
    const std::array<NodeSpec, 1> nodes{
        NodeSpec{"acme", {{Dimension::kRequests, budget, router::limits::Period::kMonth}}}};
    EXPECT_TRUE(tree_.Update(nodes).ok());
    RedisClient::Options redis;
    redis.remote = {"127.0.0.1", std::to_string(port), nullptr, {}};
    redis_ = std::make_unique<RedisClient>(loop_, redis);
    LimitsSync::Options options;
    options.instance = std::move(name);
    options.lease = 1s;
    options.interval = 50ms;
    options.early_interval = 10ms;
    sync_ = std::make_unique<LimitsSync>(loop_, *redis_, tree_, options);
    thread_ = std::jthread([this] { loop_.Run(); });
  }
  ~Member() { Stop(); }

  bool Admits() {
    auto outcome = Reserve(tree_.Resolve("acme"), ModelRef::kUnnamed, ReserveRequest{}, Now());
    Grant* grant = std::get_if<Grant>(&outcome);
    if (grant == nullptr) return false;
    grant->reservation.MarkForwarded();
    grant->reservation.Settle({});
    return true;
  }
  int64_t share() const { return tree_.Snapshot(Now())[0].effective; }
  SharingStatus status() const { return sync_->status(); }

  // As a gateway that is told to go. How long it took.
  conf::Duration Stop() {
    if (!thread_.joinable()) return {};
    const conf::TimePoint start = Now();
    loop_.Post([this] {
      loop_.tasks.Spawn(End());
      loop_.Stop();
    });
    thread_.join();
    return Now() - start;
  }

 private:
  Task<void> End() {
    co_await sync_->Stop();
    co_await redis_->Stop();
  }

  LimitTree tree_;
  net::Loop loop_;
  std::unique_ptr<RedisClient> redis_;
  std::unique_ptr<LimitsSync> sync_;
  std::jthread thread_;
};

TEST(SharedBudget, WhatAGatewayHasNotSpentWhenItStopsTheOthersCanSpend) {
  if (!RedisServer::Installed()) GTEST_SKIP() << "no redis-server";
  RedisServer server;
  ASSERT_TRUE(server.Start());
  constexpr int64_t kBudget = 200;
  Member stays("stays", server.port(), kBudget);
  {
    Member goes("goes", server.port(), kBudget);
    ASSERT_TRUE(tests::Within(15s, [&] { return goes.share() > 60 && stays.status().gateways == 2; }));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(goes.Admits());
    goes.Stop();
  }
  int64_t admitted = 0;
  EXPECT_TRUE(tests::Within(15s, [&] {
    while (stays.Admits()) ++admitted;
    return admitted >= kBudget - 20;
  })) << admitted;
  // What the next of that name takes up is the 20 that were spent: the sum stays exact.
  Member again("goes", server.port(), kBudget);
  EXPECT_TRUE(tests::Within(15s, [&] { return stays.status().gateways == 2; }));
  EXPECT_FALSE(stays.Admits());
  EXPECT_EQ(admitted, kBudget - 20);
}

TEST(SharedBudget, ARedisThatHangsDoesNotHoldUpTheEnd) {
  if (!RedisServer::Installed()) GTEST_SKIP() << "no redis-server";
  RedisServer server;
  ASSERT_TRUE(server.Start());
  Member gateway("one", server.port(), 100);
  ASSERT_TRUE(tests::Within(15s, [&] { return gateway.share() == 100; }));
  server.Signal(SIGSTOP);
  gateway.Stop();  // returns while Redis still hangs
  server.Signal(SIGCONT);
}

// Shows that what the tests above measure does exceed the limits where nothing is shared.
TEST(UnsharedLimits, AreExceeded) {
  Tally tally;
  std::vector<std::unique_ptr<Gateway>> gateways;
  for (size_t i = 0; i < kGateways; ++i) {
    gateways.push_back(std::make_unique<Gateway>(i, 1, OnLoss::kKeepShare, tally, false));
  }
  tests::Within(20s, [&] { return tally.most_running > kConcurrency && tally.counted > kRequests; });
  gateways.clear();
  EXPECT_GT(tally.most_running, kConcurrency);
  EXPECT_GT(tally.counted, kRequests);
}

INSTANTIATE_TEST_SUITE_P(OnLoss, SharedLimits, ::testing::Values(OnLoss::kKeepShare, OnLoss::kFailClosed),
                         [](const auto& info) {
                           return info.param == OnLoss::kKeepShare ? "KeepShare" : "FailClosed";
                         });

}  // namespace
}  // namespace gateway
