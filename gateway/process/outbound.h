// Outbound: connections to other services beside requests: Redis for shared limits, audit sinks, the trace
// collector, and issuers of key sets. None of them is on the request path.
//
// Owner: the Process. Control loop's thread, but for status(), which any thread may ask, and Trace().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/admin/outbound_status.h"
#include "gateway/audit/audit_delivery.h"
#include "gateway/audit/stored_position.h"
#include "gateway/config/config.h"
#include "gateway/limits/limits_sync.h"
#include "gateway/net/redis.h"
#include "gateway/shard/shared.h"
#include "gateway/telemetry/otlp.h"
#include "gateway/telemetry/otlp_metrics.h"

namespace gateway {

class Outbound {
 public:
  // `collect`: the metrics of the process, once it runs.
  Outbound(net::Loop& loop, Shared& shared, std::function<std::vector<prometheus::MetricFamily>()> collect)
      : loop_(loop), shared_(shared), collect_(std::move(collect)) {}

  // Errors: TLS files or sinks' positions that cannot be read. `store` must outlive this. Before the loop
  // runs.
  absl::Status Start(const Config& config, store::Store& store);
  // Back when requests may come. False: this gateway has no shares of limits from the others.
  net::Task<bool> AwaitShares();
  // Reports metrics from now on: all that they measure must exist.
  void Begin() {
    if (metrics_) metrics_->Begin();
  }
  // The limits have changed.
  void OnLimits();
  // Returns shares of limits and delivers the remaining records: for some seconds at most, and traces for
  // their time-out. Once.
  net::Task<void> Stop();

  OutboundStatus status(conf::TimePoint now) const;

 private:
  absl::Status StartRedis(const config::Redis& config);
  net::Task<void> StopRedis();
  absl::Status StartSink(const config::Sink& config, const Config& all, store::Store& store);
  absl::Status StartTraces(const config::Otlp& config);
  absl::Status StartMetrics(const config::Otlp& config);

  net::Loop& loop_;
  Shared& shared_;
  const std::function<std::vector<prometheus::MetricFamily>()> collect_;
  std::unique_ptr<net::RedisClient> redis_;
  std::unique_ptr<LimitsSync> sync_;
  std::vector<std::unique_ptr<StoredPosition>> positions_;  // of the sinks
  std::vector<std::unique_ptr<AuditDelivery>> sinks_;
  std::unique_ptr<telemetry::OtlpMetrics> metrics_;
};

}  // namespace gateway
