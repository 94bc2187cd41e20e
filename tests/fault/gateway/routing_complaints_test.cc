// What users of other routers complain of, each under its own name and under the default policy: herding,
// load charged too late, 2 of 16 replicas that get everything, a breaker tripped by callers' errors, an
// engine that hangs behind healthy probes, an index without a bound, stale snapshots, drained replicas that
// are still chosen; and what is near to these: engines that ask for a pause, outliers, new replicas.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/temp_dir.h"

namespace tests {
namespace {

constexpr milliseconds kSoon{10'000};

// Engines on ports of their own, as the endpoints r0, r1, …
struct Fleet {
  explicit Fleet(size_t size, const std::vector<std::string>& flags = {}) {
    for (size_t i = 0; i < size; ++i) engines.push_back(std::make_unique<EngineProcess>(flags));
  }
  std::vector<uint16_t> ports() const {
    std::vector<uint16_t> all;
    for (const auto& engine : engines) all.push_back(engine->port());
    return all;
  }
  EngineProcess& operator[](size_t i) const { return *engines[i]; }
  std::vector<uint64_t> Received() const {
    std::vector<uint64_t> all;
    for (const auto& engine : engines) all.push_back(engine->Stat("/requests/received"));
    return all;
  }
  uint64_t ReceivedInAll() const {
    uint64_t sum = 0;
    for (const uint64_t one : Received()) sum += one;
    return sum;
  }
  std::vector<std::unique_ptr<EngineProcess>> engines;
};

// Requests that are under way at once, from as many connections.
class Burst {
 public:
  Burst(const GatewayProcess& gateway, size_t count, const Json& more) {
    for (size_t i = 0; i < count; ++i) clients_.push_back(gateway.Connect());
    for (RawClient& client : clients_) EXPECT_TRUE(client.Send(Chat(more)));
  }
  std::vector<RawClient>& clients() { return clients_; }

 private:
  std::vector<RawClient> clients_;
};

double ReplicaMetric(const GatewayProcess& gateway, std::string_view name, size_t replica,
                     std::string_view labels = {}) {
  return gateway.Metric(fmt::format(R"({}{{model="chat-small",replica="r{}"{}}})", name, replica, labels))
      .value_or(-1);
}

bool Stands(const GatewayProcess& gateway, size_t replica, std::string_view state) {
  return ReplicaMetric(gateway, "tidegate_replica_standing", replica, fmt::format(R"(,state="{}")", state)) ==
         1;
}

constexpr std::string_view kAdminKey = "a-bootstrap-key-of-enough-characters";

// With a key for the admin API in `folder`.
GatewayConfig Administered(const TempDir& folder, GatewayConfig config) {
  std::ofstream(folder / "key") << kAdminKey;
  config.sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key");
  return config;
}

// Of the admin API's list; "" where new requests come as usual.
std::string WhyUnused(const GatewayProcess& gateway, size_t replica) {
  const std::string key = fmt::format("Authorization: Bearer {}\r\n", kAdminKey);
  const Json list = gateway.AskAdmin(Get("/admin/v1/endpoints", key)).json();
  for (const Json& endpoint : list["data"]) {
    if (endpoint["name"] != fmt::format("r{}", replica)) continue;
    return endpoint["unused_because"].is_null() ? "" : endpoint["unused_because"].get<std::string>();
  }
  return "no such endpoint";
}

const Json kShortAnswer = {{"max_tokens", 2}};

// --- Herding, and load that is charged too late ---

struct RoutingComplaints : testing::TestWithParam<bool> {};

TEST_P(RoutingComplaints, HerdingABurstIsSpreadOverAllReplicas) {
  const Fleet fleet(4);
  for (const auto& engine : fleet.engines) engine->Fault({{"kind", "hang"}});
  const GatewayProcess gateway({.replicas = fleet.ports()});
  const Burst burst(gateway, 32, {{"max_tokens", 10}, {"stream", GetParam()}});
  // Two shards may choose in the same moment.
  EXPECT_TRUE(Within(kSoon, [&] { return fleet.ReceivedInAll() == 32; }));
  EXPECT_THAT(fleet.Received(), testing::Each(testing::AllOf(testing::Ge(6), testing::Le(10))))
      << "no answer has come from any of them";
}

TEST_P(RoutingComplaints, LateChargingAReplicaIsBusyAsSoonAsItIsChosen) {
  const Fleet fleet(3);
  for (const auto& engine : fleet.engines) engine->Fault({{"kind", "hang"}});
  const GatewayProcess gateway({.replicas = fleet.ports()});
  std::vector<RawClient> clients;
  for (size_t i = 0; i < 9; ++i) {  // one after the other: each must see the one before it
    clients.push_back(gateway.Connect());
    ASSERT_TRUE(clients.back().Send(Chat({{"max_tokens", 10}, {"stream", GetParam()}})));
    ASSERT_TRUE(Within(kSoon, [&] { return fleet.ReceivedInAll() == i + 1; }));
  }
  EXPECT_THAT(fleet.Received(), testing::Each(3));
  double outstanding = 0;
  for (size_t i = 0; i < 3; ++i) {
    outstanding += ReplicaMetric(gateway, "tidegate_replica_outstanding_requests", i);
  }
  EXPECT_EQ(outstanding, 9);
}

INSTANTIATE_TEST_SUITE_P(StreamedOrWhole, RoutingComplaints, testing::Bool());

// --- 2 of 16 replicas loaded ---

// The least that one of sixteen was given of 320 requests of any kind.
uint64_t LeastOfSixteen() {
  const Fleet fleet(16);
  const GatewayProcess gateway({.replicas = fleet.ports()});
  const std::string requests[] = {
      Chat({{"max_tokens", 1}}), Chat({{"max_tokens", 3}, {"stream", true}}),
      Post("/v1/embeddings", R"({"model":"chat-small","input":"Hi"})"),
      Post("/v1/rerank", R"({"model":"chat-small","query":"Hi","documents":["Ho"]})")};
  uint64_t least = 320;
  for (const std::string& request : requests) {
    const std::vector<uint64_t> before = fleet.Received();
    for (int i = 0; i < 320; ++i) EXPECT_EQ(gateway.Ask(request).status, 200);
    const std::vector<uint64_t> after = fleet.Received();
    for (size_t i = 0; i < after.size(); ++i) least = std::min(least, after[i] - before[i]);
  }
  return least;
}

// Who stood still within one of its first answers is rightly taken to be slow for a while. On a machine that
// makes processes stand still, one pool of three is enough.
TEST(RoutingComplaints, TwoOfSixteenEveryReplicaGetsItsShareWhateverTheApi) {
  uint64_t least = 0;
  for (int i = 0; i < 3 && least < 5; ++i) least = LeastOfSixteen();
  EXPECT_GE(least, 5u) << "of 320 between sixteen";
}

// Empty where all of four were given about as much, one at a time and at once.
std::string UnevenOverProviders() {
  const Fleet fleet(4);
  const GatewayProcess gateway({.replicas = fleet.ports(), .endpoint = "engine: openai"});
  for (int i = 0; i < 120; ++i) EXPECT_EQ(gateway.Ask(Chat(kShortAnswer)).status, 200);
  const std::vector<uint64_t> received = fleet.Received();
  for (const auto& engine : fleet.engines) engine->Fault({{"kind", "hang"}});
  const uint64_t before = fleet.ReceivedInAll();
  const Burst burst(gateway, 16, {{"max_tokens", 10}});
  EXPECT_TRUE(Within(kSoon, [&] { return fleet.ReceivedInAll() == before + 16; }));
  std::vector<double> outstanding;
  for (size_t i = 0; i < 4; ++i) {
    outstanding.push_back(ReplicaMetric(gateway, "tidegate_replica_outstanding_requests", i));
  }
  const bool even = std::ranges::all_of(received, [](uint64_t n) { return n >= 8; }) &&
                    std::ranges::all_of(outstanding, [](double n) { return n >= 2 && n <= 6; });
  return even ? ""
              : testing::PrintToString(received) + " of 120, at once " + testing::PrintToString(outstanding);
}

TEST(RoutingComplaints, ProvidersThatSayNothingOfThemselvesAreSpread) {
  std::string uneven = "not tried";
  for (int i = 0; i < 3 && !uneven.empty(); ++i) uneven = UnevenOverProviders();
  EXPECT_EQ(uneven, "");
}

// --- A breaker tripped by 4xx, and engines that ask for a pause ---

TEST(RoutingComplaints, BreakerTrippedBy4xxCallersErrorsAreNeutral) {
  FakeUpstream engine(JsonAnswer(R"({"error":{"message":"no","type":"invalid_request_error"}})", 400));
  const GatewayProcess gateway({.replicas = {engine.port()},
                                .model = "breaker: {failures: 1, open: 1m}, health: {probe: false}",
                                .endpoint = "engine: openai"});
  for (const int status : {400, 404, 405, 413, 422}) {
    engine.Say(JsonAnswer(R"({"error":{"message":"no","type":"invalid_request_error"}})", status));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(gateway.Ask(Chat()).status, status);
  }
  EXPECT_EQ(engine.requests(), 25u) << "none was tried twice, and none was kept from it";
  EXPECT_EQ(ReplicaMetric(gateway, "tidegate_replica_breaker_phase", 0, R"(,phase="closed")"), 1);
}

TEST(RoutingComplaints, AnEngineThatAsksForAPauseGetsItAndNoLonger) {
  for (const int status : {429, 503}) {
    FakeUpstream tired(JsonAnswer("{}", status));
    tired.Say(
        fmt::format("HTTP/1.1 {} No\r\ncontent-type: application/json\r\nretry-after: 2\r\n"
                    "content-length: 2\r\nconnection: close\r\n\r\n{{}}",
                    status));
    const EngineProcess rested;
    const TempDir folder;
    const GatewayProcess gateway(
        Administered(folder, {.replicas = {tired.port(), rested.port()},
                              .model = "breaker: {failures: 1, open: 1m}, retries: {budget: 1, "
                                       "min_per_minute: 1000}",
                              .endpoint = "engine: openai"}));
    const auto ask = [&] { return gateway.Ask(Chat(kShortAnswer)).status == 200 && tired.requests() > 0; };
    ASSERT_TRUE(Within(kSoon, ask)) << status;
    const auto rests_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1'900);
    EXPECT_EQ(WhyUnused(gateway, 0), "resting");
    for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.Ask(Chat(kShortAnswer)).status, 200);
    const uint64_t asked = tired.requests();
    if (std::chrono::steady_clock::now() < rests_until) EXPECT_EQ(asked, 1u) << status;
    EXPECT_TRUE(Within(kSoon, [&] { return ask() && tired.requests() > 1; })) << "it rests no longer";
    EXPECT_EQ(ReplicaMetric(gateway, "tidegate_replica_breaker_phase", 0, R"(,phase="closed")"), 1)
        << "load is no fault";
  }
}

// --- A hung engine with a healthy probe ---

constexpr const char* kQuickWatch =
    "watch: {hung_after: 1s, slow_start: 0}, retries: {budget: 1, min_per_minute: 1000}, health: {interval: "
    "200ms, timeout: 200ms}";

TEST(RoutingComplaints, HungEngineIsFoundByProgressLeftAloneAndTakenBackByATrial) {
  const Fleet fleet(3);
  const TempDir folder;
  const GatewayProcess gateway(Administered(folder, {.replicas = fleet.ports(), .model = kQuickWatch}));
  fleet[1].Fault({{"kind", "hang"}});
  // Whoever came there is answered by another, long before the time-out of five minutes.
  Burst burst(gateway, 24, {{"max_tokens", 3}, {"stream", true}});
  EXPECT_TRUE(Within(kSoon, [&] { return Stands(gateway, 1, "hung"); }));
  EXPECT_EQ(WhyUnused(gateway, 1), "hung");
  EXPECT_EQ(ReplicaMetric(gateway, "tidegate_replica_health", 1, R"(,state="up")"), 1);
  for (RawClient& client : burst.clients()) {
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_NE(answer.header("x-tidegate-replica"), "r1");
  }
  EXPECT_GE(ReplicaMetric(gateway, "tidegate_replica_failures_total", 1, R"(,kind="hung")"), 1);
  // New requests keep away, but for trials.
  const uint64_t before = fleet[1].Stat("/requests/received");
  for (int i = 0; i < 30; ++i) {
    const Answer answer = gateway.Ask(Chat(kShortAnswer));
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  EXPECT_LE(fleet[1].Stat("/requests/received"), before + 6);
  fleet[1].ClearFaults();
  EXPECT_TRUE(Within(kSoon, [&] {
    EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 2}, {"stream", true}})).status, 200);
    return Stands(gateway, 1, "good");
  }));
  EXPECT_EQ(WhyUnused(gateway, 1), "");
  EXPECT_TRUE(gateway.Settles());
}

