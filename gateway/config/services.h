// Sections `redis` (limits shared between gateways) and `telemetry` (logs, traces, metrics).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/secret.h"
#include "conf/time.h"
#include "gateway/config/types.h"
#include "gateway/log.h"

namespace gateway::config {

enum class WhenUnavailable : uint8_t { kKeepShare, kFailClosed };

struct Redis {
  Url url;  // redis://HOST:PORT or rediss://; its path is empty
  uint32_t gateways =
      0;  // most gateways that share the limits: until Redis first answers, each uses that part
  uint32_t database = 0;
  std::string username;
  conf::Secret password;
  ClientTls tls;  // of rediss
  std::string prefix = "tidegate:";
  conf::Duration timeout = std::chrono::milliseconds(200);
  conf::Duration lease = std::chrono::seconds(2);  // how long a leased share of a limit is valid
  WhenUnavailable when_unavailable = WhenUnavailable::kKeepShare;
};

using LogLevel = log::Level;
enum class LogFormat : uint8_t { kJson, kText };

struct Log {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kJson;
};

// Metrics beside the traces, to the same collector unless another is named.
struct OtlpMetrics {
  std::optional<Url> endpoint;  // /v1/metrics is appended
  conf::Duration interval = std::chrono::minutes(1);
};

struct Otlp {
  Url endpoint;  // of the collector; /v1/traces is appended
  std::vector<SecretHeader> headers;
  ClientTls tls;
  double sample_ratio = 0.01;
  std::string service_name = "tidegate";
  conf::Duration timeout = std::chrono::seconds(5);
  std::optional<OtlpMetrics> metrics;
};

// A line of JSON for each sampled request.
struct AccessLog {
  double sample = 1;
  std::string file;  // empty: standard error
};

struct Metrics {
  uint32_t max_label_values = 200;  // per label; further values count as "other"
};

struct Telemetry {
  Log log;
  std::optional<AccessLog> access_log;
  std::optional<Otlp> otlp;
  Metrics metrics;
};

void Bind(conf::Object& object, Redis& out);
void Bind(conf::Object& object, Telemetry& out);

}  // namespace gateway::config
