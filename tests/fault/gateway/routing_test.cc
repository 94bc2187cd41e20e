// Where requests go, over real engines: by what their prompts begin with, and by what engines say of
// themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/engine_process.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

// A prompt of some thousand bytes that begins like no other.
std::string Opening(int conversation) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("{} ", conversation * 1'000'003 + i * 7'919);
  return text;
}

Json Turn(const std::string& content) {
  return {{"role", "user"}, {"content", content}};
}

struct RoutingBy : testing::TestWithParam<const char*> {};

TEST_P(RoutingBy, TheTurnsOfAConversationGoWhereItsBeginningIsCached) {
  const EngineProcess engines[3];
  const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port(), engines[2].port()},
                                .model = fmt::format("routing: {{policy: {}}}", GetParam())});
  std::set<std::string> used;
  for (int conversation = 0; conversation < 12; ++conversation) {
    Json messages = Json::array({Turn(Opening(conversation))});
    std::string home;
    for (int turn = 0; turn < 4; ++turn) {
      const Answer answer = gateway.Ask(Chat({{"messages", messages}, {"max_tokens", 2}}));
      ASSERT_EQ(answer.status, 200) << answer.body;
      if (turn == 0) home = answer.header("x-tidegate-replica");
      EXPECT_EQ(answer.header("x-tidegate-replica"), home) << "turn " << turn;
      if (turn > 0) {
        EXPECT_GT(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 100) << "turn " << turn;
      }
      messages.push_back({{"role", "assistant"}, {"content", "Quite so."}});
      messages.push_back(Turn(fmt::format("And then, in turn {}?", turn)));
      // A bounded load passes over a replica whose last answer is not settled yet.
      ASSERT_TRUE(
          Within(RawClient::kPatience, [&] { return gateway.Metric("tidegate_requests_active") == 0.0; }));
    }
    used.insert(home);
  }
  EXPECT_GT(used.size(), 1u) << "conversations are spread";
  const auto cached = [&](const char* name) {
    return gateway.Metric(fmt::format("{}{{model=\"chat-small\"}}", name));
  };
  const double reported = cached("tidegate_cached_input_tokens_total").value_or(0);
  const double predicted = cached("tidegate_predicted_cached_input_tokens_total").value_or(0);
  EXPECT_GT(predicted, 0.7 * reported);
  EXPECT_LT(predicted, 1.3 * reported);
  EXPECT_GT(gateway.Metric("tidegate_prefix_index_entries").value_or(0), 12 * 4);
}

INSTANTIATE_TEST_SUITE_P(Policies, RoutingBy,
                         testing::Values("cost", "cache-aware", "epp", "consistent-hash"));

// Nobody hashes or remembers prompts for it: what the engine reports of its cache is all that is used.
TEST(RoutingToOne, TheOnlyReplicasCacheIsKnownByWhatItReports) {
  const EngineProcess engine;
  const GatewayProcess gateway({.replicas = {engine.port()}});
  for (int i = 0; i < 20; ++i) {
    const Answer answer = gateway.Ask(
        Chat({{"messages", Json::array({Turn(Opening(1))})}, {"max_tokens", 2}, {"stream", i % 2 == 0}}));
    ASSERT_EQ(answer.status, 200) << answer.body;
    ASSERT_TRUE(gateway.Settles());
  }
  const auto cached = [&](const char* name) {
    return gateway.Metric(fmt::format("{}{{model=\"chat-small\"}}", name)).value_or(0);
  };
  const double reported = cached("tidegate_cached_input_tokens_total");
  const double predicted = cached("tidegate_predicted_cached_input_tokens_total");
  EXPECT_GT(reported, 0);
  EXPECT_GT(predicted, 0.6 * reported);
  EXPECT_LT(predicted, 1.1 * reported);
  EXPECT_EQ(gateway.Metric("tidegate_prefix_index_entries"), 0.0);
}

TEST(RoutingToOne, AFallbackIsAChoice) {
  const EngineProcess engine;
  const GatewayProcess gateway(
      {.replicas = {engine.port()},
       .model = "fallbacks: [other]",
       .models =
           fmt::format("  - {{name: other, endpoints: [{{url: \"http://127.0.0.1:{}\", engine: vllm}}]}}\n",
                       engine.port())});
  const Answer answer = gateway.Ask(Chat({{"messages", Json::array({Turn(Opening(1))})}, {"max_tokens", 2}}));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_GT(gateway.Metric("tidegate_prefix_index_entries").value_or(0), 0);
}

struct Routing : testing::TestWithParam<const char*> {};

TEST_P(Routing, EveryPolicyServesOverLiveReplicasOnly) {
  EngineProcess engines[3];
  const GatewayProcess gateway(
      {.replicas = {engines[0].port(), engines[1].port(), engines[2].port()},
       .model =
           fmt::format("routing: {{policy: {}}}, retries: {{budget: 1, min_per_minute: 1000}}", GetParam())});
  engines[1].Kill();
  for (int i = 0; i < 20; ++i) {
    const Answer answer =
        gateway.Ask(Chat({{"messages", Json::array({Turn(Opening(i))})}, {"stream", i % 2 == 0}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.header("x-tidegate-replica"), "r1");
  }
  EXPECT_TRUE(gateway.Settles());
  for (const char* replica : {"r0", "r1", "r2"}) {
    EXPECT_EQ(gateway.Metric(fmt::format(
                  R"(tidegate_replica_outstanding_requests{{model="chat-small",replica="{}"}})", replica)),
              0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Routing,
                         testing::Values("random", "least-requests", "consistent-hash", "cache-aware", "epp",
                                         "kv-cost", "cost"));

TEST(Scrapes, AnEngineThatOthersKeepBusyIsSpared) {
  const std::vector<std::string> slow = {"--preset", "demo", "--load-time", "0s", "--step-base", "50ms"};
  const EngineProcess busy(slow);
  const EngineProcess idle(slow);
  const GatewayProcess gateway({.replicas = {busy.port(), idle.port()}, .model = "routing: {policy: cost}"});
  std::vector<std::unique_ptr<RawClient>> others;
  for (int i = 0; i < 12; ++i) {
    others.push_back(std::make_unique<RawClient>(busy.port()));
    others.back()->Send(Chat({{"stream", true}, {"max_tokens", 2'000}, {"ignore_eos", true}}));
  }
  const std::string seen = R"(tidegate_replica_requests{model="chat-small",replica="r0"})";
  ASSERT_TRUE(Within(RawClient::kPatience, [&] { return gateway.Metric(seen).value_or(0) >= 12; }));
  for (int i = 0; i < 6; ++i) {
    const Answer answer =
        gateway.Ask(Chat({{"messages", Json::array({Turn(Opening(i))})}, {"max_tokens", 2}}));
    EXPECT_EQ(answer.header("x-tidegate-replica"), "r1");
  }
}

TEST(Scrapes, AnEngineThatSaysNothingIsServedByOurOwnCounts) {
  const EngineProcess engines[2];
  const GatewayProcess gateway({.replicas = {engines[0].port(), engines[1].port()},
                                .model = "routing: {policy: cost}, health: {probe: false}",
                                .endpoint = "engine: trtllm"});
  std::set<std::string> used;
  for (int i = 0; i < 20; ++i) {
    const Answer answer =
        gateway.Ask(Chat({{"messages", Json::array({Turn(Opening(i))})}, {"max_tokens", 2}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    used.insert(answer.header("x-tidegate-replica"));
  }
  EXPECT_EQ(used.size(), 2u);
}

}  // namespace
}  // namespace tests
