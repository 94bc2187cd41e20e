// Waiting at the gateway without a configured queue: which requests are held back by observed load, which are
// not, and where refused requests go.
#include "tests/fault/gateway/queued.h"

namespace tests {
namespace {

std::vector<std::string> With(std::vector<std::string> flags, std::vector<std::string> more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Four at a time, which it tells nobody: 40 tokens of 5 ms each are 20 requests a second.
std::vector<std::string> Small() {
  return With(Paced("5ms"), {"--max-running", "4"});
}

const std::string kTwoTenants = "  - {name: many, models: [\"*\"]}\n  - {name: few, models: [\"*\"]}\n";

TEST(QueueByDefault, ABurstWaitsInFairOrderAndCancelledRequestsNeverReachTheEngine) {
  const EngineProcess engine(Small());
  // One thread, so that they come to wait in the order in which they were sent.
  const Queued q({.replicas = {engine.port()}, .tenants = kTwoTenants, .threads = 1});
  ASSERT_EQ(q.gateway.Ask(Asking(2, {{"stream", true}})).status, 200);
  const Json stream{{"stream", true}};
  std::vector<RawClient> many = q.Sent(140, Asking(40, stream, q.KeyFor("many")));
  const auto come = [&] { return engine.Stat("/requests/received") + q.Queue()["waiting"].get<uint64_t>(); };
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return come() == 141; }));
  ASSERT_GE(q.Queue()["waiting"], 40);
  std::vector<RawClient> few = q.Sent(6, Asking(40, stream, q.KeyFor("few")));
  for (int i = 0; i < 20; ++i) many.pop_back();  // the last ones, who wait still
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return come() == 127; }));
  for (RawClient& client : few) EXPECT_EQ(client.Read().status, 200);
  EXPECT_LT(engine.Stat("/requests/completed"), 110u) << "the few need not wait for all of the many";
  for (RawClient& client : many) EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(engine.Stat("/requests/received"), 127u) << "without those who left";
}

TEST(QueueByDefault, AnInstantEngineIsNeverHeldBack) {
  const EngineProcess engine(Paced("0s"));
  const Queued q({.replicas = {engine.port()}});
  for (int round = 0; round < 3; ++round) {
    std::vector<RawClient> clients = q.Sent(300, Asking(3));
    for (RawClient& client : clients) {
      const Answer answer = client.Read();
      ASSERT_EQ(answer.status, 200) << answer.body;
      ASSERT_EQ(answer.header("x-tidegate-queue-ms"), "0");
    }
  }
  EXPECT_EQ(q.gateway.Metric(R"(tidegate_queue_time_seconds_sum{model="chat-small"})"), 0.0);
}

// The engine says how many run and how many wait; nothing else is seen of answers that come whole.
TEST(QueueByDefault, UnstreamedRequestsWaitOnceTheEngineWasObservedFull) {
  const EngineProcess engine(Small());
  const Queued q({.replicas = {engine.port()}});
  std::vector<RawClient> first = q.Sent(100, Asking(400));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 100; }))
      << "nothing is known of it yet";
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return q.Queue()["replicas_with_room"] == 0; }));
  std::vector<RawClient> second = q.Sent(20, Asking(2));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return q.Queue()["waiting"] > 0; }));
  first.clear();
  for (RawClient& client : second) EXPECT_EQ(client.Read().status, 200);
}

TEST(QueueByDefault, NothingWaitsIfTheQueueIsOff) {
  const EngineProcess engine(Small());
  const Queued q({.replicas = {engine.port()}, .model = "queue: {enabled: false}"});
  std::vector<RawClient> clients = q.Sent(120, Asking(10, {{"stream", true}}));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 120; }));
  EXPECT_EQ(q.Queue()["enabled"], false);
  for (RawClient& client : clients) EXPECT_EQ(client.Read().status, 200);
}

struct Refusal {
  const char* what;
  const char* queue;
  const char* code;
};

