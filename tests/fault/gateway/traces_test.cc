// Traces of a running gateway: what a collector is told, what the engine is told, and that a collector that
// is dead, slow or in a bad mood costs no request anything.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "tests/support/engine_process.h"
#include "tests/support/fake_upstream.h"
#include "tests/support/gateway_process.h"

namespace tests {
namespace {

constexpr std::string_view kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr std::string_view kCaller = "00f067aa0ba902b7";
constexpr std::string_view kSent = "tidegate_spans_sent_total";
constexpr std::string_view kNotTaken = "tidegate_spans_dropped_total{why=\"not_taken\"}";
constexpr std::string_view kQueueFull = "tidegate_spans_dropped_total{why=\"queue_full\"}";

// A batch is tried five times, with waits between.
constexpr milliseconds kGivesUp{60'000};

std::string Sampled(bool sampled = true) {
  return fmt::format("traceparent: 00-{}-{}-0{}\r\ntracestate: vendor=1\r\n", kTrace, kCaller,
                     sampled ? 1 : 0);
}

struct Traces : testing::Test {
  GatewayConfig Config(uint16_t collector, std::string_view more = "") const {
    return {.replicas = {engine.port()},
            .sections = fmt::format("telemetry: {{otlp: {{endpoint: \"http://127.0.0.1:{}\"{}}}}}\n",
                                    collector, more)};
  }
  // The span of the request with this id, once the collector has it.
  static std::optional<Json> SpanOf(const FakeUpstream& collector, std::string_view request) {
    std::optional<Json> found;
    tests::Within(RawClient::kPatience, [&] {
      for (const Json& span : SpansOf(collector)) {
        if (Attributes(span)["tidegate.request_id"] == request) found = span;
      }
      return found.has_value();
    });
    return found;
  }
  static std::vector<Json> SpansOf(const FakeUpstream& collector) {
    std::vector<Json> all;
    for (const FakeUpstream::Request& post : collector.seen()) {
      EXPECT_THAT(post.head, testing::StartsWith("POST /v1/traces HTTP/1.1\r\n"));
      EXPECT_EQ(post.field("content-type"), "application/json");
      const Json body = Json::parse(post.body);
      for (const Json& resource : body["resourceSpans"]) {
        EXPECT_EQ(Attributes(resource["resource"])["service.name"], "tidegate");
        for (const Json& scope : resource["scopeSpans"]) {
          for (const Json& span : scope["spans"]) all.push_back(span);
        }
      }
    }
    return all;
  }
  static std::map<std::string, Json> Attributes(const Json& of) {
    std::map<std::string, Json> all;
    for (const Json& attribute : of["attributes"]) all[attribute["key"]] = *attribute["value"].begin();
    return all;
  }
  std::string EngineSaw(const std::string& name) const {
    const Json stats = engine.Stats();
    for (const Json& header : stats["last_request"]["headers"]) {
      if (header[0] == name) return header[1];
    }
    return "";
  }
  // Sends so many requests, one after the other. One that waited for a collector's time-out (10 s) would end
  // the test.
  static void Ask(const GatewayProcess& gateway, int requests) {
    RawClient client = gateway.Connect();
    for (int i = 0; i < requests; ++i) {
      EXPECT_EQ(client.Ask(Chat({{"max_tokens", 1}}, Sampled())).status, 200);
    }
  }

  EngineProcess engine;
};

TEST_F(Traces, ASpanTellsOfACallInTheWordsOfTheConvention) {
  const FakeUpstream collector(JsonAnswer("{}"));
  const GatewayProcess gateway(Config(collector.port(), ", sample_ratio: 0"));
  const Answer answer =
      gateway.Ask(Chat({{"max_tokens", 5}, {"ignore_eos", true}, {"stream", true}}, Sampled()));
  ASSERT_EQ(answer.status, 200);
  const std::string traceparent = EngineSaw("traceparent");
  const std::optional<Json> span = SpanOf(collector, answer.header("x-request-id"));
  ASSERT_TRUE(span);
  EXPECT_EQ((*span)["traceId"], kTrace);
  EXPECT_EQ((*span)["parentSpanId"], kCaller);
  EXPECT_EQ((*span)["traceState"], "vendor=1");
  EXPECT_EQ((*span)["name"], "chat chat-small");
  const std::string id = (*span)["spanId"];
  EXPECT_NE(id, kCaller);
  EXPECT_EQ(traceparent, fmt::format("00-{}-{}-01", kTrace, id)) << "the engine's parent is our span";
  EXPECT_EQ(EngineSaw("tracestate"), "vendor=1");
  EXPECT_LT(std::stoull((*span)["startTimeUnixNano"].get<std::string>()),
            std::stoull((*span)["endTimeUnixNano"].get<std::string>()));

  std::map<std::string, Json> attributes = Attributes(*span);
  EXPECT_EQ(attributes["gen_ai.operation.name"], "chat");
  EXPECT_EQ(attributes["gen_ai.request.model"], "chat-small");
  EXPECT_EQ(attributes["gen_ai.response.model"], "chat-small");
  EXPECT_EQ(attributes["gen_ai.usage.output_tokens"], "5");
  EXPECT_EQ(attributes["gen_ai.response.finish_reasons"]["values"][0]["stringValue"], "length");
  EXPECT_EQ(attributes["http.response.status_code"], "200");
  EXPECT_EQ(attributes["server.address"], "127.0.0.1");
  EXPECT_EQ(attributes["server.port"], std::to_string(engine.port()));
  EXPECT_EQ(attributes["tidegate.tenant"], "demo");
  EXPECT_EQ(attributes["tidegate.replica"], "r0");
  for (const char* name : {"gen_ai.usage.input_tokens", "tidegate.time_to_first_token"}) {
    EXPECT_TRUE(attributes.contains(name)) << name;
  }
  EXPECT_FALSE(attributes.contains("error.type"));
}

TEST_F(Traces, AFailureIsReported) {
  const FakeUpstream collector(JsonAnswer("{}"));
  const GatewayProcess gateway(Config(collector.port()));
  const std::string long_name(100'000, 'm');
  for (const std::string& model : {std::string("nobody"), long_name}) {
    const Answer answer = gateway.Ask(Chat({{"model", model}}, Sampled()));
    ASSERT_EQ(answer.status, 404);
    const std::optional<Json> span = SpanOf(collector, answer.header("x-request-id"));
    ASSERT_TRUE(span);
    EXPECT_EQ(Attributes(*span)["error.type"], "model_not_found");
    EXPECT_EQ((*span)["status"]["code"], 2);
    EXPECT_LT(span->dump().size(), 4096u) << "what a client makes up is bounded";
  }
}

TEST_F(Traces, TheCallersDecisionHoldsAndAnotherIsMadeWithoutOne) {
  const FakeUpstream collector(JsonAnswer("{}"));
  const GatewayProcess gateway(Config(collector.port(), ", sample_ratio: 1"));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}}, Sampled(false))).status, 200);
  EXPECT_THAT(EngineSaw("traceparent"),
              testing::AllOf(testing::StartsWith(fmt::format("00-{}-", kTrace)), testing::EndsWith("-00"),
                             testing::Not(testing::HasSubstr(kCaller))));
  const Answer root = gateway.Ask(Chat({{"max_tokens", 1}}, "traceparent: 00-nonsense-01\r\n"));
  const std::string sent = EngineSaw("traceparent");
  const std::optional<Json> span = SpanOf(collector, root.header("x-request-id"));
  ASSERT_TRUE(span);
  EXPECT_FALSE(span->contains("parentSpanId"));
  EXPECT_EQ(sent, fmt::format("00-{}-{}-01", (*span)["traceId"].get<std::string>(),
                              (*span)["spanId"].get<std::string>()));
  for (const Json& other : SpansOf(collector)) EXPECT_NE(other["traceId"], kTrace) << "it is not sampled";
}

