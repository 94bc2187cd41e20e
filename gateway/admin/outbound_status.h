// What operators see of all that the gateway sends beside requests: shares of limits, audit records, traces.
#pragma once

#include <optional>
#include <vector>

#include "gateway/audit/audit_delivery.h"
#include "gateway/limits/limits_sync.h"
#include "gateway/telemetry/otlp.h"

namespace gateway {

struct OutboundStatus {
  std::optional<SharingStatus> sharing;
  std::vector<SinkStatus> sinks;
  std::optional<telemetry::OtlpExporter::Status> traces;
};

}  // namespace gateway
