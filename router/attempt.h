// One request and the replicas that it tries, as a state machine without I/O: given an event, the next
// step.
//
// The shell begins with Event::kStart, carries out each Step, and reports the next Event. The machine picks and charges
// replicas, reports to their breakers, and retries: only before the first byte to the client, within the model's retry
// budget and the deadline. It retries on an untried replica. If none is left and nothing was done (no connection, 503),
// it tries a replica again.
//
// Owner: the request, on its shard. Table, load view and random source must outlive it.
//
// When the model's queue refuses the request (kQueueRefused), only fallbacks for `overloaded` that have
// headroom are tried.
//
//   kStart ─▶ kTry ─▶ (status) kRelay ─▶ (first byte) kRelay ─▶ (completed) kDone
//               ├─▶ (failure) kWait or kTry on another replica or a fallback model;
//               │             else kRelay of the upstream's own refusal, or kFail
//               └─▶ (client gone, in any state) kCancel
//
// Where another replica computes the prompt (prefill_transfer.h), kTry names it. The shell sends the prompt
// there first, or at the same time if the pool requires that, and reports the result to ResumePrefill. After
// a failure the next step names another prefill replica, and finally none: then the answering replica
// computes the prompt.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "conf/time.h"
#include "router/pick.h"
#include "router/prefill_transfer.h"

namespace router {

struct Event {
  enum class Kind : uint8_t {
    kStart,
    kQueueRefused,   // instead of kStart: the model's queue refused the request
    kWoke,           // the time of a kWait step has come
    kConnectFailed,  // refused, unreachable, TLS failure, connect timeout
    kReusedClosed,   // a reused connection was closed before any byte of an answer
    kStatus,         // the answer's head has come; its body is not read yet
    kTimedOut,       // the request was sent and nothing came in time
    kHung,           // nothing came and the replica hangs: MayLeave() returned true
    kFirstByte,      // a byte of the answer has gone to the client
    kBroken,         // the answer broke off or was not HTTP
    kCompleted,      // the answer is complete
    kClientGone,
  };

  static Event Of(Kind kind) { return {kind, 0, {}, false, false}; }
  static Event Status(int status, std::optional<conf::Duration> retry_after = {},
                      bool context_exceeded = false, bool model_unknown = false) {
    return {Kind::kStatus, status, retry_after, context_exceeded, model_unknown};
  }

  static std::string_view NameOf(Kind kind);

  Kind kind;
  int status;
  std::optional<conf::Duration> retry_after;
  bool context_exceeded;  // a 400 that says the prompt is too long
  bool model_unknown;     // a 404 that says there is no such model
};

enum class AttemptError : uint8_t {
  kNone,
  kNoReplica,      // the model has none: 503
  kUnavailable,    // all down, broken or resting; Step::until says when to come back: 503
  kConnectFailed,  // 502
  kUpstreamBroke,  // before the first byte: 502
  kTimedOut,       // 504
  kDeadline,       // the client's own deadline has passed: 408 or 504
  kBrokenStream,   // after the first byte: the stream must end with an error event of its protocol
};
std::string_view ErrorName(AttemptError error);

struct Step {
  enum class Kind : uint8_t {
    kTry,     // send the request to `replica`; drop an unread answer
    kWait,    // until `until`, then report kWoke; drop an unread answer
    kRelay,   // pass the answer on to the client as it is
    kDone,    // the request has ended well
    kFail,    // the request has ended with `error`
    kCancel,  // close the upstream at once
  };
  Kind kind;
  ReplicaId replica{};
  ModelId model{};
  std::optional<ReplicaId> prefill{};  // kTry: the replica that computes the prompt first
  bool fresh_connection = false;       // take no pooled connection; for `prefill` where that is set
  conf::TimePoint until{};             // kWait; and kFail with kUnavailable: when to come back, if known
  AttemptError error = AttemptError::kNone;
  std::string_view why{};  // the pick's reason, or the refusal's; static
};

// Decides which fallbacks may serve a request, by the caller's rights and the limits that it claims.
class FallbackGate {
 public:
  virtual ~FallbackGate() = default;
  // Whether the fallback may serve the request, which from now on claims that model's limits.
  virtual bool Enter(ModelId fallback, conf::TimePoint now) = 0;
  // No fallback serves the request: it claims the limits of the requested model.
  virtual void Leave(conf::TimePoint now) = 0;
};

class Attempt {
 public:
  // `gate`: null, and every fallback may serve. It outlives the attempt.
  Attempt(const RouteTable& table, const LoadView& load, ModelId model, const PickFacts& facts,
          std::optional<conf::TimePoint> deadline, scheduler::Rng& rng, FallbackGate* gate = nullptr)
      : gate_(gate),
        table_(table),
        load_(load),
        primary_(model),
        model_(model),
        facts_(facts),
        deadline_(deadline),
        rng_(rng) {}