// Answers that have begun cannot be had elsewhere; that they do not go on is seen all the same.
TEST(RoutingComplaints, HungEngineIsFoundByStreamsThatFallSilent) {
  const Fleet fleet(2);
  const GatewayProcess gateway({.replicas = fleet.ports(), .model = kQuickWatch});
  fleet[1].Fault({{"kind", "stall"}, {"arg", 2}});
  Burst burst(gateway, 8, {{"max_tokens", 50}, {"ignore_eos", true}, {"stream", true}});
  EXPECT_TRUE(Within(kSoon, [&] { return Stands(gateway, 1, "hung"); }));
  EXPECT_TRUE(Stands(gateway, 0, "good"));
  const uint64_t before = fleet[1].Stat("/requests/received");
  for (int i = 0; i < 30; ++i) EXPECT_EQ(gateway.Ask(Chat(kShortAnswer)).status, 200);
  EXPECT_LE(fleet[1].Stat("/requests/received"), before + 3) << "trials";
}

TEST(RoutingComplaints, NoHangIsSeenInSlowAnswersThatComeWhole) {
  // Forty tokens in two seconds, of which nothing is heard before their end.
  const Fleet fleet(2, {"--preset", "demo", "--load-time", "0s", "--step-base", "50ms"});
  const GatewayProcess gateway(
      {.replicas = fleet.ports(), .model = "watch: {hung_after: 300ms, slow_start: 0}"});
  Burst burst(gateway, 4, {{"max_tokens", 40}, {"ignore_eos", true}});
  for (RawClient& client : burst.clients()) EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(fleet.ReceivedInAll(), 4u) << "nobody was sent elsewhere";
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ReplicaMetric(gateway, "tidegate_replica_failures_total", i, R"(,kind="hung")"), 0);
    EXPECT_TRUE(Stands(gateway, i, "good"));
  }
}

