// Exchange: one request and all that is known of it on its way through the pipeline.
//
// Its fields stand in groups, each a struct of its own, so that the parts below (the upstream, the prompt's
// prefix, the traffic rules, …) take what they need and know nothing of the exchange. Stages are functions
// over the whole exchange; they fill it in the order of pipeline.cc.
//
// Owner: the coroutine that serves the connection; made for each request, destroyed with it. Thread: its
// shard's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/error.h"
#include "gateway/api/usage.h"
#include "gateway/ledger/journal.h"
#include "gateway/ledger/record.h"
#include "gateway/request/client.h"
#include "gateway/request/failure.h"
#include "gateway/request/identity.h"
#include "gateway/request/outgoing_request.h"
#include "gateway/request/prompt_prefix.h"
#include "gateway/request/request_body.h"
#include "gateway/request/serve/prefill_transfer.h"
#include "gateway/request/serve/upstream.h"
#include "gateway/request/timeline.h"
#include "gateway/request/traffic_steering.h"
#include "gateway/shard/demand.h"
#include "gateway/shard/queue_place.h"
#include "gateway/shard/running_calls.h"
#include "gateway/shard/runtime.h"
#include "router/attempt.h"
#include "router/limits/rate_status.h"
#include "router/limits/reservation.h"

namespace gateway {

// Counting tokens generates none, and takes nothing of a device: nobody is charged for it.
inline bool IsFree(router::Api api) {
  return api == router::Api::kCountTokens || api == router::Api::kTokenize || api == router::Api::kDetokenize;
}

// What a stage says of the request.
enum class StageResult : uint8_t {
  kContinue,
  kAnswered,  // the client has its answer; the stages that follow are not needed
  kFailed,    // x.outcome.error says why; without an error the client is gone
  kWaits,     // it cannot be decided at once: the stage's other function is awaited
};

// What the request was granted: set by `claim_place`, `reserve` and `open_record`.
struct Grant {
  // Among the concurrent requests of the caller's path, until `reserve` claims the rest as well: of a request
  // whose body takes memory of its own.
  router::limits::Reservation place;
  router::limits::Reservation reservation;
  std::optional<int64_t> output_cap;  // bound of the answer's tokens, by the limits and the model
  router::limits::RateStatus rates;   // for the headers of the answer
  ledger::Ticket ticket;              // of the ledger's open record
  bool charged = false;               // the reservation is settled
};

// How the request is served: set by `admit` and `serve`.
struct Delivery {
  Demand demand;
  std::unique_ptr<QueuePlace> place;  // set if the request found no room: it waits or has waited
  PromptPrefix prefix;
  routing::TrafficSteering steering;
  std::unique_ptr<router::FallbackGate> fallback_gate;  // where the model has fallbacks; the attempt asks it
  std::optional<router::Attempt> attempt;
  std::optional<router::Step> step;  // what the attempt wants next; set by `admit` for `serve`
  conf::Duration expected_wait{};    // for the first token, as a request that enters the queue was told
  // Where the pool computes prompts apart, and the request may be split.
  std::unique_ptr<PrefillTransfer> transfer;
  std::optional<Upstream> upstream;  // the current try, and the answer in hand
  ReplicaId replica = kNoReplica;    // of the current try
  bool head_sent = false;            // the client has the head of an answer
  bool stream_begun = false;         // ... and of a stream, so that an error must be told as an event
};

// How the request went.
struct RequestOutcome {
  int status = 0;
  ledger::EndReason reason = ledger::EndReason::kDone;
  std::optional<api::ApiError> error;
  std::string limit;            // that refused the request
  bool failed_attempt = false;  // without a valid credential: it is counted with others of its address
  bool answer_whole = false;
  ledger::Counts counts;
  uint64_t events = 0;               // of a stream
  uint64_t text_bytes = 0;           // of text that the answer has shown
  uint64_t text_events = 0;          // of `events`, those that had any
  uint64_t output_told = 0;          // of counts.output, in the cells already
  uint64_t reasoning = 0;            // tokens that the engine reported as thought
  uint64_t cache_written = 0;        // ... as kept in its cache
  std::optional<uint64_t> audio_ms;  // of sound that the engine reported
  bool answering = false;            // a replica has begun an answer that is no refusal, and so has worked
  api::Finish finish = api::Finish::kNone;
  std::string answer_text;  // kept where the tenant's policy stores answers, within the ledger's bound
  uint64_t answer_bytes = 0;
};

struct Exchange {
  // A revoked key ends the request as the client's leaving does, but that the client is told.
  class KeyWatch final : public RunningCalls::Call {
   public:
    explicit KeyWatch(Exchange& x) : x_(x) {}
    bool revoked() const { return revoked_; }

