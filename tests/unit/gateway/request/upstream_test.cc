#include "gateway/request/serve/upstream.h"
#include "conf/json_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/request/serve/prefill_transfer.h"
#include "tests/unit/gateway/request/request_world.h"

namespace gateway {
namespace {

using nlohmann::json;
using Kind = router::Event::Kind;

constexpr std::string_view kChat =
    R"({"model":"chat","max_tokens":7,"messages":[{"role":"user","content":"Hello"}],"own":1})";
constexpr std::string_view kMessages =
    R"({"model":"chat","max_tokens":7,"messages":[{"role":"user","content":"Hello"}]})";

// A request that the replica got.
struct Seen {
  std::string path;
  json body;
  std::string authorization;
  std::string cookie;
};

struct Upstreams : testing::Test {
  RequestWorld::Replica Answering(int status, std::string body) {
    return [this, status, body](const net::http::Exchange& exchange) -> RequestWorld::Answer {
      seen.push_back({std::string(exchange.path()), conf::ParseJson(exchange.body()),
                      std::string(exchange.head().Find("authorization")),
                      std::string(exchange.head().Find("cookie"))});
      return {status, body};
    };
  }
  void ConfigureChat(uint16_t port, std::string_view endpoint) {
    world.Configure(fmt::format(
        "  - {{name: chat, endpoints: [{{name: r, url: 'http://127.0.0.1:{}', {}}}]}}", port, endpoint));
  }
  router::Attempt AttemptOf(TestRequest& request) {
    return {world.runtime->routes(), world.runtime->load(), request.model, {}, {}, world.shard->rng};
  }
  UpstreamTry Try(TestRequest& request, const router::Attempt& attempt) {
    return {.replica = world.runtime->routes().replica(world.ReplicaNamed("r")),
            .model = request.model,
            .attempt = attempt,
            .cancel = request.client.cancel(),
            .deadline = {}};
  }
  router::Event Send(Upstream& upstream) {
    if (upstream.translates()) EXPECT_FALSE(world.Await(upstream.TranslateBody()));
    return world.Await(upstream.Send(false, net::Now()));
  }

  RequestWorld world;
  std::vector<Seen> seen;
};

TEST_F(Upstreams, TheReplicaGetsItsOwnNameOfTheModelAndNoCredentials) {
  ConfigureChat(world.StartReplica(Answering(200, "{}")), "engine: vllm, model: Qwen/Qwen3-8B");
  TestRequest request(world, router::Api::kChatCompletions, kChat,
                      "authorization: Bearer secret\r\ncookie: a=b\r\n");
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  const router::Event event = Send(upstream);
  EXPECT_EQ(event.kind, Kind::kStatus);
  EXPECT_EQ(event.status, 200);
  EXPECT_EQ(upstream.carry(), Carry::kAsIs);
  EXPECT_TRUE(upstream.sent() && upstream.answered());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].path, "/v1/chat/completions");
  EXPECT_EQ(seen[0].body["model"], "Qwen/Qwen3-8B");
  EXPECT_EQ(seen[0].body["own"], 1) << "members that the gateway does not know are passed on";
  EXPECT_EQ(seen[0].authorization, "");
  EXPECT_EQ(seen[0].cookie, "");
  upstream.Release(net::Now());
}

TEST_F(Upstreams, ARefusalIsReadWhole) {
  ConfigureChat(world.StartReplica(Answering(429, R"({"error":{"message":"busy"}})")), "engine: vllm");
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  EXPECT_EQ(Send(upstream).status, 429);
  EXPECT_EQ(upstream.refusal().status, 429);
  EXPECT_EQ(upstream.refusal().body, R"({"error":{"message":"busy"}})");
  EXPECT_EQ(upstream.refusal().content_type, "application/json");
  upstream.Release(net::Now());
}

TEST_F(Upstreams, MessagesAreSentAsChatToAnEngineWithOnlyChat) {
  ConfigureChat(world.StartReplica(Answering(200, "{}")), "engine: chat-only, model: m");
  TestRequest request(world, router::Api::kMessages, kMessages);
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  EXPECT_EQ(Send(upstream).status, 200);
  EXPECT_EQ(upstream.carry(), Carry::kMessagesAsChat);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].path, "/v1/chat/completions");
  EXPECT_EQ(seen[0].body["model"], "m");
  EXPECT_EQ(seen[0].body["messages"][0]["content"], "Hello");
  upstream.Release(net::Now());
}

TEST_F(Upstreams, WhatChatCannotExpressIsTheClientsFault) {
  ConfigureChat(1, "engine: chat-only");
  TestRequest request(
      world, router::Api::kMessages,
      R"({"model":"chat","max_tokens":7,"container":"c","messages":[{"role":"user","content":"Hello"}]})");
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  const std::optional<Failure> failure = world.Await(upstream.TranslateBody());
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error.param, "container");
}

// A large body can take seconds, and the shard is everybody's.
TEST_F(Upstreams, TheLoopGoesOnWhileALargeBodyIsTranslated) {
  ConfigureChat(world.StartReplica(Answering(200, "{}")), "engine: chat-only");
  const std::string text(2u << 20, 'x');
  TestRequest request(
      world, router::Api::kMessages,
      fmt::format(R"({{"model":"chat","max_tokens":7,"messages":[{{"role":"user","content":"{}"}}]}})",
                  text));
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  bool translated = false;
  bool went_on = false;
  const auto prepare = [&]() -> net::Task<bool> {
    world.shard->loop.Post([&] { went_on = !translated; });
    const std::optional<Failure> failure = co_await upstream.TranslateBody();
    translated = true;
    co_return failure.has_value();
  };
  EXPECT_FALSE(world.Await(prepare()));
  EXPECT_TRUE(went_on);
  EXPECT_EQ(world.Await(upstream.Send(false, net::Now())).status, 200);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].body["messages"][0]["content"], text);
  upstream.Release(net::Now());
}

