// settle, close, signal: the end of every request. Its use is charged, recorded in the ledger, and counted.
#include "conf/hex.h"
#include "gateway/net/clock.h"
#include "gateway/request/admit.h"
#include "gateway/request/charge.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

// gen_ai.operation.name, as the semantic conventions define it.
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

// The engine's name for the model that served; a view into the runtime.
std::string_view ServedModel(const Exchange& x) {
  const router::RouteTable& routes = x.runtime->routes();
  return routes.NameAt(x.delivery.attempt->model(), routes.replica(x.delivery.replica)).name;
}

ledger::CloseRecord CloseRecordOf(const Exchange& x) {
  ledger::CloseRecord record;
  record.time_us = conf::ToUnixMicros(x.at.ended);
  record.reason = x.outcome.reason;
  record.status = static_cast<uint16_t>(x.outcome.status);
  record.counts = x.outcome.counts;
  record.total_us = ToMicros(x.at.ended - x.at.started);
  if (Happened(x.at.queued)) record.queue_us = ToMicros(x.at.QueueTime());
  if (Happened(x.at.first_token)) {
    record.counts.ttft_us = ToMicros(x.at.first_token - x.at.started);
    if (x.outcome.counts.output > 1 && x.outcome.events > 1) {
      record.itl_mean_us =
          ToMicros((x.at.last_token - x.at.first_token) / static_cast<int64_t>(x.outcome.counts.output - 1));
      record.itl_max_us = ToMicros(x.at.max_gap);
    }
  }
  if (Happened(x.at.sent)) record.overhead_us = ToMicros(x.at.OverheadBeforeSend());
  if (x.delivery.replica != kNoReplica) {
    record.replica = x.runtime->replica(x.delivery.replica).name();
    record.served_model = ServedModel(x);
    if (x.delivery.transfer && x.delivery.transfer->computed_at())
      record.prefill = x.runtime->replica(*x.delivery.transfer->computed_at()).name();
  }
  record.limit = x.outcome.limit;
  if (x.outcome.error) record.error = x.outcome.error->code;
  return record;
}

// Reports the result to the part of the gateway that sent the request.
void ReportToSender(const Exchange& x) {
  const ledger::CloseRecord record = CloseRecordOf(x);
  EndedRequest ended{.request = std::string(x.identity.id),
                     .replica = std::string(record.replica),
                     .error = std::string(record.error),
                     .reason = record.reason,
                     .counts = record.counts,
                     .queue_us = record.queue_us,
                     .total_us = record.total_us};
  if (x.delivery.upstream && x.HidesCached()) ended.counts.cached = 0;
  x.identity.on_behalf->Tell(std::move(ended));
}

void CountTransfer(const Exchange& x, ModelCells& model) {
  if (!x.delivery.attempt) return;
  if (x.delivery.attempt->decision().by_prefill) model.by_prefill.Add();
  if (x.delivery.attempt->fell_back() || (x.delivery.transfer && x.delivery.transfer->params_missing()))
    model.computed_here.Add();
  if (x.delivery.transfer && x.delivery.transfer->computed_at()) model.handed_over.Add();
}

