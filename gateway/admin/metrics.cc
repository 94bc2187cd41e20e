// Metrics of requests: models, replicas, shards. metrics_state.cc has the state of the process.
#include "gateway/admin/metrics.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <map>

#include "gateway/api/error.h"
#include "gateway/net/clock.h"

namespace gateway {
namespace {

using router::Breaker;
using router::HealthState;
using router::OutlierStatus;

constexpr std::string_view kOther = "other";

HistogramSample SampleOf(const DurationCells& cells) {
  HistogramSample sample{DurationCells::kBounds, {}, static_cast<double>(cells.sum_ns.value()) * 1e-9};
  for (const Cell& bucket : cells.buckets) sample.counts.push_back(bucket.value());
  return sample;
}

HistogramSample SampleOf(const TokenCells& cells) {
  HistogramSample sample{TokenCells::kBounds, {}, static_cast<double>(cells.sum.value())};
  for (const Cell& bucket : cells.buckets) sample.counts.push_back(bucket.value());
  return sample;
}

struct ModelHistogram {
  std::string_view name;
  std::string_view label;  // how the model is called in it
  std::string_view help;
  DurationCells ModelCells::* cells;
};
constexpr std::string_view kGenAiModel = "gen_ai_request_model";
constexpr std::array<ModelHistogram, 6> kModelHistograms = {{
    {"gen_ai_server_request_duration_seconds", kGenAiModel,
     "Time from a request's head to the end of its answer", &ModelCells::duration},
    {"gen_ai_server_time_to_first_token_seconds", kGenAiModel,
     "Time from a request's head to the first token of its answer", &ModelCells::time_to_first_token},
    {"gen_ai_server_time_per_output_token_seconds", kGenAiModel,
     "Mean time between the tokens of an answer after the first", &ModelCells::time_per_output_token},
    {"tidegate_queue_time_seconds", "model", "Time that requests waited for a replica",
     &ModelCells::queue_time},
    {"tidegate_prefill_time_seconds", "model",
     "Time that prefill replicas took to compute prompts for other replicas", &ModelCells::prefill_time},
    {"tidegate_overhead_seconds", "model",
     "Time that the gateway itself added before it sent the request to a replica", &ModelCells::overhead},
}};

struct ModelCounter {
  std::string_view name;
  std::string_view help;
  Cell ModelCells::* cell;
};
constexpr std::array<ModelCounter, 8> kModelCounters = {{
    {"tidegate_streams_total", "Requests that asked for a stream", &ModelCells::streams},
    {"tidegate_cached_input_tokens_total", "Input tokens that an engine took from its prefix cache",
     &ModelCells::cached_tokens},
    {"tidegate_predicted_cached_input_tokens_total",
     "Input tokens that the router expected in the prefix cache of the chosen replica",
     &ModelCells::predicted_cached_tokens},
    {"tidegate_retries_total", "Attempts on another replica after the first one", &ModelCells::retries},
    {"tidegate_fallbacks_total", "Requests that a fallback model served", &ModelCells::fallbacks},
    {"tidegate_prompts_handed_over_total", "Answers whose prompt a prefill replica computed",
     &ModelCells::handed_over},
    {"tidegate_prompts_not_handed_over_total",
     "Prompts that the answering replica computed because the prefill replicas failed",
     &ModelCells::computed_here},
    {"tidegate_answers_by_prefill_total",
     "Requests that a prefill replica served whole because no other replica was usable",
     &ModelCells::by_prefill},
}};

struct ShadowCounter {
  std::string_view value;
  Cell ShadowCells::* cell;
};
constexpr std::array<ShadowCounter, 4> kShadowResults = {{{"compared", &ShadowCells::compared},
                                                          {"unpaired", &ShadowCells::unpaired},
                                                          {"failed", &ShadowCells::failed},
                                                          {"skipped", &ShadowCells::skipped}}};
constexpr std::array<ShadowCounter, 4> kShadowDifferences = {
    {{"status", &ShadowCells::status_differs},
     {"finish", &ShadowCells::finish_differs},
     {"output_tokens", &ShadowCells::output_tokens_differ},
     {"text", &ShadowCells::text_differs}}};

void AddShadows(MetricFamilies& out, std::string_view model, const ShadowCells& cells) {
  out.Counter("tidegate_shadow_requests_total", "Shadow copies of requests, by result");
  for (const ShadowCounter& counter : kShadowResults)
    out.Add((cells.*counter.cell).value(), {{"model", model}, {"result", counter.value}});
  out.Counter("tidegate_shadow_differences_total",
              "Shadow copies whose answer differed from the answer of the request, by what differed");
  for (const ShadowCounter& counter : kShadowDifferences)
    out.Add((cells.*counter.cell).value(), {{"model", model}, {"what", counter.value}});
  out.Gauge("tidegate_shadow_active", "Shadow copies that are running now")
      .Add(cells.active.value(), {{"model", model}});
  out.Histogram("tidegate_shadow_time_to_first_token_seconds",
                "Time from sending a shadow copy to its first token")
      .Add(SampleOf(cells.time_to_first_token), {{"model", model}});
  out.Histogram("tidegate_shadow_duration_seconds",
                "Time from sending a shadow copy to the end of its answer")
      .Add(SampleOf(cells.duration), {{"model", model}});
}

void AddClass(MetricFamilies& out, std::string_view model, std::string_view name, const ClassCells& cells) {
  out.Counter("tidegate_class_requests_total",
              "Requests for a model that passed the limits, by priority band")
      .Add(cells.came.value(), {{"model", model}, {"class", name}});
  out.Counter("tidegate_class_prompt_tokens_total", "Estimated prompt tokens of requests, by priority band")
      .Add(cells.came_tokens.value(), {{"model", model}, {"class", name}});
  out.Counter("tidegate_class_refused_requests_total",
              "Requests that were refused because there was no room, by priority band")
      .Add(cells.refused.value(), {{"model", model}, {"class", name}});
  out.Gauge("tidegate_class_active_requests", "Requests at replicas or waiting, by priority band")
      .Add(cells.active.value(), {{"model", model}, {"class", name}});
  out.Gauge("tidegate_class_waiting_prompt_tokens", "Prompt tokens of waiting requests, by priority band")
      .Add(cells.waiting_tokens.value(), {{"model", model}, {"class", name}});
  out.Histogram("tidegate_class_time_to_first_token_seconds",
                "Time from a request's head to its first token, by priority band")
      .Add(SampleOf(cells.time_to_first_token), {{"model", model}, {"class", name}});
}

// By router::QueueRefusal.
constexpr std::array<api::Code, 4> kQueueRefusals = {api::Code::kQueueTimeout, api::Code::kQueueFull,
                                                     api::Code::kQueueShareExceeded,
                                                     api::Code::kDeadlineUnreachable};

// A replica as the policies see it.
struct ReplicaSignal {
  std::string_view name;
  std::string_view help;
  double router::ReplicaSignals::* value;
};
constexpr std::array<ReplicaSignal, 4> kReplicaSignals = {{
    {"tidegate_replica_requests", "Requests on a replica, including requests from other senders",
     &router::ReplicaSignals::requests},
    {"tidegate_replica_backlog_tokens", "Prompt tokens that a replica still has to compute",
     &router::ReplicaSignals::backlog},
    {"tidegate_replica_kv_use", "Part of a replica's KV cache that is in use",
     &router::ReplicaSignals::kv_use},
    {"tidegate_replica_prefill_tokens_per_second",
     "Prompt tokens per second that a replica computes, as measured by the gateway",
     &router::ReplicaSignals::prefill_rate},
}};

struct ReplicaFailure {
  std::string_view kind;
  Cell ReplicaCells::* cell;
};
constexpr std::array<ReplicaFailure, 7> kReplicaFailures = {{{"connect", &ReplicaCells::connect_failures},
                                                             {"broken", &ReplicaCells::broken},
                                                             {"refused", &ReplicaCells::refusals},
                                                             {"error", &ReplicaCells::errors},
                                                             {"timeout", &ReplicaCells::timeouts},
                                                             {"hung", &ReplicaCells::hung},
                                                             {"cancelled", &ReplicaCells::cancelled}}};

constexpr std::array<std::pair<Breaker::Phase, std::string_view>, 3> kPhases = {
    {{Breaker::Phase::kClosed, "closed"},
     {Breaker::Phase::kOpen, "open"},
     {Breaker::Phase::kHalfOpen, "half_open"}}};
constexpr std::array<OutlierStatus::State, 3> kStandings = {
    OutlierStatus::State::kGood, OutlierStatus::State::kHung, OutlierStatus::State::kEjected};
constexpr std::array<HealthState, 3> kHealthStates = {HealthState::kUnknown, HealthState::kUp,
                                                      HealthState::kDown};

// model@endpoint, taken apart; a replica beyond the bound has neither.
struct ReplicaLabels {
  std::string_view model;
  std::string_view replica;
};

}  // namespace

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  MetricFamilies out;
  CollectModels(out);
  CollectQueues(out);
  CollectReplicas(out);
  CollectPrefixes(out);
  CollectScaling(out);
  CollectCluster(out);
  CollectKvEvents(out);
  CollectRoutingLog(out);
  CollectShards(out);
  CollectLimits(out);
  CollectLedger(out);
  CollectKeys(out);
  CollectBatches(out);
  CollectFeedback(out);
  CollectServices(out);
  CollectGateways(out);
  CollectProcess(out);
  return out.Take();
}

