// Many threads on one organisation: exact to the last request, and nothing leaks. Meant for TSan too.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "router/limits/rate_status.h"
#include "router/limits/reservation.h"
#include "router/limits/tree.h"

namespace router::limits {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;
const conf::TimePoint kNow = *conf::ParseTime("2026-11-20T08:30:00Z");

void RunThreads(auto body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
}

ReserveRequest Tokens(int64_t n) {
  ReserveRequest ask;
  ask.output_tokens_bound = n;
  return ask;
}

TEST(ExactLimits, ThreadsTogetherAdmitTheLimitInEachMinuteAndNotOneMore) {
  LimitTree tree;
  ASSERT_TRUE(tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kTokens, 10'007}}},
                                                {"acme/a", {{Dimension::kRequests, 1'000'000}}},
                                                {"acme/b", {{Dimension::kTokens, 1'000'000}}}})
                  .ok());
  constexpr int kPhases = 9;  // of 20 s
  std::vector<std::atomic<int64_t>> admitted(kPhases);
  std::barrier step(kThreads);
  RunThreads([&](int thread) {
    const NodeRef node = tree.Resolve(thread % 2 == 0 ? "acme/a" : "acme/b");
    for (int phase = 0; phase < kPhases; ++phase) {
      step.arrive_and_wait();
      const conf::TimePoint now = kNow + phase * 20s;
      // In the first two phases of each minute a part of it, then as much as there is.
      const int tries = phase % 4 < 2 ? 300 : 12'000;
      for (int i = 0; i < tries; ++i) {
        ReserveResult outcome = Reserve(node, {}, Tokens(3), now);
        Grant* grant = std::get_if<Grant>(&outcome);
        if (grant == nullptr) continue;
        if (i % 3 == 0) {
          grant->reservation.Refund();
          continue;
        }
        grant->reservation.Settle({.output = i % 2 == 0 ? 3 : 1});
        admitted[static_cast<size_t>(phase)] += i % 2 == 0 ? 3 : 1;
      }
      // One token at a time until nothing fits: the limit is used to the last token.
      while (phase % 4 >= 2) {
        ReserveResult outcome = Reserve(node, {}, Tokens(1), now);
        Grant* grant = std::get_if<Grant>(&outcome);
        if (grant == nullptr) break;
        grant->reservation.Settle({.output = 1});
        admitted[static_cast<size_t>(phase)] += 1;
      }
      step.arrive_and_wait();
    }
  });
  for (size_t phase = 0; phase < kPhases; ++phase) {
    int64_t minute = 0;  // the window holds 60 s and its own second: four phases
    for (size_t p = phase < 3 ? 0 : phase - 3; p <= phase; ++p) minute += admitted[p];
    EXPECT_LE(minute, 10'007) << "phase " << phase;
    if (phase % 4 >= 2) EXPECT_EQ(minute, 10'007) << "phase " << phase;
  }
}

TEST(ExactLimits, ConcurrencyIsNeverExceededAndEveryPermitComesBack) {
  constexpr int64_t kPermits = 3;
  LimitTree tree;
  ASSERT_TRUE(
      tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kConcurrency, kPermits}}}, {"acme/k", {}}})
          .ok());
  const NodeRef node = tree.Resolve("acme/k");
  std::atomic<int64_t> running = 0;
  std::atomic<int64_t> granted = 0;
  std::atomic<bool> exceeded = false;
  RunThreads([&](int) {
    for (int i = 0; i < 20'000; ++i) {
      ReserveResult a = Reserve(node, {}, Tokens(1), kNow);
      ReserveResult b = Reserve(node, {}, Tokens(1), kNow);
      const int64_t mine = std::holds_alternative<Grant>(a) + std::holds_alternative<Grant>(b);
      if (running.fetch_add(mine) + mine > kPermits) exceeded = true;
      granted += mine;
      running.fetch_sub(mine);
    }
  });
  EXPECT_FALSE(exceeded);
  EXPECT_GT(granted, 20'000);
  EXPECT_EQ(tree.Snapshot(kNow).front().used, 0);
  EXPECT_EQ(tree.Snapshot(kNow).front().reserved, 0);
}

TEST(ExactLimits, ARequestRefusedByOneLimitIsNeverVisibleInAnother) {
  // Half of the threads are always refused by their own key, after the organisation would have admitted them.
  // The others together need exactly the organisation's limit: a charge that was visible even shortly would
  // refuse one.
  LimitTree tree;
  ASSERT_TRUE(tree.Update(std::vector<NodeSpec>{{"acme", {{Dimension::kConcurrency, kThreads / 2}}},
                                                {"acme/closed", {{Dimension::kRequests, 0}}},
                                                {"acme/open", {}}})
                  .ok());
  std::atomic<int> refused = 0;
  RunThreads([&](int thread) {
    const NodeRef node = tree.Resolve(thread % 2 == 0 ? "acme/open" : "acme/closed");
    for (int i = 0; i < 30'000; ++i) {
      const ReserveResult outcome = Reserve(node, {}, Tokens(1), kNow);
      const bool admitted = std::holds_alternative<Grant>(outcome);
      if (admitted != (thread % 2 == 0)) ++refused;
    }
  });
  EXPECT_EQ(refused, 0);
}

TEST(ExactLimits, SurviveReloadsKeysAndReadersUnderLoad) {
  LimitTree tree;
  const auto nodes = [](int64_t requests) {
    return std::vector<NodeSpec>{
        {"acme", {{Dimension::kConcurrency, 100}, {Dimension::kBudget, 1'000'000, Period::kDay}}},
        {"acme/team",
         {{Dimension::kRequests, requests}, {Dimension::kTokens, requests * 10, Period::kDay, "m"}}}};
  };
  ASSERT_TRUE(tree.Update(nodes(1000)).ok());
  const ModelRef model = tree.Model("m");
  std::atomic<bool> done = false;
  std::jthread admin([&] {
    for (int64_t i = 0; !done; ++i) {
      EXPECT_TRUE(tree.Update(nodes(500 + i % 1000)).ok());
      const std::string key = "acme/team/k" + std::to_string(i % kThreads);
      EXPECT_TRUE(tree.AddKey({key, {{Dimension::kConcurrency, i % 50}}}).ok());
      if (i % 5 == 0) tree.KeepKeys({});
      for (const LimitRef& limit : tree.Limits()) limit.SetShare(i % 2 == 0 ? 50 : Limit::kUnshared, kNow);
      tree.Snapshot(kNow);
    }
  });
  RunThreads([&](int thread) {
    std::mt19937_64 random(static_cast<uint64_t>(thread));
    std::vector<Reservation> open;
    conf::TimePoint now = kNow;
    for (int i = 0; i < 20'000; ++i) {
      now += std::chrono::milliseconds(random() % 20);
      NodeRef node = tree.Resolve("acme/team/k" + std::to_string(thread));
      if (!node) node = tree.Resolve("acme/team");
      ReserveResult outcome = Reserve(node, model, Tokens(static_cast<int64_t>(random() % 5)), now);
      if (Grant* grant = std::get_if<Grant>(&outcome)) open.push_back(std::move(grant->reservation));
      Rates(node, model, now);
      if (open.size() > 10) {
        open[random() % open.size()].Settle({.output = 1});
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(random() % open.size()));
      }
    }
  });
  done = true;
  admin.join();
  for (const LimitState& state : tree.Snapshot(kNow))
    EXPECT_EQ(state.reserved, 0) << state.scope << state.name;
}

}  // namespace
}  // namespace router::limits
