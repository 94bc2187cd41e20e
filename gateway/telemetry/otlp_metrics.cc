#include "gateway/telemetry/otlp_metrics.h"

#include <absl/cleanup/cleanup.h>
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "conf/json_writer.h"
#include "conf/text.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"

namespace gateway::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

void PutAttribute(conf::JsonWriter& out, std::string_view key, std::string_view value) {
  out.Open('{').Key("key").String(key);
  out.Key("value").Open('{').Key("stringValue").String(value).Close('}').Close('}');
}

// OTLP's JSON writes 64-bit integers as strings.
void PutWhole(conf::JsonWriter& out, std::string_view key, uint64_t value) {
  out.Key(key).String(fmt::format("{}", value));
}

class PointWriter {
 public:
  PointWriter(conf::JsonWriter& out, conf::TimePoint began, conf::TimePoint now)
      : out_(out),
        began_(static_cast<uint64_t>(conf::ToUnixNanos(began))),
        now_(static_cast<uint64_t>(conf::ToUnixNanos(now))) {}

  void Number(const ClientMetric& metric, double value, bool counts) {
    if (!std::isfinite(value)) return;
    Begin(metric, counts);
    out_.Key("asDouble").Number(value).Close('}');
  }

  void Histogram(const ClientMetric& metric) {
    const ClientMetric::Histogram& from = metric.histogram;
    Begin(metric, true);
    PutWhole(out_, "count", from.sample_count);
    if (std::isfinite(from.sample_sum)) out_.Key("sum").Number(from.sample_sum);
    uint64_t below = 0;
    out_.Key("bucketCounts").Open('[');
    for (const ClientMetric::Bucket& bucket : from.bucket) {
      if (!std::isfinite(bucket.upper_bound)) continue;
      out_.String(fmt::format("{}", bucket.cumulative_count - below));
      below = bucket.cumulative_count;
    }
    out_.String(fmt::format("{}", from.sample_count - below)).Close(']');
    out_.Key("explicitBounds").Open('[');
    for (const ClientMetric::Bucket& bucket : from.bucket) {
      if (std::isfinite(bucket.upper_bound)) out_.Number(bucket.upper_bound);
    }
    out_.Close(']').Close('}');
  }

  void Summary(const ClientMetric& metric) {
    Begin(metric, true);
    PutWhole(out_, "count", metric.summary.sample_count);
    out_.Key("sum").Number(std::isfinite(metric.summary.sample_sum) ? metric.summary.sample_sum : 0.0);
    out_.Close('}');
  }

 private:
  void Begin(const ClientMetric& metric, bool counts) {
    out_.Open('{').Key("attributes").Open('[');
    for (const ClientMetric::Label& label : metric.label) PutAttribute(out_, label.name, label.value);
    out_.Close(']');
    if (counts) PutWhole(out_, "startTimeUnixNano", began_);
    PutWhole(out_, "timeUnixNano", now_);
  }

  conf::JsonWriter& out_;
  const uint64_t began_;
  const uint64_t now_;
};

void PutFamily(conf::JsonWriter& out, PointWriter& points, const MetricFamily& family) {
  out.Open('{').Key("name").String(family.name).Key("description").String(family.help);
  const auto data = [&](std::string_view kind, bool cumulative, bool monotonic, auto put) {
    out.Key(kind).Open('{').Key("dataPoints").Open('[');
    for (const ClientMetric& metric : family.metric) put(metric);
    out.Close(']');
    if (cumulative) out.Key("aggregationTemporality").Number(kCumulative);
    if (monotonic) out.Key("isMonotonic").Bool(true);
    out.Close('}');
  };
  switch (family.type) {
    case MetricType::Counter:
      data("sum", true, true, [&](const ClientMetric& of) { points.Number(of, of.counter.value, true); });
      break;
    case MetricType::Histogram:
      data("histogram", true, false, [&](const ClientMetric& of) { points.Histogram(of); });
      break;
    case MetricType::Summary:
      data("summary", false, false, [&](const ClientMetric& of) { points.Summary(of); });
      break;
    default:
      data("gauge", false, false, [&](const ClientMetric& of) { points.Number(of, of.gauge.value, false); });
  }
  out.Close('}');
}

}  // namespace

std::string RenderOtlpMetrics(std::span<const MetricFamily> families, conf::TimePoint began,
                              conf::TimePoint now, const std::string& service_name,
                              const std::string& service_instance) {
  std::string body;
  conf::JsonWriter out(body);
  out.Open('{').Key("resourceMetrics").Open('[').Open('{');
  out.Key("resource").Open('{').Key("attributes").Open('[');
  PutAttribute(out, "service.name", service_name);
  PutAttribute(out, "service.version", TIDEGATE_VERSION);
  if (!service_instance.empty()) PutAttribute(out, "service.instance.id", service_instance);
  out.Close(']').Close('}');
  out.Key("scopeMetrics").Open('[').Open('{');
  out.Key("scope")
      .Open('{')
      .Key("name")
      .String("tidegate")
      .Key("version")
      .String(TIDEGATE_VERSION)
      .Close('}');
  out.Key("metrics").Open('[');
  PointWriter points(out, began, now);
  for (const MetricFamily& family : families) PutFamily(out, points, family);
  out.Close(']').Close('}').Close(']').Close('}').Close(']').Close('}');
  return body;
}

OtlpMetrics::OtlpMetrics(net::Loop& loop, Options options, std::function<std::vector<MetricFamily>()> collect)
    : loop_(loop),
      options_(std::move(options)),
      collect_(std::move(collect)),
      began_(net::Now()),
      pause_(loop.watchdog) {}

void OtlpMetrics::Begin() {
  if (closed_ || std::exchange(begun_, true)) return;
  loop_.tasks.Spawn(Run());
}

net::Task<void> OtlpMetrics::Stop() {
  closed_ = true;
  if (!begun_) co_return;
  pause_.Cancel();
  co_await ended_.Wait();
}

// The last step, also after an exception, must not touch this object: the task that waits for the end may destroy it.
net::Task<void> OtlpMetrics::Run() {
  const absl::Cleanup ended = [this] { ended_.Set(); };
  co_await Keep();
}

net::Task<void> OtlpMetrics::Keep() {
  bool reported = false;
  while (true) {
    if (!closed_) co_await pause_.For(options_.interval);
    if (closed_ && !reported) co_return;
    reported = true;
    co_await Send();
    if (closed_) co_return;
  }
}

net::Task<void> OtlpMetrics::Send() {
  std::string body =
      RenderOtlpMetrics(collect_(), began_, net::Now(), options_.service_name, options_.service_instance);
  absl::Status sent =
      absl::ResourceExhaustedError("the report is too large; lower telemetry.metrics.max_label_values");
  if (body.size() <= kMaxBytes)
    sent = co_await PostOtlp(loop_, options_.target, std::move(body), options_.timeout);
  const bool failed_before = !status_.last_error.empty();
  if (sent.ok()) {
    ++status_.sent;
    if (std::exchange(status_.last_error, {}).size() > 0) log::Info("the collector accepts metrics again");
    co_return;
  }
  ++status_.failures;
  status_.last_error = conf::Std(sent.message());
  if (!failed_before) log::Warn("the collector does not accept metrics", {{"why", status_.last_error}});
}

}  // namespace gateway::telemetry
