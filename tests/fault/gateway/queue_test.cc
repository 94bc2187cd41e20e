// Waiting at the gateway: which requests wait, in which order they are served, which are refused, and what a
// wait survives.
#include "tests/fault/gateway/queued.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tests {
namespace {

using testing::HasSubstr;

TEST(Queue, ARequestWaitsWhileReplicasAreFullAndItsAnswerSaysHowLong) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1}"});
  RawClient holder = q.Holder();
  RawClient waits = std::move(q.Sent(1, Asking(3, {}, "X-Request-Id: waiter\r\n"))[0]);
  ASSERT_TRUE(q.Waiting(1));
  const Json queue = q.Queue();
  EXPECT_EQ(queue["replicas"], 1);
  EXPECT_EQ(queue["replicas_with_room"], 0);
  EXPECT_GT(queue["bytes"], 0);
  ASSERT_EQ(queue["requests"].size(), 1u) << queue;
  EXPECT_EQ(queue["requests"][0]["tenant"], "demo");
  EXPECT_EQ(queue["requests"][0]["band"], "normal");
  EXPECT_EQ(queue["requests"][0]["reason"], "its replica has no room");
  EXPECT_EQ(q.gateway.Metric(R"(tidegate_queue_requests{model="chat-small",band="normal"})"), 1.0);
  EXPECT_EQ(engine.Stat("/requests/received"), 1u);
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return q.Queue()["bands"][1]["oldest_ms"] >= 50; }));
  holder.Close();
  const Answer answer = waits.Read();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_GE(std::stoi(answer.header("x-tidegate-queue-ms")), 50);
  EXPECT_GE(q.gateway.CloseOf("waiter").queue_us, 50'000);
  EXPECT_EQ(q.gateway.Metric(R"(tidegate_queue_requests{model="chat-small",band="normal"})"), 0.0);
}

TEST(Queue, ArrivalsAndWaitsAreReportedByClass) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1, max_requests: 4}"});
  const std::string low = q.KeyFor("demo", "low");
  RawClient holder = q.Holder();
  const std::vector<RawClient> waiters = q.Sent(3, Asking(3, {}, low));
  ASSERT_TRUE(q.Waiting(3));
  EXPECT_EQ(q.gateway.Ask(Asking(3, {}, low)).code(), "queue_share_exceeded");
  const auto metric = [&](const std::string& name, const std::string& band) {
    return q.gateway.Metric(fmt::format(R"(tidegate_class_{}{{model="chat-small",class="{}"}})", name, band));
  };
  EXPECT_EQ(metric("requests_total", "normal"), 1.0);
  EXPECT_EQ(metric("requests_total", "low"), 4.0);
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return metric("active_requests", "low") == 3.0; }));
  EXPECT_EQ(metric("refused_requests_total", "low"), 1.0);
  EXPECT_EQ(metric("waiting_prompt_tokens", "normal"), 0.0);
  EXPECT_GT(*metric("waiting_prompt_tokens", "low"), 0);
  const Answer traffic = q.gateway.AskAdmin(Get("/admin/v1/traffic", Queued::Credentials()));
  const Json of_low = traffic.json()["data"][0]["classes"][2];
  EXPECT_EQ(of_low["class"], "low");
  EXPECT_GT(of_low["refusals_per_second"], 0) << traffic.body;
  EXPECT_GT(of_low["prompt_tokens_per_second"], 0);
  holder.Close();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return metric("active_requests", "low") == 0.0; }));
  EXPECT_EQ(metric("waiting_prompt_tokens", "low"), 0.0);
  EXPECT_EQ(metric("time_to_first_token_seconds_count", "low"), 3.0);
}

TEST(Queue, ARequestCancelledInTheQueueNeverReachesAnEngine) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1}"});
  RawClient holder = q.Holder();
  {
    std::vector<RawClient> leaver = q.Sent(1, Asking(3, {}, "X-Request-Id: leaver\r\n"));
    ASSERT_TRUE(q.Waiting(1));
  }
  ASSERT_TRUE(q.Waiting(0));
  EXPECT_EQ(q.gateway.CloseOf("leaver").reason, "client_gone");
  holder.Close();
  EXPECT_EQ(q.gateway.Ask(Asking(3)).status, 200);
  EXPECT_EQ(engine.Stat("/requests/received"), 2u) << "the holder, and the one that came last";
}

