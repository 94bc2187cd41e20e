#include "gateway/config/server.h"

#include <utility>

#include "conf/reader.h"

namespace gateway::config {
namespace {

using conf::AtLeast;
using conf::NotEmpty;
using conf::Positive;
using conf::Range;

constexpr conf::Word<TlsVersion> kTlsVersions[] = {{"1.2", TlsVersion::k12}, {"1.3", TlsVersion::k13}};

constexpr uint32_t kMaxThreads = 1024;

}  // namespace

// `auto` or a number.
struct ThreadCount {
  std::optional<uint32_t>* out;
};

static void Read(const conf::Value& value, const ThreadCount& field) {
  if (value.kind() == conf::Kind::kScalar && value.text() == "auto") {
    field.out->reset();
    return;
  }
  uint32_t threads = 0;
  const size_t before = value.document().problem_count();
  conf::Read(value, threads);
  if (value.document().problem_count() != before) return;
  if (const std::string wrong = Range{1U, kMaxThreads}(threads); !wrong.empty()) {
    value.Error(wrong + ", or auto for one per core");
    return;
  }
  *field.out = threads;
}

static void Write(conf::Writer& writer, const ThreadCount& field) {
  if (*field.out) {
    conf::Write(writer, **field.out);
  } else {
    conf::Write(writer, std::string("auto"));
  }
}

static void Bind(conf::Object& o, ServerTls& tls) {
  o.Required("certificate", tls.certificate, NotEmpty());
  o.Required("key", tls.key, NotEmpty());
  o.Optional("client_ca", tls.client_ca, NotEmpty());
  o.Optional("require_client_certificate", tls.require_client_certificate);
  o.Optional("min_version", conf::Choice(tls.min_version, "TLS version", kTlsVersions));
  o.Optional("reload_interval", tls.reload_interval, AtLeast{conf::Duration(std::chrono::seconds(1))});
  if (o.Has("require_client_certificate") && !o.Has("client_ca")) {
    o.Error("has no effect without client_ca; give the authority that signs client certificates",
            "require_client_certificate");
  }
}

static void Bind(conf::Object& o, ServerLimits& limits) {
  o.Optional("head_bytes", conf::Size(limits.head_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 20});
  o.Optional("headers", limits.headers, Range{8U, 1000U});
  o.Optional("body_bytes", conf::Size(limits.body_bytes), Range{uint64_t{1} << 10, uint64_t{1} << 32});
  o.Optional("body_memory", conf::Size(limits.body_memory), Range{uint64_t{1} << 20, uint64_t{1} << 40});
  o.Optional("connections", limits.connections, AtLeast{1U});
  o.Optional("connections_per_address", limits.connections_per_address, AtLeast{1U});
  o.Optional("idle_timeout", limits.idle_timeout, Positive());
  o.Optional("header_timeout", limits.header_timeout, Positive());
  o.Optional("body_timeout", limits.body_timeout, Positive());
  o.Optional("total_timeout", limits.total_timeout, Positive());
  o.Optional("stream_time", limits.stream_time, Positive());
  o.Optional("stream_bytes", conf::Size(limits.stream_bytes), AtLeast{uint64_t{1} << 10});
  if (!o.reading() || limits.body_memory >= limits.body_bytes) return;
  if (!o.Has("body_memory")) {
    limits.body_memory = limits.body_bytes;
  } else {
    o.Error("must not be less than body_bytes, or the largest bodies would never be read", "body_memory");
  }
}

void Bind(conf::Object& o, Server& server) {
  o.Required("listen", conf::OneOrMany(server.listen), NotEmpty());
  o.Optional("admin", server.admin);
  o.Optional("console", server.console);
  o.Optional("threads", ThreadCount{&server.threads});
  o.Optional("state_dir", server.state_dir, NotEmpty());
  o.Optional("user", server.user, NotEmpty());
  o.Optional("zone", server.zone, ValidName());
  o.Optional("tls", server.tls);
  o.Optional("admin_tls", server.admin_tls);
  o.Optional("console_tls", server.console_tls);
  if (o.reading() && !o.Has("console") && o.Has("console_tls"))
    o.Error("has no effect without console, the address of the listener for people", "console_tls");
  o.Optional("limits", server.limits);
  o.Optional("heartbeat", server.heartbeat);
  o.Optional("shutdown_delay", server.shutdown_delay);
  o.Optional("shutdown_grace", server.shutdown_grace);
  o.Optional("version_header", server.version_header);
}

}  // namespace gateway::config
