// One POST of a body in OTLP/HTTP JSON to a collector.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conf/time.h"
#include "gateway/net/loop.h"
#include "gateway/net/task.h"
#include "gateway/net/tls.h"
#include "gateway/net/url.h"

namespace gateway::telemetry {

struct OtlpTarget {
  net::Url endpoint;  // its path is used as it stands: .../v1/traces, .../v1/metrics
  std::vector<std::pair<std::string, std::string>> headers;  // may hold secrets
  std::shared_ptr<const net::TlsContext> tls;
  std::string server_name;  // to verify; the endpoint's host when empty
};

// InvalidArgument: the collector refuses the body. Unavailable, or what the connection says: it may take it later.
net::Task<absl::Status> PostOtlp(net::Loop& loop, OtlpTarget target, std::string body,
                                 conf::Duration timeout);

}  // namespace gateway::telemetry
