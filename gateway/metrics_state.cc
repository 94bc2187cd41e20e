// How the parts of the process stand: limits, ledger, keys, the services beside it, the process itself.
#include <array>

#include "gateway/key_request.h"
#include "gateway/log.h"
#include "gateway/metrics.h"
#include "gateway/net/clock.h"
#include "gateway/process_stats.h"

namespace gateway {
namespace {

namespace limits = router::limits;

double Seconds(uint64_t us) {
  return static_cast<double>(us) * 1e-6;
}
double Seconds(conf::TimePoint t) {
  return conf::ToSeconds(t.time_since_epoch());
}

// Money is kept in micro-USD and shown in USD, time of devices in milliseconds and shown in seconds.
double Amount(const limits::LimitState& limit, int64_t value) {
  const double unit = limit.dimension == limits::Dimension::kBudget         ? 1e-6
                      : limit.dimension == limits::Dimension::kDeviceBudget ? 1e-3
                                                                            : 1.0;
  return static_cast<double>(value) * unit;
}

constexpr std::string_view kUnit =
    " (requests, tokens, concurrent requests, USD or device-seconds, after the limit)";

}  // namespace

// Of tenants only: those of keys are as many as there are keys, and the admin API has them.
void Metrics::CollectLimits(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const size_t max = runtime->config().telemetry.metrics.max_label_values;
  const std::string unit(kUnit);
  for (const limits::LimitState& limit : operations_.shared->limits.Snapshot(net::Now())) {
    if (runtime->FindTenant(limit.scope) == nullptr) continue;
    const std::string_view tenant = tenants_.Bounded(limit.scope, max);
    const std::string_view model =
        limit.model.empty() ? std::string_view("any") : models_.Bounded(limit.model, max);
    const std::initializer_list<std::pair<std::string_view, std::string_view>> labels = {
        {"tenant", tenant},
        {"limit", limit.name},
        {"model", model},
        {"device_kind", limit.device.empty() ? std::string_view("any") : std::string_view(limit.device)}};
    out.Gauge("tidegate_limit_capacity", "The whole of a limit" + unit)
        .Add(Amount(limit, limit.capacity), labels);
    out.Gauge("tidegate_limit_share", "The part of a limit that this gateway may use now" + unit)
        .Add(Amount(limit, limit.effective), labels);
    out.Gauge("tidegate_limit_used", "What is used of a limit now, reservations included" + unit)
        .Add(Amount(limit, limit.used), labels);
    out.Gauge("tidegate_limit_remaining", "What this gateway may still use of a limit now" + unit)
        .Add(Amount(limit, std::max<int64_t>(limit.effective - limit.used, 0)), labels);
    out.Counter("tidegate_limit_refused_requests_total", "Requests that a limit refused")
        .Add(limit.refusals, labels);
    out.Counter("tidegate_limit_overrun_total", "What requests used beyond their reservations" + unit)
        .Add(Amount(limit, static_cast<int64_t>(limit.overrun)), labels);
  }
}

void Metrics::CollectPrefixes(MetricFamilies& out) const {
  const router::prefix::Stats stats = operations_.shared->prefixes.stats();
  out.Gauge("tidegate_prefix_index_bytes", "Memory of the prefix index, the most that it will ever take")
      .Add(static_cast<double>(stats.bytes));
  out.Gauge("tidegate_prefix_index_capacity", "Blocks of prompts on a replica that it has room for")
      .Add(static_cast<double>(stats.capacity));
  out.Gauge("tidegate_prefix_index_entries", "Those that it holds").Add(static_cast<double>(stats.entries));
  out.Counter("tidegate_prefix_index_displaced_total", "Live ones that gave way since it was full")
      .Add(static_cast<double>(stats.displaced));
}

// Replicas that are started and stopped here.
void Metrics::CollectScaling(MetricFamilies& out) const {
  const control::Status status = operations_.scaling();
  if (status.launcher.empty()) return;
  const size_t max = operations_.runtime()->config().telemetry.metrics.max_label_values;
  for (const control::ModelStatus& row : status.models) {
    const std::string_view model = models_.Bounded(row.model, max);
    out.Gauge("tidegate_scaling_demand", "Replicas that a model's load keeps busy, by its policy's law")
        .Add(row.demand, {{"model", model}});
    out.Gauge("tidegate_scaling_wanted_replicas", "Replicas that a model should have")
        .Add(uint64_t{row.wanted}, {{"model", model}});
    out.Gauge("tidegate_scaling_held_requests", "Requests that wait for a replica")
        .Add(row.held, {{"model", model}});
    out.Gauge("tidegate_scaling_failed_starts", "Starts that failed, in a row")
        .Add(uint64_t{row.failures}, {{"model", model}});
    out.Gauge("tidegate_scaling_replicas", "Replicas that are run here, by how they stand");
    for (size_t s = 0; s < control::kStates; ++s)
      out.Add(uint64_t{row.replicas[s]}, {{"model", model}, {"state", Name(static_cast<control::State>(s))}});
  }
  for (const control::ColdStart& row : status.cold_starts) {
    const std::string_view model = models_.Bounded(row.model, max);
    out.Gauge("tidegate_cold_start_seconds", "From launch to readiness, of the last starts")
        .Add(conf::ToSeconds(row.p50), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.5"}})
        .Add(conf::ToSeconds(row.p90), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.9"}});
  }
  for (const auto& [of, us] : status.devices) {
    const auto& [tenant, of_model, kind] = of;
    out.Counter("tidegate_device_seconds_total",
                "Time that devices were held, by who pays for it; without a model: by jobs")
        .Add(static_cast<double>(us) * 1e-6,
             {{"tenant", tenants_.Bounded(tenant, max)},
              {"model", of_model.empty() ? std::string_view() : models_.Bounded(of_model, max)},
              {"device_kind", kind}});
  }
  out.Gauge("tidegate_devices_faulty", "Devices that nothing new is given, for their faults")
      .Add(uint64_t{status.faults.size()});
  out.Gauge("tidegate_nodes_doubted", "Nodes that take nothing new, by who says so")
      .Add(static_cast<uint64_t>(std::ranges::count(status.nodes, true, &control::NodeStatus::ours)),
           {{"by", "tidegate"}})
      .Add(static_cast<uint64_t>(std::ranges::count(status.nodes, false, &control::NodeStatus::ours)),
           {{"by", "launcher"}});
  out.Counter("tidegate_node_suspicions_total", "Times that a node was found silent").Add(status.suspicions);
  out.Counter("tidegate_replica_launches_total", "Replicas that were launched").Add(status.launches);
  out.Counter("tidegate_replica_failures_total", "Replicas that failed").Add(status.failures);
}

// What engines say of their KV caches.
void Metrics::CollectKvEvents(MetricFamilies& out) const {
  const KvEventsStatus status = operations_.kv_events();
  const size_t max = operations_.runtime()->config().telemetry.metrics.max_label_values;
  uint64_t exact = 0;
  for (const KvEventsStatus::Replica& replica : status.replicas) {
    if (replica.state == "exact") ++exact;
    // model@endpoint
    const std::string_view identity = replicas_.Bounded(replica.identity, max);
    const size_t at = identity.find('@');
    const std::string_view model = identity.substr(0, at);
    const std::string_view name = at == identity.npos ? identity : identity.substr(at + 1);
    const auto& [batches, malformed, connects, sequence] = replica.counts;
    out.Counter("tidegate_kv_event_blocks_total", "KV blocks that an engine told of, by what became of them")
        .Add(replica.stored, {{"model", model}, {"replica", name}, {"event", "stored"}})
        .Add(replica.removed, {{"model", model}, {"replica", name}, {"event", "removed"}});
    out.Counter("tidegate_kv_event_batches_total", "Batches of KV events that an engine published")
        .Add(batches, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_malformed_total", "Messages of an engine that were none of KV events")
        .Add(malformed, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_connects_total", "Times that an engine's event socket was reached")
        .Add(connects, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_gaps_total", "Times that batches of KV events were missed")
        .Add(sequence.gaps, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_replays_total", "Times that an engine was asked for them, by result")
        .Add(sequence.replays - sequence.failed_replays,
             {{"model", model}, {"replica", name}, {"result", "answered"}})
        .Add(sequence.failed_replays, {{"model", model}, {"replica", name}, {"result", "failed"}});
    out.Counter("tidegate_kv_event_clears_total",
                "Times that what was known of a replica's KV cache was dropped, by who said so")
        .Add(replica.cleared, {{"model", model}, {"replica", name}, {"by", "engine"}})
        .Add(sequence.clears, {{"model", model}, {"replica", name}, {"by", "sequence"}});
    out.Gauge("tidegate_kv_event_lag_seconds", "Age of the last batch when it was read, by both clocks")
        .Add(conf::ToSeconds(replica.lag), {{"model", model}, {"replica", name}});
    out.Gauge("tidegate_kv_blocks_known", "KV blocks that a replica holds by its own word")
        .Add(uint64_t{replica.blocks}, {{"model", model}, {"replica", name}});
  }
  out.Gauge("tidegate_exact_replicas", "Replicas whose KV caches are known by their engines' own word")
      .Add(exact);
  out.Gauge("tidegate_kv_blocks_linked", "KV blocks whose text is known")
      .Add(uint64_t{status.holdings.links});
  out.Counter("tidegate_kv_event_orphans_total", "Blocks stored behind one that was not known")
      .Add(status.holdings.orphans);
  out.Counter("tidegate_kv_event_untracked_total", "Blocks stored while there was no room to remember them")
      .Add(status.holdings.untracked);
  out.Counter("tidegate_kv_prompts_total", "Prompts whose tokens were wanted, by how that went");
  for (size_t how = 0; how < status.tokenized.size(); ++how)
    out.Add(status.tokenized[how], {{"result", Name(static_cast<Tokenized>(how))}});
}

void Metrics::CollectRoutingLog(MetricFamilies& out) const {
  if (!operations_.shared->routing_log) return;
  const routing::RoutingLog::Stats stats = operations_.shared->routing_log->stats();
  out.Counter("tidegate_routing_log_records_total", "Sampled decisions written").Add(stats.written);
  out.Counter("tidegate_routing_log_dropped_total", "Sampled decisions lost, by why")
      .Add(stats.dropped_queue, {{"why", "queue"}})
      .Add(stats.dropped_write, {{"why", "write"}});
  out.Gauge("tidegate_sticky_sessions_bytes", "Memory of the table of sessions and their replicas")
      .Add(operations_.shared->sessions.bytes());
}

void Metrics::CollectLedger(MetricFamilies& out) const {
  const ledger::Stats stats = operations_.shared->ledger->GetStats();
  out.Gauge("tidegate_ledger_healthy", "1 while the ledger takes records; 0: new requests are refused")
      .Add(stats.healthy);
  out.Gauge("tidegate_ledger_retention_failing", "1 while segments stay that retention should remove")
      .Add(stats.retention_failing);
  out.Counter("tidegate_ledger_records_total", "Records written").Add(stats.records);
  out.Gauge("tidegate_ledger_durable_seq", "Sequence number of the last record on disk")
      .Add(stats.durable_seq);
  out.Summary("tidegate_ledger_commit_seconds", "Time to write and sync a batch of records")
      .AddSummary(stats.batches, Seconds(stats.commit_us_total));
  out.Gauge("tidegate_ledger_commit_last_seconds", "Time to write and sync the last batch")
      .Add(Seconds(stats.commit_us_last));
  out.Gauge("tidegate_ledger_commit_max_seconds",
            "The longest time to write and sync a batch since the start")
      .Add(Seconds(stats.commit_us_max));
  out.Gauge("tidegate_ledger_queued_bytes", "Records in the journals that are not in the ledger yet")
      .Add(stats.queued_bytes);
  out.Gauge("tidegate_ledger_lag_seconds", "How long the oldest of them may have waited")
      .Add(Seconds(stats.lag_us));
  out.Gauge("tidegate_ledger_open_requests", "Requests with an open record and no close record yet")
      .Add(stats.open_requests);
  out.Counter("tidegate_ledger_refused_opens_total", "Requests that the ledger could not take")
      .Add(stats.refused_opens);
  out.Counter("tidegate_ledger_dropped_records_total",
              "Records of refusals and of content for which there was no room")
      .Add(stats.dropped_records);
}

void Metrics::CollectKeys(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const conf::TimePoint now = net::Now();
  std::array<std::array<uint64_t, kKeyStates>, 2> counts = {};
  uint64_t orphans = 0;
  for (const plugins::auth::KeyRecordPtr& key : operations_.shared->keys->List()) {
    const KeyState state = StateOf(*key, now);
    ++counts[key->tenant.empty() ? 1 : 0][static_cast<size_t>(state)];
    if (state == KeyState::kActive && !key->tenant.empty() && !runtime->FindTenant(key->tenant)) ++orphans;
  }
  out.Gauge("tidegate_keys", "API keys, by whose they are and how they stand");
  for (size_t state = 0; state < kKeyStates; ++state) {
    out.Add(counts[0][state], {{"kind", "application"}, {"state", Name(static_cast<KeyState>(state))}});
    out.Add(counts[1][state], {{"kind", "admin"}, {"state", Name(static_cast<KeyState>(state))}});
  }
  out.Gauge("tidegate_keys_without_tenant", "Active keys whose tenant is not configured any more")
      .Add(orphans);
  if (operations_.key_events) {
    const uint64_t version = operations_.shared->keys->Version();
    const uint64_t last = operations_.key_events->last();
    out.Gauge("tidegate_key_events_unrecorded", "Changes of keys that are not in the ledger yet")
        .Add(version > last ? version - last : uint64_t{0});
  }
}

void Metrics::CollectServices(MetricFamilies& out) const {
  const conf::TimePoint now = net::Now();
  const OutboundStatus outbound = operations_.outbound();
  for (const SinkStatus& sink : outbound.sinks) {
    const std::string_view name = sink.name;
    out.Gauge("tidegate_sink_lag_records", "Audit records that a sink has not had yet")
        .Add(sink.lag_records, {{"sink", name}});
    out.Gauge("tidegate_sink_lag_seconds", "Age of the oldest of them")
        .Add(conf::ToSeconds(sink.lag), {{"sink", name}});
    out.Gauge("tidegate_sink_failing", "1 while the last delivery to a sink failed")
        .Add(sink.failing, {{"sink", name}});
    out.Counter("tidegate_sink_records_total", "Audit records delivered to a sink")
        .Add(sink.records, {{"sink", name}});
    out.Counter("tidegate_sink_failures_total", "Deliveries to a sink that failed")
        .Add(sink.failures, {{"sink", name}});
    out.Counter("tidegate_sink_missing_records_total",
                "Records that a sink did not get: gone from the ledger, or damaged in it")
        .Add(sink.missing, {{"sink", name}});
    out.Counter("tidegate_sink_new_ledgers_total",
                "Times that a sink began anew, because what it had had was another ledger's")
        .Add(sink.new_ledgers, {{"sink", name}});
  }
  if (outbound.sharing) {
    const SharingStatus& sharing = *outbound.sharing;
    out.Gauge("tidegate_sharing_state", "1 for how limits are shared with other gateways through Redis");
    for (const SharingState state :
         {SharingState::kStarting, SharingState::kShared, SharingState::kRecovering,
          SharingState::kKeepingShares, SharingState::kFailedClosed}) {
      out.Add(sharing.state == state, {{"state", SharingStateName(state)}});
    }
    out.Gauge("tidegate_sharing_gateways", "Gateways alive, as Redis saw them").Add(sharing.gateways);
    out.Gauge("tidegate_sharing_round_trip_seconds", "Of the last round that was answered")
        .Add(conf::ToSeconds(sharing.round_trip));
    if (sharing.answered_at.time_since_epoch().count() != 0) {
      out.Gauge("tidegate_sharing_age_seconds", "Time since that round")
          .Add(conf::ToSeconds(now - sharing.answered_at));
    }
    out.Counter("tidegate_sharing_rounds_total", "Rounds of claims").Add(sharing.rounds);
    out.Counter("tidegate_sharing_failed_rounds_total", "Rounds that failed").Add(sharing.failed_rounds);
  }
  if (outbound.traces) {
    const telemetry::OtlpExporter::Status& traces = *outbound.traces;
    out.Counter("tidegate_spans_sent_total", "Spans that the collector took").Add(traces.sent);
    out.Counter("tidegate_spans_dropped_total", "Spans that were dropped, by why")
        .Add(traces.dropped_queue, {{"why", "queue_full"}})
        .Add(traces.dropped_sent, {{"why", "not_taken"}});
    out.Gauge("tidegate_spans_queued_bytes", "Spans that wait to be sent").Add(traces.queued_bytes);
  }
}

void Metrics::CollectProcess(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const ReloadState reloads = operations_.reloads();
  out.Gauge("tidegate_build_info", "Always 1")
      .Add(true, {{"version", TIDEGATE_VERSION}, {"compiler", __VERSION__}});
  out.Gauge("tidegate_config_info", "Always 1; the hash of the configuration that is applied")
      .Add(true, {{"sha256", runtime->hash()}});
  out.Gauge("tidegate_config_loaded_timestamp_seconds", "When it was applied")
      .Add(Seconds(runtime->loaded_at()));
  out.Gauge("tidegate_config_last_reload_successful",
            "0 when the last configuration was refused and an older one stays")
      .Add(reloads.last_ok);
  out.Counter("tidegate_config_reloads_total", "Configurations that were offered after the start, by result")
      .Add(reloads.applied, {{"result", "applied"}})
      .Add(reloads.refused, {{"result", "refused"}});
  out.Gauge("tidegate_disk_low", "1 while less is free than ledger.min_free_bytes; new requests are refused")
      .Add(operations_.shared->disk_low.load());
  for (const Jwks::Status& issuer : operations_.issuers()) {
    out.Gauge("tidegate_jwks_usable", "1 while an issuer's key set can be believed")
        .Add(issuer.usable, {{"issuer", issuer.issuer}});
    if (issuer.age) {
      out.Gauge("tidegate_jwks_age_seconds",
                "Time since an issuer's key set was last fetched, or seen, in order")
          .Add(conf::ToSeconds(*issuer.age), {{"issuer", issuer.issuer}});
    }
    out.Counter("tidegate_jwks_failures_total", "Fetches of an issuer's key set that failed")
        .Add(issuer.failures, {{"issuer", issuer.issuer}});
  }
  out.Gauge("tidegate_draining", "1 after the process was told to stop")
      .Add(operations_.shared->draining.load());
  out.Counter("tidegate_log_lines_dropped_total", "Log lines that could not be written in time")
      .Add(log::Dropped());

  const ProcessStats stats = ReadProcessStats();
  out.Gauge("process_resident_memory_bytes", "Resident memory").Add(stats.resident_bytes);
  out.Gauge("process_virtual_memory_bytes", "Virtual memory").Add(stats.virtual_bytes);
  out.Counter("process_cpu_seconds_total", "User and system CPU time").Add(stats.cpu_seconds);
  out.Gauge("process_open_fds", "Open file descriptors").Add(stats.open_fds);
  out.Gauge("process_max_fds", "How many may be open").Add(stats.max_fds);
  out.Gauge("process_threads", "Threads").Add(stats.threads);
  out.Gauge("process_start_time_seconds", "When the process was started").Add(stats.start_time);
}

}  // namespace gateway
