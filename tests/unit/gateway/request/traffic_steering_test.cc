#include "gateway/request/traffic_steering.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/gateway/request/request_world.h"

namespace gateway::routing {
namespace {

constexpr std::string_view kModels = R"(
  - name: plain
    endpoints: [{name: a, url: 'http://127.0.0.1:1', engine: vllm}, {name: b, url: 'http://127.0.0.1:2', engine: vllm}]
  - name: sticky
    routing: {sticky: {ttl: 10m}}
    endpoints: [{name: c, url: 'http://127.0.0.1:3', engine: vllm}, {name: d, url: 'http://127.0.0.1:4', engine: vllm}]
  - name: canary
    routing: {canaries: [{track: next, header: x-canary, value: "yes"}]}
    endpoints: [{name: e, url: 'http://127.0.0.1:5', engine: vllm},
                {name: f, url: 'http://127.0.0.1:6', engine: vllm, track: next}])";

std::string Chat(std::string_view model) {
  return fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"Hello"}}]}})", model);
}

struct Steering : testing::Test {
  router::PickFacts Steered(TestRequest& request, TrafficSteering& steering) {
    router::PickFacts facts;
    steering.Steer(request.outgoing(), facts, net::Now());
    return facts;
  }
  router::PickFacts SteeredOnce(std::string_view model, std::string_view headers = "") {
    TestRequest request(world, router::Api::kChatCompletions, Chat(model), headers);
    TrafficSteering steering;
    return Steered(request, steering);
  }
  RequestWorld world;
};

TEST_F(Steering, AModelWithoutRulesLeavesTheChoiceToThePolicy) {
  world.Configure(kModels);
  TestRequest request(world, router::Api::kChatCompletions, Chat("plain"),
                      "x-session-id: s\r\nx-canary: yes\r\n");
  TrafficSteering steering;
  const router::PickFacts facts = Steered(request, steering);
  EXPECT_EQ(facts.track, router::kStable);
  EXPECT_FALSE(facts.of_session);
  EXPECT_EQ(facts.log, nullptr);
  EXPECT_FALSE(steering.wants_outcome());
}

TEST_F(Steering, ASessionStaysAtItsReplica) {
  world.Configure(kModels);
  EXPECT_FALSE(SteeredOnce("sticky", "x-session-id: s\r\n").of_session);
  {
    TestRequest request(world, router::Api::kChatCompletions, Chat("sticky"), "x-session-id: s\r\n");
    TrafficSteering steering;
    Steered(request, steering);
    steering.Sent(request.outgoing(), world.ReplicaNamed("d"), net::Now());
  }
  EXPECT_EQ(SteeredOnce("sticky", "x-session-id: s\r\n").of_session, world.ReplicaNamed("d"));
  EXPECT_FALSE(SteeredOnce("sticky", "x-session-id: t\r\n").of_session) << "another session";
  EXPECT_FALSE(SteeredOnce("plain", "x-session-id: s\r\n").of_session) << "another model";
  EXPECT_FALSE(SteeredOnce("sticky").of_session) << "no session";
}

TEST_F(Steering, TheHeaderOfACanarySelectsItsTrack) {
  world.Configure(kModels);
  EXPECT_EQ(SteeredOnce("canary").track, router::kStable);
  EXPECT_EQ(SteeredOnce("canary", "x-canary: no\r\n").track, router::kStable);
  const router::TrackId next = SteeredOnce("canary", "x-canary: yes\r\n").track;
  EXPECT_NE(next, router::kStable);
  EXPECT_EQ(next, world.runtime->routes().replica(world.ReplicaNamed("f")).track);
}

TEST_F(Steering, ASampledRequestHasItsChoiceLogged) {
  world.Configure(kModels, "routing_log: {sample: 1}");
  TestRequest request(world, router::Api::kChatCompletions, Chat("plain"));
  TrafficSteering steering;
  const router::PickFacts facts = Steered(request, steering);
  ASSERT_NE(facts.log, nullptr);
  EXPECT_FALSE(steering.wants_outcome()) << "no choice was made yet";
  facts.log->picks.emplace_back();
  EXPECT_TRUE(steering.wants_outcome());
}

}  // namespace
}  // namespace gateway::routing