// Called before the ticket is closed: the ticket shows whether the request was admitted.
void Count(Exchange& x) {
  ShardCells& cells = x.shard.metrics.cells;
  cells.bytes_received.Add(x.outcome.counts.bytes_in);
  cells.bytes_sent.Add(x.outcome.counts.bytes_out);
  if (x.outcome.reason == ledger::EndReason::kClientGone) cells.client_disconnects.Add();
  if (x.model_id == kNoModel) return;
  ModelCells& model = x.shard.metrics.model(x.runtime->names(), x.model_id);
  model.requests[static_cast<size_t>(x.outcome.reason)].Add();
  if (x.body.facts.stream) model.streams.Add();
  if (x.outcome.counts.input > 0) model.input_tokens.Observe(x.outcome.counts.input);
  if (x.outcome.counts.output > 0) model.output_tokens.Observe(x.outcome.counts.output);
  model.cached_tokens.Add(x.outcome.counts.cached);
  if (x.delivery.attempt)
    model.predicted_cached_tokens.Add(static_cast<uint64_t>(x.delivery.attempt->predicted_cached()));
  CountTransfer(x, model);
  model.cost_micro_usd.Add(static_cast<uint64_t>(x.outcome.counts.cost_micro_usd));
  if (!x.grant.ticket && x.outcome.reason == ledger::EndReason::kRefused) return;
  model.duration.Observe(x.at.ended - x.at.started);
  if (Happened(x.at.queued)) model.queue_time.Observe(x.at.QueueTime());
  if (Happened(x.at.sent)) model.overhead.Observe(x.at.OverheadBeforeSend());
  if (!Happened(x.at.first_token)) return;
  const conf::Duration first_token = x.at.first_token - x.at.started;
  std::optional<conf::Duration> between;
  if (x.outcome.counts.output > 1 && x.outcome.events > 1)
    between = (x.at.last_token - x.at.first_token) / static_cast<int64_t>(x.outcome.counts.output - 1);
  model.time_to_first_token.Observe(first_token);
  if (between) model.time_per_output_token.Observe(*between);
  x.delivery.demand.Answered(first_token, between);
  if (x.delivery.replica == kNoReplica) return;
  ReplicaCells& replica = x.shard.metrics.replica(x.runtime->names(), x.delivery.replica);
  if (Happened(x.at.sent)) replica.first_token.Observe(x.at.first_token - x.at.sent);
  if (between) replica.token_time.Observe(*between);
}

// Exports the gateway's span if the trace is sampled.
void Trace(Exchange& x) {
  if (!x.identity.trace || !x.identity.trace->sampled || !x.identity.spec) return;
  telemetry::Span span;
  span.context = *x.identity.trace;
  if (x.identity.caller) span.parent = x.identity.caller->span_id;
  span.start = x.at.started;
  span.end = x.at.ended;
  span.operation = OperationOf(x.identity.spec->api);
  span.request_model = x.body.facts.model.view().substr(0, ledger::kMaxModel);
  span.status_code = x.outcome.status;
  span.request_id = x.identity.id;
  if (x.identity.principal) span.tenant = x.identity.principal->tenant;
  if (x.delivery.replica != kNoReplica) {
    const ReplicaRuntime& replica = x.runtime->replica(x.delivery.replica);
    span.response_model = std::string(ServedModel(x));
    span.replica = replica.name();
    span.server_address = replica.config->url.host;
    span.server_port = replica.config->url.port;
    span.attempts = x.outcome.counts.attempts;
    span.queued = x.at.QueueTime();
  }
  if (x.outcome.counts.source != ledger::TokenSource::kNone) {
    span.input_tokens = static_cast<int64_t>(x.outcome.counts.input);
    span.output_tokens = static_cast<int64_t>(x.outcome.counts.output);
  }
  if (Happened(x.at.first_token)) span.time_to_first_token = x.at.first_token - x.at.started;
  if (x.outcome.finish != api::Finish::kNone) {
    span.finish_reasons.emplace_back(x.outcome.finish == api::Finish::kLength ? "length" : "stop");
  }
  if (x.outcome.error) {
    span.error_type = x.outcome.error->code;
  } else if (ledger::IsError(x.outcome.reason)) {
    span.error_type = Name(x.outcome.reason);
  }
  x.shard.shared.traces->Enqueue(std::move(span));
}

