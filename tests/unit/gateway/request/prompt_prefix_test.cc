#include "gateway/request/prompt_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/gateway/request/request_world.h"

namespace gateway {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Two replicas of `chat`, one of `alone`.
constexpr std::string_view kModels = R"(
  - name: chat
    endpoints: [{name: a, url: 'http://127.0.0.1:1', engine: vllm}, {name: b, url: 'http://127.0.0.1:2', engine: vllm}]
    fallbacks: [{model: alone, on: [unavailable]}]
  - name: alone
    endpoints: [{name: c, url: 'http://127.0.0.1:3', engine: vllm}]
  - name: in-turn
    routing: {policy: round-robin}
    endpoints: [{name: d, url: 'http://127.0.0.1:4', engine: vllm}, {name: e, url: 'http://127.0.0.1:5', engine: vllm}])";

std::string Chat(std::string_view model, const std::string& text) {
  return fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"{}"}}]}})", model, text);
}

struct PromptPrefixes : testing::Test {
  PromptPrefixes() { world.Configure(kModels); }
  PromptPrefix Found(TestRequest& request) {
    PromptPrefix prefix;
    prefix.Find(request.outgoing(), net::Now());
    return prefix;
  }
  RequestWorld world;
  const std::string text = std::string(4000, 'x');
};

TEST_F(PromptPrefixes, APolicyThatIgnoresPromptsNeedsNoBlocks) {
  TestRequest request(world, router::Api::kChatCompletions, Chat("in-turn", text));
  const PromptPrefix prefix = Found(request);
  EXPECT_THAT(prefix.matches(), IsEmpty());
  EXPECT_EQ(prefix.affinity(), 0u);
}

TEST_F(PromptPrefixes, AReplicaCountsAsHoldingAPromptThatWasSentToIt) {
  TestRequest first(world, router::Api::kChatCompletions, Chat("chat", text));
  const PromptPrefix sent = Found(first);
  EXPECT_THAT(sent.matches(), IsEmpty());
  sent.Sent(first.outgoing(), world.ReplicaNamed("b"), first.model, net::Now());
  sent.Computed(first.outgoing(), world.ReplicaNamed("b"), first.model, net::Now());

  TestRequest again(world, router::Api::kChatCompletions, Chat("chat", text + "and more"));
  const PromptPrefix prefix = Found(again);
  ASSERT_THAT(prefix.matches(), SizeIs(1));
  EXPECT_EQ(prefix.matches()[0].replica, world.ReplicaNamed("b"));
  EXPECT_GT(prefix.matches()[0].tokens, again.body.prompt_tokens / 2);
  EXPECT_EQ(prefix.affinity(), sent.affinity()) << "prompts with the same beginning belong together";

  TestRequest other(world, router::Api::kChatCompletions, Chat("chat", "y" + text));
  EXPECT_THAT(Found(other).matches(), IsEmpty());
}

TEST_F(PromptPrefixes, ATryOnAFallbackTeachesNothing) {
  TestRequest first(world, router::Api::kChatCompletions, Chat("chat", text));
  const PromptPrefix prefix = Found(first);
  const ModelId fallback = *world.runtime->routes().Find("alone");
  prefix.Sent(first.outgoing(), world.ReplicaNamed("c"), fallback, net::Now());
  prefix.Computed(first.outgoing(), world.ReplicaNamed("c"), fallback, net::Now());
  TestRequest again(world, router::Api::kChatCompletions, Chat("chat", text));
  EXPECT_THAT(Found(again).matches(), IsEmpty());
}

TEST_F(PromptPrefixes, TheOnlyReplicaCountsAsHoldingTheShareThatItReports) {
  TestRequest request(world, router::Api::kChatCompletions, Chat("alone", text));
  const PromptPrefix prefix = Found(request);
  ASSERT_THAT(prefix.matches(), SizeIs(1));
  EXPECT_EQ(prefix.matches()[0].replica, world.ReplicaNamed("c"));
  EXPECT_EQ(prefix.matches()[0].tokens,
            request.outgoing().model().estimate->Cached(request.body.prompt_tokens));
}

TEST_F(PromptPrefixes, ASessionIsTheAffinityOfItsRequests) {
  TestRequest one(world, router::Api::kChatCompletions, Chat("chat", text), "x-session-id: s\r\n");
  TestRequest two(world, router::Api::kChatCompletions, Chat("chat", "another prompt"),
                  "x-session-id: s\r\n");
  EXPECT_EQ(Found(one).affinity(), Found(two).affinity());
  TestRequest other(world, router::Api::kChatCompletions, Chat("chat", text), "x-session-id: t\r\n");
  EXPECT_NE(Found(one).affinity(), Found(other).affinity());
}

TEST_F(PromptPrefixes, PromptsAreLearnedOnlyFromAnEngineThatReportsItsCache) {
  const router::prefix::MemberId member = *world.runtime->load()[world.ReplicaNamed("a")].member;
  TestRequest request(world, router::Api::kChatCompletions, Chat("chat", text));
  const PromptPrefix prefix = Found(request);
  int added = 0;
  world.shared.computed.on_first = [&added] { ++added; };
  prefix.Computed(request.outgoing(), world.ReplicaNamed("a"), request.model, net::Now());
  EXPECT_EQ(added, 0);
  world.shared.prefixes.SetReporting(member, true);
  prefix.Computed(request.outgoing(), world.ReplicaNamed("a"), request.model, net::Now());
  EXPECT_EQ(added, 1);
}

}  // namespace
}  // namespace gateway
