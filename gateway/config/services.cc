#include "gateway/config/services.h"

#include <utility>

#include "conf/reader.h"

namespace gateway::config {
namespace {

using conf::AtLeast;
using conf::NotEmpty;
using conf::Positive;
using conf::Range;

constexpr conf::Word<WhenUnavailable> kWhenUnavailable[] = {{"keep-share", WhenUnavailable::kKeepShare},
                                                            {"fail-closed", WhenUnavailable::kFailClosed}};
constexpr conf::Word<LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                            {"info", LogLevel::kInfo},
                                            {"warn", LogLevel::kWarn},
                                            {"error", LogLevel::kError}};
constexpr conf::Word<LogFormat> kFormats[] = {{"json", LogFormat::kJson}, {"text", LogFormat::kText}};

}  // namespace

struct RedisUrl {
  Url* out;
};

static void Read(const conf::Value& value, const RedisUrl& field) {
  ReadUrl(value, {"redis", "rediss"}, *field.out);
  if (!field.out->path.empty()) value.Error("must end after the port; name the database under database");
}
static void Write(conf::Writer& writer, const RedisUrl& field) {
  Write(writer, *field.out);
}

void Bind(conf::Object& o, Redis& redis) {
  o.Required("url", RedisUrl{&redis.url});
  o.Required("gateways", redis.gateways, Range{1U, 1000U});
  o.Optional("database", redis.database, Range{0U, 1023U});
  o.Optional("username", redis.username, NotEmpty());
  o.Optional("password", redis.password);
  o.Optional("tls", redis.tls);
  o.Optional("prefix", redis.prefix, NotEmpty());
  o.Optional("timeout", redis.timeout, AtLeast{conf::Duration(std::chrono::milliseconds(1))});
  o.Optional("lease", redis.lease,
             Range{conf::Duration(std::chrono::milliseconds(100)), conf::Duration(std::chrono::minutes(1))});
  o.Optional("when_unavailable", conf::Choice(redis.when_unavailable, "policy", kWhenUnavailable));
  if (redis.timeout >= redis.lease)
    o.Error("must be shorter than lease, so that a lease can be renewed in time", "timeout");
  if (o.Has("username") && !o.Has("password")) o.Error("needs a password", "username");
  RefuseIdleTls(o, redis.url, redis.tls);
}

static void Bind(conf::Object& o, Log& log) {
  o.Optional("level", conf::Choice(log.level, "level", kLevels));
  o.Optional("format", conf::Choice(log.format, "format", kFormats));
}

static void Bind(conf::Object& o, AccessLog& access_log) {
  o.Optional("sample", access_log.sample, Range{0.0, 1.0});
  o.Optional("file", access_log.file, NotEmpty());
}

static void Bind(conf::Object& o, OtlpMetrics& metrics) {
  o.Optional("endpoint", metrics.endpoint);
  o.Optional("interval", metrics.interval,
             Range{conf::Duration(std::chrono::seconds(1)), conf::Duration(std::chrono::hours(1))});
}

static void Bind(conf::Object& o, Otlp& otlp) {
  o.Required("endpoint", otlp.endpoint);
  o.Optional("secret_headers", otlp.headers);
  o.Optional("tls", otlp.tls);
  o.Optional("sample_ratio", otlp.sample_ratio, Range{0.0, 1.0});
  o.Optional("service_name", otlp.service_name, NotEmpty());
  o.Optional("timeout", otlp.timeout, Positive());
  o.Optional("metrics", otlp.metrics);
  RefuseIdleTls(o, otlp.endpoint, otlp.tls);
}

static void Bind(conf::Object& o, Metrics& metrics) {
  o.Optional("max_label_values", metrics.max_label_values, Range{1U, 100'000U});
}

void Bind(conf::Object& o, Telemetry& telemetry) {
  o.Optional("log", telemetry.log);
  o.Optional("access_log", telemetry.access_log);
  o.Optional("otlp", telemetry.otlp);
  o.Optional("metrics", telemetry.metrics);
}

}  // namespace gateway::config
