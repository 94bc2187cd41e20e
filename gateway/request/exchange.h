// Exchange: one request, and all that is known of it in the pipeline.
//
// Its fields are grouped into structs, so that the parts below (the upstream, the prompt's prefix, the traffic
// rules, …) take what they need and do not depend on the exchange. Stages are functions over the whole exchange;
// they fill it in the order of pipeline.cc.
//
// Owner: the coroutine that serves the connection. Each request has its own. Thread: its shard's.
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

// Counting tokens generates nothing and uses no device: it is not charged.
inline bool IsFree(router::Api api) {
  return router::CountsTokens(api) || api == router::Api::kTokenize || api == router::Api::kDetokenize;
}

// How the pipeline continues after a stage.
enum class StageResult : uint8_t {
  kContinue,
  kAnswered,  // the client has its answer; the stages that follow are not needed
  kFailed,    // x.outcome.error says why; without an error the client is gone
  kWaits,     // undecided: the pipeline awaits the stage's other function
};

// What the request was granted: set by `claim_place`, `reserve` and `open_record`.
struct Grant {
  // A place among the concurrent requests of the caller's path, until `reserve` claims the rest. Only requests
  // whose body takes memory of its own have one.
  router::limits::Reservation place;
  router::limits::Reservation reservation;
  std::optional<int64_t> output_cap;  // most output tokens, set by the limits and the model
  router::limits::RateStatus rates;   // for the headers of the answer
  ledger::Ticket ticket;              // for the ledger's open record
  bool charged = false;               // the reservation is settled
};

// How the request is served: set by `admit` and `serve`.
struct Delivery {
  Demand demand;
  std::unique_ptr<QueuePlace> place;  // set if the request waits or has waited for room
  PromptPrefix prefix;
  routing::TrafficSteering steering;
  std::unique_ptr<router::FallbackGate> fallback_gate;  // set if the model has fallbacks; the attempt asks it
  std::optional<router::Attempt> attempt;
  std::optional<router::Step> step;  // what the attempt wants next; set by `admit` for `serve`
  conf::Duration expected_wait{};    // for the first token, as the dispatch plan expected on arrival
  // Set if the pool computes prompts on prefill replicas, and this request's prompt can be.
  std::unique_ptr<PrefillTransfer> transfer;
  std::optional<Upstream> upstream;  // the current try and its answer
  ReplicaId replica = kNoReplica;    // of the current try
  bool head_sent = false;            // the client has the head of an answer
  bool stream_begun = false;         // ... and it is a stream, so that an error must be sent as an event
};

// How the request went.
struct RequestOutcome {
  int status = 0;
  ledger::EndReason reason = ledger::EndReason::kDone;
  std::unique_ptr<api::ApiError> error;  // not in place: most requests have none, and thousands wait
  std::string limit;                     // the limit that refused the request
  bool failed_attempt = false;  // no valid credential; counted among the failed attempts of its address
  bool answer_whole = false;
  ledger::Counts counts;
  uint64_t events = 0;               // of a stream
  uint64_t text_bytes = 0;           // of visible text
  uint64_t text_events = 0;          // the events with visible text
  uint64_t output_in_metrics = 0;    // the part of counts.output that the metrics have counted
  uint64_t reasoning = 0;            // tokens that the engine reported as reasoning
  bool total_alone = false;          // the engine reported nothing but a total, which stands in counts.input
  uint64_t cache_written = 0;        // tokens that the engine reported as written to its cache
  std::optional<uint64_t> audio_ms;  // length of the sound that the engine reported
  bool answering = false;            // a replica did work: it began an answer that is not a refusal
  api::Finish finish = api::Finish::kNone;
  std::string answer_text;  // kept if the tenant's policy stores answers, up to the ledger's bound
  uint64_t answer_bytes = 0;
};

struct Exchange {
  // Ends the request when its key is revoked, as if the client had left; the pipeline then tells the client.
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
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Returns kFailed, so that a stage can write `return x.Fail(...)`.
  StageResult Fail(api::Code code, std::string message, std::string param = {}) {
    return Fail(api::Make(code, std::move(message), std::move(param)));
  }
  StageResult Fail(api::ApiError error, ledger::EndReason reason = ledger::EndReason::kRefused) {
    outcome.error = std::make_unique<api::ApiError>(std::move(error));
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
  // The band of the model's queue in which the request waits.
  size_t Band() const;
  // Whether a request that finds no replica waits, because one may be started or discovered. For a line of a
  // batch, the scaling policy must allow it.
  bool MayStartReplica() const;
  // For the parts that send the request or learn from it; valid while `runtime` stays.
  OutgoingRequest Outgoing() { return {shard, runtime, model_id, client, identity, body, grant.output_cap}; }
  bool keeps_client() const { return client.KeepsConnection(delivery.stream_begun); }

  // The expected number of output tokens, over all choices.
  int64_t ExpectedOutput() const;
  // The mean output of recent answers, over all choices; and the mean share of one choice that exists while the
  // choice is generated.
  router::TokenEstimate::Completion MeanOutput() const;
  // The most output tokens of the answer; 0: unknown.
  int64_t MaxOutput() const;

  // The output tokens of visible text, estimated from the model's earlier answers.
  uint64_t TokensOfText(uint64_t bytes, uint64_t events) const;
  // Adds what the engine's report leaves out: the prompt that it has read, and the text that it has shown. A total that
  // stands alone is divided.
  void CompleteReport();
  // Divides a reported total between input and output, of which outcome.counts.output is known.
  void DivideTotal(uint64_t total);
  // These set the counts where the engine has not reported its usage:
  // from the visible text so far;
  void CountText();
  // from the bytes of an answer in which the gateway finds no text;
  void CountBytes(uint64_t bytes);
  // to the most that the engine can have generated, if its answer never came.
  void CountBound(conf::TimePoint now);
  // The model that serves: the asked one, or a fallback.
  const ModelRuntime& served() const {
    return delivery.attempt ? runtime->model(delivery.attempt->model()) : model();
  }
  // What the request costs at that model.
  const router::limits::Price& PriceAt(const ModelRuntime& model) const {
    return identity.is_of_batch() ? model.batch_price : model.price;
  }
  // What the request uses besides tokens: images, sound, characters. Bounded where the exact use is unknown.
  router::limits::Usage Units() const;
  router::limits::Usage Used() const;
  // Whether the number of cached tokens is hidden from the client: the cached prompt may be another tenant's.
  bool HidesCached() const;
  // Computes the cost of the counts, adds them to the metrics, and writes them to the journal, so that they
  // survive the process.
  void RecordProgress();
  // Keeps a piece of the answer if the tenant's policy stores answers, or a shadow copy's answer is compared
  // with it.
  void KeepAnswer(std::string_view piece);
  // Stores the record sealed under the tenant's key; stores nothing if the tenant has no key.
  void StoreContent(ledger::ContentRecord record);

  Shard& shard;
  std::shared_ptr<const Runtime> runtime;  // after a wait, the latest one
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