TEST_F(Upstreams, AClientThatLeavesDuringTheTranslationIsNotServed) {
  ConfigureChat(world.StartReplica(Answering(200, "{}")), "engine: chat-only");
  TestRequest request(world, router::Api::kMessages, kMessages);
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  EXPECT_FALSE(world.Await(upstream.TranslateBody()));
  request.client.cancel().MarkCancelled();
  EXPECT_EQ(world.Await(upstream.Send(false, net::Now())).kind, Kind::kClientGone);
  EXPECT_TRUE(seen.empty());
}

TEST_F(Upstreams, AReplicaThatDoesNotListenIsAFailedConnection) {
  ConfigureChat(1, "engine: vllm");
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  const router::Attempt attempt = AttemptOf(request);
  Upstream upstream(request.outgoing(), Try(request, attempt));
  EXPECT_EQ(Send(upstream).kind, Kind::kConnectFailed);
  EXPECT_FALSE(upstream.sent());
}

// --- PrefillTransfer ---

struct Transfers : Upstreams {
  // A pool with a prefill replica `p` and a decode replica `r`.
  void ConfigurePool(uint16_t prefill) {
    world.Configure(
        fmt::format("  - name: chat\n    endpoints:\n"
                    "      - {{name: p, url: 'http://127.0.0.1:{}', engine: vllm, role: prefill}}\n"
                    "      - {{name: r, url: 'http://127.0.0.1:2', engine: vllm, role: decode}}\n",
                    prefill));
  }
  router::Step PrefillAt(TestRequest& request) {
    return {.kind = router::Step::Kind::kTry,
            .replica = world.ReplicaNamed("r"),
            .model = request.model,
            .prefill = world.ReplicaNamed("p")};
  }
  router::Event Computed(TestRequest& request, PrefillTransfer& transfer) {
    const router::Attempt attempt = AttemptOf(request);
    return world.Await(transfer.Compute(PrefillAt(request), attempt, net::Now()));
  }
  PromptPrefix prefix;
  Timeline at = [] {
    Timeline line;
    line.until = net::Now() + std::chrono::hours(1);
    return line;
  }();
};

TEST_F(Transfers, TheParametersOfThePrefillReplicaGoToTheReplicaThatAnswers) {
  ConfigurePool(world.StartReplica(Answering(
      200,
      R"({"usage":{"prompt_tokens":9,"completion_tokens":1},"kv_transfer_params":{"remote_engine_id":"e"}})")));
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  PrefillTransfer transfer(request.outgoing(), prefix, at);
  EXPECT_EQ(Computed(request, transfer).kind, Kind::kCompleted);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].body["max_tokens"], 1) << "only the prompt is computed";
  EXPECT_EQ(seen[0].body["kv_transfer_params"]["do_remote_decode"], true);
  EXPECT_EQ(transfer.members(), R"("kv_transfer_params":{"remote_engine_id":"e"},)");
  EXPECT_EQ(transfer.computed_at(), world.ReplicaNamed("p"));
  EXPECT_FALSE(transfer.params_missing());
  transfer.Forget();
  EXPECT_EQ(transfer.members(), "");
  EXPECT_FALSE(transfer.computed_at());
}

TEST_F(Transfers, AnAnswerWithoutParametersIsAFailedTransfer) {
  ConfigurePool(world.StartReplica(Answering(200, R"({"usage":{"prompt_tokens":9,"completion_tokens":1}})")));
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  PrefillTransfer transfer(request.outgoing(), prefix, at);
  EXPECT_EQ(Computed(request, transfer).kind, Kind::kCompleted);
  EXPECT_TRUE(transfer.params_missing());
  EXPECT_EQ(transfer.members(), "");
}

TEST_F(Transfers, AnAnswerThatIsNotJsonIsBroken) {
  ConfigurePool(world.StartReplica(Answering(200, "no json")));
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  PrefillTransfer transfer(request.outgoing(), prefix, at);
  EXPECT_EQ(Computed(request, transfer).kind, Kind::kBroken);
  EXPECT_FALSE(transfer.computed_at());
}

TEST_F(Transfers, ARefusalIsKeptForTheClient) {
  ConfigurePool(world.StartReplica(Answering(400, R"({"error":{"message":"too long"}})")));
  TestRequest request(world, router::Api::kChatCompletions, kChat);
  PrefillTransfer transfer(request.outgoing(), prefix, at);
  EXPECT_EQ(Computed(request, transfer).status, 400);
  EXPECT_EQ(transfer.refusal().body, R"({"error":{"message":"too long"}})");
}

TEST_F(Transfers, OnlyARequestForOneAnswerToOnePromptCanBeSplit) {
  ConfigurePool(1);
  TestRequest chat(world, router::Api::kChatCompletions, kChat);
  EXPECT_TRUE(CanSplitPrefill(chat.outgoing()));
  TestRequest two(world, router::Api::kChatCompletions,
                  R"({"model":"chat","n":2,"messages":[{"role":"user","content":"Hello"}]})");
  EXPECT_FALSE(CanSplitPrefill(two.outgoing()));
  TestRequest embeddings(world, router::Api::kEmbeddings, R"({"model":"chat","input":"Hello"})");
  EXPECT_FALSE(CanSplitPrefill(embeddings.outgoing()));
}

}  // namespace
}  // namespace gateway