TEST(Queue, AWaitingStreamGetsHeartbeats) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q(
      {.replicas = {engine.port()}, .server = "heartbeat: 50ms", .model = "queue: {max_running: 1}"});
  RawClient holder = q.Holder();
  RawClient waits = std::move(q.Sent(1, Asking(3, {{"stream", true}}))[0]);
  EXPECT_EQ(waits.ReadHead().status, 200);
  EXPECT_EQ(waits.ReadEvent(), ": waiting");
  EXPECT_EQ(waits.ReadEvent(), ": waiting");
  holder.Close();
  std::string last;
  while (const auto event = waits.ReadEvent()) last = *event;
  EXPECT_EQ(last, "data: [DONE]");
}

TEST(Queue, AnImpossibleDeadlineIsRefusedAtOnce) {
  const EngineProcess engine(Paced("10ms"));
  const Queued q(
      {.replicas = {engine.port()}, .tenant = "priority: high", .model = "queue: {max_running: 1}"});
  std::vector<RawClient> others = q.Sent(12, Asking(40));  // 400 ms each, one after the other
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/completed") >= 2; }));
  ASSERT_GT(q.Queue()["drain_per_second"], 0);
  const Answer refused = q.gateway.Ask(Asking(40, {}, "X-Priority: low\r\nX-Stainless-Timeout: 0.5\r\n"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code(), "deadline_unreachable") << refused.body;
  EXPECT_EQ(refused.header("x-should-retry"), "true");
  ASSERT_NE(refused.header("retry-after-ms"), "");
  const int retry = std::stoi(refused.header("retry-after-ms"));
  EXPECT_GT(retry, 500) << "seven or more that take 400 ms each stand before it";
  EXPECT_EQ(q.gateway.CloseOf(refused.header("x-request-id")).queue_us, 0) << "it did not wait at all";
  EXPECT_EQ(
      q.gateway.Metric(R"(tidegate_queue_refusals_total{model="chat-small",code="deadline_unreachable"})"),
      1.0);
  for (RawClient& other : others) EXPECT_EQ(other.Read().status, 200);
  EXPECT_EQ(engine.Stat("/requests/received"), 12u);
}

TEST(Queue, AnExpiredWaitIsAnsweredWithItsReason) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()},
                  .tenant = "limits: {requests_per_minute: 2}",
                  .model = "queue: {max_running: 1, max_wait: 100ms}"});
  RawClient holder = q.Holder();
  const Answer late = q.gateway.Ask(Asking(3));
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.code(), "queue_timeout");
  const Answer own = q.gateway.Ask(Asking(3, {}, "X-Stainless-Timeout: 0.05\r\n"));
  EXPECT_EQ(own.status, 504);
  EXPECT_EQ(own.code(), "deadline_exceeded");
  EXPECT_EQ(engine.Stat("/requests/received"), 1u);
  holder.Close();
  EXPECT_EQ(q.gateway.Ask(Asking(3)).status, 200) << "they have used nothing of the limit";
}

TEST(Queue, IsBoundedAndNoTenantShutsTheOthersOut) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()},
                  .model = "queue: {max_running: 1, max_requests: 4}",
                  .tenants = "  - {name: other, models: [\"*\"]}\n"});
  const std::string other = q.KeyFor("other");
  RawClient holder = q.Holder();
  std::vector<RawClient> waiting = q.Sent(3, Asking(3));
  ASSERT_TRUE(q.Waiting(3));
  const Answer share = q.gateway.Ask(Asking(3));
  EXPECT_EQ(share.status, 429);
  EXPECT_EQ(share.code(), "queue_share_exceeded");
  EXPECT_NE(share.header("retry-after-ms"), "");
  EXPECT_EQ(share.header("x-tidegate-limit"), "model:chat-small/queue_share_exceeded");
  for (RawClient& client : q.Sent(1, Asking(3, {}, other))) waiting.push_back(std::move(client));
  ASSERT_TRUE(q.Waiting(4));
  const Answer full = q.gateway.Ask(Asking(3, {}, other));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.code(), "queue_full");
  holder.Close();
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
}

// Sends them while the only place is held, so that all wait, and tells in which order they are served.
std::string Order(const Queued& q, const std::vector<std::string>& headers) {
  RawClient holder = q.Holder();
  std::vector<RawClient> clients;
  for (size_t i = 0; i < headers.size(); ++i) {
    for (RawClient& client : q.Sent(1, Asking(2, {}, headers[i] + fmt::format("X-Request-Id: c{}\r\n", i)))) {
      clients.push_back(std::move(client));
    }
    EXPECT_TRUE(q.Waiting(static_cast<int64_t>(i + 1)));
  }
  holder.Close();
  for (RawClient& client : clients) EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(q.gateway.Settles());
  std::vector<std::pair<int64_t, char>> served;
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto record = q.gateway.CloseOf(fmt::format("c{}", i));
    served.emplace_back(record.time_us, headers[i].empty() ? 'h' : 'l');
  }
  std::ranges::sort(served);
  std::string order;
  for (const auto& [time, letter] : served) order += letter;
  return order;
}

