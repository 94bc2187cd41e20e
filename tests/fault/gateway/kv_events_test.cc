// Replicas whose engines say what their KV caches hold: what the gateway expects of them, against what they
// report; and engines that say it badly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"
#include "tests/support/kv_peer.h"
#include "tests/support/silent_peer.h"

namespace tests {
namespace {

constexpr std::string_view kEventsAdminKey = "a-bootstrap-key-of-enough-characters";
constexpr const char* kModel = "routing: {policy: cost}";

std::string Known(const char* name) {
  return fmt::format(R"({}{{model="chat-small",replica="r0"}})", name);
}
const std::string kClears =
    R"(tidegate_kv_event_clears_total{model="chat-small",replica="r0",by="sequence"})";

std::string Words(int prompt) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("{} ", prompt * 1'000'003 + i * 7'919);
  return text;
}

std::string ChatPrompt(int prompt) {
  return Chat({{"messages", {{{"role", "user"}, {"content", Words(prompt)}}}}, {"max_tokens", 1}});
}

std::string IdsPrompt(int prompt) {
  std::vector<int> ids(800);
  std::iota(ids.begin(), ids.end(), prompt * 10'000);
  return Post("/v1/completions", Json{{"model", "chat-small"}, {"prompt", ids}, {"max_tokens", 1}}.dump());
}

// An engine with room for some five of these prompts.
struct Engine {
  explicit Engine(std::vector<std::string> more = {}) : process(Flags(std::move(more))) {}

  std::vector<std::string> Flags(std::vector<std::string> more) const {
    std::vector<std::string> flags = {"--kv-blocks",        "300",  "--kv-events",       url,
                                      "--kv-events-replay", replay, "--kv-events-topic", "kv"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::string Endpoint() const {
    return fmt::format("engine: vllm, kv_events: {{url: '{}', replay: '{}', topic: kv}}", url, replay);
  }

  const FreePort events;
  const FreePort replays;
  const std::string url = fmt::format("tcp://127.0.0.1:{}", events.number());
  const std::string replay = fmt::format("tcp://127.0.0.1:{}", replays.number());
  EngineProcess process;
};

double Value(const GatewayProcess& gateway, const std::string& series) {
  return gateway.Metric(series).value_or(0);
}

// The gateway knows of every block that the engine has, and which text so many prompts stand for.
bool IsExact(const GatewayProcess& gateway, const EngineProcess& engine, double learnt) {
  return Within(RawClient::kPatience, [&] {
    return Value(gateway, "tidegate_exact_replicas") == 1 &&
           Value(gateway, Known("tidegate_kv_blocks_known")) ==
               static_cast<double>(engine.Stat("/prefix_cache/blocks")) &&
           Value(gateway, R"(tidegate_kv_prompts_total{result="learnt"})") >= learnt;
  });
}

struct Cached {
  double predicted = 0;
  double reported = 0;
};

Cached Ask(const GatewayProcess& gateway, const std::string& request) {
  const auto total = [&] {
    return Cached{Value(gateway, R"(tidegate_predicted_cached_input_tokens_total{model="chat-small"})"),
                  Value(gateway, R"(tidegate_cached_input_tokens_total{model="chat-small"})")};
  };
  const Cached before = total();
  const Answer answer = gateway.Ask(request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return Value(gateway, "tidegate_requests_active") == 0; }));
  const Cached after = total();
  return {after.predicted - before.predicted, after.reported - before.reported};
}

struct How {
  const char* name;
  std::string (*prompt)(int);
  std::vector<std::string> flags;
};

struct KvEventsOf : testing::TestWithParam<How> {
  // How far predictions are off, in tokens, when others fill the engine's cache behind the gateway's back.
  double Error(bool events) {
    const Engine engine(GetParam().flags);
    const GatewayProcess gateway({.replicas = {engine.process.port()},
                                  .model = kModel,
                                  .endpoint = events ? engine.Endpoint() : std::string("engine: vllm")});
    const auto told = [&] {  // a full cache holds as much while an event is under way
      return Value(gateway, Known("tidegate_kv_event_batches_total")) ==
             static_cast<double>(engine.process.Stat("/kv_events/batches"));
    };
    const auto settle = [&](double learnt) {
      if (!events) return;
      EXPECT_TRUE(Within(RawClient::kPatience, told));
      EXPECT_TRUE(IsExact(gateway, engine.process, learnt));
    };
    settle(0);
    double error = 0;
    double reported = 0;
    constexpr int kOthers[] = {8, 3, 0};  // enough to push everything out, then not
    for (int round = 0; round < 3; ++round) {
      for (int prompt = 0; prompt < 3; ++prompt) {
        const Cached cached = Ask(gateway, GetParam().prompt(prompt));
        error += std::abs(cached.predicted - cached.reported);
        reported += cached.reported;
        settle(prompt + 1);
      }
      for (int other = 0; other < kOthers[round]; ++other) {
        EXPECT_EQ(RawClient(engine.process.port()).Ask(GetParam().prompt(100 + 10 * round + other)).status,
                  200);
      }
      settle(3);
    }
    fmt::print("{}, {} events: predictions off by {} tokens, {} cached\n", GetParam().name,
               events ? "with" : "without", error, reported);
    return error;
  }
};

TEST_P(KvEventsOf, PredictionsFollowWhatTheEngineEvicts) {
  const double guessed = Error(false);
  const double told = Error(true);
  EXPECT_GT(guessed, 500) << "the test shows nothing";
  EXPECT_LT(told, 0.25 * guessed);
}

TEST_P(KvEventsOf, ARestartedEngineHoldsNothing) {
  Engine engine(GetParam().flags);
  const GatewayProcess gateway({.replicas = {engine.process.port()},
                                .model = std::string(kModel) + ", breaker: {failures: 1000}",
                                .endpoint = engine.Endpoint()});
  ASSERT_TRUE(IsExact(gateway, engine.process, 0));
  Ask(gateway, GetParam().prompt(1));
  ASSERT_TRUE(IsExact(gateway, engine.process, 1));
  EXPECT_GT(Ask(gateway, GetParam().prompt(1)).predicted, 500);
  engine.process.Kill();
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Value(gateway, "tidegate_exact_replicas") == 0; }));
  engine.process.Start();
  ASSERT_TRUE(IsExact(gateway, engine.process, 1));
  EXPECT_EQ(Value(gateway, kClears), 1);
  const Cached cached = Ask(gateway, GetParam().prompt(1));
  EXPECT_EQ(cached.predicted, 0);
  EXPECT_EQ(cached.reported, 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, KvEventsOf,
                         testing::Values(How{"text", ChatPrompt, {}},
                                         How{"token_ids", IdsPrompt, {"--kv-events-maps"}}),
                         [](const auto& info) { return info.param.name; });

// Engines of which the test itself writes the events; what answers requests is a plain one.
struct KvEvents : testing::Test {
  GatewayConfig Config(const std::string& events) const {
    return {.replicas = {engine.port()},
            .model = kModel,
            .endpoint = fmt::format("engine: vllm, kv_events: {{{}}}", events)};
  }
  // A batch that stores so many blocks of two tokens, under hashes and tokens of its own.
  static Json Stores(int batch, int blocks) {
    Json hashes = Json::array();
    Json tokens = Json::array();
    for (int i = 0; i < blocks; ++i) {
      hashes.push_back(batch * 1'000 + i);
      tokens.insert(tokens.end(), {batch, i});
    }
    return {1.5, {{"BlockStored", hashes, nullptr, tokens, 2, nullptr, "GPU"}}, 0};
  }
  static bool Holds(const GatewayProcess& gateway, double blocks) {
    return Within(RawClient::kPatience,
                  [&] { return Value(gateway, Known("tidegate_kv_blocks_known")) == blocks; });
  }

  EngineProcess engine;
  KvPeer peer;
};

TEST_F(KvEvents, WhatWasMissedIsReplayed) {
  for (int i = 0; i < 2; ++i) peer.Keep(static_cast<uint64_t>(i), Stores(i, 3));
  const GatewayProcess gateway(Config(fmt::format("url: '{}', replay: '{}'", peer.url(), peer.replay_url())));
  peer.AwaitSubscriber();
  ASSERT_TRUE(Holds(gateway, 6)) << "of before it was there";
  for (int i = 2; i < 6; ++i) peer.Keep(static_cast<uint64_t>(i), Stores(i, 3));
  peer.Send(2, Stores(2, 3));
  peer.Send(5, Stores(5, 3));
  EXPECT_TRUE(Holds(gateway, 18));
  EXPECT_EQ(Value(gateway, Known("tidegate_kv_event_gaps_total")), 1);
  EXPECT_EQ(Value(gateway, kClears), 0);
}

TEST_F(KvEvents, WithoutReplayTheIndexStartsEmptyAfterAGap) {
  const GatewayProcess gateway(Config(fmt::format("url: '{}'", peer.url())));
  peer.AwaitSubscriber();
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Value(gateway, "tidegate_exact_replicas") == 1; }));
  peer.Send(4, Stores(4, 3));
  ASSERT_TRUE(Holds(gateway, 3));
  peer.Send(6, Stores(6, 5));
  EXPECT_TRUE(Holds(gateway, 5));
  EXPECT_EQ(Value(gateway, Known("tidegate_kv_event_gaps_total")), 1);
  EXPECT_EQ(Value(gateway, kClears), 1);
}

