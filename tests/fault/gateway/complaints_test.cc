// Complaints of users of other gateways, one test each. Where another suite has a closer check, it is called
// here, too, so that each complaint can be found, and runs, under its own name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/fault/clients/cancel.h"
#include "tests/fault/gateway/hammer.h"
#include "tests/fault/gateway/limited.h"
#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/tls_files.h"
#include "tests/unit/plugins/auth/signer.h"

namespace tests {
namespace {

using gateway::ledger::Record;

constexpr milliseconds kSoon{5000};

size_t SizeOf(const std::string& folder) {
  size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::error_code gone;  // a segment may go meanwhile
    if (const auto size = entry.file_size(gone); !gone) bytes += size;
  }
  return bytes;
}

EngineProcess SlowEngine() {
  return EngineProcess(
      {"--preset", "demo", "--load-time", "0s", "--step-base", "20ms", "--step-per-sequence", "0s"});
}

// --- Cost of being in the way ---

// How long a call takes is for bench/proxies to measure. What would lose latency is a wait: for a timer, a
// disk, another thread. So the waits of the threads that serve are counted.
TEST(Complaints, LatencyIsNotLostInFrontOfTheEngine) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  const std::string request = Chat({{"max_tokens", 1}});
  EXPECT_EQ(client.Ask(request).status, 200);  // its connections stand
  constexpr uint64_t kCalls = 100;
  double waits = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = gateway.process().Waits("shard-");
    for (uint64_t i = 0; i < kCalls; ++i) EXPECT_EQ(client.Ask(request).status, 200);
    waits = std::min(waits, static_cast<double>(gateway.process().Waits("shard-") - before) / kCalls);
  }
  RecordProperty("waits_per_call", fmt::format("{:.2f}", waits));
  EXPECT_GT(waits, 0) << "nothing was counted";  // on a busy machine what it waits for may be there already
  EXPECT_LT(waits, 3) << "a call waits for its client and for its engine, and for nothing else";
}

size_t PeakBytes(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) << 10;
  }
  return 0;
}

TEST(Complaints, EightBodiesOf64MiBAreHeldInAtMostThreeCopies) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer has copies of its own";
  constexpr size_t kBodies = 8;
  constexpr size_t kBytes = 60u << 20;
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()},
                          .server = "limits: {body_memory: 2GiB}",
                          .tenant = "limits: {body_memory: 2GiB}"});
  std::string text(kBytes, 'x');
  for (size_t i = 0; i < text.size(); i += 5) text[i] = ' ';
  const std::string request =
      Chat({{"max_tokens", 1}, {"messages", {{{"role", "user"}, {"content", text}}}}});
  const size_t before = PeakBytes(gateway.process().pid());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kBodies; ++i)
    clients.emplace_back([&] { EXPECT_NE(gateway.Connect().Ask(request).status, 0); });
  for (std::thread& client : clients) client.join();
  const size_t held = PeakBytes(gateway.process().pid()) - before;
  RecordProperty("copies", fmt::format("{:.2f}", static_cast<double>(held) / (kBodies * kBytes)));
  EXPECT_LT(held, 3 * kBodies * kBytes);
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
}

// Of one client that does everything that could leave something behind.
TEST(Complaints, MemoryDoesNotGrowWithRequestsNorWithNamesThatClientsInvent) {
  const EngineProcess engine;
  GatewayProcess gateway({.replicas = {engine.port()}});
  const auto work = [&](int rounds, int round_base) {
    RawClient client = gateway.Connect();
    for (int i = 0; i < rounds; ++i) {
      const std::string name = fmt::format("invented-{}", round_base + i);
      ASSERT_EQ(
          client.Ask(Chat({{"max_tokens", 1}, {"user", name}}, fmt::format("X-{}: y\r\n", name))).status,
          200);
      ASSERT_EQ(client.Ask(Chat({{"model", name}})).status, 404);
      ASSERT_EQ(client.Ask(Get("/" + name)).status, 404);
    }
  };
  work(3000, 0);
  const size_t before = gateway.process().ResidentBytes();
  work(6000, 3000);
  const size_t after = gateway.process().ResidentBytes();
  RecordProperty("grown_kib", static_cast<int>((after - std::min(before, after)) / 1024));
  if (!tests::kSanitized) EXPECT_LT(after, before + (4u << 20));
}

