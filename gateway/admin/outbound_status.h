// What operators see of all that the gateway sends beside requests: shares of limits, audit records, traces, metrics.
#pragma once

#include <optional>
#include <vector>

#include "gateway/audit/audit_delivery.h"
#include "gateway/limits/limits_sync.h"
#include "gateway/telemetry/otlp.h"
#include "gateway/telemetry/otlp_metrics.h"

namespace gateway {

struct OutboundStatus {
  std::optional<SharingStatus> sharing;
  std::vector<SinkStatus> sinks;
  std::optional<telemetry::OtlpExporter::Status> traces;
  std::optional<telemetry::OtlpMetrics::Status> metrics;
};

}  // namespace gateway
