// Outbound: what the process sends to others beside requests: limits shared through Redis, audit records to
// sinks, traces to a collector, and key sets fetched. None of it stands on the request path.
//
// Owner: the Process. Control loop's thread, but for status(), which any thread may ask, and Trace().
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gateway/audit/audit_delivery.h"
#include "gateway/config.h"
#include "gateway/limits/limits_sync.h"
#include "gateway/net/redis.h"
#include "gateway/shared.h"
#include "gateway/telemetry/otlp.h"

namespace gateway {

struct OutboundStatus {
  std::optional<SharingStatus> sharing;
  std::vector<SinkStatus> sinks;
  std::optional<telemetry::OtlpExporter::Status> traces;
};

class Outbound {
 public:
  Outbound(net::Loop& loop, Shared& shared) : loop_(loop), shared_(shared) {}

  // Errors: TLS files or sink cursors that cannot be read.
  absl::Status Start(const Config& config);
  // The limits have changed.
  void OnLimits();
  // Returns shares of limits and delivers what is left: for some seconds at most, and traces for their
  // time-out. Once.
  net::Task<void> Stop();

  OutboundStatus status(conf::TimePoint now) const;

 private:
  absl::Status StartRedis(const config::Redis& config);
  net::Task<void> StopRedis();
  absl::Status StartSink(const config::Sink& config, const Config& all);
  absl::Status StartTraces(const config::Otlp& config);

  net::Loop& loop_;
  Shared& shared_;
  std::unique_ptr<net::RedisClient> redis_;
  std::unique_ptr<LimitsSync> sync_;
  std::vector<std::unique_ptr<AuditDelivery>> sinks_;
};

}  // namespace gateway