TEST(Complaints, TheRecordsOfSpendAreBounded) {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .ledger = "segment_bytes: 1MiB, retention: {bytes: 2MiB}"});
  const size_t empty = SizeOf(gateway.ledger_dir());
  RawClient client = gateway.Connect();
  size_t most = 0;
  for (int i = 0; i < 15'000; ++i) {
    ASSERT_EQ(client.Ask(Chat({{"model", std::string(60, 'n')}})).status, 404);
    if (i % 1000 == 0) most = std::max(most, SizeOf(gateway.ledger_dir()));
  }
  ASSERT_TRUE(tests::Within(RawClient::kPatience,
                            [&] { return gateway.Metric("tidegate_ledger_queued_bytes") == 0.0; }));
  EXPECT_GT(gateway.Records().back().seq, 15'000u);
  EXPECT_TRUE(tests::Within(milliseconds(75'000), [&] {
    return SizeOf(gateway.ledger_dir()) < empty + (5u << 20);
  })) << "retention is looked at once a minute";
  EXPECT_TRUE(gateway.Verify().ok());
}

// --- Clients that leave ---

TEST(Complaints, UsageIsNotLostWhenTheClientLeaves) {
  tests::ClientLeaves({"within a stream", true, false, 3, false});
}

TEST(Complaints, NothingIsGeneratedForAClientThatIsGone) {
  tests::ClientLeaves({"within a stream, by a reset", true, false, 3, true});
}

TEST(Complaints, NothingIsGeneratedForAClientThatLeftBeforeTheFirstByte) {
  tests::ClientLeaves({"waiting for the first byte", true, true, 0, false});
}

TEST(Complaints, NothingIsGeneratedForAClientThatLeftANonStreamingCall) {
  tests::ClientLeaves({"while an answer is generated", false, false, 0, false});
}

// --- Limits ---

TEST(Complaints, PermitsDoNotLeakUntilAKeyDeadlocks) {
  EngineProcess engine({"--preset", "demo", "--load-time", "0s", "--step-base", "1ms"});
  for (const char* kind : {"500", "drop", "stall", "bad-chunk"})
    engine.Fault({{"kind", kind}, {"probability", 0.1}});
  GatewayConfig config{
      .replicas = {engine.port()},
      .tenant = "limits: {concurrency: 3}",
      .model =
          "timeouts: {idle: 200ms, first_byte: 500ms}, breaker: {failures: 1000}, health: {probe: false}"};
  GatewayProcess gateway(config);
  Hammer hammer(gateway.port(), {.clients = 8, .seed = 9, .leave_percent = 50});
  EXPECT_TRUE(hammer.Sends(300));
  hammer.Stop();
  ASSERT_TRUE(gateway.Settles());
  engine.ClearFaults();
  config.model = "";  // none times out while they are counted
  gateway.WriteConfig(config);
  gateway.Reload();
  tests::ExpectExactlyThisConcurrency(gateway, {&engine}, 3);
}

TEST(Complaints, APermitIsHeldUntilTheStreamEnds) {
  EngineProcess engine = SlowEngine();
  const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = "limits: {concurrency: 1}"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", true}, {"max_tokens", 100}, {"ignore_eos", true}})));
  ASSERT_EQ(client.ReadHead().status, 200);
  for (int asked = 0; asked < 20; ++asked) {  // and there is more than a second of it to come
    ASSERT_TRUE(client.ReadEvent());
    EXPECT_EQ(gateway.Ask(Chat()).code(), "concurrency_limit");
  }
  while (client.ReadEvent()) {
  }
  EXPECT_TRUE(tests::Within(kSoon, [&] { return gateway.Ask(Chat({{"max_tokens", 1}})).status == 200; }));
}

TEST(Complaints, TokensDoNotPassALimitThatTheyExceed) {
  tests::NeverMoreTokensThanTheLimit(100);
}

TEST(Complaints, AReservationDoesNotRefuseTheFirstRequest) {
  tests::FirstRequestIsAdmittedWithoutMaxTokens();
}

TEST(Complaints, RejectedRequestsDoNotBurnTheLimit) {
  tests::RejectedRequestsBurnNothing();
}

