#include "router/admission/queue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/rng.h"

namespace router {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr conf::TimePoint kStart{std::chrono::hours(1'000)};

// Who is who, by ticket.
struct Waiting {
  explicit Waiting(AdmissionSpec spec = {}) : queue(std::move(spec)) {}

  QueuePosition Enter(const std::string& name, Arrival arrival) {
    const QueuePosition entered = queue.Enter(arrival, now);
    if (entered.refused == QueueRefusal::kNone) names[entered.ticket] = name;
    return entered;
  }
  std::string Next() {
    const std::optional<Dispatch> turn = queue.Next(now);
    if (!turn) return "";
    last = turn->ticket;
    return names.at(turn->ticket) + (turn->expired ? " expired" : "");
  }
  std::vector<std::string> All() {
    std::vector<std::string> order;
    for (std::string name = Next(); !name.empty(); name = Next()) order.push_back(name);
    return order;
  }

  AdmissionQueue queue;
  conf::TimePoint now = kStart;
  std::map<WaitTicket, std::string> names{};
  WaitTicket last = 0;
};

AdmissionSpec Bands(std::vector<BandSpec> bands) {
  return {.bands = std::move(bands)};
}

TEST(AdmissionQueue, TheMostUrgentBandGoesFirst) {
  Waiting w(Bands({{.name = "interactive"}, {.name = "batch"}}));
  w.Enter("late", {.tenant = "a", .band = 1});
  w.Enter("urgent", {.tenant = "a", .band = 0});
  EXPECT_THAT(w.All(), ElementsAre("urgent", "late"));
}

TEST(AdmissionQueue, SpareRequestsWaitBehindAllOthersAndDoNotDelayThem) {
  AdmissionSpec spec = Bands({{.name = "high"}, {.name = "low"}, {.name = "batch", .spare = true}});
  spec.max_requests = 2;
  Waiting w(spec);
  w.Enter("line", {.tenant = "a", .band = 2, .cost = 1000});
  w.Enter("another", {.tenant = "a", .band = 2, .cost = 1000});
  EXPECT_EQ(w.queue.waiting(), 2u);
  EXPECT_EQ(w.queue.urgent(), 0u);
  EXPECT_EQ(w.Enter("one too many", {.tenant = "a", .band = 2}).refused, QueueRefusal::kQueueFull);
  w.Enter("low", {.tenant = "a", .band = 1});
  const QueuePosition entered = w.Enter("high", {.tenant = "a", .deadline = kStart + seconds(1)});
  EXPECT_EQ(entered.refused, QueueRefusal::kNone) << "lines take none of the places";
  EXPECT_EQ(w.queue.urgent(), 2u);
  EXPECT_THAT(w.All(), ElementsAre("high", "low", "line", "another"));
  EXPECT_EQ(w.queue.urgent(), 0u);
  // Slow lines say nothing of the pace.
  w.Enter("slow line", {.tenant = "a", .band = 2, .cost = 1e9});
  w.now += seconds(60);
  EXPECT_EQ(w.Enter("soon", {.tenant = "a", .deadline = w.now + seconds(1)}).refused, QueueRefusal::kNone);
}

TEST(AdmissionQueue, OfATenantTheEarliestDeadlineGoesFirstThenTheFirstCome) {
  Waiting w;
  w.Enter("whenever", {.tenant = "a"});
  w.Enter("later", {.tenant = "a", .deadline = kStart + seconds(9)});
  w.Enter("whenever too", {.tenant = "a"});
  w.Enter("soon", {.tenant = "a", .deadline = kStart + seconds(5)});
  EXPECT_THAT(w.All(), ElementsAre("soon", "later", "whenever", "whenever too"));
}

TEST(AdmissionQueue, OrderDelayLetsLaterDeadlinesPassUpToIt) {
  Waiting w;
  w.Enter("long", {.tenant = "a", .deadline = kStart + seconds(60), .order_delay = seconds(4)});
  w.now += seconds(3);
  w.Enter("short", {.tenant = "a", .deadline = w.now + seconds(60)});
  w.now += seconds(2);
  w.Enter("short, too late to pass", {.tenant = "a", .deadline = w.now + seconds(60)});
  w.Enter("other tenant's", {.tenant = "b", .deadline = w.now + seconds(60)});
  EXPECT_THAT(w.All(), ElementsAre("short", "other tenant's", "long", "short, too late to pass"));
}

// Work without end of short requests, a tenth more than can be served, holds a long one up for as long as it
// order_delay and no longer.
TEST(AdmissionQueue, OrderDelayDoesNotStarve) {
  Waiting w;
  w.Enter("long", {.tenant = "a", .deadline = kStart + seconds(60), .order_delay = seconds(4)});
  int before = 0;
  for (; w.now < kStart + seconds(50); w.now += milliseconds(100)) {
    w.Enter("short", {.tenant = "a", .deadline = w.now + seconds(60)});
    if (before % 10 == 9) w.Enter("short", {.tenant = "a", .deadline = w.now + seconds(60)});
    if (w.Next() == "long") break;
    ++before;
  }
  EXPECT_GE(before, 40);
  EXPECT_LE(before, 46);
}

TEST(AdmissionQueue, TheFirstFittingRequestGoesWithinABoundedScan) {
  Waiting w(Bands({{.name = "high"}, {.name = "low"}}));
  w.Enter("low a", {.tenant = "a", .band = 1});
  w.Enter("high a", {.tenant = "a", .band = 0});
  w.Enter("high b", {.tenant = "b", .band = 0});
  std::vector<std::string> asked;
  std::string fits;
  const auto next = [&](uint32_t looks) {
    asked.clear();
    const auto turn = w.queue.Next(w.now, looks, [&](WaitTicket ticket) {
      asked.push_back(w.names.at(ticket));
      return asked.back() == fits;
    });
    return turn ? w.names.at(turn->ticket) : "";
  };
  EXPECT_EQ(next(9), "");
  EXPECT_THAT(asked, ElementsAre("high a", "high b", "low a"));
  fits = "low a";
  EXPECT_EQ(next(2), "");
  EXPECT_EQ(next(3), "low a");
  fits = "high b";
  EXPECT_EQ(next(3), "high b");
  EXPECT_THAT(w.All(), ElementsAre("high a"));
}

TEST(AdmissionQueue, TenantsAlternateByServicePerWeight) {
  Waiting w;
  for (int i = 0; i < 4; ++i) w.Enter("many", {.tenant = "a", .cost = 10});
  w.Enter("few", {.tenant = "b", .weight = 2, .cost = 10});
  w.Enter("few", {.tenant = "b", .weight = 2, .cost = 10});
  w.Enter("few", {.tenant = "b", .weight = 2, .cost = 10});
  EXPECT_THAT(w.All(), ElementsAre("many", "few", "few", "many", "few", "many", "many"));
}

TEST(AdmissionQueue, AReturningTenantHasSavedNoService) {
  Waiting w;
  for (int i = 0; i < 100; ++i) w.Enter("busy", {.tenant = "a", .cost = 10});
  for (int i = 0; i < 90; ++i) w.Next();
  for (int i = 0; i < 5; ++i) w.Enter("idle before", {.tenant = "b", .cost = 10});
  EXPECT_THAT(w.All(),
              ElementsAre("idle before", "busy", "idle before", "busy", "idle before", "busy", "idle before",
                          "busy", "idle before", "busy", "busy", "busy", "busy", "busy", "busy"));
}

TEST(AdmissionQueue, TheTrueCostOfADispatchCountsForTheNext) {
  Waiting w;
  for (const char* tenant : {"a", "b"}) {
    for (int i = 0; i < 3; ++i) w.Enter(tenant, {.tenant = tenant, .cost = 10});
  }
  EXPECT_EQ(w.Next(), "a");
  w.queue.Settle({.tenant = "a"}, 25);
  EXPECT_THAT(w.All(), ElementsAre("b", "b", "b", "a", "a"));
}

TEST(AdmissionQueue, APutBackRequestIsDispatchedAgain) {
  Waiting w;
  w.Enter("a1", {.tenant = "a"});
  w.Enter("b1", {.tenant = "b"});
  w.Enter("a2", {.tenant = "a"});
  EXPECT_EQ(w.Next(), "a1");
  w.queue.PutBack(w.last, w.now);
  w.queue.PutBack(w.last, w.now);
  EXPECT_EQ(w.queue.waiting(), 3u);
  EXPECT_THAT(w.All(), ElementsAre("a1", "b1", "a2"));
}

TEST(AdmissionQueue, ARequestThatLeavesIsNotDispatched) {
  Waiting w;
  const WaitTicket gone = w.Enter("gone", {.tenant = "a", .bytes = 100}).ticket;
  w.Enter("stays", {.tenant = "a"});
  w.queue.Leave(gone, w.now);
  w.queue.Leave(gone, w.now);
  EXPECT_EQ(w.queue.Bands(w.now)[0].bytes, 0u);
  EXPECT_THAT(w.All(), ElementsAre("stays"));
  EXPECT_EQ(w.queue.waiting(), 0u);
}

TEST(AdmissionQueue, AnExpiredRequestIsReportedAndNotCharged) {
  Waiting w;
  w.Enter("a1", {.tenant = "a", .cost = 50, .deadline = kStart + seconds(1)});
  w.Enter("a2", {.tenant = "a"});
  w.Enter("b1", {.tenant = "b"});
  w.now += seconds(2);
  EXPECT_THAT(w.All(), ElementsAre("a1 expired", "a2", "b1"));
}

TEST(AdmissionQueue, WaitingRequestsKeepTheirPlacesWhenBandsChange) {
  Waiting w(Bands({{.name = "urgent"}, {.name = "old"}, {.name = "batch"}}));
  w.Enter("batch", {.tenant = "a", .band = 2});
  w.Enter("old", {.tenant = "a", .band = 1});
  w.Enter("urgent", {.tenant = "a", .band = 0});
  EXPECT_EQ(w.Next(), "urgent");
  const WaitTicket called = w.last;
  w.queue.Configure({.max_requests = 4, .bands = {{.name = "batch"}, {.name = "new"}}});
  w.queue.PutBack(called, w.now);
  w.Enter("new", {.tenant = "a", .band = 1});
  EXPECT_EQ(w.Enter("beyond", {.tenant = "b", .band = 1}).refused, QueueRefusal::kQueueFull);
  EXPECT_THAT(w.All(), ElementsAre("batch", "new", "urgent", "old"));
  w.queue.Configure({.bands = {{.name = "batch"}}});
  w.queue.PutBack(w.last, w.now);  // a turn may outlive its band
  EXPECT_EQ(w.queue.Bands(w.now).size(), 2u);
  EXPECT_THAT(w.All(), ElementsAre("old"));
  for (const auto& [ticket, name] : w.names) w.queue.Leave(ticket, w.now);
  EXPECT_EQ(w.queue.Bands(w.now).size(), 1u);
}

TEST(AdmissionQueue, PositionsShowTheNextRequestsOfEveryTenant) {
  Waiting w;
  for (int i = 0; i < 100; ++i) w.Enter("many", {.tenant = "many", .cost = 10});
  w.Enter("few", {.tenant = "few", .cost = 10});
  const std::vector<QueuePosition> standings = w.queue.Positions(10, w.now);
  ASSERT_EQ(standings.size(), 10u);
  EXPECT_EQ(std::ranges::count(standings, "few", [&](const QueuePosition& e) { return w.names[e.ticket]; }),
            1);
  EXPECT_TRUE(std::ranges::is_sorted(standings, {}, &QueuePosition::ahead));
  EXPECT_LE(standings.front().ahead, 1u);
  EXPECT_EQ(w.queue.Positions(1'000, w.now).size(), 101u);
}

TEST(AdmissionQueue, IsBoundedInRequestsAndBytes) {
  Waiting w({.max_requests = 10, .max_bytes = 1'000});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(w.Enter("a", {.tenant = "a"}).refused, QueueRefusal::kNone);
  }
  EXPECT_EQ(w.Enter("a", {.tenant = "a"}).refused, QueueRefusal::kNone);
  EXPECT_EQ(w.Enter("a", {.tenant = "a"}).refused, QueueRefusal::kTenantShare);
  EXPECT_EQ(w.Enter("b", {.tenant = "b", .bytes = 1'001}).refused, QueueRefusal::kQueueFull);
  EXPECT_EQ(w.Enter("b", {.tenant = "b", .bytes = 900}).refused, QueueRefusal::kNone);
  EXPECT_EQ(w.Enter("c", {.tenant = "c", .bytes = 101}).refused, QueueRefusal::kQueueFull);
  EXPECT_EQ(w.Enter("c", {.tenant = "c", .bytes = 100}).refused, QueueRefusal::kNone);
  EXPECT_EQ(w.Enter("d", {.tenant = "d"}).refused, QueueRefusal::kNone);
  EXPECT_EQ(w.Enter("e", {.tenant = "e"}).refused, QueueRefusal::kQueueFull);
  EXPECT_EQ(w.queue.waiting(), 10u);
}

TEST(AdmissionQueue, OneTenantCannotShutTheOthersOut) {
  Waiting w({.max_requests = 300});
  while (w.Enter("flood", {.tenant = "flood"}).refused == QueueRefusal::kNone) {
  }
  EXPECT_LE(w.queue.waiting(), 201u);
  for (int tenant = 0; tenant < 20; ++tenant) {
    EXPECT_EQ(w.Enter("other", {.tenant = fmt::format("t{}", tenant)}).refused, QueueRefusal::kNone);
  }
}

TEST(AdmissionQueue, ReservedPlacesOfABandAreKept) {
  AdmissionSpec spec = Bands({{.name = "interactive", .reserved = 0.2}, {.name = "batch"}});
  spec.max_requests = 100;
  Waiting w(spec);
  for (int tenant = 0; tenant < 200; ++tenant) {
    w.Enter("batch", {.tenant = fmt::format("t{}", tenant), .band = 1});
  }
  EXPECT_EQ(w.queue.waiting(), 80u);
  for (int tenant = 0; tenant < 20; ++tenant) {
    EXPECT_EQ(w.Enter("urgent", {.tenant = fmt::format("t{}", tenant), .band = 0}).refused,
              QueueRefusal::kNone);
  }
  EXPECT_EQ(w.Enter("urgent", {.tenant = "more", .band = 0}).refused, QueueRefusal::kQueueFull);
}

TEST(AdmissionQueue, ALessUrgentBandGetsItsReservedShare) {
  AdmissionSpec spec = Bands({{.name = "interactive"}, {.name = "batch", .reserved = 0.25}});
  spec.max_requests = 10'000;
  Waiting w(spec);
  for (int i = 0; i < 1'000; ++i) {
    w.Enter("urgent", {.tenant = "a", .band = 0});
    w.Enter("batch", {.tenant = "a", .band = 1});
  }
  int batch = 0;
  for (int i = 0; i < 400; ++i) {
    batch += w.Next() == "batch";
    w.now += milliseconds(10);
  }
  EXPECT_NEAR(batch, 100, 4);
}

TEST(AdmissionQueue, AnUnusedReservedShareIsNotOwedLater) {
  AdmissionSpec spec = Bands({{.name = "interactive"}, {.name = "batch", .reserved = 0.25}});
  spec.max_requests = 10'000;
  Waiting w(spec);
  for (int i = 0; i < 2'000; ++i) w.Enter("urgent", {.tenant = "a", .band = 0});
  for (int i = 0; i < 1'000; ++i) w.Next();
  for (int i = 0; i < 100; ++i) w.Enter("batch", {.tenant = "a", .band = 1});
  int batch = 0;
  for (int i = 0; i < 40; ++i) batch += w.Next() == "batch";
  EXPECT_NEAR(batch, 10, 2);
}

// A hundred a second, one at a time.
void Drain(Waiting& w, int turns) {
  for (int i = 0; i < turns; ++i) {
    w.now += milliseconds(10);
    ASSERT_NE(w.Next(), "");
  }
}

TEST(AdmissionQueue, AnUnreachableDeadlineIsRefusedAtOnceWithARetryTime) {
  Waiting w;
  for (int i = 0; i < 400; ++i) w.Enter("a", {.tenant = "a"});
  EXPECT_EQ(w.Enter("unknown pace", {.tenant = "a", .deadline = kStart + milliseconds(1)}).refused,
            QueueRefusal::kNone);
  Drain(w, 200);
  const QueuePosition late = w.Enter("late", {.tenant = "b", .cost = 150, .deadline = w.now + seconds(1)});
  EXPECT_EQ(late.refused, QueueRefusal::kTooLate);
  EXPECT_NEAR(conf::ToSeconds(late.expected_wait), 0.5, 0.05);
  const QueuePosition in_time =
      w.Enter("in time", {.tenant = "b", .cost = 150, .deadline = w.now + seconds(2)});
  EXPECT_EQ(in_time.refused, QueueRefusal::kNone);
  EXPECT_NEAR(conf::ToSeconds(in_time.expected_wait), 1.5, 0.05);
}

TEST(AdmissionQueue, WhileReplicasStartNoDeadlineIsOutOfReach) {
  Waiting w;
  for (int i = 0; i < 400; ++i) w.Enter("a", {.tenant = "a"});
  Drain(w, 200);
  w.now += seconds(90);  // the last replica was given up, and another one starts
  const conf::TimePoint deadline = w.now + seconds(600);
  EXPECT_EQ(w.Enter("no replica", {.tenant = "b", .cost = 150, .deadline = deadline}).refused,
            QueueRefusal::kTooLate);
  EXPECT_EQ(w.Enter("one starts", {.tenant = "b", .cost = 150, .deadline = deadline, .replicas_start = true})
                .refused,
            QueueRefusal::kNone);
}

TEST(AdmissionQueue, TheWaitForAReplicaToStartDoesNotCountAsASlowPace) {
  Waiting w;
  for (int i = 0; i < 400; ++i)
    w.Enter("early", {.tenant = "a", .deadline = w.now + seconds(600), .replicas_start = true});
  w.now += seconds(90);
  Drain(w, 100);  // it is there, and takes 100 in a second
  EXPECT_NEAR(w.queue.DrainPerSecond(w.now), 100, 5);
  // At this pace the 300 that wait are gone in three seconds.
  EXPECT_EQ(w.Enter("after the start", {.tenant = "a", .deadline = w.now + seconds(10)}).refused,
            QueueRefusal::kNone);
}

TEST(AdmissionQueue, TheExpectedWaitFollowsTheFairShare) {
  Waiting w;
  for (int i = 0; i < 500; ++i) w.Enter("flood", {.tenant = "flood"});
  Drain(w, 100);
  const QueuePosition small = w.Enter("small", {.tenant = "small"});
  EXPECT_LE(small.expected_wait, milliseconds(20));
  EXPECT_LE(small.ahead, 2u);
  const QueuePosition last = w.Enter("flood", {.tenant = "flood"});
  EXPECT_NEAR(conf::ToSeconds(last.expected_wait), 4.01, 0.05);
  const std::optional<QueuePosition> standing = w.queue.PositionOf(last.ticket, w.now);
  ASSERT_TRUE(standing);
  EXPECT_NEAR(standing->ahead, 401, 2);
}

TEST(AdmissionQueue, AStalledPaceFalls) {
  Waiting w;
  for (int i = 0; i < 300; ++i) w.Enter("a", {.tenant = "a"});
  Drain(w, 100);
  EXPECT_NEAR(w.queue.DrainPerSecond(w.now), 100, 2);
  EXPECT_LT(w.queue.DrainPerSecond(w.now + seconds(30)), 5);
  while (!w.Next().empty()) {
  }
  const double before = w.queue.DrainPerSecond(w.now);
  EXPECT_EQ(w.queue.DrainPerSecond(w.now + std::chrono::hours(1)), before) << "idling is not slowness";
}

TEST(AdmissionQueue, IdleTenantsAreForgottenOnceTheyHaveNoLead) {
  Waiting w;
  for (int i = 0; i < 100'000; ++i) {
    w.Enter("x", {.tenant = fmt::format("t{}", i)});
    w.queue.Leave(w.queue.Next(w.now)->ticket, w.now);
  }
  EXPECT_LE(w.queue.tenants(), 130u);
}

// Tenants "a" and "b" with the same weight; `children` of "a" have weight 1.
struct Family : Waiting {
  explicit Family(AdmissionSpec spec = {.max_requests = 100'000}) : Waiting(std::move(spec)) {}

  QueueRefusal Ask(const std::string& tenant, double weight = 1, double cost = 10) {
    return Enter(tenant, {.tenant = tenant, .weight = weight, .parent_weights = parents, .cost = cost})
        .refused;
  }
  // Who was served how often in that many turns.
  std::map<std::string, int> Serve(int turns) {
    std::map<std::string, int> served;
    for (int i = 0; i < turns; ++i) ++served[Next()];
    return served;
  }

  std::vector<double> parents{1};
};

TEST(AdmissionQueue, TenBusyChildrenTogetherGetAsMuchAsOneBusyTenant) {
  Family w;
  for (int i = 0; i < 500; ++i) {
    for (int child = 0; child < 10; ++child) w.Ask(fmt::format("a/{}", child));
    w.Ask("b");
  }
  const std::map<std::string, int> served = w.Serve(400);
  EXPECT_NEAR(served.at("b"), 200, 2);
  for (int child = 0; child < 10; ++child) EXPECT_NEAR(served.at(fmt::format("a/{}", child)), 20, 1);
}

TEST(AdmissionQueue, ChildrenShareByTheirWeightsAndParentsByTheirs) {
  Family w;
  w.parents = {3};
  for (int i = 0; i < 500; ++i) {
    w.Ask("a/heavy", 3);
    w.Ask("a/light");
    w.Ask("b");
  }
  const std::map<std::string, int> served = w.Serve(400);
  EXPECT_NEAR(served.at("b"), 100, 2);
  EXPECT_NEAR(served.at("a/heavy"), 225, 3);
  EXPECT_NEAR(served.at("a/light"), 75, 2);
}

TEST(AdmissionQueue, AChildThatWaitsAloneGetsAllThatItsParentGets) {
  Family w;
  for (int i = 0; i < 200; ++i) {
    for (const char* tenant : {"a/1", "b", "c/1/deep"}) w.Ask(tenant);
  }
  const std::map<std::string, int> served = w.Serve(150);
  for (const char* tenant : {"a/1", "b", "c/1/deep"}) EXPECT_EQ(served.at(tenant), 50) << tenant;
}

TEST(AdmissionQueue, ATenantsOwnRequestsCompeteWithItsChildrenByItsWeight) {
  Family w;
  w.parents = {2};
  for (int i = 0; i < 200; ++i) {
    w.Ask("a", 2);
    w.Ask("a/1");
    w.Ask("a/2");
  }
  const std::map<std::string, int> served = w.Serve(200);
  EXPECT_NEAR(served.at("a"), 100, 2);
  EXPECT_NEAR(served.at("a/1"), 50, 2);
}

TEST(AdmissionQueue, AParentThatReturnsHasSavedNoServiceAndOwesNone) {
  Family w;
  for (int i = 0; i < 300; ++i) w.Ask("b");
  w.Serve(200);
  for (int i = 0; i < 20; ++i) {
    w.Ask("a/1");
    w.Ask("a/2");
  }
  std::map<std::string, int> served = w.Serve(40);
  EXPECT_NEAR(served.at("b"), 20, 1);
  EXPECT_NEAR(served.at("a/1"), 10, 1);
  for (int i = 0; i < 100; ++i) w.Ask("a/new");  // beside the ten each of the others that still wait
  served = w.Serve(60);
  EXPECT_NEAR(served.at("b"), 30, 1);
  EXPECT_NEAR(served.at("a/new"), 10, 2);
}

TEST(AdmissionQueue, AChangedWeightCountsWhileRequestsWait) {
  Family w;
  for (int i = 0; i < 300; ++i) {
    w.Ask("a");
    w.Ask("b");
  }
  w.Serve(100);
  w.Ask("b", 3);
  w.queue.Settle({.tenant = "b", .weight = 1}, 0);  // of a request that came before the change
  EXPECT_NEAR(w.Serve(200).at("b"), 150, 2);
}

TEST(AdmissionQueue, ManyChildrenCannotShutOtherTenantsOut) {
  Family w({.max_requests = 300});
  for (bool entered = true; entered;) {
    entered = false;
    for (int child = 0; child < 50; ++child)
      entered = w.Ask(fmt::format("a/{}", child)) == QueueRefusal::kNone || entered;
  }
  EXPECT_LE(w.queue.waiting(), 201u);
  for (int tenant = 0; tenant < 20; ++tenant)
    EXPECT_EQ(w.Ask(fmt::format("t{}", tenant)), QueueRefusal::kNone);
}

TEST(AdmissionQueue, OneChildCannotShutItsSiblingsOut) {
  Family w({.max_requests = 300});
  w.Ask("a/small");
  while (w.Ask("a/flood") == QueueRefusal::kNone) {
  }
  EXPECT_GE(w.queue.waiting(), 100u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(w.Ask("a/small"), QueueRefusal::kNone);
}

TEST(AdmissionQueue, AChildAloneMayHoldAllPlacesOfItsParent) {
  Family w({.max_requests = 300});
  while (w.Ask("a/flood") == QueueRefusal::kNone) {
  }
  EXPECT_GE(w.queue.waiting(), 200u);
}

TEST(AdmissionQueue, TheExpectedWaitFollowsTheSharesOfAllLevels) {
  Family w;
  for (int i = 0; i < 200; ++i) {
    for (int child = 0; child < 9; ++child) w.Ask(fmt::format("a/{}", child), 1, 1);
    w.Ask("b", 1, 1);
  }
  Drain(w, 100);
  const QueuePosition direct = w.Enter("c", {.tenant = "c"});
  EXPECT_LE(direct.ahead, 3u);
  const QueuePosition child =
      w.Enter("a/new", {.tenant = "a/new", .parent_weights = w.parents});  // a tenth of a third
  EXPECT_NEAR(child.ahead, 29, 2);
}

TEST(AdmissionQueue, IdleChildrenAreForgottenWithTheirParents) {
  Family w;
  for (int i = 0; i < 100'000; ++i) {
    w.Ask(fmt::format("t{}/{}", i / 10, i % 10));
    w.queue.Leave(w.queue.Next(w.now)->ticket, w.now);
  }
  EXPECT_LE(w.queue.tenants(), 260u);
}

// Sheng et al. bound what two backlogged tenants' service may differ by, whatever they send: twice the
// dearest turn.
TEST(AdmissionQueueProperty, BackloggedTenantsGetEqualServiceWhateverTheySend) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    scheduler::Rng rng(seed);
    AdmissionQueue queue({.max_requests = 100'000, .max_bytes = uint64_t{1} << 40});
    const std::vector<std::string> tenants = {"a", "b", "c"};
    const std::vector<double> weights = {1, 1, 3};
    std::vector<int> waiting(3);
    std::vector<double> served(3);
    std::map<WaitTicket, std::pair<size_t, double>> who;
    conf::TimePoint now = kStart;
    double dearest = 0;
    for (int step = 0; step < 5'000; ++step) {
      now += milliseconds(rng.Uniform(20));
      for (size_t t = 0; t < 3; ++t) {
        const int more = t == 1 ? static_cast<int>(rng.Uniform(12)) : 2;
        for (int i = 0; waiting[t] < 5 || i < more; ++i) {
          const double cost = 1 + static_cast<double>(rng.Uniform(t == 0 ? 2'000 : 200));
          dearest = std::max(dearest, cost);
          const QueuePosition in =
              queue.Enter({.tenant = tenants[t], .weight = weights[t], .cost = cost}, now);
          ASSERT_EQ(in.refused, QueueRefusal::kNone);
          who[in.ticket] = {t, cost};
          ++waiting[t];
        }
      }
      const Dispatch turn = *queue.Next(now);
      const auto [t, cost] = who.at(turn.ticket);
      --waiting[t];
      if (rng.Uniform(10) == 0) {
        queue.PutBack(turn.ticket, now);
        ++waiting[t];
      } else {
        served[t] += cost / weights[t];
        queue.Leave(turn.ticket, now);
      }
      for (size_t a = 0; a < 3; ++a) {
        for (size_t b = 0; b < a; ++b)
          ASSERT_LE(std::abs(served[a] - served[b]), 2 * dearest) << seed << " " << step;
      }
    }
  }
}

// The same bound at each level: what a parent's children get together, and each child beside its siblings.
TEST(AdmissionQueueProperty, BackloggedTenantsOfATreeGetTheirSharesAtEachLevel) {
  struct Tenant {
    std::string path;
    double weight;
    std::vector<double> parent_weights;
  };
  const std::vector<Tenant> tenants = {{"a/1", 1, {2}},     {"a/2", 2, {2}}, {"a/3", 1, {2}},
                                       {"a/4", 3, {2}},     {"b", 1, {}},    {"c/x/1", 1, {1, 5}},
                                       {"c/x/2", 1, {1, 5}}};
  const std::map<std::string, double> parents = {{"a", 2}, {"b", 1}, {"c", 1}};
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<WaitTicket> orders[2];
    for (std::vector<WaitTicket>& order : orders) {
      scheduler::Rng rng(seed);
      AdmissionQueue queue({.max_requests = 100'000, .max_bytes = uint64_t{1} << 40});
      std::vector<int> waiting(tenants.size());
      std::map<WaitTicket, std::pair<size_t, double>> who;
      std::map<std::string, double> served;  // cost per weight
      double dearest = 0;
      for (int step = 0; step < 3'000; ++step) {
        for (size_t t = 0; t < tenants.size(); ++t) {
          while (waiting[t] < 4) {
            const double cost = 1 + static_cast<double>(rng.Uniform(t % 2 == 0 ? 1'000 : 100));
            dearest = std::max(dearest, cost);
            const QueuePosition in = queue.Enter({.tenant = tenants[t].path,
                                                  .weight = tenants[t].weight,
                                                  .parent_weights = tenants[t].parent_weights,
                                                  .cost = cost},
                                                 kStart);
            ASSERT_EQ(in.refused, QueueRefusal::kNone);
            who[in.ticket] = {t, cost};
            ++waiting[t];
          }
        }
        const Dispatch turn = *queue.Next(kStart);
        order.push_back(turn.ticket);
        const auto [t, cost] = who.at(turn.ticket);
        --waiting[t];
        if (rng.Uniform(10) == 0) {
          queue.PutBack(turn.ticket, kStart);
          ++waiting[t];
          continue;
        }
        queue.Leave(turn.ticket, kStart);
        const std::string parent = tenants[t].path.substr(0, 1);
        served[tenants[t].path] += cost / tenants[t].weight;
        if (tenants[t].path != parent) served[parent] += cost / parents.at(parent);
        for (const char* a : {"a", "b", "c"})
          ASSERT_LE(std::abs(served[a] - served["b"]), 2 * dearest) << seed;
        for (const char* a : {"a/2", "a/3", "a/4"})
          ASSERT_LE(std::abs(served[a] - served["a/1"]), 2 * dearest) << seed;
        ASSERT_LE(std::abs(served["c/x/1"] - served["c/x/2"]), 2 * dearest) << seed;
      }
    }
    EXPECT_EQ(orders[0], orders[1]) << "the same requests go in the same order";
  }
}

TEST(AdmissionQueueProperty, NothingIsLostOrCountedTwiceFromManyShards) {
  AdmissionQueue queue(
      {.max_requests = 500,
       .max_bytes = 100'000,
       .bands = {{.name = "a", .reserved = 0.1}, {.name = "b"}, {.name = "c", .reserved = 0.2}}});
  std::atomic<int64_t> inside{0};
  std::vector<std::jthread> shards;
  for (uint64_t shard = 0; shard < 4; ++shard) {
    shards.emplace_back([&, shard] {
      scheduler::Rng rng(shard);
      std::vector<WaitTicket> own;
      for (int step = 0; step < 20'000; ++step) {
        const conf::TimePoint now = kStart + milliseconds(step);
        const std::string tenant = fmt::format("t{}/{}", rng.Uniform(6), rng.Uniform(5));
        switch (rng.Uniform(4)) {
          case 0:
          case 1: {
            const QueuePosition in = queue.Enter({.tenant = tenant,
                                                  .band = static_cast<uint32_t>(rng.Uniform(3)),
                                                  .cost = 1.0 + static_cast<double>(rng.Uniform(100)),
                                                  .bytes = rng.Uniform(500)},
                                                 now);
            if (in.refused != QueueRefusal::kNone) break;
            ++inside;
            own.push_back(in.ticket);
            break;
          }
          case 2:
            if (const std::optional<Dispatch> turn = queue.Next(now)) {
              if (rng.Uniform(4) == 0) {
                queue.PutBack(turn->ticket, now);
              } else {
                queue.Leave(turn->ticket, now);
                --inside;
              }
            }
            break;
          default:
            queue.Settle({.tenant = tenant, .band = static_cast<uint32_t>(rng.Uniform(3))}, 5);
        }
      }
    });
  }
  shards.clear();
  EXPECT_EQ(queue.waiting(), inside.load());
  uint32_t left = 0;
  for (const BandState& band : queue.Bands(kStart + seconds(30))) left += band.waiting;
  EXPECT_EQ(left, queue.waiting());
  while (const std::optional<Dispatch> turn = queue.Next(kStart + seconds(30)))
    queue.Leave(turn->ticket, kStart);
  for (const BandState& band : queue.Bands(kStart)) {
    EXPECT_EQ(band.waiting, 0u);
    EXPECT_EQ(band.bytes, 0u);
    EXPECT_EQ(band.cost, 0);
  }
}

}  // namespace
}  // namespace router