TEST(QueueFallback, RefusedRequestsGoToTheFallback) {
  const EngineProcess full(Paced("5ms"));
  const EngineProcess other(Paced("5ms"));
  const std::string fallback = fmt::format(
      "  - {{name: other, endpoints: [{{url: http://127.0.0.1:{}, engine: vllm, model: "
      "chat-small}}], queue: {{max_running: 1}}}}\n",
      other.port());
  const Refusal cases[] = {
      {"its places are taken", "max_requests: 1", "queue_full"},
      {"it has waited as long as it may", "max_wait: 100ms", "queue_timeout"},
  };
  uint64_t served = 0;
  for (const Refusal& c : cases) {
    const auto with = [&](std::string_view on) {
      return GatewayConfig{.replicas = {full.port()},
                           .model = fmt::format("queue: {{max_running: 1, {}}}, fallbacks: [{{model: other, "
                                                "on: [{}]}}]",
                                                c.queue, on),
                           .models = fallback};
    };
    // What one gateway has left there the next one would take for others' requests.
    const auto idle = [&] {
      return Within(RawClient::kPatience,
                    [&] { return full.Stat("/running") == 0 && other.Stat("/running") == 0; });
    };
    const bool waits = std::string_view(c.code) == "queue_full";
    ASSERT_TRUE(idle());
    {
      const Queued q(with("overloaded"));
      RawClient holder = q.Holder();
      const std::vector<RawClient> waiting = q.Sent(waits ? 1 : 0, Asking(2));
      ASSERT_TRUE(q.Waiting(waits ? 1 : 0)) << c.what;
      const Answer answer = q.gateway.Ask(Asking(2));
      EXPECT_EQ(answer.status, 200) << c.what << answer.body;
      EXPECT_EQ(other.Stat("/requests/completed"), ++served) << c.what;
      EXPECT_EQ(q.gateway.Metric(R"(tidegate_fallbacks_total{model="chat-small"})"), 1.0) << c.what;
      // A fallback that is full itself is no help.
      RawClient fills = q.gateway.Connect();
      ASSERT_TRUE(fills.Send(Asking(4'000, {{"stream", true}, {"model", "other"}})));
      ASSERT_EQ(fills.ReadHead().status, 200);
      EXPECT_EQ(q.gateway.Ask(Asking(2)).code(), c.code) << c.what;
    }
    ASSERT_TRUE(idle());
    const Queued unasked(with("unavailable"));
    RawClient holder = unasked.Holder();
    const std::vector<RawClient> waiting = unasked.Sent(waits ? 1 : 0, Asking(2));
    ASSERT_TRUE(unasked.Waiting(waits ? 1 : 0)) << c.what;
    EXPECT_EQ(unasked.gateway.Ask(Asking(2)).code(), c.code) << c.what;
    EXPECT_EQ(other.Stat("/requests/completed"), served) << c.what;
  }
}

// The turn would come within 400 ms at most, but no answer has taken less than that.
TEST(QueueDeadline, EstimatesTheAnswerTimeFromEarlierAnswers) {
  const EngineProcess engine(Paced("10ms"));
  const Queued q({.replicas = {engine.port()},
                  .tenant = "priority: high",
                  .model = "queue: {max_running: 2, bands: [{name: high}, {name: low}]}"});
  std::vector<RawClient> others = q.Sent(24, Asking(40, {}, "X-Priority: low\r\n"));
  // Eight answers are enough to go by; half of them have come while others waited.
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/completed") >= 12; }));
  ASSERT_GT(q.Queue()["waiting"], 2);
  const Answer refused = q.gateway.Ask(Asking(40, {}, "X-Stainless-Timeout: 0.3\r\n"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "deadline_unreachable") << refused.body;
  EXPECT_NE(refused.header("retry-after-ms"), "");
  const Answer patient = q.gateway.Ask(Asking(2, {}, "X-Stainless-Timeout: 60\r\n"));
  EXPECT_EQ(patient.status, 200) << patient.body;
  for (RawClient& other : others) EXPECT_EQ(other.Read().status, 200);
  EXPECT_EQ(engine.Stat("/requests/received"), 25u);
}

}  // namespace
}  // namespace tests