TEST(Complaints, ABudgetIsNotOverspentByRequestsThatRace) {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()}, .tenant = "budget: {usd: 0.002, period: month}"});
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&] {
      for (int j = 0; j < 15; ++j) gateway.Ask(Chat());
    });
  }
  for (std::thread& client : clients) client.join();
  ASSERT_TRUE(gateway.Settles());
  int64_t spent = 0;
  for (const Record& record : gateway.Records()) spent += record.cost_micro_usd;
  EXPECT_GT(spent, 1000);
  EXPECT_LE(spent, 2000) << "micro-USD";
}

TEST(Complaints, NoRouteBypassesTheBudget) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .tenant = "budget: {tokens: 40, period: day}"});
  for (int i = 0; i < 20 && gateway.Ask(Chat()).status == 200; ++i) {
  }
  const uint64_t reached = engine.Stat("/requests/received");
  const std::string text = R"("model":"chat-small","max_tokens":5)";
  const std::string question =
      R"("messages":[{"role":"user","content":"Say something longer than what is left."}])";
  const std::string words =
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat-small\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"file\"; "
      "filename=\"a.wav\"\r\n\r\n0123456789\r\n--b--\r\n";
  std::string transcription = Post("/v1/audio/transcriptions", form);
  transcription.replace(transcription.find("application/json"), 16, "multipart/form-data; boundary=b");
  const std::string requests[] = {
      Chat(),
      Chat({{"stream", true}}),
      Post("/v1/completions", fmt::format(R"({{{},"prompt":"{}"}})", text, words)),
      Post("/v1/messages", fmt::format("{{{},{}}}", text, question)),
      Post("/v1/responses", fmt::format(R"({{"model":"chat-small","input":"{}"}})", words)),
      Post("/v1/embeddings", fmt::format(R"({{"model":"chat-small","input":"{}"}})", words)),
      Post("/v1/rerank", fmt::format(R"({{"model":"chat-small","query":"{0}","documents":["{0}"]}})", words)),
      Post("/v1/score", fmt::format(R"({{"model":"chat-small","text_1":"{0}","text_2":"{0}"}})", words)),
      Post("/v1/audio/speech", fmt::format(R"({{"model":"chat-small","input":"{}","voice":"a"}})", words)),
      Post("/v1/images/generations", fmt::format(R"({{"model":"chat-small","prompt":"{}"}})", words)),
      transcription,
  };
  for (const std::string& request : requests) {
    const Answer answer = gateway.Ask(request);
    EXPECT_EQ(answer.status, 429) << request.substr(0, request.find('\r')) << answer.body;
  }
  EXPECT_EQ(engine.Stat("/requests/received"), reached);
}

// --- Redis and other stores ---

std::string Redis(uint16_t port, std::string_view when = "keep-share", int gateways = 1,
                  std::string_view times = "timeout: 100ms") {
  return fmt::format("redis: {{url: redis://127.0.0.1:{}, gateways: {}, {}, when_unavailable: {}}}\n", port,
                     gateways, times, when);
}

TEST(Complaints, AnUnreachableRedisHangsNobody) {
  const EngineProcess engine;
  const tests::FakeUpstream deaf("");  // connecting to it never ends
  const tests::FreePort nobody;
  for (const uint16_t port : {deaf.port(), nobody.number()}) {
    const GatewayProcess gateway({.replicas = {engine.port()},
                                  .tenant = "limits: {requests_per_minute: 1000}",
                                  .sections = Redis(port, "keep-share", 1, "timeout: 50s, lease: 60s")});
    // A client of this test loses its patience long before Redis's time-out.
    for (int i = 0; i < 50; ++i) EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}})).status, 200);
    const GatewayProcess closed({.replicas = {engine.port()},
                                 .tenant = "limits: {requests_per_minute: 1000}",
                                 .sections = Redis(port, "fail-closed")});
    Answer refused;
    EXPECT_TRUE(tests::Within(kSoon, [&] { return (refused = closed.Ask(Chat())).status != 200; }));
    EXPECT_EQ(refused.status, 503) << refused.body;
    EXPECT_EQ(refused.code(), "limits_unavailable");
  }
}