TEST(Queue, TheMoreUrgentGoFirst) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()},
                  .tenant = "priority: high",
                  .model = "queue: {max_running: 1, bands: [{name: high}, {name: low}]}"});
  const std::string low = "X-Priority: low\r\n";
  EXPECT_EQ(Order(q, {low, low, low, "", "", ""}), "hhhlll");
}

TEST(Queue, ALowerBandKeepsItsReservedShare) {
  const EngineProcess engine(Paced("5ms"));
  const Queued q(
      {.replicas = {engine.port()},
       .tenant = "priority: interactive",
       .model = "queue: {max_running: 1, bands: [{name: interactive}, {name: low, reserved: 0.5}]}"});
  const std::string low = "X-Priority: low\r\n";
  const std::string order = Order(q, {low, low, low, "", "", ""});
  EXPECT_THAT(order.substr(0, 4), HasSubstr("l")) << order;
  EXPECT_THAT(order.substr(0, 4), HasSubstr("h")) << order;
}

TEST(Queue, ACallerMayAskForLessUrgencyButNotForMore) {
  const EngineProcess engine;
  const Queued q({.replicas = {engine.port()}, .model = "queue: {}"});
  EXPECT_EQ(q.gateway.Ask(Chat({}, "X-Priority: low\r\n")).status, 200);
  EXPECT_EQ(q.gateway.Ask(Chat({}, "X-Priority: normal\r\n")).status, 200);
  const Answer more = q.gateway.Ask(Chat({}, "X-Priority: high\r\n"));
  EXPECT_EQ(more.status, 403);
  EXPECT_EQ(more.code(), "permission_denied");
  const Answer unknown = q.gateway.Ask(Chat({}, "X-Priority: hihg\r\n"));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("normal, low"));
  EXPECT_EQ(q.gateway.Ask(Chat({}, q.KeyFor("demo", "high") + "X-Priority: high\r\n")).status, 200);
}

TEST(Queue, WhenAnEngineDiesWhileRequestsWaitTheOthersServeThem) {
  EngineProcess dies(Paced("5ms"));
  const EngineProcess lives(Paced("5ms"));
  const Queued q({.replicas = {dies.port(), lives.port()},
                  .model = "queue: {max_running: 1}, retries: {budget: 1, min_per_minute: 1000}"});
  RawClient first = q.Holder();
  RawClient second = q.Holder();
  std::vector<RawClient> waiting = q.Sent(6, Asking(3));
  ASSERT_TRUE(q.Waiting(6));
  dies.Kill();
  first.Close();
  second.Close();
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(lives.Stat("/requests/completed"), 6u);
}

TEST(Queue, WaitingRequestsAreAnsweredWhenNoReplicaIsLeft) {
  EngineProcess engine(Paced("5ms"));
  const Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1}, breaker: {failures: 2}"});
  RawClient holder = q.Holder();
  std::vector<RawClient> waiting = q.Sent(6, Asking(3));
  ASSERT_TRUE(q.Waiting(6));
  engine.Kill();
  for (RawClient& client : waiting) {
    const Answer answer = client.Read();
    EXPECT_TRUE(answer.status == 502 || answer.status == 503) << answer.status << answer.body;
    EXPECT_THAT(answer.code(), HasSubstr("upstream"));
  }
  EXPECT_EQ(q.Queue()["waiting"], 0);
}