TEST(RoutingComplaints, NoHangIsSeenInALongPrompt) {
  // Three thousand tokens take one and a half seconds, and a rate is measured before they come.
  const Fleet fleet(2, {"--preset", "demo", "--load-time", "0s", "--prefill-rate", "2000"});
  const GatewayProcess gateway(
      {.replicas = fleet.ports(), .model = "watch: {hung_after: 300ms, slow_start: 0}"});
  const auto prompt = [](int seed, int words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += fmt::format("{:03} ", (i * 7 + seed) % 1000);
    return Json::array({{{"role", "user"}, {"content", text}}});
  };
  for (int i = 0; i < 8; ++i) {
    const Answer answer =
        gateway.Ask(Chat({{"messages", prompt(i, 100)}, {"max_tokens", 2}, {"stream", true}}));
    ASSERT_EQ(answer.status, 200);
  }
  const auto hung = [&](size_t i) {
    return ReplicaMetric(gateway, "tidegate_replica_failures_total", i, R"(,kind="hung")");
  };
  const double hung_before[] = {hung(0), hung(1)};
  const uint64_t before = fleet.ReceivedInAll();
  const Answer answer =
      gateway.Ask(Chat({{"messages", prompt(99, 750)}, {"max_tokens", 2}, {"stream", true}}));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(fleet.ReceivedInAll(), before + 1) << "it was not sent elsewhere";
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(hung(i), hung_before[i]);
}