void LogAccess(const Exchange& x) {
  const std::optional<config::AccessLog>& options = x.runtime->config().telemetry.access_log;
  if (!options || !telemetry::IsLogged(x.identity.id, options->sample)) return;
  telemetry::AccessRecord record;
  record.ended = x.at.ended;
  record.request_id = x.identity.id;
  record.client_request_id = x.identity.client_request_id;
  if (x.identity.trace) record.trace_id = conf::Hex(x.identity.trace->trace_id);
  record.client = x.identity.client_address;
  if (x.identity.principal) {
    record.tenant = x.identity.principal->tenant;
    record.key_id = x.identity.principal->key;
  }
  if (x.identity.spec) record.api = x.identity.spec->name;
  record.model = x.body.facts.model.view().substr(0, ledger::kMaxModel);
  if (x.delivery.replica != kNoReplica) {
    record.served_model = ServedModel(x);
    record.replica = x.runtime->replica(x.delivery.replica).name();
  }
  record.status = x.outcome.status;
  record.reason = Name(x.outcome.reason);
  if (x.outcome.error) record.code = x.outcome.error->code;
  record.limit = x.outcome.limit;
  record.stream = x.body.facts.stream;
  const ledger::Counts& counts = x.outcome.counts;
  record.attempts = counts.attempts;
  record.bytes_in = counts.bytes_in;
  record.bytes_out = counts.bytes_out;
  record.input_tokens = counts.input;
  record.cached_tokens = counts.cached;
  record.output_tokens = counts.output;
  record.cost_micro_usd = counts.cost_micro_usd;
  if (Happened(x.at.queued) && Happened(x.at.dispatched)) record.queued = x.at.QueueTime();
  if (Happened(x.at.first_token)) record.first_token = x.at.first_token - x.at.started;
  record.total = x.at.ended - x.at.started;
  x.shard.shared.access_log.Add(std::move(record));
}

// Counts a refusal without a principal: its credential was invalid, or not checked yet. However many such calls
// an address makes, they write at most one record a minute.
void CountStranger(const Exchange& x) {
  if (x.outcome.failed_attempt) return;
  x.shard.shared.failed_attempts.Count(x.identity.client_address, x.outcome.error->code,
                                       x.runtime->config().auth.failed_per_minute, x.at.started);
}

routing::Outcome RoutingOutcomeOf(const Exchange& x) {
  const auto since = [&](conf::TimePoint t) {
    return Happened(t) ? t - x.at.dispatched : conf::Duration::zero();
  };
  return {.status = x.outcome.status,
          .finish = x.outcome.finish,
          .input = x.outcome.counts.input,
          .cached = x.outcome.counts.cached,
          .output = x.outcome.counts.output,
          .first_token = since(x.at.first_token),
          .total = since(x.at.ended)};
}

}  // namespace

void Settle(Exchange& x) {
  x.at.ended = net::Now();
  if (x.outcome.error && x.outcome.status == 0) x.outcome.status = x.outcome.error->status;
  Charge(x);
}

void Close(Exchange& x) {
  ledger::Ticket& ticket = x.grant.ticket;
  if (ticket) {
    x.RecordProgress();
    const ledger::CloseRecord record = CloseRecordOf(x);
    if (x.outcome.answer_bytes > 0) {
      x.StoreContent({.time_us = record.time_us,
                      .part = ledger::ContentPart::kAnswer,
                      .text = x.outcome.answer_text,
                      .full_bytes = x.outcome.answer_bytes});
    }
    Count(x);
    ticket.Close(record);
  } else if (x.outcome.error && x.identity.spec) {
    // The request was never admitted: its close record has no open record. A nearly full disk has room only for
    // the ends of running requests.
    if (!x.identity.principal) {
      CountStranger(x);
    } else if (x.shard.shared.disk_low.load(std::memory_order_relaxed)) {
      x.shard.journal.DropRefusal();
    } else {
      x.shard.journal.Refuse(OpenRecordOf(x), CloseRecordOf(x));
    }
    Count(x);
  }
  if (x.identity.on_behalf != nullptr) ReportToSender(x);
}

void Signal(Exchange& x) {
  Delivery& delivery = x.delivery;
  Trace(x);
  LogAccess(x);
  if (delivery.steering.wants_outcome()) {
    delivery.steering.Ended(x.Outgoing(), {.outcome = RoutingOutcomeOf(x),
                                           .answer_whole = x.outcome.answer_whole,
                                           .reason = x.outcome.reason,
                                           .at = x.at.ended});
  }
  if (delivery.place) delivery.place->Settle(QueueCost(x.Used()));
  delivery.attempt.reset();  // releases its replica for the request that WakeNext() wakes
  WakeNext(x, x.at.ended);
  if (delivery.upstream) delivery.upstream->Release(x.at.ended);
}

}  // namespace gateway::stages