TEST(Queue, WaitingRequestsSurviveAReloadAndFollowTheNewConfiguration) {
  const EngineProcess full(Paced("5ms"));
  const EngineProcess added(Paced("5ms"));
  GatewayConfig config{.replicas = {full.port()},
                       .model = "queue: {max_running: 1, bands: [{name: old}, {name: normal}]}"};
  Queued q(config);
  RawClient holder = q.Holder();
  std::vector<RawClient> waiting = q.Sent(3, Asking(3));
  for (RawClient& client : q.Sent(2, Asking(3, {}, q.KeyFor("demo", "old"))))
    waiting.push_back(std::move(client));
  ASSERT_TRUE(q.Waiting(5));
  config.replicas.push_back(added.port());
  config.model = "queue: {max_running: 1, max_requests: 5, bands: [{name: normal}]}";
  q.gateway.WriteConfig(q.WithKey(config));
  q.gateway.Reload();
  for (RawClient& client : waiting) {
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("x-tidegate-replica"), "r1");
  }
  EXPECT_EQ(q.Queue()["max_requests"], 5);
  EXPECT_EQ(q.Queue()["bands"].size(), 1u);
  // And where the queue is switched off nobody waits any more.
  RawClient second = q.Holder();
  waiting = q.Sent(2, Asking(3));
  ASSERT_TRUE(q.Waiting(2));
  config.model = "queue: {enabled: false}";
  q.gateway.WriteConfig(q.WithKey(config));
  q.gateway.Reload();
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
}

TEST(Queue, WaitingRequestsOfARemovedModelAreStillServed) {
  const EngineProcess engine(Paced("5ms"));
  const std::string first = fmt::format(
      "  - {{name: first, endpoints: [{{url: http://127.0.0.1:{}, engine: vllm, model: chat-small}}], queue: "
      "{{max_running: 1}}}}\n",
      engine.port());
  GatewayConfig config{.replicas = {engine.port()}, .models = first};
  Queued q(config);
  RawClient holder = q.gateway.Connect();
  holder.Send(Asking(4'000, {{"stream", true}, {"model", "first"}}));
  EXPECT_EQ(holder.ReadHead().status, 200);
  std::vector<RawClient> waiting = q.Sent(3, Asking(3, {{"model", "first"}}, "X-Request-Id: w\r\n"));
  const std::string queued = R"(tidegate_queue_requests{model="first",band="normal"})";
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return q.gateway.Metric(queued) == 3.0; }));
  config.models = "";
  q.gateway.WriteConfig(q.WithKey(config));
  q.gateway.Reload();
  holder.Close();
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
  const std::string done = R"(tidegate_requests_total{model="first",reason="length"})";
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return q.gateway.Metric(done) >= 3.0; }));
  EXPECT_EQ(q.gateway.Ask(Asking(1)).status, 200);
}

TEST(Queue, WaitingRequestsAreServedDuringTheDrain) {
  const EngineProcess engine(Paced("5ms"));
  Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1}"});
  RawClient holder = q.gateway.Connect();
  holder.Send(Asking(400, {{"stream", true}}));
  EXPECT_EQ(holder.ReadHead().status, 200);
  std::vector<RawClient> waiting = q.Sent(5, Asking(3));
  ASSERT_TRUE(q.Waiting(5));
  q.gateway.process().Signal(SIGTERM);
  for (RawClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(q.gateway.process().Wait(RawClient::kPatience), 0);
  EXPECT_EQ(engine.Stat("/requests/completed"), 6u);
}

TEST(Queue, RequestsStillWaitingAfterTheGraceAreEndedAndRecorded) {
  const EngineProcess engine(Paced("5ms"));
  Queued q(
      {.replicas = {engine.port()}, .server = "shutdown_grace: 200ms", .model = "queue: {max_running: 1}"});
  RawClient holder = q.Holder();
  std::vector<RawClient> waiting = q.Sent(3, Asking(3));
  ASSERT_TRUE(q.Waiting(3));
  EXPECT_EQ(q.gateway.Stop(), 0);
  EXPECT_TRUE(Balance(q.gateway.Records()).none());
}

TEST(Queue, RequestsToAProviderWaitOnlyIfItsHeadroomIsLimited) {
  const EngineProcess engine(Paced("5ms"));
  const std::string provider = "engine: openai";
  {
    const Queued none({.replicas = {engine.port()}, .endpoint = provider});
    std::vector<RawClient> clients = none.Sent(100, Asking(200, {{"stream", true}}));
    ASSERT_TRUE(
        Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == clients.size(); }));
    EXPECT_EQ(none.Queue()["waiting"], 0);
    EXPECT_EQ(none.Queue()["replicas_with_room"], 1);
  }
  const Queued asked({.replicas = {engine.port()}, .model = "queue: {max_running: 1}", .endpoint = provider});
  RawClient holder = asked.Holder();
  std::vector<RawClient> waits = asked.Sent(1, Asking(3));
  EXPECT_TRUE(asked.Waiting(1));
}