// --- An index without a bound ---

TEST(RoutingComplaints, UnboundedIndexItsMemoryIsWhatItWas) {
  const EngineProcess engines[2];  // with one there is nothing to choose, and nothing is indexed
  GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port()}});
  RawClient client = gateway.Connect();
  const auto ask = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      std::string text;
      for (int word = 0; word < 600; ++word)
        text += fmt::format("{} ", int64_t{i} * 1'000'003 + word * 7'919);
      const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
      ASSERT_EQ(client.Ask(Chat({{"messages", messages}, {"max_tokens", 1}})).status, 200);
    }
  };
  ask(0, 500);
  const double bytes = gateway.Metric("tidegate_prefix_index_bytes").value_or(-1);
  const size_t resident = gateway.process().ResidentBytes();
  const double entries = gateway.Metric("tidegate_prefix_index_entries").value_or(-1);
  ask(500, 3000);
  EXPECT_GT(gateway.Metric("tidegate_prefix_index_entries").value_or(-1), entries);
  EXPECT_LE(gateway.Metric("tidegate_prefix_index_entries").value_or(-1),
            gateway.Metric("tidegate_prefix_index_capacity").value_or(-1));
  EXPECT_EQ(gateway.Metric("tidegate_prefix_index_bytes"), bytes) << "all that it will ever take";
  if (!kSanitized)
    EXPECT_LT(gateway.process().ResidentBytes(), resident + static_cast<size_t>(bytes) + (8u << 20));
}

