#include "gateway/telemetry/otlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/http_peer.h"

namespace gateway::telemetry {
namespace {

using namespace std::chrono_literals;
using net::Task;
using nlohmann::json;
using ::testing::HasSubstr;
using tests::Eventually;
using tests::HttpPeer;
using tests::RunOnLoop;
using tests::TestLoop;

Span Named(const std::string& request_id) {
  Span span;
  span.context = StartTrace({}, Sampler(1));
  span.operation = "chat";
  span.request_id = request_id;
  return span;
}

OtlpExporter::Options Fast(const HttpPeer& peer) {
  OtlpExporter::Options options;
  options.endpoint = peer.url("/v1/traces");
  options.batch_spans = 10;
  options.batch_interval = 20ms;
  options.timeout = 10s;
  options.min_backoff = 10ms;
  options.max_backoff = 20ms;
  options.tries = 3;
  return options;
}

const json& SpansOf(const json& body) {
  return body["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

size_t Spans(const HttpPeer& peer) {
  size_t spans = 0;
  for (const auto& request : peer.seen) spans += SpansOf(json::parse(request.body)).size();
  return spans;
}

TEST(RenderOtlp, UsesTheGenAiConventionsInOtlpsJson) {
  Span span;
  span.context = *ParseTraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1");
  span.parent = SpanId{1, 2, 3, 4, 5, 6, 7, 8};
  span.start = conf::TimePoint(1'700'000'000'123'456'789ns);
  span.end = span.start + 1500ms;
  span.operation = "chat";
  span.request_model = "chat-small";
  span.response_model = "llama-8b";
  span.input_tokens = 12;
  span.output_tokens = 0;
  span.finish_reasons = {"stop", "length"};
  span.server_address = "10.0.0.5";
  span.server_port = 8000;
  span.status_code = 200;
  span.tenant = "acme/search";
  span.replica = "chat-small-1";
  span.queued = 250ms;
  span.attempts = 2;
  const json body = json::parse(RenderOtlp(std::span(&span, 1), "tidegate", "gw-1"));
  const json expected = json::parse(R"({
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "parentSpanId": "0102030405060708",
    "traceState": "a=1", "name": "chat chat-small", "kind": 2,
    "startTimeUnixNano": "1700000000123456789", "endTimeUnixNano": "1700000001623456789",
    "attributes": [
      {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
      {"key": "gen_ai.request.model", "value": {"stringValue": "chat-small"}},
      {"key": "gen_ai.response.model", "value": {"stringValue": "llama-8b"}},
      {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}},
      {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "0"}},
      {"key": "gen_ai.response.finish_reasons",
       "value": {"arrayValue": {"values": [{"stringValue": "stop"}, {"stringValue": "length"}]}}},
      {"key": "server.address", "value": {"stringValue": "10.0.0.5"}},
      {"key": "server.port", "value": {"intValue": "8000"}},
      {"key": "http.response.status_code", "value": {"intValue": "200"}},
      {"key": "tidegate.tenant", "value": {"stringValue": "acme/search"}},
      {"key": "tidegate.replica", "value": {"stringValue": "chat-small-1"}},
      {"key": "tidegate.queue.duration", "value": {"doubleValue": 0.25}},
      {"key": "tidegate.attempts", "value": {"intValue": "2"}}]})");
  EXPECT_EQ(SpansOf(body), json::array({expected}));
  const json resource = body["resourceSpans"][0]["resource"]["attributes"];
  EXPECT_EQ(resource[0], json::parse(R"({"key": "service.name", "value": {"stringValue": "tidegate"}})"));
  EXPECT_EQ(resource[2], json::parse(R"({"key": "service.instance.id", "value": {"stringValue": "gw-1"}})"));
}

TEST(RenderOtlp, MarksErrorsAndSurvivesTextThatIsNotUtf8) {
  Span span;
  span.operation = "chat";
  span.error_type = "upstream_failed";
  span.response_model = "\xff\xfe";
  const json body = json::parse(RenderOtlp(std::span(&span, 1), "tidegate", ""));
  const json& rendered = SpansOf(body)[0];
  EXPECT_EQ(rendered["status"]["code"], 2);
  EXPECT_EQ(rendered["name"], "chat");
  EXPECT_FALSE(rendered.contains("parentSpanId"));
}

TEST(OtlpExporter, SendsWhatEveryThreadGivesItInBatches) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    OtlpExporter::Options options = Fast(peer);
    options.headers = {{"authorization", "Bearer s3cret"}};
    options.batch_interval = 100ms;
    OtlpExporter exporter(loop, options);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&exporter] {
        for (int i = 0; i < 25; ++i) EXPECT_TRUE(exporter.Enqueue(Named(std::to_string(i))));
      });
    }
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().sent == 100; }));
    EXPECT_EQ(Spans(peer), 100u);
    for (const auto& request : peer.seen) {
      EXPECT_LE(SpansOf(json::parse(request.body)).size(), 10u);
      EXPECT_EQ(request.target, "/v1/traces");
      EXPECT_EQ(request.headers.at("content-type"), "application/json");
      EXPECT_EQ(request.headers.at("authorization"), "Bearer s3cret");
    }
    EXPECT_EQ(exporter.status().queued_bytes, 0u);
    co_await exporter.Stop();
    peer.Stop();
  });
}