   private:
    void OnRevoked() override {
      revoked_ = true;
      x_.client.Leave();
    }
    Exchange& x_;
    bool revoked_ = false;
  };

  // `started`: when the head was read.
  Exchange(Shard& shard, net::http::ServerConnection& connection, conf::TimePoint started);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // So that a stage can write `return x.Fail(...)`.
  StageResult Fail(api::Code code, std::string message, std::string param = {}) {
    return Fail(api::Make(code, std::move(message), std::move(param)));
  }
  StageResult Fail(api::ApiError error, ledger::EndReason reason = ledger::EndReason::kRefused) {
    outcome.error = std::move(error);
    outcome.reason = reason;
    return StageResult::kFailed;
  }
  StageResult Fail(Failure failure) { return Fail(std::move(failure.error), failure.reason); }
  // The client has left: no answer is sent.
  StageResult Gone() {
    client.MarkGone();
    outcome.reason = ledger::EndReason::kClientGone;
    return StageResult::kFailed;
  }

  const ModelRuntime& model() const { return runtime->model(model_id); }
  // Where it waits among the bands of the model's queue.
  size_t Band() const;
  // Whether it waits where it finds no replica, because one may be started for it, or discovered. For a line of a
  // batch, the policy must say so.
  bool MayStartReplica() const;
  // For the parts that send the request or learn from it; valid while `runtime` stays.
  OutgoingRequest Outgoing() { return {shard, runtime, model_id, client, identity, body, grant.output_cap}; }
  bool keeps_client() const { return client.KeepsConnection(delivery.stream_begun); }

  // Output tokens that the answer is expected to have, over all choices.
  int64_t ExpectedOutput() const;
  // The mean of recent answers, over all choices, and the mean share of one choice that exists while it is
  // generated.
  router::TokenEstimate::Completion MeanOutput() const;
  // The bound of its output tokens; 0: unknown.
  int64_t MaxOutput() const;

  // Sets the counts from the text that has passed, where the engine has not reported its usage.
  void CountText();
  // Sets them by the bytes of an answer that reports nothing and shows no text that is known.
  void CountBytes(uint64_t bytes);
  // Sets them to the most that the engine can have generated unseen, where its answer never came.
  void CountBound(conf::TimePoint now);
  // The model that serves: the asked one, or a fallback.
  const ModelRuntime& served() const {
    return delivery.attempt ? runtime->model(delivery.attempt->model()) : model();
  }
  // What it costs at that model.
  const router::limits::Price& PriceAt(const ModelRuntime& model) const {
    return identity.is_of_batch() ? model.batch_price : model.price;
  }
  // What the request uses beside tokens, as far as it is known or bounded: images, sound, characters.
  router::limits::Usage Units() const;
  router::limits::Usage Used() const;
  // Whether the client is not told what the cache of the replica in hand held: it may be another tenant's
  // prompt.
  bool HidesCached() const;
  // Prices the counts, and writes them to the journal, so that they survive the process, and to the cells.
  void RecordProgress();
  // Keeps a piece of the answer where the tenant's policy stores answers, or a copy's answer is compared with
  // it.
  void KeepAnswer(std::string_view piece);
  // Sealed under the key of its tenant; nothing is stored without one.
  void StoreContent(ledger::ContentRecord record);

  Shard& shard;
  std::shared_ptr<const Runtime> runtime;  // a request that has waited continues with the latest
  ModelId model_id = kNoModel;             // the asked model; set by `read_facts`

  Client client;
  Identity identity;
  KeyWatch key_watch{*this};  // begun by `authenticate`
  Timeline at;
  RequestBody body;
  Grant grant;
  Delivery delivery;
  RequestOutcome outcome;
  std::string answer_head;  // a buffer
};

}  // namespace gateway
