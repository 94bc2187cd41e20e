#include "router/outlier_detection.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/router/routing_fixture.h"

namespace router {
namespace {

using namespace std::chrono_literals;
using State = OutlierStatus::State;

constexpr Work kPrompt{.tokens = 1100, .uncached = 1000, .context = 1100};
constexpr Work kWhole{.tokens = 1100, .uncached = 1000, .context = 1100, .unseen = true, .output = 100};

struct OutlierDetection : testing::Test {
  explicit OutlierDetection(size_t replicas = 6) : routing({Spec(replicas)}) {}

  static ModelSpec Spec(size_t replicas) {
    ModelSpec spec = Serving("m", std::vector<double>(replicas, 1), PolicyKind::kLeastRequests);
    spec.outliers = {.hung_after = 10s,
                     .slow_factor = 3,
                     .slow_for = 30s,
                     .eject = 20s,
                     .max_eject = 100s,
                     .slow_start = 30s};
    return spec;
  }

  std::vector<OutlierChange> Update() {
    std::vector<OutlierChange> changes;
    DetectOutliers(routing.table, ModelId{0}, routing.load, now, changes);
    return changes;
  }
  State Of(uint32_t replica) { return routing.state(replica).outlier.state(); }
  Charge Put(uint32_t replica, const Work& work = kPrompt) {
    return Charge(routing.load.shared(ReplicaId{replica}), work, Admission::kAdmitted, now);
  }
  Decision Pick() { return routing.PickOf(ModelId{0}, 1, {}, now); }

  // Each replica answers a few requests, the slow ones in so many times the time; takes a window's time.
  void Serve(const std::set<uint32_t>& slow, double times) {
    const conf::TimePoint begin = now;
    for (uint32_t i = 0; i < routing.table.replicas().size(); ++i) {
      if (routing.state(i).outlier.suspected()) continue;
      now = begin;
      for (int n = 0; n < 4; ++n) Answer(i, slow.contains(i) ? times : 1);
    }
    now = begin + 10s;
    Update();
  }
  void Answer(uint32_t replica, double times) {
    Charge charge = Put(replica);
    now += conf::Duration(static_cast<int64_t>(2e8 * times));
    charge.FirstToken(now);
    now += conf::Duration(static_cast<int64_t>(1e9 * times));
    charge.LastToken(101, now);
  }

  Routing routing;
  conf::TimePoint now = kStart;
};

TEST_F(OutlierDetection, ASilentReplicaIsSuspectedAndAvoided) {
  Update();
  const Charge stuck = Put(0);
  now += 9s;
  EXPECT_TRUE(Update().empty());
  now += 2s;
  const auto changes = Update();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].replica, ReplicaId{0});
  EXPECT_EQ(changes[0].is, State::kHung);
  std::vector<Decision> held;
  for (int i = 0; i < 60; ++i) {
    held.push_back(Pick());
    EXPECT_NE(held.back().replica, ReplicaId{0});
  }
}

TEST_F(OutlierDetection, ASuspectedReplicaIsUsedWhenNoOtherCanBe) {
  Update();
  const Charge stuck = Put(0);
  now += 12s;
  Update();
  for (uint32_t i = 1; i < 6; ++i) routing.Break(i, now);
  EXPECT_EQ(Pick().replica, ReplicaId{0});
}

TEST_F(OutlierDetection, TrialsAreSingleRequestsAndBecomeRarer) {
  Update();
  const Charge stuck = Put(0);
  now += 12s;
  Update();
  std::vector<conf::Duration> trials;
  std::vector<Decision> held;
  conf::TimePoint last = now;
  for (int i = 0; i < 600; ++i) {
    now += 250ms;
    held.push_back(Pick());
    if (held.back().replica != ReplicaId{0}) continue;
    EXPECT_EQ(held.back().reason, "trial of a replica that hung");
    trials.push_back(now - last);
    last = now;
  }
  ASSERT_GE(trials.size(), 4u);
  EXPECT_LE(trials.size(), 6u);
  for (size_t i = 1; i < trials.size(); ++i) EXPECT_GE(trials[i], trials[i - 1]);
}

TEST_F(OutlierDetection, AnyTokenEndsTheSuspicionAndBeginsASlowStart) {
  Update();
  Charge stuck = Put(0);
  const Charge beside = Put(0);
  now += 12s;
  Update();
  ASSERT_EQ(Of(0), State::kHung);
  now += 1s;
  stuck.FirstToken(now);
  Update();
  EXPECT_EQ(Of(0), State::kGood);
  EXPECT_TRUE(routing.state(0).outlier.InSlowStart(now));
}