TEST(OtlpExporter, SendsAFullBatchWithoutWaitingAndTheRestWhenStopped) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    OtlpExporter::Options options = Fast(peer);
    options.batch_interval = 1h;
    OtlpExporter exporter(loop, options);
    for (int i = 0; i < 13; ++i) exporter.Enqueue(Named("r"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().sent == 10; }));
    EXPECT_EQ(exporter.status().queued, 3u);
    co_await exporter.Stop();
    EXPECT_EQ(Spans(peer), 13u);
    peer.Stop();
  });
}

TEST(OtlpExporter, TriesAgainWhatTheCollectorCannotTakeAndDropsWhatItRefuses) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    OtlpExporter exporter(loop, Fast(peer));
    for (const int status : {429, 503}) {
      const uint64_t sent = exporter.status().sent;
      peer.status = [&peer, status, first = peer.seen.size() + 1] {
        return peer.seen.size() == first ? status : 200;
      };
      exporter.Enqueue(Named("again"));
      EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().sent == sent + 1; })) << status;
    }
    EXPECT_EQ(exporter.status().failures, 2u);
    EXPECT_EQ(exporter.status().dropped_sent, 0u);
    peer.status = [] { return 400; };
    exporter.Enqueue(Named("refused"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().dropped_sent == 1; }));
    EXPECT_EQ(exporter.status().failures, 3u);
    EXPECT_THAT(exporter.status().last_error, HasSubstr("/v1/traces answered 400"));
    peer.status = [] { return 500; };
    exporter.Enqueue(Named("given up"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().dropped_sent == 2; }));
    EXPECT_EQ(exporter.status().failures, 6u);
    co_await exporter.Stop();
    peer.Stop();
  });
}

TEST(OtlpExporter, TriesAgainWhatTheCollectorDoesNotAnswerInTime) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    OtlpExporter::Options options = Fast(peer);
    options.timeout = 200ms;
    options.tries = 1000;
    OtlpExporter exporter(loop, options);
    peer.status = [&peer] { return peer.seen.size() == 1 ? 0 : 200; };
    exporter.Enqueue(Named("again"));
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().sent == 1; }));
    EXPECT_GE(exporter.status().failures, 1u);
    EXPECT_EQ(exporter.status().dropped_sent, 0u);
    co_await exporter.Stop();
    peer.Stop();
  });
}

TEST(OtlpExporter, DropsAndCountsWhatDoesNotFitWhileTheCollectorIsGone) {
  RunOnLoop([](TestLoop& loop) -> Task<void> {
    HttpPeer& peer = loop.Make<HttpPeer>();
    peer.Listen();
    peer.Stop();
    OtlpExporter::Options options = Fast(peer);
    options.max_queued_bytes = 20 * Named("x").bytes();
    options.tries = 1000;
    OtlpExporter exporter(loop, options);
    for (int i = 0; i < 100; ++i) exporter.Enqueue(Named("x"));
    EXPECT_EQ(exporter.status().dropped_queue, 80u);
    EXPECT_LE(exporter.status().queued_bytes, options.max_queued_bytes);
    EXPECT_TRUE(co_await Eventually(loop, [&] { return exporter.status().failures >= 3; }));
    // It does not hold up the end.
    co_await exporter.Stop();
    EXPECT_EQ(exporter.status().sent, 0u);
  });
}

}  // namespace
}  // namespace gateway::telemetry