// --- Stale snapshots ---

TEST(RoutingComplaints, StaleSnapshotsOldTelemetryHerdsNobody) {
  const Fleet fleet(4);
  const GatewayProcess gateway({.replicas = fleet.ports()});
  // All have said that they are idle; from now on they say nothing, and take what they get.
  for (const auto& engine : fleet.engines) {
    engine->Fault({{"kind", "hang"}, {"api", "metrics"}});
    engine->Fault({{"kind", "hang"}, {"api", "chat"}});
  }
  ASSERT_TRUE(Within(kSoon, [&] {
    return std::ranges::all_of(fleet.engines,
                               [](const auto& engine) { return engine->Stat("/faults/0/fired") > 0; });
  }));
  const uint64_t before = fleet.ReceivedInAll();
  std::vector<RawClient> clients;
  for (size_t i = 0; i < 16; ++i) {
    clients.push_back(gateway.Connect());
    ASSERT_TRUE(clients.back().Send(Chat({{"max_tokens", 10}, {"stream", i % 2 == 0}})));
    ASSERT_TRUE(Within(kSoon, [&] {
      double sum = 0;
      for (size_t r = 0; r < 4; ++r) {
        sum += ReplicaMetric(gateway, "tidegate_replica_outstanding_requests", r);
      }
      return sum == static_cast<double>(i + 1);
    }));
  }
  EXPECT_GE(fleet.ReceivedInAll(), before);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(ReplicaMetric(gateway, "tidegate_replica_outstanding_requests", r), 4, 1) << r;
  }
}

// --- Drained replicas ---