TEST_F(KvEvents, NonsenseIsCountedAndDoesNoHarm) {
  const GatewayProcess gateway(Config(fmt::format("url: '{}'", peer.url())));
  peer.AwaitSubscriber();
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return Value(gateway, "tidegate_exact_replicas") == 1; }));
  peer.Send(0, Stores(0, 3));
  ASSERT_TRUE(Holds(gateway, 3));
  peer.SendBytes("short", "x");
  peer.SendBytes(KvPeer::Number(1), std::string(100'000, '\x91'));
  peer.SendBytes(KvPeer::Number(2), "");
  peer.Send(3, {1.5, {{"BlockStored", {1}, nullptr, {1, 2, 3}, 2, nullptr, "GPU"}}, 0});
  EXPECT_TRUE(Within(RawClient::kPatience,
                     [&] { return Value(gateway, Known("tidegate_kv_event_malformed_total")) == 4; }));
  EXPECT_TRUE(Holds(gateway, 0)) << "what it said before cannot be relied on";
  peer.Send(4, Stores(4, 2));
  EXPECT_TRUE(Holds(gateway, 2));
  EXPECT_EQ(gateway.Ask(ChatPrompt(1)).status, 200);
}

TEST_F(KvEvents, APeerThatSendsTooMuchIsDisconnectedAndConnectedAgain) {
  const GatewayProcess gateway(Config(fmt::format("url: '{}'", peer.url())));
  peer.AwaitSubscriber();
  const auto exact = [&](double replicas) {
    return Within(RawClient::kPatience,
                  [&] { return Value(gateway, "tidegate_exact_replicas") == replicas; });
  };
  ASSERT_TRUE(exact(1));
  peer.Send(0, Stores(0, 3));
  ASSERT_TRUE(Holds(gateway, 3));
  peer.SendBytes(KvPeer::Number(1), std::string(5 << 20, 'x'));
  EXPECT_TRUE(exact(0));
  EXPECT_EQ(gateway.Ask(ChatPrompt(1)).status, 200);
  peer.AwaitSubscriber();
  EXPECT_TRUE(exact(1));
  peer.Send(2, Stores(2, 4));
  EXPECT_TRUE(Holds(gateway, 4));
}

TEST_F(KvEvents, AReplayThatNeverComesIsGivenUp) {
  const SilentPeer silent;
  const GatewayProcess gateway(
      Config(fmt::format("url: '{}', replay: 'tcp://127.0.0.1:{}'", peer.url(), silent.port())));
  peer.AwaitSubscriber();
  EXPECT_TRUE(Within(RawClient::kPatience, [&] { return Value(gateway, "tidegate_exact_replicas") == 1; }));
  peer.Send(7, Stores(7, 2));
  EXPECT_TRUE(Holds(gateway, 2));
}

TEST_F(KvEvents, APeerThatHangsCostsNothing) {
  const SilentPeer silent;
  const TempDir folder;
  std::ofstream(folder / "key") << kEventsAdminKey;
  chmod((folder / "key").c_str(), 0600);
  GatewayConfig config = Config(fmt::format("url: 'tcp://127.0.0.1:{}'", silent.port()));
  config.sections = fmt::format("admin: {{bootstrap_key: \"file:{}\"}}\n", folder / "key");
  GatewayProcess gateway(config);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.Ask(ChatPrompt(i % 4)).status, 200);
  EXPECT_GT(Ask(gateway, ChatPrompt(1)).predicted, 500) << "guessed, as without events";
  const Json endpoints =
      gateway
          .AskAdmin(Get("/admin/v1/endpoints", fmt::format("Authorization: Bearer {}\r\n", kEventsAdminKey)))
          .json();
  EXPECT_EQ(endpoints["data"][0]["kv_events"], "connecting") << endpoints;
  EXPECT_EQ(Value(gateway, "tidegate_exact_replicas"), 0);
  EXPECT_EQ(gateway.Stop(), 0);
}

TEST_F(KvEvents, AReloadKeepsWhatIsKnownOrLeaves) {
  peer.Keep(0, Stores(0, 3));
  const std::string events = fmt::format("url: '{}', replay: '{}'", peer.url(), peer.replay_url());
  GatewayProcess gateway(Config(events));
  ASSERT_TRUE(Holds(gateway, 3));
  gateway.Reload();
  EXPECT_TRUE(Holds(gateway, 3));
  EXPECT_EQ(Value(gateway, Known("tidegate_kv_event_connects_total")), 1);
  gateway.WriteConfig({.replicas = {engine.port()}, .model = kModel});
  gateway.Reload();
  EXPECT_EQ(gateway.Metric("tidegate_exact_replicas"), 0);
  EXPECT_FALSE(gateway.Metric(Known("tidegate_kv_blocks_known")));
  EXPECT_EQ(gateway.Ask(ChatPrompt(1)).status, 200);
}

}  // namespace
}  // namespace tests