TEST_F(Traces, ADeadCollectorCostsNoRequestAnything) {
  const tests::FreePort port;
  const GatewayProcess gateway(Config(port.number()));
  Ask(gateway, 200);
  EXPECT_TRUE(tests::Within(kGivesUp, [&] { return gateway.Metric(kNotTaken).value_or(0) >= 200; }));
  EXPECT_EQ(gateway.Metric(kSent), 0);
  // It is back: what comes from now on arrives.
  const FakeUpstream collector(JsonAnswer("{}"), port.number());
  const Answer answer = gateway.Ask(Chat({{"max_tokens", 1}}, Sampled()));
  EXPECT_TRUE(SpanOf(collector, answer.header("x-request-id")));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(kSent) == 1; }));
}

TEST_F(Traces, ASlowCollectorCostsNoRequestAnythingAndSpansAreDroppedWithinABound) {
  const FakeUpstream collector("");  // which takes no connection
  GatewayProcess gateway(Config(collector.port()));
  Ask(gateway, 100);
  const size_t before = gateway.process().ResidentBytes();
  RawClient client = gateway.Connect();
  constexpr int kAtOnce = 100;
  std::string many;
  for (int i = 0; i < kAtOnce; ++i) many += Get("/v1/models", Sampled());
  EXPECT_TRUE(tests::Within(kGivesUp, [&] {
    EXPECT_TRUE(client.Send(many));
    for (int i = 0; i < kAtOnce; ++i) EXPECT_EQ(client.Read().status, 200);
    return testing::Test::HasFailure() || gateway.Metric(kQueueFull).value_or(0) > 0;
  }));
  EXPECT_LE(gateway.Metric("tidegate_spans_queued_bytes").value_or(1e9), 8 << 20);
  if (!tests::kSanitized) EXPECT_LT(gateway.process().ResidentBytes(), before + (64 << 20));
  EXPECT_EQ(gateway.Ask(Chat({{"max_tokens", 1}}, Sampled())).status, 200);
  const std::optional<int> status = gateway.Stop();
  EXPECT_EQ(status, 0) << "and it does not hold up the end";
}

TEST_F(Traces, WhatACollectorRefusesIsDroppedAndCounted) {
  FakeUpstream collector(JsonAnswer("{}", 400));
  const GatewayProcess gateway(Config(collector.port()));
  ASSERT_EQ(gateway.Ask(Chat({{"max_tokens", 1}}, Sampled())).status, 200);
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(kNotTaken) == 1; }));
  EXPECT_EQ(collector.requests(), 1u) << "the same again would be refused again";
  collector.Say(JsonAnswer("{}", 503));
  const Answer again = gateway.Ask(Chat({{"max_tokens", 1}}, Sampled()));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return collector.requests() >= 2; }));
  collector.Say(JsonAnswer("{}"));
  EXPECT_TRUE(tests::Within(RawClient::kPatience, [&] { return gateway.Metric(kSent) == 1; }))
      << "what it cannot take now is tried again";
  EXPECT_TRUE(SpanOf(collector, again.header("x-request-id")));
}

}  // namespace
}  // namespace tests