// The most of 30 that come at once that an engine is given at a time; a prompt takes it some 20 ms.
uint64_t MostAtOnce() {
  std::vector<std::string> flags = Paced("2ms");
  flags.back() = "10000";  // prompt tokens a second: a quarter of a second is some ten of these prompts
  flags.insert(flags.end(), {"--no-prefix-caching"});
  const EngineProcess engine(flags);
  // A policy that knows nothing of prefixes, since all of them ask the same.
  const Queued q(
      {.replicas = {engine.port()}, .model = "queue: {busy_for: 250ms}, routing: {policy: least-load}"});
  std::string words;
  for (int i = 0; i < 200; ++i) words += fmt::format("{} ", 1'000 + i);
  const Json messages = Json::array({{{"role", "user"}, {"content", words}}});
  const std::string ask = Asking(1, {{"stream", true}, {"messages", messages}});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(q.gateway.Ask(ask).status, 200);  // by which the pace is measured
  std::vector<RawClient> clients = q.Sent(30, ask);
  uint64_t most = 0;
  EXPECT_TRUE(Within(RawClient::kPatience, [&] {
    most = std::max(most, engine.Stat("/running") + engine.Stat("/waiting"));
    return q.Queue()["waiting"] == 0 && engine.Stat("/requests/completed") >= 40;
  }));
  for (RawClient& client : clients) EXPECT_EQ(client.ReadHead().status, 200);
  return most;
}

// The pace is as steady as the machine: one of three engines is enough.
TEST(Queue, AnEngineIsKeptJustFullEnoughByItsMeasuredPace) {
  uint64_t most = 30;
  for (int i = 0; i < 3 && most >= 20; ++i) most = MostAtOnce();
  EXPECT_LT(most, 20u) << "of 30; the others wait at the gateway";
}

// A prompt of so many words, each with an end of its own.
std::string AskingWords(int words, int mark, int tokens = 1) {
  std::string text;
  for (int i = 0; i < words; ++i) text += fmt::format("{} ", 100'000 * mark + i);
  const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
  return Asking(tokens, {{"stream", true}, {"messages", messages}});
}

TEST(Queue, OfATenantsRequestsShorterPromptsPass) {
  std::vector<std::string> flags = Paced("2ms");
  flags.back() = "2000";  // prompt tokens a second
  const EngineProcess engine(flags);
  const Queued q({.replicas = {engine.port()}});
  std::vector<RawClient> first = q.Sent(1, AskingWords(200, 1));  // by which the pace is measured
  EXPECT_EQ(first[0].Read().status, 200);
  std::vector<RawClient> before = q.Sent(1, AskingWords(2'000, 2));
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return engine.Stat("/requests/received") == 2; }));
  std::vector<RawClient> lengthy = q.Sent(1, AskingWords(1'500, 3));
  ASSERT_TRUE(q.Waiting(1));
  std::vector<RawClient> brief = q.Sent(1, AskingWords(20, 4));
  ASSERT_TRUE(q.Waiting(2));
  const Answer passed = brief[0].Read();
  const Answer let_pass = lengthy[0].Read();
  ASSERT_EQ(passed.status, 200);
  ASSERT_EQ(let_pass.status, 200) << "and is served";
  EXPECT_LE(std::stoi(passed.header("x-tidegate-queue-ms")),
            std::stoi(let_pass.header("x-tidegate-queue-ms")))
      << "behind the long one it would have waited for its prompt, too";
}

TEST(Queue, ALongPromptIsServedHoweverManyShorterOnesKeepComing) {
  std::vector<std::string> flags = Paced("2ms");
  flags.back() = "2000";  // prompt tokens a second
  const EngineProcess engine(flags);
  const Queued q({.replicas = {engine.port()}, .model = "queue: {max_running: 1}"});
  std::vector<RawClient> first = q.Sent(1, AskingWords(200, 1, 8));  // by which the pace is measured
  EXPECT_EQ(first[0].Read().status, 200);
  std::atomic<bool> stop{false};
  std::atomic<int> served{0};
  std::vector<std::jthread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&, i] {
      RawClient client = q.gateway.Connect();
      for (int mark = 10 + i; !stop; mark += 4) {
        if (client.Ask(AskingWords(20, mark, 8)).status == 200) ++served;
      }
    });
  }
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return served >= 8 && q.Queue()["waiting"] >= 2; }));
  const int before = served;
  std::vector<RawClient> lengthy = q.Sent(1, AskingWords(1'500, 3, 8));
  EXPECT_EQ(lengthy[0].Read(4 * RawClient::kPatience).status, 200) << "while others keep coming";
  EXPECT_GT(served, before + 4) << "they passed it";
  stop = true;
}

}  // namespace
}  // namespace tests