TEST(Complaints, LosingRedisDoesNotMultiplyTheLimit) {
  if (!tests::RedisServer::Installed()) GTEST_SKIP() << "redis-server is not installed";
  const EngineProcess engine;
  tests::RedisServer redis;
  ASSERT_TRUE(redis.Start());
  const GatewayConfig config{.replicas = {engine.port()},
                             .tenant = "limits: {requests_per_minute: 60}",
                             .sections = Redis(redis.port(), "keep-share", 2)};
  const GatewayProcess one(config);
  const GatewayProcess two(config);
  int admitted = 0;
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      for (const GatewayProcess* gateway : {&one, &two})
        admitted += gateway->Ask(Chat({{"max_tokens", 1}})).status == 200;
    }
  };
  ask(10);
  EXPECT_GE(admitted, 10);
  tests::Pause(milliseconds(500));
  redis.Kill();
  ask(100);
  EXPECT_LE(admitted, 60);
  EXPECT_GE(admitted, 20) << "each keeps to its share";
}

TEST(Complaints, AKeySetThatIsDownAtBootIsNot401ForEver) {
  const EngineProcess engine;
  const tests::TlsFiles tls;
  const tests::TempDir folder;
  const auto& signer = plugins::auth::Signer::For("ES256");
  const std::string keys = Json{{"keys", {signer.PublicJwk("k1")}}}.dump();
  std::ofstream(folder / "jwks") << "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                                 << keys.size() << "\r\n\r\n"
                                 << keys;
  const tests::FreePort port;
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .sections = fmt::format(
           "auth:\n  jwt:\n    - {{issuer: https://id.test/, audience: [tidegate], algorithms: [ES256], "
           "tenant: {{claim: tenant}}, jwks: \"https://127.0.0.1:{}/jwks\", tls: {{ca: {}}}}}\n",
           port.number(), tls.certificate()),
       .anonymous = false});
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const Json claims{{"iss", "https://id.test/"},
                    {"aud", "tidegate"},
                    {"sub", "me"},
                    {"tenant", "demo"},
                    {"exp", now.count() + 600}};
  const std::string token =
      plugins::auth::SignToken(signer, "ES256", R"({"alg":"ES256","kid":"k1"})", claims.dump());
  const std::string request = Chat({{"max_tokens", 1}}, "Authorization: Bearer " + token + "\r\n");
  EXPECT_NE(gateway.Ask(request).status, 200);
  tests::ChildProcess server(
      {"/bin/sh", "-c",
       fmt::format("cd {} && exec openssl s_server -quiet -HTTP -accept 127.0.0.1:{} -cert {} -key {}",
                   folder.path(), port.number(), tls.certificate(), tls.key())},
      folder / "server.log");
  EXPECT_TRUE(tests::Within(milliseconds(40'000),
                            [&] {
                              tests::Pause(milliseconds(100));
                              return gateway.Ask(request).status == 200;
                            }))
      << gateway.Ask(request).body << server.Output();
}

// --- Shutdown and reload ---

TEST(Complaints, UsageIsNotLostAtAGracefulShutdown) {
  EngineProcess engine = SlowEngine();
  GatewayProcess gateway({.replicas = {engine.port()}, .server = "shutdown_grace: 10s"});
  std::vector<RawClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(gateway.Connect());
    ASSERT_TRUE(clients.back().Send(Chat({{"stream", true}, {"max_tokens", 20 + i}, {"ignore_eos", true}})));
    ASSERT_EQ(clients.back().ReadHead().status, 200);
  }
  const std::optional<int> status = gateway.Stop();
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  int64_t output = 0;
  for (const Record& record : gateway.Records()) output += record.output;
  EXPECT_EQ(output, 20 + 21 + 22 + 23 + 24);
  EXPECT_EQ(static_cast<uint64_t>(output), engine.Stat("/tokens/generated"));
}

TEST(Complaints, AReloadAppliesWhollyOrNotAtAll) {
  const EngineProcess engine;
  const GatewayConfig config{.replicas = {engine.port()}, .tenant = "limits: {requests_per_minute: 1000}"};
  GatewayProcess gateway(config);
  const auto limit = [&] {
    return gateway.Ask(Chat({{"max_tokens", 1}})).header("x-ratelimit-limit-requests");
  };
  ASSERT_EQ(limit(), "1000");
  // A limit that is good and a model that is not.
  GatewayConfig half = config;
  half.tenant = "limits: {requests_per_minute: 5}";
  half.model = "routing: {policy: prefx}";
  gateway.WriteConfig(half);
  gateway.process().Signal(SIGHUP);
  EXPECT_FALSE(gateway.process().WaitForLine("configuration refused", kSoon).empty());
  EXPECT_EQ(limit(), "1000");
  GatewayConfig good = config;
  good.tenant = "limits: {requests_per_minute: 2000}";
  gateway.WriteConfig(good);
  gateway.process().Signal(SIGHUP);
  EXPECT_TRUE(tests::Within(kSoon, [&] { return limit() == "2000"; }));
}