TEST_F(OutlierDetection, ALongPromptAndASlowUnstreamedAnswerAreNoHang) {
  for (uint32_t i = 0; i < 6; ++i) routing.state(i).engine.Configure({.first_prefill_rate = 1500});
  Update();
  Charge prompt = Put(0, {.uncached = 100'000});  // a minute and more
  const Charge whole = Put(1, {.uncached = 100, .unseen = true, .output = 2000});
  for (; now < kStart + 90s; now += 1s) EXPECT_TRUE(Update().empty());
  prompt.FirstToken(now);
  now += 41s;  // so long a silence having been usual, four times as much
  EXPECT_EQ(Update().size(), 1u) << "but once its tokens have begun to come they must go on";
}

TEST_F(OutlierDetection, AUsualSilenceIsNoHang) {
  Update();
  Charge slow = Put(0);
  slow.FirstToken(now);
  for (int i = 0; i < 20; ++i) {  // a token every eight seconds
    now += 8s;
    slow.Token(now);
    EXPECT_TRUE(Update().empty());
  }
  now += 15s;
  EXPECT_TRUE(Update().empty());
  now += 10s;
  EXPECT_EQ(Update().size(), 1u);
}

TEST_F(OutlierDetection, ASlowReplicaIsEjectedAfterThreeWindows) {
  Update();
  Serve({4}, 5);
  Serve({4}, 5);
  EXPECT_EQ(Of(4), State::kGood);
  Serve({4}, 5);
  EXPECT_EQ(Of(4), State::kEjected);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(Of(i), State::kGood);
}

TEST_F(OutlierDetection, AShortSlowSpellEjectsNoReplica) {
  Update();
  for (int i = 0; i < 4; ++i) {
    Serve({4}, 5);
    Serve({4}, 5);
    Serve({}, 1);
  }
  EXPECT_EQ(Of(4), State::kGood);
}

TEST_F(OutlierDetection, ReplicasOfHalfTheSpeedAreNoOutliers) {
  Update();
  for (int i = 0; i < 6; ++i) Serve({0, 1, 2}, 2);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(Of(i), State::kGood);
}

TEST_F(OutlierDetection, AtMostAThirdIsEjectedTheSlowestFirst) {
  Update();
  for (int i = 0; i < 3; ++i) Serve({0, 1}, 5);
  EXPECT_EQ(Of(0), State::kEjected);
  EXPECT_EQ(Of(1), State::kEjected);
  for (int i = 0; i < 4; ++i) Serve({2}, 20);
  EXPECT_EQ(Of(2), State::kGood) << "two of six are out already";
}

TEST_F(OutlierDetection, AnEjectedReplicaComesBackByTrialsOrStaysOutForLonger) {
  Update();
  for (int i = 0; i < 3; ++i) Serve({4}, 5);
  ASSERT_EQ(Of(4), State::kEjected);
  const auto out_for = [&](double times) {
    const conf::TimePoint begin = now;
    const auto still = routing.state(4).outlier.since();
    while (Of(4) == State::kEjected && routing.state(4).outlier.since() == still) {
      if (Pick().replica == ReplicaId{4}) Answer(4, times);
      now += 100ms;
      Update();
    }
    return now - begin;
  };
  const conf::Duration first = out_for(5);
  EXPECT_GE(first, 20s);
  EXPECT_EQ(Of(4), State::kEjected);
  const conf::Duration second = out_for(1);
  EXPECT_GE(second, 40s);
  EXPECT_LE(second, 60s);
  EXPECT_EQ(Of(4), State::kGood);
  EXPECT_TRUE(routing.state(4).outlier.InSlowStart(now));
}

TEST_F(OutlierDetection, TrialsWithoutSamplesDoNotKeepAReplicaEjected) {
  Update();
  for (int i = 0; i < 3; ++i) Serve({4}, 5);
  ASSERT_EQ(Of(4), State::kEjected);
  now += 81s;
  Update();
  EXPECT_EQ(Of(4), State::kGood);
}

struct OutlierDetectionOfTwo : OutlierDetection {
  OutlierDetectionOfTwo() : OutlierDetection(2) {}
};

TEST_F(OutlierDetectionOfTwo, OfTwoReplicasNoneIsAnOutlier) {
  Update();
  for (int i = 0; i < 6; ++i) Serve({0}, 50);
  EXPECT_EQ(Of(0), State::kGood);
}

TEST_F(OutlierDetection, APoolOfNewReplicasHasNoSlowStart) {
  for (int i = 0; i < 10; ++i) {
    Update();
    for (uint32_t r = 0; r < 6; ++r) EXPECT_FALSE(routing.state(r).outlier.InSlowStart(now));
    now += 1s;
  }
}

TEST_F(OutlierDetection, ANewReplicasShareGrowsFromATenthToAFullShare) {
  Update();
  std::vector<Charge> work;
  for (uint32_t i = 0; i < 6; ++i) {
    for (int n = 0; n < 40; ++n) work.push_back(Put(i, kWhole));
  }
  const RouteTable larger = MakeTable({Spec(7)});
  const LoadView view(larger, routing.states);
  std::vector<OutlierChange> changes;
  const auto most = [&] {
    DetectOutliers(larger, ModelId{0}, view, now, changes);
    std::vector<Decision> held;
    for (int i = 0; i < 60; ++i) {
      held.push_back(router::Pick(larger, ModelId{0}, view, {.tokens = 1}, {}, now, routing.rng));
    }
    return view[ReplicaId{6}].load.requests();
  };
  EXPECT_NEAR(static_cast<double>(most()), 0.1 * 40, 2);
  now += 15s;
  EXPECT_NEAR(static_cast<double>(most()), 0.55 * 45, 4);
  now += 15s;
  EXPECT_GE(most(), 40);
}

TEST_F(OutlierDetection, AReplicaThatIsUpAgainHasASlowStart) {
  Update();
  routing.TakeDown(3);
  now += 1s;
  Update();
  EXPECT_FALSE(routing.state(3).outlier.InSlowStart(now));
  for (int i = 0; i < 2; ++i) routing.state(3).health.OnProbe(ProbeResult::kGood, now);
  now += 1s;
  Update();
  EXPECT_TRUE(routing.state(3).outlier.InSlowStart(now));
  now += 31s;
  Update();
  EXPECT_FALSE(routing.state(3).outlier.InSlowStart(now));
}

TEST_F(OutlierDetection, EachDetectionCanBeTurnedOff) {
  ModelSpec spec = Spec(6);
  spec.outliers = {.hung_after = 0s, .slow_factor = 0, .slow_start = 0s};
  routing.table = MakeTable({spec});
  Update();
  const Charge stuck = Put(0);
  now += 1h;
  EXPECT_TRUE(Update().empty());
  for (int i = 0; i < 6; ++i) Serve({4}, 50);
  EXPECT_EQ(Of(4), State::kGood);
}

}  // namespace
}  // namespace router
