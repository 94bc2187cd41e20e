// Metrics of state: limits, prefix index, scaling, ledger, keys, outbound services, the process itself.
#include <algorithm>
#include <array>

#include "gateway/admin/clock_offset.h"
#include "gateway/admin/metrics.h"
#include "gateway/admin/process_stats.h"
#include "gateway/batches/service.h"
#include "gateway/control/control_plane.h"
#include "gateway/feedback/service.h"
#include "gateway/log.h"
#include "gateway/net/clock.h"
#include "gateway/people/shown_key.h"

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

double InDevices(int64_t milli) {
  return static_cast<double>(milli) / scheduler::kWholeDevice;
}

constexpr std::string_view kUnit =
    " (in requests, tokens, concurrent requests, USD or device-seconds, by limit)";

}  // namespace

// Limits of configured tenants only. Limits of keys would make one series per key, and names of tenants made at run
// time are not the configuration's; the admin API shows them.
void Metrics::CollectLimits(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const size_t max = runtime->config().telemetry.metrics.max_label_values;
  const std::string unit(kUnit);
  for (const limits::LimitState& limit : operations_.shared->limits.Snapshot(net::Now())) {
    const TenantRuntime* const of = runtime->FindTenant(limit.scope);
    if (of == nullptr || of->config->at_run_time) continue;
    const std::string_view tenant = tenants_.Bounded(limit.scope, max);
    const std::string_view model =
        limit.model.empty() ? std::string_view("any") : models_.Bounded(limit.model, max);
    const std::initializer_list<std::pair<std::string_view, std::string_view>> labels = {
        {"tenant", tenant},
        {"limit", limit.name},
        {"model", model},
        {"device_kind", limit.device.empty() ? std::string_view("any") : std::string_view(limit.device)}};
    out.Gauge("tidegate_limit_capacity", "Capacity of a limit over all gateways" + unit)
        .Add(Amount(limit, limit.capacity), labels);
    out.Gauge("tidegate_limit_share", "The part of a limit that this gateway may use now" + unit)
        .Add(Amount(limit, limit.effective), labels);
    out.Gauge("tidegate_limit_used", "Part of a limit that is used now, including reservations" + unit)
        .Add(Amount(limit, limit.used), labels);
    out.Gauge("tidegate_limit_remaining", "Part of a limit that this gateway may still use now" + unit)
        .Add(Amount(limit, std::max<int64_t>(limit.effective - limit.used, 0)), labels);
    out.Counter("tidegate_limit_refused_requests_total", "Requests that a limit refused")
        .Add(limit.refusals, labels);
    out.Counter("tidegate_limit_overrun_total", "Use of requests beyond their reservations" + unit)
        .Add(Amount(limit, static_cast<int64_t>(limit.overrun)), labels);
  }
}

void Metrics::CollectPrefixes(MetricFamilies& out) const {
  const router::prefix::IndexStats stats = operations_.shared->prefixes.stats();
  out.Gauge("tidegate_prefix_index_bytes", "Memory of the prefix index; it never grows beyond this")
      .Add(static_cast<double>(stats.bytes));
  out.Gauge("tidegate_prefix_index_capacity", "Blocks of prompts that the prefix index has room for")
      .Add(static_cast<double>(stats.capacity));
  out.Gauge("tidegate_prefix_index_entries", "Blocks of prompts that the prefix index holds")
      .Add(static_cast<double>(stats.entries));
  out.Counter("tidegate_prefix_index_displaced_total",
              "Live blocks that the prefix index dropped because it was full")
      .Add(static_cast<double>(stats.displaced));
}

