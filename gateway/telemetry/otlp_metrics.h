// OtlpMetrics: sends the metrics of the process to an OpenTelemetry collector, OTLP/HTTP JSON, at an interval.
//
// Names, labels and values are those of /metrics: one set of names for dashboards and alerts, whichever way they come.
// Counters and histograms are cumulative since the start of the process: a report that is lost loses nothing, so none is
// kept or sent again. One report at a time; one larger than kMaxBytes is dropped and counted.
//
// Owner: Outbound; destroyed after Stop() has returned, or after the loop's tasks have ended. Thread: the loop's.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/telemetry/otlp_post.h"

namespace gateway::telemetry {

class OtlpMetrics {
 public:
  static constexpr size_t kMaxBytes = size_t{32} << 20;

  struct Options {
    OtlpTarget target;
    std::string service_name = "tidegate";
    std::string service_instance;
    conf::Duration interval = std::chrono::minutes(1);
    conf::Duration timeout = std::chrono::seconds(5);
  };

  struct Status {
    uint64_t sent = 0;      // reports that the collector took
    uint64_t failures = 0;  // reports that it did not take
    std::string last_error;
  };

  // `collect` runs on the loop, for the first time when an interval has passed since Begin().
  OtlpMetrics(net::Loop& loop, Options options,
              std::function<std::vector<prometheus::MetricFamily>()> collect);
  OtlpMetrics(const OtlpMetrics&) = delete;
  OtlpMetrics& operator=(const OtlpMetrics&) = delete;

  // Sends reports from now on.
  void Begin();
  Status status() const { return status_; }
  // Sends a last report if there was one before. Once.
  net::Task<void> Stop();

 private:
  net::Task<void> Run();
  net::Task<void> Keep();
  net::Task<void> Send();

  net::Loop& loop_;
  const Options options_;
  const std::function<std::vector<prometheus::MetricFamily>()> collect_;
  const conf::TimePoint began_;
  Status status_;
  bool begun_ = false;
  bool closed_ = false;
  net::Sleep pause_;
  net::Event ended_;
};

// The body of POST /v1/metrics. `began`: since when counters count. Values that are not finite are left out.
std::string RenderOtlpMetrics(std::span<const prometheus::MetricFamily> families, conf::TimePoint began,
                              conf::TimePoint now, const std::string& service_name,
                              const std::string& service_instance);

}  // namespace gateway::telemetry