// --- Streams ---

TEST(Complaints, StreamsAreNotBuffered) {
  EngineProcess engine = SlowEngine();
  const GatewayProcess gateway({.replicas = {engine.port()}});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", true}, {"max_tokens", 100}, {"ignore_eos", true}})));
  ASSERT_EQ(client.ReadHead().status, 200);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.ReadEvent());
  EXPECT_LT(engine.Stat("/tokens/generated"), 50u) << "five events have come, and most are not even made";
}

TEST(Complaints, SilenceBeforeTheFirstTokenIsNotSilentOnTheWire) {
  const EngineProcess engine;
  engine.Fault({{"kind", "hang"}});
  const GatewayProcess gateway({.replicas = {engine.port()}, .server = "heartbeat: 100ms"});
  RawClient client = gateway.Connect();
  ASSERT_TRUE(client.Send(Chat({{"stream", true}})));
  EXPECT_EQ(client.ReadHead().status, 200);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(client.ReadEvent().value_or(""), testing::StartsWith(":"));
}

TEST(Complaints, AStreamWithoutEndPinsNothing) {
  EngineProcess engine = SlowEngine();
  engine.Fault({{"kind", "endless"}});
  const GatewayProcess gateway({.replicas = {engine.port()}, .server = "limits: {stream_time: 500ms}"});
  const Answer answer = gateway.Ask(Chat({{"stream", true}, {"max_tokens", 5}}));
  EXPECT_THAT(answer.body, testing::HasSubstr("stream_limit"));
  EXPECT_TRUE(tests::Within(kSoon, [&] { return engine.Stat("/running") == 0; }));
}

// --- Balance ---

TEST(Complaints, EveryReplicaGetsItsShareEmbeddingsIncluded) {
  std::vector<std::unique_ptr<EngineProcess>> engines;
  GatewayConfig config;
  for (int i = 0; i < 6; ++i) {
    engines.push_back(std::make_unique<EngineProcess>());
    config.replicas.push_back(engines.back()->port());
  }
  const GatewayProcess gateway(config);
  const std::string requests[] = {Chat({{"max_tokens", 1}}),
                                  Post("/v1/embeddings", R"({"model":"chat-small","input":"Hi"})")};
  for (const std::string& request : requests) {
    std::vector<uint64_t> before;
    for (const auto& engine : engines) before.push_back(engine->Stat("/requests/received"));
    for (int i = 0; i < 240; ++i) ASSERT_EQ(gateway.Ask(request).status, 200);
    for (size_t i = 0; i < engines.size(); ++i) {
      EXPECT_GE(engines[i]->Stat("/requests/received") - before[i], 8u)
          << "of 240 between six: replica " << i;
    }
  }
}

TEST(Complaints, ABurstIsSpreadBecauseLoadIsChargedWhenAReplicaIsChosen) {
  std::vector<std::unique_ptr<EngineProcess>> engines;
  GatewayConfig config;
  for (int i = 0; i < 4; ++i) {
    engines.push_back(std::make_unique<EngineProcess>());
    engines.back()->Fault({{"kind", "hang"}});
    config.replicas.push_back(engines.back()->port());
  }
  config.threads = 1;  // two may choose in the same moment
  const GatewayProcess gateway(config);
  std::vector<RawClient> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(gateway.Connect());
  for (RawClient& client : clients) ASSERT_TRUE(client.Send(Chat({{"max_tokens", 10}})));
  EXPECT_TRUE(tests::Within(kSoon, [&] {
    return std::all_of(engines.begin(), engines.end(),
                       [](const auto& engine) { return engine->Stat("/requests/received") == 4; });
  })) << "no answer has come from any of them, and each has a quarter";
}

TEST(Complaints, AClientsOwnErrorDoesNotTripTheBreaker) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}, .model = "breaker: {failures: 1, open: 1m}"});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(gateway.Ask(Chat({{"temperature", "hot"}})).status, 400);
  EXPECT_EQ(gateway.Ask(Chat()).status, 200);
}

}  // namespace
}  // namespace tests