// Replicas that this gateway starts and stops.
void Metrics::CollectScaling(MetricFamilies& out) const {
  const control::Status status = operations_.scaling();
  if (status.launcher.empty()) return;
  const size_t max = operations_.runtime()->config().telemetry.metrics.max_label_values;
  for (const control::ModelStatus& row : status.models) {
    const std::string_view model = models_.Bounded(row.model, max);
    out.Gauge("tidegate_scaling_demand", "Demand of a model in replicas, by its scaling policy")
        .Add(row.demand, {{"model", model}});
    out.Gauge("tidegate_scaling_wanted_replicas", "Replicas that a model should have")
        .Add(uint64_t{row.wanted}, {{"model", model}});
    out.Gauge("tidegate_scaling_held_requests", "Requests that wait for a replica")
        .Add(row.held, {{"model", model}});
    out.Gauge("tidegate_scaling_failed_starts", "Starts that failed, in a row")
        .Add(uint64_t{row.failures}, {{"model", model}});
    out.Gauge("tidegate_scaling_replicas", "Replicas that this gateway runs, by state");
    for (size_t s = 0; s < control::kReplicaStates; ++s)
      out.Add(uint64_t{row.replicas[s]},
              {{"model", model}, {"state", Name(static_cast<control::ReplicaState>(s))}});
  }
  for (const control::ColdStart& row : status.cold_starts) {
    const std::string_view model = models_.Bounded(row.model, max);
    out.Gauge("tidegate_cold_start_seconds", "Time from launch to readiness of the last starts")
        .Add(conf::ToSeconds(row.p50), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.5"}})
        .Add(conf::ToSeconds(row.p90), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.9"}});
  }
  for (const control::LearnedStarts::Row& row : status.start_phases) {
    const std::string_view model = models_.Bounded(row.model, max);
    for (size_t i = 0; i < control::kStartPhases; ++i) {
      const std::string_view phase = control::kStartPhaseNames[i];
      out.Gauge("tidegate_cold_start_phase_seconds", "Time that a phase of the last cold starts took")
          .Add(conf::ToSeconds(row.p50[i]),
               {{"model", model}, {"device_kind", row.kind}, {"phase", phase}, {"quantile", "0.5"}})
          .Add(conf::ToSeconds(row.p90[i]),
               {{"model", model}, {"device_kind", row.kind}, {"phase", phase}, {"quantile", "0.9"}});
    }
  }
  out.Counter("tidegate_weights_transferred_bytes_total",
              "Bytes of weights that nodes fetched for replicas of this gateway")
      .Add(static_cast<double>(status.weights_transferred - status.weights_from_neighbours),
           {{"from", "source"}})
      .Add(static_cast<double>(status.weights_from_neighbours), {{"from", "neighbour"}});
  out.Gauge("tidegate_weights_prefetching", "Fetches of weights under way that no replica waits for")
      .Add(static_cast<double>(status.prefetches.size()));
  out.Counter("tidegate_weights_prefetched_total",
              "Fetches of weights that ended well before a replica wanted them")
      .Add(static_cast<double>(status.prefetched));
  out.Counter("tidegate_weights_prefetch_failures_total", "Fetches of weights beforehand that failed")
      .Add(static_cast<double>(status.failed_prefetches));
  for (const control::ColdStart& row : status.wakes) {
    const std::string_view model = models_.Bounded(row.model, max);
    out.Gauge("tidegate_replica_wake_seconds",
              "Time from getting its devices again to readiness, of the last replicas that slept")
        .Add(conf::ToSeconds(row.p50), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.5"}})
        .Add(conf::ToSeconds(row.p90), {{"model", model}, {"device_kind", row.kind}, {"quantile", "0.9"}});
  }
  for (const auto& [of, us] : status.devices) {
    const auto& [tenant, of_model, kind] = of;
    out.Counter("tidegate_device_seconds_total",
                "Time that devices were held, by the tenant that pays; jobs have no model")
        .Add(static_cast<double>(us) * 1e-6,
             {{"tenant", tenants_.Bounded(tenant, max)},
              {"model", of_model.empty() ? std::string_view() : models_.Bounded(of_model, max)},
              {"device_kind", kind}});
  }
  for (const auto& [of, mj] : status.energy) {
    const auto& [tenant, of_model, kind] = of;
    out.Counter("tidegate_energy_joules_total",
                "Energy of devices, by the tenant that used it; jobs and idle devices have no model")
        .Add(static_cast<double>(mj) * 1e-3,
             {{"tenant", tenants_.Bounded(tenant, max)},
              {"model", of_model.empty() ? std::string_view() : models_.Bounded(of_model, max)},
              {"device_kind", kind}});
  }
  if (status.telemetry != nullptr) CollectDevices(*status.telemetry, max, out);
  out.Gauge("tidegate_devices_faulty", "Devices that get no new work because of faults")
      .Add(uint64_t{status.faults.size()});
  out.Gauge("tidegate_nodes_doubted",
            "Nodes that get no new work, by the part that distrusts them: tidegate or launcher")
      .Add(static_cast<uint64_t>(std::ranges::count(status.nodes, true, &control::NodeStatus::ours)),
           {{"by", "tidegate"}})
      .Add(static_cast<uint64_t>(std::ranges::count(status.nodes, false, &control::NodeStatus::ours)),
           {{"by", "launcher"}});
  out.Counter("tidegate_node_suspicions_total", "Times that a node was suspected because it was silent")
      .Add(status.suspicions);
  out.Counter("tidegate_moves_total", "Moves of running work that were begun, by what moves: job or replica")
      .Add(status.moves.jobs, {{"of", "job"}})
      .Add(status.moves.replicas, {{"of", "replica"}});
  out.Counter("tidegate_replica_moves_ended_total",
              "Moves of replicas that have ended: done where another serves in their place, or failed")
      .Add(status.moves.done, {{"result", "done"}})
      .Add(status.moves.failed, {{"result", "failed"}});
  out.Gauge("tidegate_devices_capped", "Devices whose power limits are lowered for a power budget")
      .Add(uint64_t{status.power_caps.size()});
  out.Counter("tidegate_replica_launches_total", "Replicas that were launched").Add(status.launches);
  out.Counter("tidegate_failed_replicas_total", "Replicas that this gateway started and that failed")
      .Add(status.failures);
}

// A gauge of a device is absent while its reading is old; its age is not. Devices beyond the bound of nodes are left
// out, since their figures cannot be added up.
void Metrics::CollectDevices(const control::TelemetryStatus& telemetry, size_t max,
                             MetricFamilies& out) const {
  const conf::TimePoint now = net::Now();
  for (const control::DeviceState& of : telemetry.devices) {
    if (nodes_.Bounded(of.node, max) != of.node) continue;
    const std::string device = std::to_string(of.device);
    const plugins::devices::Reading& reading = of.reading;
    out.Gauge("tidegate_device_reading_age_seconds", "Age of the last figures of a device")
        .Add(conf::ToSeconds(std::max(now - of.as_of, conf::Duration::zero())),
             {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    out.Counter("tidegate_device_energy_joules_total",
                "Energy that a device has drawn, as far as it was measured")
        .Add(static_cast<double>(of.energy_mj) * 1e-3,
             {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    out.Counter("tidegate_device_energy_gap_seconds_total",
                "Time in which the energy of a device was not measured")
        .Add(conf::ToSeconds(of.energy_gaps),
             {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    if (!of.fresh(now)) continue;
    if (reading.utilization) {
      out.Gauge("tidegate_device_utilization_ratio", "Part of the time in which a device computes")
          .Add(*reading.utilization, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.memory_used_mib) {
      out.Gauge("tidegate_device_memory_used_bytes", "Memory of a device that is in use")
          .Add(static_cast<double>(*reading.memory_used_mib) * 1024.0 * 1024,
               {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.memory_total_mib) {
      out.Gauge("tidegate_device_memory_bytes", "Memory of a device")
          .Add(static_cast<double>(*reading.memory_total_mib) * 1024.0 * 1024,
               {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.watts) {
      out.Gauge("tidegate_device_power_watts", "Power that a device draws")
          .Add(*reading.watts, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.watts_limit) {
      out.Gauge("tidegate_device_power_limit_watts", "The most power that a device may draw")
          .Add(*reading.watts_limit, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.celsius) {
      out.Gauge("tidegate_device_temperature_celsius", "Temperature of a device")
          .Add(*reading.celsius, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.clock_mhz) {
      out.Gauge("tidegate_device_clock_hertz", "Clock of a device's cores")
          .Add(static_cast<double>(*reading.clock_mhz) * 1e6,
               {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.ecc_corrected) {
      out.Gauge("tidegate_device_ecc_corrected_errors",
                "ECC errors since the driver was loaded that were corrected")
          .Add(*reading.ecc_corrected, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.ecc_uncorrected) {
      out.Gauge("tidegate_device_ecc_uncorrected_errors",
                "ECC errors since the driver was loaded that were not corrected")
          .Add(*reading.ecc_uncorrected, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (reading.link_errors) {
      out.Gauge("tidegate_device_link_errors", "Errors of a device's links since the driver was loaded")
          .Add(*reading.link_errors, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}});
    }
    if (!reading.throttling) continue;
    const std::pair<const char*, bool> reasons[] = {std::pair("power_cap", reading.throttling->power_cap),
                                                    std::pair("heat", reading.throttling->thermal),
                                                    std::pair("power_brake", reading.throttling->power_brake),
                                                    std::pair("hardware", reading.throttling->slowdown)};
    out.Gauge("tidegate_device_slowed", "1: a device is slowed down for this reason");
    for (const auto& [reason, holds] : reasons)
      out.Add(holds, {{"node", of.node}, {"device", device}, {"device_kind", of.kind}, {"reason", reason}});
  }
}

// The cluster that the planner shares out: once a second, by the formulas of the simulator.
void Metrics::CollectCluster(MetricFamilies& out) const {
  const control::ClusterStatus cluster = operations_.scaling().cluster;
  if (!cluster.known) return;
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const size_t max = runtime->config().telemetry.metrics.max_label_values;
  out.Gauge("tidegate_cluster_allocation_rate", "GAR: devices that are held, over all healthy devices")
      .Add(cluster.now.gar);
  out.Gauge("tidegate_cluster_occupation_rate",
            "SOR: device time that was held, over all device time of the last hour")
      .Add(cluster.sor);
  out.Gauge("tidegate_cluster_node_fragmentation_rate",
            "GFR: nodes of which some but not all devices are held, over all nodes that take work")
      .Add(cluster.now.gfr);
  out.Gauge("tidegate_cluster_fragmented_share",
            "Share of the devices that the usual requests cannot use where they are free")
      .Add(cluster.now.fragmentation);
  out.Counter("tidegate_cluster_device_seconds_total",
              "Device time of healthy devices: all of it, and the held part")
      .Add(cluster.capacity_seconds, {{"what", "capacity"}})
      .Add(cluster.held_seconds, {{"what", "held"}});
  out.Gauge("tidegate_cluster_devices",
            "Devices by kind: held, free, or unused because they are faulty or set aside");
  for (const scheduler::KindFigures& kind : cluster.now.kinds) {
    out.Add(InDevices(kind.held), {{"device_kind", kind.kind}, {"state", "held"}})
        .Add(InDevices(kind.free), {{"device_kind", kind.kind}, {"state", "free"}})
        .Add(InDevices(kind.unused), {{"device_kind", kind.kind}, {"state", "unused"}});
  }
  out.Gauge("tidegate_cluster_nodes", "Nodes, by health");
  for (size_t health = 0; health < cluster.now.nodes.size(); ++health)
    out.Add(uint64_t{cluster.now.nodes[health]}, {{"health", Name(static_cast<scheduler::Health>(health))}});
  out.Gauge("tidegate_cluster_waiting_devices", "Devices that waiting jobs and replicas ask for")
      .Add(InDevices(cluster.now.waiting));
  CollectJobQueues(cluster, max, out);
  for (const scheduler::TenantFigures& of : cluster.now.tenants) {
    const TenantRuntime* const known = runtime->FindTenant(of.tenant);
    const bool named = known != nullptr && !known->config->at_run_time;
    const std::string_view tenant = named ? tenants_.Bounded(of.tenant, max) : std::string_view("other");
    out.Gauge("tidegate_tenant_devices", "Devices that the jobs of a tenant hold")
        .Add(InDevices(of.held), {{"tenant", tenant}});
    out.Gauge("tidegate_tenant_jobs", "Jobs of a tenant that run or wait")
        .Add(uint64_t{of.running}, {{"tenant", tenant}, {"state", "running"}})
        .Add(uint64_t{of.waiting}, {{"tenant", tenant}, {"state", "waiting"}});
  }
}

void Metrics::CollectJobQueues(const control::ClusterStatus& cluster, size_t max, MetricFamilies& out) const {
  for (const scheduler::QueueFigures& of : cluster.now.queues) {
    const std::string_view queue = job_queues_.Bounded(of.name, max);
    out.Gauge("tidegate_job_queue_deserved_devices", "Devices that a queue deserves")
        .Add(InDevices(of.deserved), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_share_devices", "Fair share of a queue, by what it and the others ask for")
        .Add(InDevices(of.share), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_used_devices", "Devices that the jobs and replicas of a queue hold")
        .Add(InDevices(of.used), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_asked_devices", "Devices that a queue holds or waits for")
        .Add(InDevices(of.asked), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_borrowed_devices", "Devices that a queue uses above what it deserves")
        .Add(InDevices(of.borrowed), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_lent_devices",
              "Devices that a queue deserves and does not use, and that its neighbours use")
        .Add(InDevices(of.lent), {{"queue", queue}});
    out.Gauge("tidegate_job_queue_jobs", "Jobs and replicas of a queue that run or wait")
        .Add(uint64_t{of.running}, {{"queue", queue}, {"state", "running"}})
        .Add(uint64_t{of.waiting}, {{"queue", queue}, {"state", "waiting"}});
    out.Gauge("tidegate_job_queue_oldest_wait_seconds",
              "Age of the oldest job or replica that waits in a queue")
        .Add(conf::ToSeconds(of.oldest_wait), {{"queue", queue}});
  }
  for (const auto& [of, waits] : cluster.waits) {
    const HistogramSample sample{
        control::WaitsOfJobs::kBounds, {waits.counts.begin(), waits.counts.end()}, waits.sum};
    out.Histogram(
           "tidegate_job_wait_seconds",
           "JWTD: time from the submission of a job to its first start, by queue and number of devices")
        .Add(sample, {{"queue", job_queues_.Bounded(of.first, max)},
                      {"size", scheduler::kSizeClassNames[of.second]}});
  }
}

// What engines say of their KV caches.
void Metrics::CollectKvEvents(MetricFamilies& out) const {
  const KvEventsStatus status = operations_.kv_events();
  const size_t max = operations_.runtime()->config().telemetry.metrics.max_label_values;
  uint64_t exact = 0;
  for (const KvEventsStatus::Followed& replica : status.replicas) {
    if (replica.state == "exact") ++exact;
    // model@endpoint
    const std::string_view identity = replicas_.Bounded(replica.identity, max);
    const size_t at = identity.find('@');
    const std::string_view model = identity.substr(0, at);
    const std::string_view name = at == identity.npos ? identity : identity.substr(at + 1);
    const auto& [batches, malformed, connects, sequence] = replica.counts;
    out.Counter("tidegate_kv_event_blocks_total", "KV blocks that an engine reported as stored or removed")
        .Add(replica.stored, {{"model", model}, {"replica", name}, {"event", "stored"}})
        .Add(replica.removed, {{"model", model}, {"replica", name}, {"event", "removed"}});
    out.Counter("tidegate_kv_event_batches_total", "Batches of KV events that an engine published")
        .Add(batches, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_malformed_total",
                "Messages from an engine's event socket that were not valid KV events")
        .Add(malformed, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_connects_total", "Connections made to an engine's event socket")
        .Add(connects, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_gaps_total", "Times that batches of KV events were missed")
        .Add(sequence.gaps, {{"model", model}, {"replica", name}});
    out.Counter("tidegate_kv_event_replays_total",
                "Times that an engine was asked to replay missed KV events, by result")
        .Add(sequence.replays - sequence.failed_replays,
             {{"model", model}, {"replica", name}, {"result", "answered"}})
        .Add(sequence.failed_replays, {{"model", model}, {"replica", name}, {"result", "failed"}});
    out.Counter("tidegate_kv_event_clears_total",
                "Times that the known contents of a replica's KV cache were dropped, by cause")
        .Add(replica.cleared, {{"model", model}, {"replica", name}, {"by", "engine"}})
        .Add(sequence.clears, {{"model", model}, {"replica", name}, {"by", "sequence"}});
    out.Gauge("tidegate_kv_event_lag_seconds",
              "Age of the last batch of KV events when it was read, by the clocks of both machines")
        .Add(conf::ToSeconds(replica.lag), {{"model", model}, {"replica", name}});
    out.Gauge("tidegate_kv_blocks_known", "KV blocks that a replica holds according to its events")
        .Add(uint64_t{replica.blocks}, {{"model", model}, {"replica", name}});
  }
  out.Gauge("tidegate_exact_replicas", "Replicas whose KV cache is known from events, not estimated")
      .Add(exact);
  out.Gauge("tidegate_kv_blocks_linked", "KV blocks whose prompt text is known")
      .Add(uint64_t{status.residency.links});
  out.Counter("tidegate_kv_event_orphans_total", "KV blocks that followed an unknown block")
      .Add(status.residency.orphans);
  out.Counter("tidegate_kv_event_untracked_total",
              "KV blocks that were not tracked because there was no room")
      .Add(status.residency.untracked);
  out.Counter("tidegate_kv_prompts_total",
              "Prompts that were sent to an engine's tokenizer for KV events, by result");
  for (size_t how = 0; how < status.tokenized.size(); ++how)
    out.Add(status.tokenized[how], {{"result", Name(static_cast<Tokenized>(how))}});
}

void Metrics::CollectRoutingLog(MetricFamilies& out) const {
  if (!operations_.shared->routing_log) return;
  const routing::RoutingLog::Stats stats = operations_.shared->routing_log->stats();
  out.Counter("tidegate_routing_log_records_total", "Routing decisions written to the routing log")
      .Add(stats.written);
  out.Counter("tidegate_routing_log_dropped_total", "Routing decisions that the routing log lost, by reason")
      .Add(stats.dropped_queue, {{"why", "queue"}})
      .Add(stats.dropped_write, {{"why", "write"}});
  out.Gauge("tidegate_sticky_sessions_bytes", "Memory of the table of sticky sessions")
      .Add(operations_.shared->sessions.bytes());
}

void Metrics::CollectLedger(MetricFamilies& out) const {
  const ledger::Stats stats = operations_.shared->ledger->GetStats();
  out.Gauge("tidegate_ledger_healthy", "1 while the ledger takes records; 0: new requests are refused")
      .Add(stats.healthy);
  out.Gauge("tidegate_ledger_retention_failing",
            "1 while the ledger fails to remove segments that retention should remove")
      .Add(stats.retention_failing);
  out.Counter("tidegate_ledger_records_total", "Records written to the ledger").Add(stats.records);
  out.Gauge("tidegate_ledger_durable_seq", "Sequence number of the last record on disk")
      .Add(stats.durable_seq);
  out.Summary("tidegate_ledger_commit_seconds", "Time to write and sync a batch of ledger records")
      .AddSummary(stats.batches, Seconds(stats.commit_us_total));
  out.Gauge("tidegate_ledger_commit_last_seconds", "Time to write and sync the last batch of ledger records")
      .Add(Seconds(stats.commit_us_last));
  out.Gauge("tidegate_ledger_commit_max_seconds",
            "Longest time to write and sync a batch of ledger records since the start")
      .Add(Seconds(stats.commit_us_max));
  out.Gauge("tidegate_ledger_queued_bytes", "Records that wait in the journals for the ledger")
      .Add(stats.queued_bytes);
  out.Gauge("tidegate_ledger_lag_seconds", "Longest time that a record may have waited for the ledger")
      .Add(Seconds(stats.lag_us));
  out.Gauge("tidegate_ledger_open_requests", "Requests with an open record and no close record yet")
      .Add(stats.open_requests);
  out.Counter("tidegate_ledger_refused_opens_total", "Requests that the ledger could not take")
      .Add(stats.refused_opens);
  out.Counter("tidegate_ledger_dropped_records_total",
              "Records of refusals and of content that were dropped because there was no room")
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
  out.Gauge("tidegate_keys", "API keys, by kind and state");
  for (size_t state = 0; state < kKeyStates; ++state) {
    out.Add(counts[0][state], {{"kind", "application"}, {"state", Name(static_cast<KeyState>(state))}});
    out.Add(counts[1][state], {{"kind", "admin"}, {"state", Name(static_cast<KeyState>(state))}});
  }
  out.Gauge("tidegate_keys_without_tenant", "Active keys whose tenant is no longer configured").Add(orphans);
  if (operations_.key_events) {
    out.Gauge("tidegate_key_events_unrecorded", "Changes of keys that the ledger does not have yet")
        .Add(operations_.key_events->unrecorded());
  }
}

void Metrics::CollectServices(MetricFamilies& out) const {
  const conf::TimePoint now = net::Now();
  const OutboundStatus outbound = operations_.outbound();
  for (const SinkStatus& sink : outbound.sinks) {
    const std::string_view name = sink.name;
    out.Gauge("tidegate_sink_lag_records", "Audit records that a sink has not received yet")
        .Add(sink.lag_records, {{"sink", name}});
    out.Gauge("tidegate_sink_lag_seconds", "Age of the oldest record that a sink has not received yet")
        .Add(conf::ToSeconds(sink.lag), {{"sink", name}});
    out.Gauge("tidegate_sink_failing", "1 while the last delivery to a sink failed")
        .Add(sink.failing, {{"sink", name}});
    out.Counter("tidegate_sink_records_total", "Audit records delivered to a sink")
        .Add(sink.records, {{"sink", name}});
    out.Counter("tidegate_sink_failures_total", "Deliveries to a sink that failed")
        .Add(sink.failures, {{"sink", name}});
    out.Counter("tidegate_sink_missing_records_total",
                "Records that a sink can never receive, because the ledger lost or damaged them")
        .Add(sink.missing, {{"sink", name}});
    out.Counter("tidegate_sink_new_ledgers_total",
                "Times that a sink started over because it had received records of another ledger")
        .Add(sink.new_ledgers, {{"sink", name}});
  }
  if (outbound.sharing) {
    const SharingStatus& sharing = *outbound.sharing;
    out.Gauge("tidegate_sharing_state",
              "1 for the current state of sharing limits through Redis, 0 for the others");
    for (const SharingState state :
         {SharingState::kStarting, SharingState::kShared, SharingState::kRecovering,
          SharingState::kKeepingShares, SharingState::kFailedClosed}) {
      out.Add(sharing.state == state, {{"state", SharingStateName(state)}});
    }
    out.Gauge("tidegate_sharing_gateways", "Gateways that share limits through Redis").Add(sharing.gateways);
    out.Gauge("tidegate_sharing_round_trip_seconds", "Duration of the last answered round of claims to Redis")
        .Add(conf::ToSeconds(sharing.round_trip));
    if (sharing.answered_at.time_since_epoch().count() != 0) {
      out.Gauge("tidegate_sharing_age_seconds", "Time since the last answered round of claims to Redis")
          .Add(conf::ToSeconds(now - sharing.answered_at));
    }
    out.Counter("tidegate_sharing_rounds_total", "Rounds of claims to Redis").Add(sharing.rounds);
    out.Counter("tidegate_sharing_failed_rounds_total", "Rounds of claims to Redis that failed")
        .Add(sharing.failed_rounds);
  }
  if (outbound.traces) {
    const telemetry::OtlpExporter::Status& traces = *outbound.traces;
    out.Counter("tidegate_spans_sent_total", "Spans that the trace collector accepted").Add(traces.sent);
    out.Counter("tidegate_spans_dropped_total", "Spans that were dropped, by reason")
        .Add(traces.dropped_queue, {{"why", "queue_full"}})
        .Add(traces.dropped_sent, {{"why", "not_taken"}});
    out.Gauge("tidegate_spans_queued_bytes", "Memory of the spans that wait to be sent")
        .Add(traces.queued_bytes);
  }
  if (outbound.metrics) {
    out.Counter("tidegate_otlp_metrics_sent_total", "Reports of metrics that the collector accepted")
        .Add(outbound.metrics->sent);
    out.Counter("tidegate_otlp_metrics_failures_total",
                "Reports of metrics that the collector did not accept; the next one has their figures, too")
        .Add(outbound.metrics->failures);
  }
}

void Metrics::CollectGateways(MetricFamilies& out) const {
  const control::ControlPlane* const plane = operations_.control_plane();
  if (plane == nullptr) return;
  out.Gauge("tidegate_gateway_leader", "1 while this gateway leads: it starts and stops replicas and jobs")
      .Add(plane->leads());
  out.Gauge("tidegate_gateway_epoch", "The term in which this gateway leads; 0 while it does not")
      .Add(plane->epoch());
  const conf::TimePoint now = net::Now();
  const std::optional<control::StoreStatus> store = plane->store();
  if (!store) return;
  uint64_t live = 0;
  uint64_t lag = 0;
  const std::vector<control::GatewayStatus> gateways = plane->gateways(now);
  for (const control::GatewayStatus& gateway : gateways) {
    live += gateway.live ? 1 : 0;
    if (gateway.self) lag = gateway.lag;
  }
  out.Gauge("tidegate_gateways", "Gateways of the store that this gateway knows, by state")
      .Add(live, {{"state", "live"}})
      .Add(gateways.size() - live, {{"state", "gone"}});
  out.Gauge("tidegate_store_lag_changes",
            "Changes of the shared store that this gateway had not applied lately")
      .Add(lag);
  out.Gauge("tidegate_store_up", "Whether the shared store took this gateway's last record of itself")
      .Add(store->why.empty());
  if (store->answered.time_since_epoch().count() != 0) {
    out.Gauge("tidegate_store_age_seconds",
              "Time since the shared store last took this gateway's record of itself")
        .Add(conf::ToSeconds(now - store->answered));
  }
  if (operations_.usage_sharing == nullptr) return;
  if (const std::optional<conf::TimePoint> told = operations_.usage_sharing->told_at()) {
    out.Gauge("tidegate_usage_told_age_seconds", "Time since this gateway last told the others of its usage")
        .Add(conf::ToSeconds(now - *told));
  }
}

void Metrics::CollectBatches(MetricFamilies& out) const {
  const batches::Service* const service = operations_.shared->batches;
  if (service == nullptr || !operations_.runtime()->config().files) return;
  const batches::BatchStats stats = service->batches().stats();
  out.Gauge("tidegate_batches",
            "Batches by state; of those that several gateways share, those that this one runs or ran last");
  for (size_t i = 0; i < stats.batches.size(); ++i)
    out.Add(stats.batches[i], {{"state", batches::NameOf(static_cast<batches::BatchState>(i))}});
  out.Counter("tidegate_batch_lines_total", "Lines of batches that got a result, by outcome")
      .Add(stats.completed, {{"outcome", "completed"}})
      .Add(stats.failed, {{"outcome", "failed"}})
      .Add(stats.not_sent, {{"outcome", "not_sent"}});
  out.Counter("tidegate_batch_lines_put_off_total",
              "Times that a line of a batch was refused for now and waited for another try")
      .Add(stats.put_off);
  out.Gauge("tidegate_batch_lines_waiting", "Lines of running batches that are not sent yet")
      .Add(stats.waiting);
  out.Gauge("tidegate_batch_lines_in_flight", "Lines of batches at replicas or in queues")
      .Add(stats.in_flight);
  out.Gauge("tidegate_batches_paused", "Shared batches whose results cannot be stored in the bucket now")
      .Add(stats.paused);
  out.Counter("tidegate_batches_taken_over_total", "Shared batches that this gateway continued for another")
      .Add(stats.taken_over);
  out.Gauge("tidegate_files", "Files that applications keep").Add(uint64_t{service->files().count()});
  out.Gauge("tidegate_files_bytes", "Bytes of the files that applications keep")
      .Add(service->files().bytes());
  out.Gauge("tidegate_files_removals_waiting", "Objects of removed files that are still in the bucket")
      .Add(uint64_t{service->files().removals()});
}

// Only names of the configuration are labels.
void Metrics::CollectFeedback(MetricFamilies& out) const {
  const feedback::Service* const service = operations_.shared->feedback;
  if (service == nullptr) return;
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  std::map<std::string_view, feedback::Service::Counts> by_model;
  const auto counts = service->counts();
  for (const auto& [model, of_model] : counts) {
    const bool known = runtime->routes().Find(model).has_value();
    auto& sums = by_model[known ? std::string_view(model) : std::string_view("other")];
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_model[i];
  }
  out.Counter("tidegate_feedback_total",
              "Feedback on answers that was recorded, by the model that was asked and the kind of value");
  for (const auto& [model, sums] : by_model) {
    for (size_t i = 0; i < sums.size(); ++i)
      out.Add(sums[i], {{"model", model}, {"value", feedback::Service::CountName(i)}});
  }
}

void Metrics::CollectProcess(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const ReloadState reloads = operations_.reloads();
  out.Gauge("tidegate_build_info", "Always 1; the version and the compiler are labels")
      .Add(true, {{"version", TIDEGATE_VERSION}, {"compiler", __VERSION__}});
  out.Gauge("tidegate_clock_offset_seconds",
            "Time of the gateway minus that of its machine, whose clock may be set while the gateway runs")
      .Add(conf::ToSeconds(admin::ClockOffset()));
  out.Gauge("tidegate_config_info", "Always 1; the hash of the applied configuration is a label")
      .Add(true, {{"sha256", runtime->hash()}});
  out.Gauge("tidegate_config_loaded_timestamp_seconds", "When the configuration was applied")
      .Add(Seconds(runtime->loaded_at()));
  out.Gauge("tidegate_config_last_reload_successful",
            "1 when the last reload was applied; 0 when it was refused and an older configuration stays")
      .Add(reloads.last_ok);
  out.Counter("tidegate_config_reloads_total", "Reloads of the configuration, by result")
      .Add(reloads.applied, {{"result", "applied"}})
      .Add(reloads.refused, {{"result", "refused"}});
  out.Gauge("tidegate_body_memory_bytes", "Memory that the bodies of running requests have been granted")
      .Add(operations_.shared->body_memory.bytes());
  out.Gauge("tidegate_disk_low",
            "1 while the disk has less free space than ledger.min_free_bytes and new requests are refused")
      .Add(operations_.shared->disk_low.load());
  for (const Jwks::Status& issuer : operations_.issuers()) {
    out.Gauge("tidegate_jwks_usable", "1 while the key set of an issuer is usable")
        .Add(issuer.usable, {{"issuer", issuer.issuer}});
    if (issuer.age) {
      out.Gauge("tidegate_jwks_age_seconds",
                "Time since the key set of an issuer was last fetched or confirmed")
          .Add(conf::ToSeconds(*issuer.age), {{"issuer", issuer.issuer}});
    }
    out.Counter("tidegate_jwks_failures_total", "Fetches of the key set of an issuer that failed")
        .Add(issuer.failures, {{"issuer", issuer.issuer}});
  }
  out.Gauge("tidegate_draining", "1 while the process shuts down").Add(operations_.shared->stopping.load());
  out.Counter("tidegate_log_lines_dropped_total", "Log lines that could not be written in time")
      .Add(log::Dropped());

  const telemetry::AccessLog::Stats access_log = operations_.shared->access_log.stats();
  out.Counter("tidegate_access_log_lines_total", "Lines written to the access log").Add(access_log.written);
  out.Counter("tidegate_access_log_dropped_total", "Lines that the access log lost, by reason")
      .Add(access_log.dropped_queue, {{"why", "queue"}})
      .Add(access_log.dropped_write, {{"why", "write"}});

  const ProcessStats stats = ReadProcessStats();
  out.Gauge("process_resident_memory_bytes", "Resident memory of the process").Add(stats.resident_bytes);
  out.Gauge("process_virtual_memory_bytes", "Virtual memory of the process").Add(stats.virtual_bytes);
  out.Counter("process_cpu_seconds_total", "User and system CPU time of the process").Add(stats.cpu_seconds);
  out.Gauge("process_open_fds", "Open file descriptors").Add(stats.open_fds);
  out.Gauge("process_max_fds", "Limit of open file descriptors").Add(stats.max_fds);
  out.Gauge("process_threads", "Threads of the process").Add(stats.threads);
  out.Gauge("process_start_time_seconds", "When the process was started").Add(stats.start_time);
}

}  // namespace gateway