TEST(RoutingComplaints, DrainedReplicaGetsNothingNewAndFinishesItsStreams) {
  for (const bool removed : {false, true}) {
    const Fleet fleet(2, {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms"});
    const TempDir folder;
    GatewayConfig config = Administered(folder, {.replicas = fleet.ports()});
    GatewayProcess gateway(config);
    Burst burst(gateway, 6, {{"max_tokens", 100}, {"ignore_eos", true}, {"stream", true}});
    for (RawClient& client : burst.clients()) {
      ASSERT_EQ(client.ReadHead().status, 200);
      ASSERT_TRUE(client.ReadEvent());
    }
    const uint64_t before = fleet[1].Stat("/requests/received");
    ASSERT_GE(before, 1u);
    if (removed) {
      config.replicas.pop_back();
      gateway.WriteConfig(config);
    } else {
      std::ostringstream text;
      text << std::ifstream(gateway.config_path()).rdbuf();
      std::string drained = text.str();
      drained.insert(drained.find("name: r1"), "weight: 0, ");
      std::ofstream(gateway.config_path()) << drained;
    }
    gateway.Reload();
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(gateway.Ask(Chat(kShortAnswer)).header("x-tidegate-replica"), "r0");
    }
    EXPECT_EQ(fleet[1].Stat("/requests/received"), before);
    if (!removed) EXPECT_EQ(WhyUnused(gateway, 1), "drained");
    for (RawClient& client : burst.clients()) {
      while (client.ReadEvent()) {
      }
      EXPECT_TRUE(client.ended()) << "what ran there when it was drained ends well";
    }
    EXPECT_EQ(fleet[1].Stat("/requests/cancelled"), 0u);
  }
}

// --- Outliers, and new replicas ---

TEST(RoutingComplaints, AnOutlierByLatencyIsEjectedAndComesBackByTrials) {
  const Fleet fleet(4, {"--preset", "demo", "--load-time", "0s", "--step-base", "10ms"});
  const TempDir folder;
  const GatewayProcess gateway(Administered(
      folder,
      {.replicas = fleet.ports(),
       .model = "routing: {policy: round-robin}, watch: {slow_factor: 4, slow_for: 1500ms, eject: 2s, "
                "max_eject: 4s, slow_start: 0}"}));
  fleet[2].Fault({{"kind", "slow-headers"}, {"arg", 10}});  // about a second and a half to the first token
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      RawClient client = gateway.Connect();
      while (!stop) {
        const Answer answer = client.Ask(Chat({{"max_tokens", 2}, {"stream", true}}));
        EXPECT_EQ(answer.status, 200) << answer.body;
      }
    });
  }
  EXPECT_TRUE(Within(milliseconds(60'000), [&] { return Stands(gateway, 2, "ejected"); }));
  EXPECT_EQ(WhyUnused(gateway, 2), "ejected");
  for (const size_t good : {0u, 1u, 3u}) EXPECT_TRUE(Stands(gateway, good, "good"));
  fleet[2].ClearFaults();
  EXPECT_TRUE(Within(milliseconds(60'000), [&] { return Stands(gateway, 2, "good"); }));
  stop = true;
  for (std::thread& client : clients) client.join();
}

TEST(RoutingComplaints, ANewReplicaIsNotFloodedAndAPoolOfNewOnesIsNotHeldBack) {
  const Fleet fleet(3);
  const TempDir folder;
  GatewayConfig config = Administered(
      folder, {.replicas = {fleet[0].port(), fleet[1].port()}, .model = "watch: {slow_start: 1h}"});
  GatewayProcess gateway(config);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(WhyUnused(gateway, i), "") << "all are new";
  for (const auto& engine : fleet.engines) engine->Fault({{"kind", "hang"}});
  const Burst there(gateway, 40, {{"max_tokens", 10}});
  ASSERT_TRUE(Within(kSoon, [&] { return fleet.ReceivedInAll() == 40; }));
  config.replicas.push_back(fleet[2].port());
  gateway.WriteConfig(config);
  gateway.Reload();
  EXPECT_TRUE(Within(kSoon, [&] { return WhyUnused(gateway, 2) == "slow_start"; }));
  const Burst more(gateway, 20, {{"max_tokens", 10}});
  ASSERT_TRUE(Within(kSoon, [&] { return fleet.ReceivedInAll() == 60; }));
  EXPECT_GE(fleet[2].Stat("/requests/received"), 1u);
  EXPECT_LE(fleet[2].Stat("/requests/received"), 5u) << "a tenth of what the others hold, and one";
}

}  // namespace
}  // namespace tests