  Step Resume(const Event& event, conf::TimePoint now);

  // The result of computing the prompt at the last step's `prefill` replica: kCompleted, or any event that
  // ends a try; kStatus for refusals only.
  Step ResumePrefill(const Event& event, conf::TimePoint now);
  // Another replica is to compute the prompt and has not finished.
  bool prefilling() const { return prefill_.replica.has_value(); }
  // The prompt is computed, and its transfer parameters are valid for the replica of the next try.
  bool prefilled() const { return prefilled_; }

  // Whether a request that waits for its first byte may leave its replica because that hangs: once, within
  // the retry budget, and only if another replica can take it. A request sent after the hang began (a trial)
  // waits for hung_after first.
  bool MayLeave(conf::TimePoint now) const;

  uint32_t tries() const { return tries_; }
  uint32_t retries() const { return retries_; }
  ModelId model() const { return model_; }  // the model that serves: the requested one, or a fallback
  const Decision& decision() const { return decision_; }
  // Tokens of the prompt that the computing replica was assumed to hold.
  int64_t predicted_cached() const { return decision_.remote_prefill ? prefill_cached_ : decision_.cached; }
  // Another replica was to compute the prompt and did not.
  bool fell_back() const { return fell_back_; }
  Charge& charge() { return decision_.charge; }

 private:
  Step First(conf::TimePoint now);
  // Notes that the replica does not know the requested adapter.
  void NoteMissing(conf::TimePoint now);
  Step OnStatus(const Event& event, conf::TimePoint now);
  // After a failed try: tries another replica if that is allowed and possible. Otherwise fails with `error`,
  // or relays the upstream's answer where `error` is kNone.
  Step Again(FallbackOn condition, AttemptError error, conf::TimePoint now);
  Step BackOff(conf::TimePoint now);
  bool PickFrom(ModelId model, conf::TimePoint now);
  // Picks a replica that was already tried, where all were and the failure shows that nothing was done.
  bool PickTriedAgain(FallbackOn condition, AttemptError error, conf::TimePoint now);
  ReplicaPair PickOther(ModelId model, conf::TimePoint now);
  void TakePrefill(Decision decision);
  // Names another prefill replica, or none.
  Step PrefillElsewhere(bool again, conf::TimePoint now);
  // The answering replica computes the prompt itself, where it can.
  Step ComputeHere(conf::TimePoint now);
  enum class Fallbacks : uint8_t { kAny, kWithHeadroom };
  bool PickFallback(FallbackOn condition, conf::TimePoint now, Fallbacks which = Fallbacks::kAny);
  Step Try(bool fresh);
  Step End(Step step);
  Step Fail(AttemptError error) {
    return End({.kind = Step::Kind::kFail, .error = error, .why = ErrorName(error)});
  }
  bool PastDeadline(conf::TimePoint now) const { return deadline_ && now >= *deadline_; }
  const RetryPolicy& retry() const { return table_.model(primary_).spec.retry; }

  FallbackGate* const gate_;
  const RouteTable& table_;
  const LoadView& load_;
  const ModelId primary_;
  ModelId model_;
  const PickFacts facts_;
  const std::optional<conf::TimePoint> deadline_;
  scheduler::Rng& rng_;

  Decision decision_;
  NoneBecause none_ = NoneBecause::kPicked;  // of the last pick without a replica
  std::optional<conf::TimePoint> retry_at_;  // of the last pick without a replica
  Decision prefill_;  // for the prompt; without a replica: none computes it apart, or it is computed
  int64_t prefill_cached_ = 0;
  bool prefilled_ = false;
  bool fell_back_ = false;
  absl::InlinedVector<ReplicaId, 4> prefills_failed_;
  absl::InlinedVector<ReplicaId, 8> tried_;
  absl::InlinedVector<ReplicaId, 4>
      missing_;  // of tried_: miss only the adapter, so other models may use them
  uint32_t tries_ = 0;
  uint32_t retries_ = 0;
  size_t next_fallback_ = 0;
  bool ended_ = false;
  bool fresh_ = false;       // this try uses a new connection
  bool left_hung_ = false;   // the request has left a replica that hung
  bool first_byte_ = false;  // the client has part of the answer
  std::optional<conf::TimePoint> give_up_waiting_;
};

}  // namespace router
