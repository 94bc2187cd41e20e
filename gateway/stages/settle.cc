// settle: how every request ends: what it used is charged, what happened is recorded and counted.
#include "gateway/handover/hop.h"
#include "gateway/net/clock.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"
#include "gateway/upstream/upstream.h"

namespace gateway::stages {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;

int64_t Micros(conf::Duration d) {
  return duration_cast<microseconds>(d).count();
}

// gen_ai.operation.name, as the semantic conventions name the operations.
std::string_view OperationOf(router::Api api) {
  switch (api) {
    case router::Api::kCompletions:
      return "text_completion";
    case router::Api::kEmbeddings:
      return "embeddings";
    case router::Api::kChatCompletions:
    case router::Api::kMessages:
    case router::Api::kResponses:
      return "chat";
    default:
      return router::SpecOf(api).name;
  }
}

bool Happened(conf::TimePoint t) {
  return t.time_since_epoch().count() != 0;
}

// What the engine did not report is taken from what passed, and marked so.
void FillCounts(Exchange& x) {
  if (x.counts.source == ledger::TokenSource::kUpstream) {
    if (x.facts.prompt_bytes > 0 && x.model_id != kNoModel) {
      router::TokenEstimate& estimate = *x.model().estimate;
      estimate.LearnPrompt(x.facts.prompt_bytes, static_cast<int64_t>(x.counts.input));
      estimate.LearnCached(static_cast<int64_t>(x.counts.input), static_cast<int64_t>(x.counts.cached));
      if (x.counts.output > 0) {
        estimate.LearnOutput(static_cast<int64_t>(x.counts.output) / x.facts.n, x.events);
      }
    }
    return;
  }
  const bool reached = Happened(x.at.first_token) || x.reason == ledger::EndReason::kClientGone ||
                       x.reason == ledger::EndReason::kTimedOut;
  if (!Happened(x.at.sent) || !reached) return;
  x.CountFromEvents();
}

// As the replica's engine calls it; the runtime's own text.
std::string_view ServedModel(const Exchange& x) {
  const router::RouteTable& routes = x.runtime->routes();
  return routes.NameAt(x.attempt->model(), routes.replica(x.replica)).name;
}

ledger::CloseRecord RecordOf(Exchange& x) {
  ledger::CloseRecord record;
  record.time_us = conf::ToUnixMicros(x.at.ended);
  record.reason = x.reason;
  record.status = static_cast<uint16_t>(x.status);
  record.counts = x.counts;
  record.total_us = Micros(x.at.ended - x.at.started);
  if (Happened(x.at.queued)) record.queue_us = Micros(x.QueueTime());
  if (Happened(x.at.first_token)) {
    record.counts.ttft_us = Micros(x.at.first_token - x.at.started);
    if (x.counts.output > 1 && x.events > 1) {
      record.itl_mean_us =
          Micros((x.at.last_token - x.at.first_token) / static_cast<int64_t>(x.counts.output - 1));
      record.itl_max_us = Micros(x.at.max_gap);
    }
  }
  if (Happened(x.at.sent))
    record.overhead_us = Micros(x.at.sent - x.at.started - x.at.body_wait - x.at.prefill - x.QueueTime());
  if (x.replica != kNoReplica) {
    record.replica = x.runtime->replica(x.replica).name();
    record.served_model = ServedModel(x);
    if (x.hop && x.hop->computed_at()) record.prefill = x.runtime->replica(*x.hop->computed_at()).name();
  }
  record.limit = x.limit;
  if (x.error) record.error = x.error->code;
  return record;
}

void CountHandover(const Exchange& x, ModelCells& model) {
  if (!x.attempt) return;
  if (x.attempt->decision().by_prefill) model.by_prefill.Add();
  if (x.attempt->fell_back() || (x.hop && x.hop->in_vain())) model.computed_here.Add();
  if (x.hop && x.hop->computed_at()) model.handed_over.Add();
}

void Count(Exchange& x) {
  ShardCells& cells = x.shard.metrics.cells;
  cells.bytes_received.Add(x.counts.bytes_in);
  cells.bytes_sent.Add(x.counts.bytes_out);
  if (x.reason == ledger::EndReason::kClientGone) cells.client_disconnects.Add();
  if (x.model_id == kNoModel) return;
  ModelCells& model = x.shard.metrics.model(*x.runtime, x.model_id);
  model.requests[static_cast<size_t>(x.reason)].Add();
  if (x.facts.stream) model.streams.Add();
  if (x.counts.input > 0) model.input_tokens.Observe(x.counts.input);
  if (x.counts.output > 0) model.output_tokens.Observe(x.counts.output);
  model.cached_tokens.Add(x.counts.cached);
  if (x.attempt) model.predicted_cached_tokens.Add(static_cast<uint64_t>(x.attempt->predicted_cached()));
  CountHandover(x, model);
  model.cost_micro_usd.Add(static_cast<uint64_t>(x.counts.cost_micro_usd));
  if (!x.ticket && x.reason == ledger::EndReason::kRefused) return;
  model.duration.Observe(x.at.ended - x.at.started);
  if (Happened(x.at.queued)) model.queue_time.Observe(x.QueueTime());
  if (Happened(x.at.sent))
    model.overhead.Observe(x.at.sent - x.at.started - x.at.body_wait - x.at.prefill - x.QueueTime());
  if (!Happened(x.at.first_token)) return;
  const conf::Duration first_token = x.at.first_token - x.at.started;
  std::optional<conf::Duration> between;
  if (x.counts.output > 1 && x.events > 1)
    between = (x.at.last_token - x.at.first_token) / static_cast<int64_t>(x.counts.output - 1);
  model.time_to_first_token.Observe(first_token);
  if (between) model.time_per_output_token.Observe(*between);
  x.demand.Answered(first_token, between);
}

// Our span, where the trace is sampled; after everything that needs the exchange's numbers.
void Trace(Exchange& x) {
  if (!x.trace || !x.trace->sampled || !x.spec) return;
  telemetry::Span span;
  span.context = *x.trace;
  if (x.caller) span.parent = x.caller->span_id;
  span.start = x.at.started;
  span.end = x.at.ended;
  span.operation = OperationOf(x.spec->api);
  span.request_model = x.facts.model.view().substr(0, ledger::kMaxModel);
  span.status_code = x.status;
  span.request_id = x.id;
  if (x.principal) span.tenant = x.principal->tenant;
  if (x.replica != kNoReplica) {
    const ReplicaRuntime& replica = x.runtime->replica(x.replica);
    span.response_model = std::string(ServedModel(x));
    span.replica = replica.name();
    span.server_address = replica.config->url.host;
    span.server_port = replica.config->url.port;
    span.attempts = x.counts.attempts;
    span.queued = x.QueueTime();
  }
  if (x.counts.source != ledger::TokenSource::kNone) {
    span.input_tokens = static_cast<int64_t>(x.counts.input);
    span.output_tokens = static_cast<int64_t>(x.counts.output);
  }
  if (Happened(x.at.first_token)) span.time_to_first_token = x.at.first_token - x.at.started;
  if (x.finish != api::Finish::kNone) {
    span.finish_reasons.emplace_back(x.finish == api::Finish::kLength ? "length" : "stop");
  }
  if (x.error) {
    span.error_type = x.error->code;
  } else if (ledger::IsError(x.reason)) {
    span.error_type = Name(x.reason);
  }
  x.shard.shared.traces->Enqueue(std::move(span));
}

}  // namespace

void Charge(Exchange& x) {
  if (x.charged) return;
  x.charged = true;
  FillCounts(x);
  x.reservation.Settle(x.Used());
}

void Settle(Exchange& x) {
  x.at.ended = net::Now();
  if (x.error && x.status == 0) x.status = x.error->status;
  Charge(x);
  if (x.ticket) {
    x.TellProgress();
    const ledger::CloseRecord record = RecordOf(x);
    Count(x);
    if (x.answer_bytes > 0) {
      x.ticket.Content({.time_us = record.time_us,
                        .part = ledger::ContentPart::kAnswer,
                        .text = x.answer_text,
                        .full_bytes = x.answer_bytes});
    }
    x.ticket.Close(record);
  } else if (x.error && x.spec) {
    // Never admitted: one close without an open.
    x.shard.journal.Refuse(OpenRecordOf(x), RecordOf(x));
    Count(x);
  }
  Trace(x);
  x.traffic.Ended(x);
  if (x.place) x.place->Settle(QueueCost(x.Used()));
  x.attempt.reset();
  CallNext(x, x.at.ended);
  if (x.upstream) x.upstream->Release(x.at.ended);
}

}  // namespace gateway::stages
