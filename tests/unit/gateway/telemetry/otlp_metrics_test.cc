// Metrics over OTLP: their form, and what becomes of a report that the collector does not take.
#include "gateway/telemetry/otlp_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/http_peer.h"

namespace gateway::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Labelled(std::string name, std::string value) {
  ClientMetric metric;
  metric.label.push_back({std::move(name), std::move(value)});
  return metric;
}

std::vector<MetricFamily> SomeFamilies() {
  ClientMetric requests = Labelled("model", "chat\"\n");
  requests.counter.value = 3;
  ClientMetric share;
  share.gauge.value = 0.25;
  ClientMetric unknown;
  unknown.gauge.value = std::numeric_limits<double>::quiet_NaN();
  ClientMetric duration;
  duration.histogram.sample_count = 6;
  duration.histogram.sample_sum = 4.5;
  duration.histogram.bucket = {{2, 0.5}, {5, 1.0}};
  ClientMetric commits;
  commits.summary.sample_count = 7;
  commits.summary.sample_sum = 1.5;
  return {{"tidegate_requests_total", "Requests", MetricType::Counter, {requests}},
          {"tidegate_share", "A share", MetricType::Gauge, {share, unknown}},
          {"tidegate_duration_seconds", "Time", MetricType::Histogram, {duration}},
          {"tidegate_commit_seconds", "Time", MetricType::Summary, {commits}}};
}

OtlpMetrics::Options OftenTo(const tests::HttpPeer& peer) {
  OtlpMetrics::Options options;
  options.target.endpoint = peer.url("/v1/metrics");
  options.target.headers = {{"authorization", "Bearer s3cret"}};
  options.interval = std::chrono::milliseconds(20);
  return options;
}

TEST(RenderOtlpMetrics, KeepsThePrometheusNamesAndCountsFromTheStart) {
  const conf::TimePoint began = conf::FromUnixMicros(1'700'000'000'000'000);
  const std::string text =
      RenderOtlpMetrics(SomeFamilies(), began, began + std::chrono::seconds(60), "tidegate", "gw-1");
  const nlohmann::json body = nlohmann::json::parse(text);
  const nlohmann::json& scope = body["resourceMetrics"][0]["scopeMetrics"][0];
  EXPECT_EQ(body["resourceMetrics"][0]["resource"]["attributes"][2],
            nlohmann::json::parse(R"({"key": "service.instance.id", "value": {"stringValue": "gw-1"}})"));
  EXPECT_EQ(scope["metrics"], nlohmann::json::parse(R"([
    {"name": "tidegate_requests_total", "description": "Requests",
     "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
       {"attributes": [{"key": "model", "value": {"stringValue": "chat\"\n"}}],
        "startTimeUnixNano": "1700000000000000000", "timeUnixNano": "1700000060000000000", "asDouble": 3}]}},
    {"name": "tidegate_share", "description": "A share",
     "gauge": {"dataPoints": [{"attributes": [], "timeUnixNano": "1700000060000000000", "asDouble": 0.25}]}},
    {"name": "tidegate_duration_seconds", "description": "Time",
     "histogram": {"aggregationTemporality": 2, "dataPoints": [
       {"attributes": [], "startTimeUnixNano": "1700000000000000000", "timeUnixNano": "1700000060000000000",
        "count": "6", "sum": 4.5, "bucketCounts": ["2", "3", "1"], "explicitBounds": [0.5, 1]}]}},
    {"name": "tidegate_commit_seconds", "description": "Time",
     "summary": {"dataPoints": [
       {"attributes": [], "startTimeUnixNano": "1700000000000000000", "timeUnixNano": "1700000060000000000",
        "count": "7", "sum": 1.5}]}}])"));
}

TEST(OtlpMetrics, SendsAReportAtEachIntervalAndALastOneWhenStopped) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    peer.Listen();
    OtlpMetrics metrics(loop, OftenTo(peer), SomeFamilies);
    metrics.Begin();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return metrics.status().sent >= 2; }));
    const uint64_t sent = metrics.status().sent;
    co_await metrics.Stop();
    EXPECT_GT(metrics.status().sent, sent);
    EXPECT_EQ(metrics.status().failures, 0u);
    EXPECT_EQ(peer.seen[0].target, "/v1/metrics");
    EXPECT_EQ(peer.seen[0].headers.at("authorization"), "Bearer s3cret");
    EXPECT_EQ(peer.seen[0].headers.at("content-type"), "application/json");
    peer.Stop();
  });
}

TEST(OtlpMetrics, AReportThatIsNotTakenIsCountedAndTheNextOneIsSent) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    peer.status = [&peer] { return peer.seen.size() == 1 ? 503 : 200; };
    peer.Listen();
    OtlpMetrics metrics(loop, OftenTo(peer), SomeFamilies);
    metrics.Begin();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return metrics.status().sent >= 1; }));
    EXPECT_EQ(metrics.status().failures, 1u);
    EXPECT_EQ(metrics.status().last_error, "");
    co_await metrics.Stop();
    peer.Stop();
  });
}

TEST(OtlpMetrics, CollectsNothingWhenItIsStoppedBeforeTheFirstReport) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    OtlpMetrics::Options options = OftenTo(peer);
    options.interval = std::chrono::hours(1);
    bool collected = false;
    OtlpMetrics metrics(loop, options, [&] {
      collected = true;
      return SomeFamilies();
    });
    metrics.Begin();
    co_await metrics.Stop();
    EXPECT_FALSE(collected);
  });
}

TEST(OtlpMetrics, CollectsNothingBeforeItBegins) {
  tests::RunOnLoop([](tests::TestLoop& loop) -> net::Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    bool collected = false;
    OtlpMetrics metrics(loop, OftenTo(peer), [&] {
      collected = true;
      return SomeFamilies();
    });
    net::Sleep pause(loop.watchdog);
    co_await pause.For(std::chrono::milliseconds(200));
    EXPECT_FALSE(collected);
    co_await metrics.Stop();
    metrics.Begin();
  });
}

TEST(OtlpMetrics, StopEndsAlsoAfterACollectThatThrew) {
  int threw = 0;
  bool stopped = false;
  tests::TestLoop loop([&](const std::exception_ptr&) { ++threw; });
  const std::function<net::Task<void>()> body = [&]() -> net::Task<void> {
    tests::HttpPeer& peer = loop.Make<tests::HttpPeer>();
    OtlpMetrics metrics(loop, OftenTo(peer),
                        []() -> std::vector<MetricFamily> { throw std::runtime_error("not there yet"); });
    metrics.Begin();
    EXPECT_TRUE(co_await tests::Eventually(loop, [&] { return threw == 1; }));
    co_await metrics.Stop();
    stopped = true;
  };
  loop.tasks.Spawn(body());
  loop.Stop();
  loop.Run();
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace gateway::telemetry