std::string Metrics::Render() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

void Metrics::CollectModels(MetricFamilies& out) const {
  const size_t max = operations_.runtime()->config().telemetry.metrics.max_label_values;
  for (const ShardMetrics* shard : operations_.shards()) {
    shard->ForEachModel([&](const std::string& name, const ModelCells& cells) {
      const std::string_view model = models_.Bounded(name, max);
      for (const ModelHistogram& histogram : kModelHistograms) {
        out.Histogram(histogram.name, histogram.help)
            .Add(SampleOf(cells.*histogram.cells), {{histogram.label, model}});
      }
      out.Histogram("gen_ai_client_token_usage",
                    "Tokens that requests used, as the engine or the gateway counted them")
          .Add(SampleOf(cells.input_tokens), {{kGenAiModel, model}, {"gen_ai_token_type", "input"}})
          .Add(SampleOf(cells.output_tokens), {{kGenAiModel, model}, {"gen_ai_token_type", "output"}});
      out.Counter("tidegate_requests_total", "Requests for a model that have ended, by reason");
      for (size_t i = 0; i < cells.requests.size(); ++i) {
        const std::string_view reason = Name(static_cast<ledger::EndReason>(i));
        out.Add(cells.requests[i].value(), {{"model", model}, {"reason", reason}});
      }
      for (const ModelCounter& counter : kModelCounters) {
        out.Counter(counter.name, counter.help).Add((cells.*counter.cell).value(), {{"model", model}});
      }
      AddShadows(out, model, cells.shadow);
      for (const auto& [name_of, of_class] : cells.classes)
        AddClass(out, model, classes_.Bounded(name_of, max), *of_class);
      out.Counter("tidegate_queue_refusals_total",
                  "Requests that a queue refused or held too long, by error code");
      for (size_t i = 0; i < kQueueRefusals.size(); ++i) {
        out.Add(cells.queue_refusals[i].value(),
                {{"model", model}, {"code", api::Info(kQueueRefusals[i]).name}});
      }
      out.Counter("tidegate_cost_usd_total", "Cost of requests by the prices of the models, in USD")
          .Add(static_cast<double>(cells.cost_micro_usd.value()) * 1e-6, {{"model", model}});
    });
  }
}

