// Exchange: one request and all that is known of it on its way through the pipeline.
//
// Owner: the coroutine that serves the connection; it is made for each request and dies with it. Thread: its
// shard's. Stages fill it in the order of pipeline.cc; what a stage may read, the stages above it have set.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/api/error.h"
#include "gateway/api/usage.h"
#include "gateway/control/demand.h"
#include "gateway/keys/principal.h"
#include "gateway/ledger/journal.h"
#include "gateway/ledger/record.h"
#include "gateway/net/http/server_connection.h"
#include "gateway/net/transport.h"
#include "gateway/prompt_prefix.h"
#include "gateway/queue/model_queue.h"
#include "gateway/routing/traffic.h"
#include "gateway/runtime.h"
#include "gateway/telemetry/trace_context.h"
#include "router/api.h"
#include "router/attempt.h"
#include "router/facts.h"
#include "router/limits/rate_status.h"
#include "router/limits/reservation.h"
#include "router/multipart.h"

namespace gateway {

class Shard;
class Upstream;

namespace handover {
class Hop;
}  // namespace handover

enum class Verdict : uint8_t {
  kGoOn,
  kAnswered,  // the client has its answer; nothing after this stage is needed
  kFailed,    // x.error says why, unless the client is gone
};

// The moments of a request, from which its durations are told. Zero: it did not come to that.
struct Timeline {
  conf::TimePoint started;      // the head was whole
  conf::TimePoint queued;       // began to wait for a replica
  conf::TimePoint dispatched;   // stopped waiting
  conf::TimePoint sent;         // the upstream request was written
  conf::TimePoint answered;     // the upstream's head came
  conf::TimePoint first_token;  // the first event, or the whole answer, came
  conf::TimePoint last_token;
  conf::TimePoint ended;
  conf::Duration max_gap{};        // between events
  conf::Duration upstream_wait{};  // spent waiting for upstreams before the answer, retries included
  conf::Duration prefill{};        // spent while another replica computed the prompt, before that
  conf::Duration body_wait{};      // spent waiting for the client's body
};

struct Exchange {
  Exchange(Shard& shard, net::http::ServerConnection& client);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // So that a stage can say `return x.Fail(...)`. `end` is what the ledger will say of it.
  Verdict Fail(api::Code code, std::string message, std::string param = {}) {
    return Fail(api::Make(code, std::move(message), std::move(param)));
  }
  Verdict Fail(api::ApiError failure, ledger::EndReason end = ledger::EndReason::kRefused) {
    error = std::move(failure);
    reason = end;
    return Verdict::kFailed;
  }
  // The client has left: nobody is to be told.
  Verdict Gone() {
    client_gone = true;
    reason = ledger::EndReason::kClientGone;
    return Verdict::kFailed;
  }

  api::Protocol protocol() const {
    const bool anthropic = anthropic_client || (spec && spec->protocol == router::Protocol::kAnthropic);
    return anthropic ? api::Protocol::kAnthropic : api::Protocol::kOpenAi;
  }
  const ModelRuntime& model() const { return runtime->model(model_id); }
  bool client_knows_chunks() const { return client.head().version >= 11; }
  bool keeps_client() const {
    // A stream to a client that knows no chunks ends with its connection, and so does a request whose body
    // was not read.
    return reuse_client && client.head().keep_alive && client.body_read() &&
           (client_knows_chunks() || !stream_begun);
  }
  conf::Duration QueueTime() const { return at.dispatched - at.queued; }
  // From now on the client's leaving is noticed and aborts what stands in `waiting`.
  void WatchClient();
  // The client has left: what stands in `waiting` ends.
  void OnClientGone();
  // Output tokens that the answer is expected to have, over all choices.
  int64_t ExpectedOutput() const;
  // The same by the last few hundred answers, and how much of each choice is there while it is written.
  router::TokenEstimate::Completion MeanOutput() const;
  // What it waits as: what it asks for, or else its key's.
  std::string_view Priority() const { return asked_priority.empty() ? principal->priority : asked_priority; }
  // The most that they can be; 0: not known.
  int64_t MaxOutput() const;
  // What was used so far, as far as the events that passed tell it.
  void CountFromEvents();
  router::limits::Usage Used() const;
  // Prices what is counted and tells it to the ledger, which has it even if the process dies now.
  void TellProgress();

  // Keeps what goes to the client, where the tenant's policy wants answers stored, or a copy's is compared.
  void KeepAnswer(std::string_view piece);

  // What the gateway itself has cost this request until `now`.
  conf::Duration Overhead(conf::TimePoint now) const {
    return now - at.started - at.body_wait - QueueTime() - at.upstream_wait - at.prefill;
  }

  Shard& shard;
  net::http::ServerConnection& client;
  std::shared_ptr<const Runtime> runtime;  // a request that had to wait goes on with the latest
  std::string client_address;

  std::array<char, 36> id_text;
  std::string_view id;                            // ours: x-request-id
  std::string_view client_request_id;             // the client's own
  std::string_view asked_priority;                // x-priority; empty: its key's
  std::optional<telemetry::TraceContext> trace;   // our span's place, where tracing is on
  std::optional<telemetry::TraceContext> caller;  // the client's
  Timeline at;
  std::optional<conf::TimePoint>
      deadline;           // for the first byte: the client's, by X-Stainless-Timeout, or `until`
  conf::TimePoint until;  // for the whole answer, by configuration

  // route
  const router::ApiSpec* spec = nullptr;
  std::string path_model_id;  // of /v1/models/{id}
  bool anthropic_client = false;
  // authenticate
  PrincipalRef principal;
  // read_body, read_facts
  std::optional<router::MultipartScanner> form;  // of a multipart body, whose files stream through
  bool body_whole = false;
  std::string_view body;  // whole, or as much as was read to find the model
  std::string form_head;  // holds `body` of a form
  router::BodyFacts facts;
  ModelId model_id = kNoModel;
  int64_t prompt_tokens_est = 0;
  // reserve
  router::limits::Reservation reservation;
  std::optional<int64_t> output_cap;
  router::limits::RateStatus rates;
  bool charged = false;
  // record
  ledger::Ticket ticket;

  // dispatch
  control::Demand demand;
  std::unique_ptr<QueuePlace> place;  // it found no room, and waits or has waited
  PromptPrefix prefix;
  routing::Traffic traffic;
  std::optional<router::Attempt> attempt;
  std::unique_ptr<Upstream> upstream;  // the answer in hand
  std::unique_ptr<handover::Hop> hop;  // where the pool computes prompts apart, and the request may be split
  std::optional<router::Step> again;   // the answer broke off before the client had any of it: what to do now
  // relay
  ReplicaId replica = kNoReplica;
  bool head_sent = false;     // the client has the head of an answer
  bool stream_begun = false;  // ... and of a stream, so that an error must be told as an event
  bool answer_whole = false;
  bool reuse_client = true;  // the connection may carry another request
  int status = 0;
  ledger::EndReason reason = ledger::EndReason::kDone;
  ledger::Counts counts;
  uint64_t events = 0;
  api::Finish finish = api::Finish::kNone;
  std::string limit;  // that refused it
  std::string answer_head;
  std::string answer_text;  // of the body, kept where the tenant's policy says so, within the ledger's bound
  uint64_t answer_bytes = 0;

  // What stands in the way of the client's leaving: aborted when it does.
  net::Abortable* waiting = nullptr;
  bool client_gone = false;
  bool timed_out = false;

  std::optional<api::ApiError> error;
};

}  // namespace gateway
