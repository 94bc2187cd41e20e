#include "gateway/config/ledger.h"

#include <algorithm>
#include <utility>

#include "conf/reader.h"

namespace gateway::config {
namespace {

using conf::AtLeast;
using conf::NotEmpty;
using conf::Positive;
using conf::Range;

constexpr conf::Word<Durability> kDurabilities[] = {{"grouped", Durability::kGrouped},
                                                    {"strict", Durability::kStrict}};

enum class SinkType : uint8_t { kFile, kWebhook, kSyslog };  // in the order of Sink::to
constexpr conf::Word<SinkType> kSinkTypes[] = {
    {"file", SinkType::kFile}, {"webhook", SinkType::kWebhook}, {"syslog", SinkType::kSyslog}};

constexpr conf::Word<uint32_t> kFacilities[] = {
    {"user", 1},    {"daemon", 3},  {"auth", 4},    {"local0", 16}, {"local1", 17}, {"local2", 18},
    {"local3", 19}, {"local4", 20}, {"local5", 21}, {"local6", 22}, {"local7", 23}};

constexpr std::string_view kUnixPrefix = "unix:";

}  // namespace

// unix:PATH, udp://HOST:PORT or tcp://HOST:PORT.
struct SyslogAddress {
  SyslogSink* out;
};

static void Read(const conf::Value& value, const SyslogAddress& field) {
  const bool text = value.kind() == conf::Kind::kScalar;
  if (text && value.text().starts_with(kUnixPrefix) && value.text().size() > kUnixPrefix.size()) {
    field.out->path = value.text().substr(kUnixPrefix.size());
  } else if (text && value.text().find("://") != std::string::npos) {
    ReadUrl(value, {"udp", "tcp"}, field.out->url);
    if (!field.out->url.path.empty()) value.Error("must end after the port");
  } else {
    value.ErrorExpected("unix:PATH, udp://HOST:PORT or tcp://HOST:PORT");
  }
}

static void Write(conf::Writer& writer, const SyslogAddress& field) {
  const SyslogSink& sink = *field.out;
  conf::Write(writer, sink.path.empty() ? ToString(sink.url) : std::string(kUnixPrefix) + sink.path);
}

static void BindTarget(conf::Object& o, FileSink& sink) {
  o.Required("path", sink.path, NotEmpty());
}

static void BindTarget(conf::Object& o, WebhookSink& sink) {
  o.Required("url", sink.url);
  o.Optional("secret_headers", sink.headers);
  o.Optional("tls", sink.tls);
  o.Optional("timeout", sink.timeout, Positive());
  RefuseIdleTls(o, sink.url, sink.tls);
}

static void BindTarget(conf::Object& o, SyslogSink& sink) {
  o.Required("address", SyslogAddress{&sink});
  o.Optional("facility", conf::Choice(sink.facility, "facility", kFacilities));
}

static void Bind(conf::Object& o, Sink& sink) {
  SinkType type = static_cast<SinkType>(sink.to.index());
  o.Required("name", sink.name, ValidName());
  o.Required("type", conf::Choice(type, "sink type", kSinkTypes));
  if (o.reading() && type == SinkType::kWebhook) sink.to.emplace<WebhookSink>();
  if (o.reading() && type == SinkType::kSyslog) sink.to.emplace<SyslogSink>();
  std::visit([&o](auto& target) { BindTarget(o, target); }, sink.to);
  o.Optional("batch_records", sink.batch_records, Range{1U, 100'000U});
  o.Optional("batch_interval", sink.batch_interval, Positive());
  o.Optional("max_backoff", sink.max_backoff, Positive());
}

static void Bind(conf::Object& o, Retention& retention) {
  o.Optional("age", retention.age, AtLeast{conf::Duration(std::chrono::hours(1))});
  o.Optional("bytes", conf::Size(retention.bytes), AtLeast{uint64_t{1} << 20});
}

static void Bind(conf::Object& o, Checkpoint& checkpoint) {
  o.Optional("records", checkpoint.records, AtLeast{uint64_t{1}});
  o.Optional("interval", checkpoint.interval, Positive());
}

void Bind(conf::Object& o, Ledger& ledger) {
  o.Optional("durability", conf::Choice(ledger.durability, "durability", kDurabilities));
  o.Optional("commit_interval", ledger.commit_interval,
             Range{conf::Duration(std::chrono::microseconds(100)), conf::Duration(std::chrono::seconds(1))});
  o.Optional("segment_bytes", conf::Size(ledger.segment_bytes), Range{uint64_t{64} << 10, uint64_t{1} << 32});
  o.Optional("segment_age", ledger.segment_age, AtLeast{conf::Duration(std::chrono::minutes(1))});
  o.Optional("open_requests", ledger.open_requests, Range{1'024U, 1'000'000U});
  o.Optional("min_free_bytes", conf::Size(ledger.min_free_bytes));
  o.Optional("retention", ledger.retention);
  o.Optional("checkpoint", ledger.checkpoint);
  o.Optional("sinks", ledger.sinks);
  o.Optional("content_key", conf::OneOrMany(ledger.content_key));
  if (ledger.retention.bytes && *ledger.retention.bytes < 2 * ledger.segment_bytes) {
    o.Error("retention.bytes must be at least twice segment_bytes, since whole segments are dropped",
            "retention");
  }
}

uint32_t OpenRequestsPerThread(const Ledger& ledger, uint32_t threads) {
  return std::max(kLeastOpenPerThread, (ledger.open_requests + threads - 1) / threads);
}

}  // namespace gateway::config