void Metrics::CollectQueues(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const size_t max = runtime->config().telemetry.metrics.max_label_values;
  const conf::TimePoint now = net::Now();
  for (const ModelRuntime& model : runtime->models()) {
    if (!model.queue || model.config->lora) continue;  // an adapter's is its base's
    const std::string_view name = models_.Bounded(model.waits->model(), max);
    for (const ModelQueue::Band& band : model.waits->Describe(now, 0).bands) {
      out.Gauge("tidegate_queue_requests", "Requests that wait at the gateway for a replica")
          .Add(uint64_t{band.waiting}, {{"model", name}, {"band", band.name}});
      out.Gauge("tidegate_queue_bytes", "Memory of the requests that wait at the gateway")
          .Add(band.bytes, {{"model", name}, {"band", band.name}});
    }
  }
}

void Metrics::CollectReplicas(MetricFamilies& out) const {
  const std::shared_ptr<const Runtime> runtime = operations_.runtime();
  const size_t max = runtime->config().telemetry.metrics.max_label_values;
  const auto labels_of = [&](std::string_view identity) -> ReplicaLabels {
    if (replicas_.Bounded(identity, max) == kOther) return {kOther, kOther};
    const size_t at = identity.find('@');
    return {identity.substr(0, at), identity.substr(at + 1)};
  };
  for (const ShardMetrics* shard : operations_.shards()) {
    shard->ForEachReplica([&](const std::string& identity, const ReplicaCells& cells) {
      const auto [model, replica] = labels_of(identity);
      out.Counter("tidegate_replica_attempts_total", "Attempts to serve a request on a replica")
          .Add(cells.attempts.value(), {{"model", model}, {"replica", replica}});
      out.Counter("tidegate_replica_failures_total", "Attempts on a replica that failed, by kind of failure");
      for (const ReplicaFailure& failure : kReplicaFailures) {
        out.Add((cells.*failure.cell).value(),
                {{"model", model}, {"replica", replica}, {"kind", failure.kind}});
      }
    });
  }
  const conf::TimePoint now = net::Now();
  for (const router::Replica& at : runtime->routes().replicas()) {
    router::ReplicaState& state = runtime->load()[at.id];
    const auto [model, replica] = labels_of(at.spec.identity);
    out.Gauge("tidegate_replica_outstanding_requests",
              "Requests that a replica is working on for this gateway")
        .Add(state.load.requests(), {{"model", model}, {"replica", replica}});
    out.Gauge("tidegate_replica_outstanding_tokens",
              "Tokens that the requests on a replica are still expected to take")
        .Add(state.load.tokens(), {{"model", model}, {"replica", replica}});
    const router::ReplicaSignals signals = state.engine.Read(now);
    for (const ReplicaSignal& signal : kReplicaSignals) {
      out.Gauge(signal.name, signal.help)
          .Add(signals.*signal.value, {{"model", model}, {"replica", replica}});
    }
    out.Gauge("tidegate_replica_breaker_phase",
              "1 for the current phase of a replica's circuit breaker, 0 for the others");
    const Breaker::Phase phase = state.breaker.phase(now);
    for (const auto& [value, name] : kPhases) {
      out.Add(phase == value, {{"model", model}, {"replica", replica}, {"phase", name}});
    }
    out.Gauge("tidegate_replica_standing",
              "1 for the current standing of a replica by its token stream, 0 for the others");
    for (const OutlierStatus::State value : kStandings) {
      out.Add(state.outlier.state() == value,
              {{"model", model}, {"replica", replica}, {"state", OutlierStatus::NameOf(value)}});
    }
    out.Gauge("tidegate_replica_share",
              "Share of a full load that a replica may hold; below 1 while it is new or just back")
        .Add(state.outlier.Share(now), {{"model", model}, {"replica", replica}});
    out.Gauge("tidegate_replica_health",
              "1 for the current health of a replica by its probes, 0 for the others");
    for (const HealthState value : kHealthStates) {
      out.Add(state.health.state() == value,
              {{"model", model}, {"replica", replica}, {"state", router::HealthName(value)}});
    }
  }
}

void Metrics::CollectShards(MetricFamilies& out) const {
  const std::vector<const ShardMetrics*> shards = operations_.shards();
  for (const ShardMetrics* shard : shards) {
#define TIDEGATE_COUNTER(name, help) \
  out.Counter("tidegate_" #name "_total", help).Add(shard->cells.name.value());
#define TIDEGATE_GAUGE(name, help) out.Gauge("tidegate_" #name, help).Add(shard->cells.name.value());
#include "gateway/metrics/metrics.def"
#undef TIDEGATE_COUNTER
#undef TIDEGATE_GAUGE
  }
  out.Gauge("tidegate_shards", "Threads that serve requests").Add(shards.size());
}

}  // namespace gateway
