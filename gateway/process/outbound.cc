#include "gateway/process/outbound.h"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <unistd.h>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/audit/sink_source.h"
#include "gateway/config/state_files.h"
#include "gateway/ledger/chain.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/net/files.h"
#include "plugins/sinks/file.h"
#include "plugins/sinks/syslog.h"
#include "plugins/sinks/webhook.h"

namespace gateway {
namespace {

namespace sinks = plugins::sinks;

// How long all sinks together may take for the last records at the end.
constexpr conf::Duration kLastRound = std::chrono::seconds(5);

void LogSinkChange(SinkChange change, const SinkStatus& status) {
  switch (change) {
    case SinkChange::kFails:
      log::Warn("audit sink fails",
                {{"sink", status.name}, {"lag_records", status.lag_records}, {"why", status.last_error}});
      return;
    case SinkChange::kDelivers:
      log::Info("audit sink delivers", {{"sink", status.name}, {"lag_records", status.lag_records}});
      return;
    case SinkChange::kMissing:
      log::Error("audit records are missing; 'tidegate audit verify' shows which are damaged",
                 {{"sink", status.name}, {"missing", status.missing}, {"why", status.last_error}});
      return;
    case SinkChange::kNewLedger:
      log::Warn("audit sink starts from the beginning", {{"sink", status.name}, {"why", status.last_error}});
      return;
  }
}

absl::StatusOr<std::shared_ptr<const net::TlsContext>> TlsFor(bool wanted, const config::ClientTls& tls) {
  if (!wanted) return nullptr;
  return net::TlsContext::Client({tls.ca, tls.certificate, tls.key, !tls.insecure_skip_verify});
}

net::Url UrlOf(const config::Url& url) {
  return {url.tls(), url.host, std::to_string(url.port), url.path, ""};
}

std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Names this gateway among those that share limits, in the same way after a restart on another host name: its
// leases of a running period are its own again.
absl::StatusOr<std::string> InstanceId(const std::string& state_dir) {
  const std::string path = state_dir + "/instance";
  absl::StatusOr<std::string> kept = net::ReadFile(path, 64);
  if (kept.ok() && !kept->empty()) return kept;
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept;
  std::array<uint8_t, 16> random{};
  RAND_bytes(random.data(), static_cast<int>(random.size()));
  std::string id = conf::Hex(random);
  if (absl::Status written = net::ReplaceFile(path, id); !written.ok()) return written;
  return id;
}

std::vector<std::pair<std::string, std::string>> Revealed(const std::vector<config::SecretHeader>& headers) {
  std::vector<std::pair<std::string, std::string>> all;
  all.reserve(headers.size());
  for (const config::SecretHeader& header : headers) all.emplace_back(header.name, header.value.Reveal());
  return all;
}

}  // namespace

absl::Status Outbound::Start(const Config& config, store::Store& store) {
  if (config.redis) {
    if (absl::Status s = StartRedis(*config.redis); !s.ok()) return s;
  }
  for (const config::Sink& sink : config.ledger.sinks) {
    if (absl::Status s = StartSink(sink, config, store); !s.ok()) return s;
  }
  if (!config.telemetry.otlp) return absl::OkStatus();
  if (absl::Status s = StartTraces(*config.telemetry.otlp); !s.ok()) return s;
  if (config.telemetry.otlp->metrics) return StartMetrics(*config.telemetry.otlp);
  return absl::OkStatus();
}

net::Task<bool> Outbound::AwaitShares() {
  co_return sync_ == nullptr || co_await sync_->AwaitShares();
}

absl::Status Outbound::StartRedis(const config::Redis& config) {
  auto tls = TlsFor(config.url.tls(), config.tls);
  if (!tls.ok()) return tls.status();
  const auto seed = static_cast<uint64_t>(conf::ToUnixNanos(net::Now()));
  net::RedisClient::Options options;
  options.remote = {config.url.host, std::to_string(config.url.port), *tls, config.tls.server_name};
  options.username = config.username;
  options.password = config.password.Reveal();
  options.database = config.database;
  options.timeout = config.timeout;
  options.seed = seed;
  redis_ = std::make_unique<net::RedisClient>(loop_, std::move(options));

  absl::StatusOr<std::string> instance = InstanceId(shared_.state_dir);
  if (!instance.ok()) return instance.status();
  LimitsSync::Options sync;
  sync.instance = *std::move(instance);
  sync.prefix = config.prefix;
  sync.lease = config.lease;
  sync.gateways = config.gateways;
  sync.seed = seed;
  sync.on_loss = config.when_unavailable == config::WhenUnavailable::kKeepShare
                     ? router::limits::OnLoss::kKeepShare
                     : router::limits::OnLoss::kFailClosed;
  sync.on_change = [this](const SharingStatus& status) {
    shared_.limits_failed_closed = status.state == SharingState::kFailedClosed;
    const std::string_view state = SharingStateName(status.state);
    if (status.degraded()) {
      log::Error("limits are not shared: Redis does not answer", {{"state", state}, {"why", status.reason}});
    } else {
      log::Info("limits shared through Redis", {{"state", state}, {"gateways", status.gateways}});
    }
  };
  sync_ = std::make_unique<LimitsSync>(loop_, *redis_, shared_.limits, std::move(sync));
  return absl::OkStatus();
}

absl::Status Outbound::StartSink(const config::Sink& config, const Config& all, store::Store& store) {
  std::unique_ptr<sinks::Sink> sink;
  if (const auto* file = std::get_if<config::FileSink>(&config.to)) {
    sink = std::make_unique<sinks::FileSink>(loop_, sinks::FileSink::Options{.path = file->path});
  } else if (const auto* webhook = std::get_if<config::WebhookSink>(&config.to)) {
    auto tls = TlsFor(webhook->url.tls(), webhook->tls);
    if (!tls.ok()) return tls.status();
    sinks::WebhookSink::Options options;
    options.url = UrlOf(webhook->url);
    options.source = HostName();
    options.headers = Revealed(webhook->headers);
    options.tls = *std::move(tls);
    options.server_name = webhook->tls.server_name;
    options.timeout = webhook->timeout;
    options.limits.records = config.batch_records;
    sink = std::make_unique<sinks::WebhookSink>(loop_, std::move(options));
  } else {
    const auto& syslog = std::get<config::SyslogSink>(config.to);
    sinks::SyslogSink::Options options;
    options.transport = !syslog.path.empty()         ? sinks::SyslogSink::Transport::kUnix
                        : syslog.url.scheme == "udp" ? sinks::SyslogSink::Transport::kUdp
                                                     : sinks::SyslogSink::Transport::kTcp;
    options.path = syslog.path;
    options.host = syslog.url.host;
    options.port = std::to_string(syslog.url.port);
    options.format.facility = syslog.facility;
    options.format.hostname = HostName();
    sink = std::make_unique<sinks::SyslogSink>(loop_, std::move(options));
  }
  AuditDelivery::Options options;
  options.name = config.name;
  StoredPosition& position =
      *positions_.emplace_back(std::make_unique<StoredPosition>(store, ReaderOfSink(config.name)));
  auto begin = net::Await(loop_, position.Load());
  if (!begin.ok()) return begin.status();
  options.position = *std::move(begin);
  options.save = [&position](std::string text) { return position.Save(std::move(text)); };
  options.batch_records = config.batch_records;
  options.batch_interval = config.batch_interval;
  options.max_backoff = config.max_backoff;
  options.seed = static_cast<uint64_t>(conf::ToUnixNanos(net::Now()));
  options.on_change = LogSinkChange;
  AuditDelivery::Source from;
  from.last_seq = [ledger = shared_.ledger.get()] { return ledger->GetStats().durable_seq; };
  const auto source = std::make_shared<SinkSource>(LedgerDir(all), from.last_seq);
  from.read = [source](uint64_t after, size_t max) { return source->Read(after, max); };
  from.link = [source](uint64_t seq) { return source->Link(seq); };
  auto delivery = AuditDelivery::Start(loop_, std::move(from), std::move(sink), std::move(options));
  if (!delivery.ok()) return delivery.status();
  sinks_.push_back(*std::move(delivery));
  return absl::OkStatus();
}

absl::Status Outbound::StartTraces(const config::Otlp& config) {
  auto tls = TlsFor(config.endpoint.tls(), config.tls);
  if (!tls.ok()) return tls.status();
  telemetry::OtlpExporter::Options options;
  options.endpoint = UrlOf(config.endpoint);
  options.endpoint.path += "/v1/traces";
  options.headers = Revealed(config.headers);
  options.tls = *std::move(tls);
  options.server_name = config.tls.server_name;
  options.service_name = config.service_name;
  options.service_instance = HostName();
  options.timeout = config.timeout;
  shared_.sampler.emplace(config.sample_ratio);
  shared_.traces = std::make_unique<telemetry::OtlpExporter>(loop_, std::move(options));
  return absl::OkStatus();
}

absl::Status Outbound::StartMetrics(const config::Otlp& config) {
  const config::Url endpoint = config.metrics->endpoint.value_or(config.endpoint);
  auto tls = TlsFor(endpoint.tls(), config.tls);
  if (!tls.ok()) return tls.status();
  telemetry::OtlpMetrics::Options options;
  options.target = {UrlOf(endpoint), Revealed(config.headers), *std::move(tls), config.tls.server_name};
  options.target.endpoint.path += "/v1/metrics";
  options.service_name = config.service_name;
  options.service_instance = HostName();
  options.interval = config.metrics->interval;
  options.timeout = config.timeout;
  metrics_ = std::make_unique<telemetry::OtlpMetrics>(loop_, std::move(options), collect_);
  return absl::OkStatus();
}

void Outbound::OnLimits() {
  if (sync_) sync_->Refresh();
}

// All at once: what holds one up takes no time from another.
net::Task<void> Outbound::Stop() {
  const conf::TimePoint until = net::Now() + kLastRound;
  net::TaskGroup all([](const std::exception_ptr& error) { log::Exception("stop", error); });
  all.Spawn(StopRedis());
  for (const auto& sink : sinks_) all.Spawn(sink->Stop(until));
  if (shared_.traces) all.Spawn(shared_.traces->Stop());
  if (metrics_) all.Spawn(metrics_->Stop());
  net::Event ended;
  all.WhenIdle([&ended] { ended.Set(); });
  co_await ended.Wait();
}

net::Task<void> Outbound::StopRedis() {
  if (sync_) co_await sync_->Stop();
  if (redis_) co_await redis_->Stop();
}

OutboundStatus Outbound::status(conf::TimePoint now) const {
  OutboundStatus all;
  if (sync_) all.sharing = sync_->status();
  for (const auto& sink : sinks_) all.sinks.push_back(sink->status(now));
  if (shared_.traces) all.traces = shared_.traces->status();
  if (metrics_) all.metrics = metrics_->status();
  return all;
}

}  // namespace gateway
